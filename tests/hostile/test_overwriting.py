"""Inputs are never destroyed: an output that is an input, or another output, is refused before work starts.

What is decided: reports, JSON, JUnit, summaries, tallies and calibrators replace a file that is there and no input without asking,
as people expect of them. Data files (CSV or Parquet, which ``apply``, ``simulate`` and ``--by-user`` write) do so only with
``--overwrite`` (in Python ``overwrite=True``).
"""

import itertools
import os
from pathlib import Path

import pytest
from black_box import COLUMNS, NAMES, csv_text, ended, people

import evenscore as es
from hostile import THOROUGH

TABLE = people(240, seed=1)
TALLY = es.tally(TABLE, **NAMES, cells=64, cuts=(0.5,))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """One of each kind of file that commands read."""
    monkeypatch.chdir(tmp_path)
    import pyarrow.parquet as pq

    (tmp_path / "rows.csv").write_text(csv_text(TABLE))
    pq.write_table(TABLE, "rows.parquet")
    TALLY.save("rows.tally")
    es.tally(TABLE, **NAMES, lattice=TALLY, split="1/2").save("half.tally")
    es.tally(TABLE, **NAMES, lattice=TALLY, split="2/2").save("rest.tally")
    es.calibrate(TALLY, method="platt").save("map.json")
    es.audit(TALLY, method="bonferroni", repair=False).to_json("audit.json")
    es.audit(TALLY, method="bonferroni", repair=False).to_json("later.json")
    (tmp_path / "settings.toml").write_text("[test]\nalpha = 0.05\n")
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "rows.csv").write_text(csv_text(TABLE))
    return tmp_path


FAST = ["--method", "bonferroni", "--no-repair"]
# command -> (words without outputs, what it reads, what it must write, options that name an output)
COMMANDS = {
    "audit": (["rows.csv", *COLUMNS, *FAST], ["rows.csv"], {}, ["--report", "--json", "--junit", "--summary"]),
    "audit of Parquet": (["rows.parquet", *COLUMNS, *FAST], ["rows.parquet"], {}, ["--report", "--json", "--junit", "--summary"]),
    "audit of a tally": (["rows.tally", *FAST], ["rows.tally"], {}, ["--report", "--json", "--junit", "--summary"]),
    "audit with settings": (
        ["rows.csv", *COLUMNS, *FAST, "--config", "settings.toml"],
        ["settings.toml"],
        {},
        ["--report", "--json", "--junit", "--summary"],
    ),
    "audit of a folder": (["many", *COLUMNS, *FAST], ["many/rows.csv"], {}, ["--report", "--json", "--junit", "--summary"]),
    "audit of a pattern": (["many/*.csv", *COLUMNS, *FAST], ["many/rows.csv"], {}, ["--report", "--json", "--junit", "--summary"]),
    "tally": (["rows.parquet", *COLUMNS], ["rows.parquet"], {"-o": "out.tally"}, ["-o", "--json"]),
    "tally with a lattice": (
        ["rows.csv", *COLUMNS, "--lattice", "rows.tally"],
        ["rows.csv", "rows.tally"],
        {"-o": "out.tally"},
        ["-o", "--json"],
    ),
    "tally by user": (
        ["rows.parquet", *COLUMNS, "--by-user", "--lattice", "0:1"],
        ["rows.parquet"],
        {"-o": "out.parquet"},
        ["-o", "--json"],
    ),
    "merge": (["half.tally", "rest.tally"], ["half.tally", "rest.tally"], {"-o": "out.tally"}, ["-o", "--json"]),
    "calibrate": (["rows.csv", *COLUMNS, "--method", "platt"], ["rows.csv"], {"-o": "out.json"}, ["-o", "--json"]),
    "calibrate a tally": (["rows.tally", "--method", "platt"], ["rows.tally"], {"-o": "out.json"}, ["-o", "--json"]),
    "apply": (["map.json", "rows.csv"], ["map.json", "rows.csv"], {"-o": "out.csv"}, ["-o", "--json"]),
    "thresholds": (["rows.csv", *COLUMNS, "--threshold", "0.5"], ["rows.csv"], {}, ["--json", "--plot"]),
    "decisions": (["rows.csv", *COLUMNS, "--threshold", "0.5", "--pack", "ll144"], ["rows.csv"], {}, ["--json", "--report"]),
    "compare": (["audit.json", "later.json"], ["audit.json", "later.json"], {}, ["--json"]),
}


def words_of(name, outputs):
    words, _, needed, _ = COMMANDS[name]
    given = needed | outputs
    quiet = ["--quiet"]
    return [name.split()[0], *words, *quiet, *(word for option, path in given.items() for word in (option, str(path)))]


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def spellings(name):
    """The same file under other names."""
    path = Path(name)
    link, hard = Path(f"link{path.suffix}"), Path(f"hard{path.suffix}")
    link.symlink_to(path.resolve())
    hard.hardlink_to(path)
    return [name, f"./{name}", str(path.resolve()), f"many/../{name}", str(link), str(hard)]


