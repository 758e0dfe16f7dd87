"""Options from the command line over those of ``evenscore.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

# Options whose name in the file is another one.
RENAMED = {
    ("data", "score"): "scores",
    ("data", "group"): "groups",
    ("gate", "rule"): "gate",
    ("output", "json"): "json_path",
}
# An option on the command line sets these of the file aside, too: they say the same thing in another way.
RIVALS = {"groups": ("attributes",), "attributes": ("groups",), "user": ("independent",), "independent": ("user",)}


def merge_settings(context: click.Context, data: tuple[str, ...], options: dict[str, Any]) -> tuple[str, ...]:
    """Fill options that were not given on the command line from the file; returns the data, which may come from there too."""
    given = options.pop("config")
    from evenscore.commands.configuration import NAME, read_settings

    path = Path(given) if given is not None else Path(NAME)
    if given is None and not path.is_file():
        return data
    settings = read_settings(path)
    said = {name for name in options if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE}
    aside = said | {rival for name in said for rival in RIVALS.get(name, ())}
    for section, entries in settings.items():
        for key, value in entries.items():
            name = RENAMED.get((section, key), key)
            if name in options and name not in aside:
                options[name] = _as_option(name, value)
    if data:
        return data
    found = settings.get("data", {}).get("path", ())
    return (found,) if isinstance(found, str) else tuple(found)


def _as_option(name: str, value: Any) -> Any:
    """Options that may be given several times are tuples."""
    if name in ("scores", "groups", "decide") and isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value
