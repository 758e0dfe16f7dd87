"""What docs/stability.md promises: nothing public of 0.1.0 is gone, but for what the changelog names."""

import inspect
import json
from pathlib import Path

import click

import evenscore as es
from evenscore.cli import cli

ROOT = Path(__file__).parents[2]
BEFORE = json.loads((ROOT / "tests" / "golden" / "public-0.1.0.json").read_text(encoding="utf-8"))

GONE = {"Tally.parts", "Lattice.from_parts", "Lattice.to_dict", "Lattice.united"}
RENAMED = {"say": "progress", "calibrators": "calibrator"}


def has(name, part):
    """Whether a public name still has a member or takes an argument, under its old name or the one that replaced it."""
    thing = getattr(es, name)
    if inspect.isclass(thing):
        return hasattr(thing, part) or part in getattr(thing, "__dataclass_fields__", {})
    parameters = inspect.signature(thing).parameters
    return part in parameters or RENAMED.get(part) in parameters


def test_every_name_and_argument_of_0_1_0_is_there():
    lost = {f"{name}.{part}" for name, parts in BEFORE["names"].items() for part in parts if not has(name, part)}
    assert lost == GONE
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert all(name.rpartition(".")[2] in changes for name in GONE)


def test_every_command_and_option_of_0_1_0_is_there():
    context = click.Context(cli)
    for name, options in BEFORE["commands"].items():
        command = cli.get_command(context, name)
        now = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert set(options) <= now, name
