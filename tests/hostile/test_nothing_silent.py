"""Nothing silent: Python tells assumptions as the command line does, settings are named, terminals and memory are left alone."""

import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import warnings
import zlib

import numpy as np
import pytest
from black_box import COLUMNS, LIMIT, NAMES, csv_text, ended, people, run, some

import evenscore as es

TABLE = people(200, seed=1)


# Assumptions


def assumed_files(folder):
    """Files about which something must be assumed, and a word that says what."""
    header, *lines = csv_text(TABLE).splitlines()
    split = [line.split(",") for line in lines]
    return {
        "decimal commas": ("\n".join([header, *(f'"{s.replace(".", ",")}",{y},{g},{u}' for s, y, g, u in split)]), "comma"),
        "thousands or decimals": (
            "\n".join([header, *(f'"{1 + i % 9},{511 + i % 7}",{y},{g},{u}' for i, (s, y, g, u) in enumerate(split))]),
            "column 's' has a decimal comma: '1,511' is read as 1.511",
        ),
        "semicolons": ("\n".join([header, *lines]).replace(",", ";"), "semicolon"),
        "missing values": ("\n".join([header, *lines, "NA,1,a,1"]), "missing|NA"),
        "Latin-1": ("\n".join([header, *lines, "0.5,1,é,1"]).encode("latin-1"), "Latin-1"),
    }


@pytest.mark.parametrize("name", ["decimal commas", "thousands or decimals", "semicolons", "missing values", "Latin-1"])
@pytest.mark.parametrize("call", ["tally", "audit"])
def test_python_says_what_the_command_line_says(name, call, tmp_path, capfd):
    """In a warning, or with what the result shows of itself; "1,511" was read as 1.511 without a word."""
    content, word = assumed_files(tmp_path)[name]
    path = tmp_path / "rows.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    options = {"nulls": "drop"} if name == "missing values" else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if call == "tally":
            shown = repr(es.tally(path, **NAMES, **options))
        else:
            found = es.audit(path, **NAMES, **options, method="bonferroni", repair=False)
            shown = repr(found) + json.dumps(found.to_dict(), default=str)
    told = shown + " ".join(str(each.message) for each in caught if issubclass(each.category, es.EvenscoreWarning))
    assert re.search(word, told), told[-600:]


