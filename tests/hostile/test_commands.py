"""Every option of every command, and settings from files, given hostile text: never a crash, and 1 only for a disparity."""

import random

import click
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.cli import cli, main
from hostile import THOROUGH

TEXTS = (
    *("", " ", "-", "--", "0", "-1", "1e400", "nan", "inf", "9" * 5000, "0.5", "x", "\x00", "\n", "\ud800", "‮abc", "😀"),
    *(
        "'; DROP TABLE x; --",
        '"',
        "{{7*7}}",
        "%s%n",
        "../../etc/passwd",
        "/dev/zero",
        "/dev/null",
        "/",
        "~",
        "*",
        "**",
        "[a",
        "a," * 999,
    ),
    *("é" * 10_000, "None", "True", "[]", "{}", "1/0", "1/2@", "0/2", "3-1/5", "1GB", "-5GB", "1e9GB"),
)
COLUMNS = ["--score", "s", "--outcome", "y", "--group", "g", "--user", "u"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Small data, and what the commands make of it."""
    path = tmp_path_factory.mktemp("commands")
    frame = as_dict(repeated_users(240, 1, gap=0.2))
    lines = [",".join(map(str, row)) for row in zip(*(frame[name] for name in "sygu"), strict=True)]
    (path / "rows.csv").write_text("s,y,g,u\n" + "\n".join(lines) + "\n")
    tally = es.tally(frame, **NAMES, cells=64, cuts=(0.5,))
    tally.save(path / "rows.tally")
    es.calibrate(tally, method="platt").save(path / "map.json")
    es.audit(tally, method="bonferroni", repair=False).to_json(path / "audit.json")
    return path


USUAL = {
    "audit": ["rows.csv", *COLUMNS, "--method", "bonferroni", "--no-repair", "--quiet"],
    "tally": ["rows.csv", *COLUMNS, "--output", "out.tally", "--quiet"],
    "merge": ["rows.tally", "rows.tally", "--output", "out.tally"],
    "calibrate": ["rows.csv", *COLUMNS, "--output", "out.json"],
    "apply": ["map.json", "rows.csv", "--output", "out.csv"],
    "thresholds": ["rows.csv", *COLUMNS, "--threshold", "0.5"],
    "decisions": ["rows.csv", *COLUMNS, "--threshold", "0.5"],
    "compare": ["audit.json", "audit.json"],
    "simulate": ["shift", "--users", "20", "--output", "out.csv"],
    "init": [],
}
# Work that is meant to be long; evenscore reproduce is, too.
LONG = {("simulate", "--users"), ("audit", "--placebo")}


def options():
    for name in USUAL:
        for parameter in cli.commands[name].params:
            if isinstance(parameter, click.Option) and not parameter.is_flag and (name, parameter.opts[-1]) not in LONG:
                yield pytest.param(name, parameter.opts[-1], id=f"{name}{parameter.opts[-1]}")


def ended(words):
    with pytest.raises(SystemExit) as caught:
        main(words)
    return caught.value.code


@pytest.mark.parametrize(("command", "option"), list(options()))
def test_an_option_given_hostile_text(command, option, folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    texts = TEXTS if THOROUGH else random.Random(command + option).sample(TEXTS, 4)
    before = {
        path: path.read_bytes() for path in folder.iterdir() if path.name in ("rows.csv", "rows.tally", "map.json", "audit.json")
    }
    for text in texts:
        code = ended([command, *USUAL[command], option, text])
        said = capfd.readouterr()
        assert code in (0, 1, 2, 3) and (code != 1 or command in ("audit", "compare")), (text[:30], code, said.err[-300:])
        assert "Traceback" not in said.err and len(said.err) < 20_000 + 2 * len(text)
        assert "\x00" not in said.err
    assert all(path.read_bytes() == content for path, content in before.items())


@pytest.mark.parametrize("command", USUAL)
def test_arguments_that_are_hostile(command, folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    for text in TEXTS if THOROUGH else random.Random(command).sample(TEXTS, 5):
        if command == "init" and text in ("/", "~", "*"):
            continue
        code = ended([command, text, *[word for word in USUAL[command] if "." not in word or word.startswith("out")]])
        assert code in (0, 2), (text[:30], code, capfd.readouterr().err[-300:])


@pytest.mark.parametrize("folder", ["\x00", "\ud800", "/dev/null/x"])
def test_a_folder_that_cannot_be_is_refused_before_the_work(folder, capfd):
    assert ended(["reproduce", "--output", folder]) == 2
    assert "cannot write to the folder" in capfd.readouterr().err


SETTINGS = {
    "nested arrays": "[data]\nattributes = " + "[" * 100_000,
    "nested tables": "".join(f"[a{'.a' * n}]\n" for n in range(300)),
    "an endless number": "[test]\nalpha = " + "9" * 10_000,
    "infinite": "[test]\nalpha = inf",
    "nan": "[test]\ntolerance = nan",
    "not text": "[data]\nscore = 3",
    "a date": "[data]\nscore = 2020-01-01",
    "twice": "[data]\nscore = 'a'\nscore = 'b'",
    "no section": "data = 3",
    "unknown": "[dta]\nscore = 's'",
    "an unknown key of 10 kB": "[data]\n" + "k" * 10_000 + " = 1",
    "a value of 10 kB": "[test]\nmethod = '" + "é" * 10_000 + "'",
    "bytes": b"\xff\xfe\x00",
    "a null byte": "[data]\nscore = 's\x00'",
    "an empty path": "[data]\npath = ''",
    "a device": "[data]\npath = '/dev/zero'\nscore = 's'\noutcome = 'y'\ngroup = 'g'\nuser = 'u'",
    "nothing": "",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_are_hostile(name, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    content = SETTINGS[name]
    (tmp_path / "evenscore.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert ended(["audit"]) == 2
    said = capfd.readouterr().err.removeprefix("settings: evenscore.toml\n")  # which are named once they are read
    assert said.startswith(("Error: ", "Usage: ")) and len(said) < 2000