PAIRS = [
    pytest.param(name, option, place, id=f"{name}: {option} is {COMMANDS[name][1][place]}")
    for name in COMMANDS
    for option in COMMANDS[name][3]
    for place in range(len(COMMANDS[name][1]))
]


def refused(folder, words, capfd):
    before = contents(folder)
    code = ended(*words)
    said = capfd.readouterr()
    assert contents(folder) == before, f"code {code}, {said.err[-300:]}"
    assert code == 2 and said.err.strip(), (code, said.err[-300:])
    assert "Traceback" not in said.err and "crashed" not in said.err
    return said.err


@pytest.mark.skipif(os.name == "nt", reason="links")
@pytest.mark.parametrize(("name", "option", "place"), PAIRS)
def test_an_output_that_is_an_input_is_refused_and_nothing_changes(name, option, place, folder, capfd):
    path = COMMANDS[name][1][place]
    for spelling in spellings(path) if THOROUGH or option == "-o" else [path]:
        refused(folder, words_of(name, {option: spelling}), capfd)


@pytest.mark.parametrize("name", COMMANDS)
def test_two_outputs_of_a_command_are_two_files(name, folder, capfd):
    """Otherwise the second destroys the first; also by another spelling of a file that is not there yet."""
    options = COMMANDS[name][3]
    for one, other in itertools.combinations(options, 2):
        same = "both.parquet" if "user" in name else "both.csv" if name == "apply" else "both.out"
        for spelling in (same, f"./{same}", f"many/../{same}"):
            refused(folder, words_of(name, {one: same, other: spelling}), capfd)


def test_the_truth_beside_simulated_rows_is_an_output(folder, capfd):
    """``simulate --spec x.truth.json -o x.csv`` would write the specification that it reads."""
    assert ended("simulate", "shift", "--users", "20", "--quiet", "-o", "x.csv") == 0
    refused(folder, ["simulate", "--spec", "x.truth.json", "--users", "20", "--quiet", "-o", "x.csv"], capfd)


# command -> (words before the data, words after it, option of a result that is called like data)
TAKEN_IN = {
    "apply": (["map.json"], [], "-o"),
    "apply, JSON": (["map.json"], ["-o", "elsewhere.parquet"], "--json"),
    "tally by user": ([], [*COLUMNS, "--by-user", "--lattice", "0:1"], "-o"),
    "tally": ([], COLUMNS, "-o"),
    "calibrate": ([], [*COLUMNS, "--method", "platt"], "-o"),
    "audit": ([], [*COLUMNS, *FAST], "--summary"),
    "thresholds": ([], [*COLUMNS, "--threshold", "0.5"], "--json"),
    "decisions": ([], [*COLUMNS, "--threshold", "0.5"], "--json"),
}
# what is read -> a result that the next run would read
SPELLED = {
    "many": "many/new",
    "./many/": "many/below/new",
    "link": "many/new",
    "many/*": "many/new",
    "many/*.csv": "many/../many/new",
    "m*": "many/new",
    "**/*.csv": "many/below/new",
    "many/**": "many/below/new",
    "m?ny/[a-z]*": "many/new",
}


@pytest.mark.skipif(os.name == "nt", reason="links")
@pytest.mark.parametrize("name", TAKEN_IN)
def test_a_result_that_the_next_run_would_read_is_refused(name, folder, capfd):
    """``apply map.json many -o many/new.csv`` would read its own result when it is run again."""
    before, after, option = TAKEN_IN[name]
    (folder / "many" / "below").mkdir()
    (folder / "link").symlink_to("many")
    for data, result in SPELLED.items() if THOROUGH or name == "apply" else list(SPELLED.items())[:1]:
        words = [name.split(",")[0].split()[0], *before, data, *after, "--quiet", option, f"{result}.csv"]
        assert "next run" in refused(folder, words, capfd), data


@pytest.mark.parametrize("place", ["new", "many/.new", "many/_kept/new", "other/new"])
def test_a_result_beside_the_files_that_are_read_is_written(place, folder):
    for name in ("many/_kept", "other"):
        (folder / name).mkdir()
    for data in ("many", "many/*.csv"):
        if data == "many" or "_kept" not in place:
            code = ended("apply", "map.json", data, "--quiet", "--overwrite", "-o", f"{place}.csv")
            assert code == 0


def test_python_does_not_write_into_what_it_reads(folder):
    from evenscore.calibration.applying import apply_files

    with pytest.raises(es.OptionError, match="next run"):
        apply_files(es.Calibrator.load("map.json"), "many", folder / "many" / "new.csv")


def test_init_does_not_take_the_place_of_the_data(folder, capfd):
    refused(folder, ["init", "rows.csv", "--force", "-o", "rows.csv"], capfd)


