"""Options from the command line over those of ``evenscore.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from evenscore.commands.outputs import tell

# Options whose name in the file is another one.
RENAMED = {
    ("data", "score"): "scores",
    ("data", "group"): "groups",
    ("gate", "rule"): "gate",
    ("output", "json"): "json_path",
}
# An option on the command line sets these of the file aside, too: they say the same thing in another way.
RIVALS = {
    "pairs": ("scores", "outcome"),
    "groups": ("attributes",),
    "attributes": ("groups",),
    "user": ("independent",),
    "independent": ("user",),
}


def merge_settings(
    context: click.Context, data: tuple[str, ...], options: dict[str, Any], quiet: bool
) -> tuple[tuple[str, ...], Path | None]:
    """Fill options that were not given on the command line from the file, which is named to the user.

    Returns the data, which may come from there too, and the file.
    """
    given, none = options.pop("config"), options.pop("no_config")
    from evenscore.commands.configuration import NAME, read_settings

    if given is not None and none:
        raise click.UsageError("--config and --no-config contradict each other; give one", context)
    path = Path(given) if given is not None else Path(NAME)
    if none or (given is None and not path.is_file()):
        return data, None
    settings = read_settings(path)  # its errors name the file
    if not quiet:
        tell(f"settings: {path}", err=True)
    on_command_line = {name for name in options if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE}
    aside = on_command_line | {rival for name in on_command_line for rival in RIVALS.get(name, ())}
    for section, entries in settings.items():
        for key, value in entries.items():
            name = RENAMED.get((section, key), key)
            if name in options and name not in aside:
                options[name] = _as_option(name, value)
    paths = settings.get("data", {}).get("path", ())
    return data or ((paths,) if isinstance(paths, str) else tuple(paths)), path


def _as_option(name: str, value: Any) -> Any:
    """Options that may be given several times are tuples."""
    if name in ("scores", "groups", "decide") and isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value
