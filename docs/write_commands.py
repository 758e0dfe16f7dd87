"""Write the options of every command, and the settings file, into ``docs/commands.md``, from the commands themselves.

    python docs/write_commands.py

A test fails when the page is not what this would write.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

PAGE = Path(__file__).parent / "commands.md"
COMMANDS = ("<!-- commands: written by docs/write_commands.py -->", "<!-- end of commands -->")
SETTINGS = ("<!-- settings: written by docs/write_commands.py -->", "<!-- end of settings -->")


def describe(name: str, command: click.Command, context: click.Context) -> str:
    """One command: how it is called, what it says about itself, and its options."""
    inside = click.Context(command, info_name=f"evenscore {name}", parent=None)
    usage = " ".join(inside.command.collect_usage_pieces(inside))
    return "\n".join(
        [
            f"### evenscore {name}",
            "",
            f"    evenscore {name} {usage}",
            "",
            prose(command.help or ""),
            "",
            "| option | what it does | default |",
            "|---|---|---|",
            *(row(option, context) for option in command.params if isinstance(option, click.Option) and not option.hidden),
            "",
        ]
    )


def prose(text: str) -> str:
    """The help of a command: paragraphs, and what follows \\b as code."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = paragraph.splitlines()
        if lines[0].strip() == "\b":
            paragraphs.append("\n".join(f"    {line.strip()}" for line in lines[1:]))
        else:
            paragraphs.append(" ".join(line.strip() for line in lines))
    return "\n\n".join(paragraphs)


def row(option: click.Option, context: click.Context) -> str:
    """An option as a row of a table."""
    info = option.get_help_record(context)
    assert info is not None, option.name
    said = re.sub(r"\s*\[[^\[\]]*\]$", "", info[1])  # click's own list of extras, of which the default is told apart
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" {option.make_metavar(context)}"
    repeated = " (may be given several times)" if option.multiple and not re.search("several times|twice", said) else ""
    return f"| {names}{escape(value)} | {escape(said)}{repeated} | {escape(default(option))} |"


def default(option: click.Option) -> str:
    """Its default, if it has one that tells something."""
    if option.default is None or option.is_flag or callable(option.default) or "UNSET" in repr(option.default).upper():
        return ""
    values = option.default if isinstance(option.default, tuple | list) else (option.default,)
    return ", ".join(map(str, values))


def escape(text: str) -> str:
    """As a cell of a Markdown table, which means itself."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def rewritten(text: str) -> str:
    """The page with its commands and its settings written anew."""
    from evenscore.cli import cli
    from evenscore.commands.configuration import template

    context = click.Context(cli, info_name="evenscore")
    commands = [describe(name, cli.commands[name], context) for name in cli.list_commands(context)]
    names = dict(path="predictions.parquet", score="score", outcome="repaid", group="gender", user="customer", tolerance=0.02)
    text = between(text, SETTINGS, f"```toml\n{template(**names)}```")
    return between(text, COMMANDS, "\n".join(commands))


def between(text: str, marks: tuple[str, str], inside: str) -> str:
    """The text with something else between two marks."""
    start, end = marks
    return f"{text.split(start)[0]}{start}\n\n{inside}\n\n{end}{text.split(end)[1]}"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent / "src"))
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