def test_outputs_of_settings_are_held_to_the_same(folder, capfd):
    for key in ("report", "json", "junit", "summary"):
        (folder / "evenscore.toml").write_text(f'[output]\n{key} = "rows.csv"\n')
        refused(folder, ["audit", "rows.csv", *COLUMNS, *FAST, "--quiet"], capfd)


def test_joint_calibrators_are_inputs_too(folder, capfd):
    objectives = es.simulate_objectives(60)
    es.calibrate_jointly(objectives.data(1), **objectives.columns, method="logistic").save("joint.json")
    import pyarrow as pa
    import pyarrow.csv as pc

    pc.write_csv(pa.table(dict(objectives.data(1))), "feed.csv")
    for option, path in (("--json", "joint.json"), ("--json", "feed.csv"), ("-o", "feed.csv")):
        outputs = {"-o": "out.csv"} | {option: path}
        words = ["apply", "joint.json", "feed.csv", "--quiet", *(word for pair in outputs.items() for word in pair)]
        refused(folder, words, capfd)


# What is there already and no input


REPLACED = {
    "audit report": ["audit", "rows.csv", *COLUMNS, *FAST, "--quiet", "--report", "old"],
    "audit json": ["audit", "rows.csv", *COLUMNS, *FAST, "--quiet", "--json", "old"],
    "audit junit": ["audit", "rows.csv", *COLUMNS, *FAST, "--quiet", "--junit", "old"],
    "tally": ["tally", "rows.csv", *COLUMNS, "--quiet", "-o", "old"],
    "merge": ["merge", "half.tally", "rest.tally", "--quiet", "-o", "old"],
    "calibrator": ["calibrate", "rows.csv", *COLUMNS, "--method", "platt", "--quiet", "-o", "old"],
}


@pytest.mark.parametrize("name", REPLACED)
def test_reports_tallies_and_calibrators_are_replaced_without_asking(name, folder):
    """People run the same command again and expect the new result."""
    assert ended(*REPLACED[name]) in (0, 1)
    first = (folder / "old").read_bytes()
    (folder / "old").write_bytes(first + b"\n")
    assert ended(*REPLACED[name]) in (0, 1)
    assert (folder / "old").read_bytes() != first + b"\n"


KEPT = {
    "apply csv": (["apply", "map.json", "rows.csv", "--quiet", "-o", "old.csv"], "old.csv"),
    "apply parquet": (["apply", "map.json", "rows.parquet", "--quiet", "-o", "old.parquet"], "old.parquet"),
    "simulate csv": (["simulate", "shift", "--users", "20", "--quiet", "-o", "old.csv"], "old.csv"),
    "simulate parquet": (["simulate", "shift", "--users", "20", "--quiet", "-o", "old.parquet"], "old.parquet"),
    "by user": (["tally", "rows.csv", *COLUMNS, "--by-user", "--lattice", "0:1", "--quiet", "-o", "old.parquet"], "old.parquet"),
}


@pytest.mark.parametrize("name", KEPT)
def test_data_that_is_there_is_replaced_only_when_told_so(name, folder, capfd):
    words, path = KEPT[name]
    (folder / path).write_bytes((folder / f"rows{(folder / path).suffix}").read_bytes())
    assert "--overwrite" in refused(folder, words, capfd)
    assert ended(*words, "--overwrite") == 0
    assert (folder / path).read_bytes() != (folder / f"rows{(folder / path).suffix}").read_bytes()


def test_tallies_and_calibrators_do_not_take_the_place_of_data(folder, capfd):
    """A slip of the hand such as ``tally a.csv -o b.csv``: what is there and is data of another kind is kept."""
    (folder / "other.csv").write_text(csv_text(TABLE))
    refused(folder, ["tally", "rows.csv", *COLUMNS, "--quiet", "-o", "other.csv"], capfd)
    refused(folder, ["calibrate", "rows.csv", *COLUMNS, "--method", "platt", "--quiet", "-o", "other.csv"], capfd)


def test_a_summary_is_added_to_text_only(folder, capfd):
    (folder / "notes.md").write_text("before\n")
    assert ended("audit", "rows.csv", *COLUMNS, *FAST, "--quiet", "--summary", "notes.md") in (0, 1)
    assert (folder / "notes.md").read_text().startswith("before\n")
    refused(folder, ["audit", "rows.csv", *COLUMNS, *FAST, "--quiet", "--summary", "rows.parquet"], capfd)


def test_python_refuses_to_write_over_what_it_reads(folder):
    """``apply_files`` has no name in the public API; ``save_lookup`` and others know no input, and replace what is theirs."""
    before = contents(folder)
    es.calibrate(es.tally("rows.csv", **NAMES), method="platt").save_lookup("lookup.csv")
    assert {path: content for path, content in contents(folder).items() if path in before} == before