CALLS = {
    "tally": lambda path: es.tally(path, **NAMES),
    "explain": lambda path: es.tally.explain(path, **NAMES),
    "curves": lambda path: es.curves(path, **NAMES),
    "parity_test": lambda path: es.parity_test(path, **NAMES, method="bonferroni"),
    "calibrate": lambda path: es.calibrate(path, **NAMES, method="platt"),
    "calibrate_jointly": lambda path: es.calibrate_jointly(
        path, scores=["s"], outcomes=["y"], group="g", user="u", method="logistic"
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_function_that_takes_files_says_it_once(call, tmp_path):
    (tmp_path / "rows.csv").write_text(csv_text(TABLE).replace(",", ";"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[call](tmp_path / "rows.csv")
    told = [each for each in caught if "semicolons" in str(each.message)]
    assert len(told) == 1 and told[0].category is es.EvenscoreWarning
    assert told[0].filename == __file__, "the warning points to whoever called"


@pytest.mark.parametrize("command", ["tally", "audit", "calibrate", "thresholds", "decisions"])
def test_every_command_says_what_it_assumed(command, tmp_path, capfd):
    content, word = assumed_files(tmp_path)["thousands or decimals"]
    (tmp_path / "rows.csv").write_text(content)
    more = {
        "tally": ["-o", tmp_path / "x.tally"],
        "calibrate": ["--method", "binning", "-o", tmp_path / "x.json"],
        "thresholds": ["--threshold", "5"],
        "decisions": ["--threshold", "5"],
        "audit": ["--method", "bonferroni", "--no-repair"],
    }
    assert ended(command, tmp_path / "rows.csv", *COLUMNS, *more[command]) in (0, 1)
    said = capfd.readouterr()
    assert re.search(word, said.out + said.err)


# Settings


SETTINGS = '[data]\nscore = "s"\noutcome = "y"\ngroup = "g"\nuser = "u"\n[test]\nmethod = "bonferroni"\nrepair = false\n'


@pytest.fixture
def project(tmp_path, monkeypatch):
    inner = tmp_path / "project"
    inner.mkdir()
    (inner / "rows.csv").write_text(csv_text(TABLE))
    (inner / "evenscore.toml").write_text(SETTINGS)
    monkeypatch.chdir(inner)
    return inner


def test_a_settings_file_that_was_found_is_named(project, capfd):
    assert ended("audit", "rows.csv") in (0, 1)
    assert "evenscore.toml" in capfd.readouterr().err


def test_it_is_named_when_stdout_is_json(project, capfd):
    assert ended("audit", "rows.csv", "--json", "-") in (0, 1)
    said = capfd.readouterr()
    json.loads(said.out)
    assert "evenscore.toml" in said.err


def test_it_is_named_when_something_fails(project, capfd):
    (project / "evenscore.toml").write_text(SETTINGS.replace('"s"', '"no such column"'))
    assert ended("audit", "rows.csv") == 2
    assert "evenscore.toml" in capfd.readouterr().err


def test_no_config_reads_none(project, capfd):
    (project / "evenscore.toml").write_text("this is no TOML")
    assert ended("audit", "rows.csv", *COLUMNS, "--method", "bonferroni", "--no-repair", "--no-config") in (0, 1)
    said = capfd.readouterr()
    assert "evenscore.toml" not in said.out + said.err


def test_no_config_and_config_contradict_each_other(project, capfd):
    assert ended("audit", "rows.csv", *COLUMNS, "--no-config", "--config", "evenscore.toml") == 2


OUTSIDE = ["../stolen", "{parent}/stolen", "a/../../stolen", "link/stolen"]


@pytest.mark.parametrize("key", some(["json", "summary", "report", "junit"], 2))
@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("named", [False, True], ids=["found", "given"])
def test_settings_write_nothing_outside_of_their_folder(key, path, named, project, capfd):
    """A file in a folder that somebody downloads must not write to places of its choice."""
    (project / "a").mkdir()
    (project / "link").symlink_to(project.parent, target_is_directory=True)
    value = path.format(parent=project.parent)
    (project / "evenscore.toml").write_text(SETTINGS + f'[output]\n{key} = "{value}"\n')
    (project.parent / "stolen").write_text("mine")
    words = ["--config", "evenscore.toml"] if named else []
    code = ended("audit", "rows.csv", *words)
    assert (project.parent / "stolen").read_text() == "mine"
    assert code == 2 and "evenscore.toml" in capfd.readouterr().err


def test_settings_write_inside_of_their_folder(project):
    (project / "a").mkdir()
    (project / "evenscore.toml").write_text(SETTINGS + '[output]\njson = "a/out.json"\n')
    assert ended("audit", "rows.csv") in (0, 1)
    json.loads((project / "a" / "out.json").read_text())


# Terminals


EVIL = {
    "title": "\x1b]0;owned\x07",
    "colour": "\x1b[31;1mred\x1b[0m",
    "C1": "\x9b31mred\x9d0;x\x9c",
    "backspaces": "safe\x08\x08\x08\x08evil",
    "return": "safe\revil",
    "delete": "a\x7fb",
    "reversed": "\u202egnp.exe",
    "lines": "a\u2028b\x0b\x0c",
}
EVIL = {"together": "".join(text for kind, text in EVIL.items() if kind != "return")} | EVIL
FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def evil_csv(path, text, where):
    columns = {"score": "s", "outcome": "y", "group": "g", "user": "u"}
    if where != "label":
        columns[where] = text
    lines = [",".join('"' + columns[role] + '"' for role in ("score", "outcome", "group", "user"))]
    for s, y, g, u in zip(*(TABLE[name].to_pylist() for name in "sygu"), strict=True):
        label = f'"{text}{g}"' if where == "label" else g
        lines.append(f"{s},{y},{label},{u}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    return columns, [word for role, column in columns.items() for word in (f"--{role}", column)]


def assert_harmless(said, where):
    for name, text in (("stdout", said.out), ("stderr", said.err)):
        found = FORBIDDEN.search(text)
        assert found is None, (where, name, text[max(0, found.start() - 60) : found.end() + 20])


@pytest.mark.parametrize("kind", some(EVIL, 1))
@pytest.mark.parametrize("where", ["score", "outcome", "group", "user", "label"])
def test_names_and_labels_never_reach_a_terminal_as_they_are(kind, where, tmp_path, capfd):
    columns, words = evil_csv(tmp_path / "rows.csv", EVIL[kind], where)
    path = tmp_path / "rows.csv"
    for command in (
        ["tally", path, *words, "-o", tmp_path / "x.tally"],
        ["audit", path, *words, "--method", "bonferroni", "--no-repair"],
        ["audit", path, *words, "--method", "bonferroni", "--no-repair", "--json", "-"],
        ["calibrate", path, *words, "--method", "platt", "-o", tmp_path / "map.json"],
        ["apply", tmp_path / "map.json", path, "-o", tmp_path / "out.csv", "--json", "-"],
        ["apply", tmp_path / "map.json", path, "-o", tmp_path / "out2.csv"],
        ["thresholds", path, *words, "--threshold", "0.5"],
        ["decisions", path, *words, "--threshold", "0.5"],
        ["tally", path, *COLUMNS[:6], "--user", "missing", "-o", tmp_path / "y.tally"],
        ["audit", path],
        ["tally", path, *words, "-o", tmp_path / "y.tally", "--explain"],
        [
            "init",
            path,
            *[word for role in ("score", "outcome", "group", "user") for word in (f"--{role}", columns[role])],
            "-o",
            tmp_path / "e.toml",
            "--force",
        ],
    ):
        ended(*command)
        assert_harmless(capfd.readouterr(), command[:1])


@pytest.mark.skipif(os.name == "nt", reason="names of Unix")
@pytest.mark.parametrize("kind", some(EVIL, 1))
def test_file_names_never_reach_a_terminal_as_they_are(kind, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    name = f"{EVIL[kind]}.csv"
    (tmp_path / name).write_text(csv_text(TABLE))
    out = EVIL[kind]
    for command in (
        ["tally", name, *COLUMNS, "-o", f"{out}.tally"],
        ["audit", name, *COLUMNS, "--method", "bonferroni", "--no-repair", "--report", f"{out}.html"],
        ["calibrate", name, *COLUMNS, "--method", "platt", "-o", f"{out}.json"],
        ["apply", f"{out}.json", name, "-o", f"{out}.parquet"],
        ["apply", f"{out}.json", name, "-o", f"{out}2.parquet", "--json", "-"],
        ["merge", f"{out}.tally", "-o", f"{out}3.tally"],
        ["thresholds", name, *COLUMNS, "--threshold", "0.5"],
        ["decisions", name, *COLUMNS, "--threshold", "0.5", "--pack", "ll144", "--report", f"{out}.md"],
        ["simulate", "shift", "--users", "20", "-o", f"{out}4.csv"],
        ["simulate", EVIL[kind], "-o", "x.csv"],
        ["tally", name, *COLUMNS, "-o", f"{out}5.parquet", "--by-user", "--lattice", "0:1"],
        ["tally", name, *COLUMNS[:6], "-o", "x.tally"],
        ["audit", f"no {name}", *COLUMNS],
        ["init", name, "-o", f"{out}.toml"],
        ["audit", "--config", f"{out}.toml", name],
        [EVIL[kind]],
    ):
        ended(*command)
        assert_harmless(capfd.readouterr(), command[:1])


@pytest.mark.parametrize("kind", EVIL)
def test_python_shows_no_escape_sequences(kind):
    text = EVIL[kind]
    data = {name: TABLE[name].to_pylist() for name in "syu"} | {text: [text + g for g in TABLE["g"].to_pylist()]}
    tally = es.tally(data | {text + "u": data["u"]}, **(NAMES | {"group": text, "user": text + "u"}))
    calibrator = es.calibrate(tally, method="platt")
    for result in (
        tally,
        calibrator,
        es.parity_test(tally, method="bonferroni"),
        es.curves(tally),
        es.marginal_test(tally, threshold=0.5),
    ):
        found = FORBIDDEN.search(repr(result))
        assert found is None, repr(result)[max(0, found.start() - 60) : found.end() + 20]


# A forged tally


def forged_tally(path, n_groups=120, n_cells=512):
    """A file of some megabytes whose arrays of zeros would take gigabytes: a real one, its groups repeated with dense pair sums."""
    base = es.tally(TABLE, **NAMES, lattice=es.Lattice(0, 1, cells=n_cells))
    base.save(path)
    content = path.read_bytes()
    magic, version, length = struct.unpack_from("<16sIQ", content)
    header = json.loads(content[28 : 28 + length])
    arrays, start = {}, 28 + length
    for entry in header["arrays"]:
        arrays[entry["name"]] = (entry, content[start : start + entry["nbytes"]])
        start += entry["nbytes"]
    n_pairs = n_cells * (n_cells + 1) // 2
    zeros = zlib.compress(bytes(8 * 2 * 4 * n_pairs), 9)
    kept = [arrays["edges"]]
    for number in range(n_groups):
        for name in ("vectors", "folds", "cell_users"):
            entry, packed = arrays[f"{name} 0"]
            kept.append((entry | {"name": f"{name} {number}"}, packed))
        kept.append(({"name": f"pairs {number}", "dtype": "<f8", "shape": [2, 4, n_pairs], "nbytes": len(zeros)}, zeros))
    group = header["groups"][0]
    header["groups"] = [group | {"label": ["str", f"{number:04}"]} for number in range(n_groups)]
    header["arrays"] = [entry for entry, _ in kept]
    encoded = json.dumps(header).encode()
    body = b"".join([struct.pack("<16sIQ", magic, version, len(encoded)), encoded, *(packed for _, packed in kept)])
    path.write_bytes(body + hashlib.sha256(body).digest())
    return path


LOADING = """
import resource, sys
import evenscore as es
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    es.Tally.load(sys.argv[1])
    words = "loaded"
except es.EvenscoreError as error:
    words = "refused: " + str(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, words)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in kilobytes on Linux")
def test_a_small_forged_tally_takes_little_memory(tmp_path):
    """2.7 MB took 2.8 GB; a real tally is never that much smaller on disk, since zeros are not kept."""
    path = forged_tally(tmp_path / "forged.tally")
    size = path.stat().st_size
    done = subprocess.run([sys.executable, "-c", LOADING, str(path)], capture_output=True, text=True, timeout=LIMIT, check=True)
    kilobytes, words = done.stdout.split(maxsplit=1)
    assert int(kilobytes) * 1024 < 300_000_000, f"{size:,} bytes took {int(kilobytes):,} kB: {words}"


def test_a_real_tally_is_loaded(tmp_path):
    """The limit must not refuse what is real: many groups, many cells, sparse and dense."""
    rng = np.random.default_rng(0)
    n = 20_000
    user = rng.integers(0, 400, n)
    data = {"s": rng.random(n), "y": rng.random(n) < 0.5, "g": user % 20, "u": user}
    tally = es.tally(data, **NAMES)
    tally.save(tmp_path / "real.tally")
    assert es.Tally.load(tmp_path / "real.tally").n_users == tally.n_users


def test_the_command_line_is_not_loud_when_quiet(project):
    """What is told goes to stderr, and not with --quiet."""
    done = run("audit", "rows.csv", "--quiet", cwd=project)
    assert done.returncode in (0, 1) and done.stdout == ""
