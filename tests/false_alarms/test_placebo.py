"""es.placebo: the same as tests on relabelled rows, reproducible, honest about a level that does not hold, and refused in words."""

import json
from dataclasses import replace
from pathlib import Path

import duckdb
import jsonschema
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from containers import CONTAINERS, ROWS
from containers import NAMES as SHORT
from processes import FULL, make_frame, run
from scipy import stats

import evenscore as es
from evenscore.auditing.deciding import _comparisons, make_decision
from evenscore.data.observations import observe
from evenscore.data.spec import TallySpec
from evenscore.estimation.overlap import find_overlap
from evenscore.false_alarms.dealing import find_patterns, keep_most
from evenscore.false_alarms.placebo_result import PlaceboTest, clopper_pearson

NAMES = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
SCHEMA = json.loads((Path(es.__file__).parent / "report" / "schema" / "audit-1.1.json").read_text())
ALL = ("parity", "ordering", "marginal")


def people(n_users=120, rows=3, seed=0, **options):
    return es.simulate({"a": n_users, "b": n_users // 2}, rows_per_user=rows, **options).data(seed=seed)


def p_values(result):
    return {test.name: test.p_values.tolist() for test in result.tests}


@pytest.fixture(scope="module")
def failing():
    """A result in which the level does not hold; which tests are so bad is nobody's promise."""
    found = es.placebo(people(), **NAMES, runs=4)
    p = np.append(np.full(40, 0.01), np.linspace(0.06, 1, 160))
    return replace(found, runs=200, tests=(PlaceboTest("parity", 0.05, p, p <= 0.05),))


# What is counted


@pytest.mark.parametrize("within", [None, "score"])
def test_every_run_is_the_tests_on_rows_with_the_groups_of_others(within):
    data = people(rows=3 if within is None else 1)
    spec = TallySpec(**NAMES)
    found = es.placebo(data, **NAMES, runs=4, seed=7, within=within, tests=ALL, threshold=0.5)
    observations, _ = keep_most(observe(data, spec))
    patterns = find_patterns(observations, within)
    for number in range(4):
        rng = np.random.default_rng(np.random.SeedSequence((7, number)))
        group = np.array(observations.groups)[patterns.deal(rng)]
        tally = es.tally(data | {"group": group}, **NAMES, cuts=[0.5])
        seed = int(np.random.SeedSequence((7, number, 1)).generate_state(1)[0])
        shared = {"alpha": 0.05 / 3, "seed": seed}
        tests = (
            es.parity_test(tally, **shared),
            es.ordering_test(tally, **shared),
            es.marginal_test(tally, threshold=0.5, **shared),
        )
        for test, counted in zip(tests, found.tests, strict=True):
            np.testing.assert_equal(counted.p_values[number], test.p_value)
            assert counted.alarms[number] == (test.verdict == "disparity")


def test_the_same_for_a_seed_and_any_number_of_workers():
    steps = []
    one = es.placebo(people(), **NAMES, runs=12, seed=5, progress=lambda *step: steps.append(step))
    assert steps == [(done, 12) for done in range(1, 13)]
    assert one.to_dict() == es.placebo(people(), **NAMES, runs=12, seed=5, workers=2).to_dict()
    assert p_values(one) != p_values(es.placebo(people(), **NAMES, runs=12, seed=6))
    more = es.placebo(people(), **NAMES, runs=15, seed=5)
    assert p_values(more)["parity"][:12] == p_values(one)["parity"]


def test_a_real_gap_does_not_count_as_a_false_alarm():
    data = es.simulate({"a": 800, "b": 800}, curve={"a": (0, 1), "b": (-1.5, 1)}, rows_per_user=1).data(seed=1)
    assert es.parity_test(data, **NAMES).p_value < 1e-6
    for within in (None, "score"):
        found = es.placebo(data, **NAMES, runs=60, within=within)
        assert found.level_holds and stats.kstest(found.tests[0].p_values, "uniform").pvalue > 1e-4


def test_rows_without_weight_or_outcome_are_nobodys():
    data = people(rows=2)
    n_rows = len(data["score"])
    weight = np.ones(n_rows)
    weight[::5] = 0
    kept = {name: values[weight > 0] for name, values in data.items()}
    plain = es.placebo(kept, **NAMES, runs=3, lattice=es.Lattice(0, 1))
    weighted = es.placebo(data | {"w": weight}, **NAMES, weight="w", runs=3, lattice=es.Lattice(0, 1))
    assert p_values(weighted)["parity"] == pytest.approx(p_values(plain)["parity"], rel=1e-9) and weighted.n_users == plain.n_users
    unknown = data | {"outcome": np.where(weight > 0, data["outcome"], np.nan)}
    unlabelled = es.placebo(unknown, **NAMES, nulls="unlabelled", runs=3, lattice=es.Lattice(0, 1))
    assert p_values(unlabelled) == p_values(plain)


def test_independent_rows_with_a_count_are_so_many_people():
    data = {name: values for name, values in people(rows=1).items() if name != "user"}
    count = np.arange(len(data["score"])) % 3
    names = {name: column for name, column in NAMES.items() if name != "user"} | {"user": None}
    found = es.placebo(data | {"n": count}, **names, count="n", runs=2)
    repeated = es.placebo({name: np.repeat(values, count) for name, values in data.items()}, **names, runs=2)
    assert p_values(found) == p_values(repeated) and found.n_users == count.sum()
    assert "among rows 2 times" in found.sentence


def test_users_in_several_groups():
    """Where a group has more of the users in one group, who fare better: their difference must not count as false alarms."""
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(600), 2)
    alone = user < 150
    group = np.where(alone, "a", np.tile(["a", "b"], 600))
    data = {"score": rng.random(1200), "outcome": (rng.random(1200) < np.where(alone, 0.9, 0.2)) * 1, "group": group, "user": user}
    assert es.parity_test(data, **NAMES).p_value < 1e-6
    found = es.placebo(data, **NAMES, runs=60)
    assert (found.n_users, found.n_spanning, found.n_left_out, found.not_judged) == (450, 450, 150, 0)
    assert found.level_holds and stats.kstest(found.tests[0].p_values, "uniform").pvalue > 1e-4
    assert "150 users in other numbers of groups than most are left out" in repr(found)
    assert "rows that share a group stay together" in repr(found)


def test_a_share_of_the_users_and_other_cells():
    data = people(400)
    found = es.placebo(data, **NAMES, runs=2, split="1/2", cells=40)
    assert found.n_users == sum(es.tally(data, **NAMES, split="1/2").n_users.values()) < 400


def test_runs_in_which_nothing_can_be_judged_are_counted():
    found = es.placebo(people(6), **NAMES, runs=3)
    assert found.not_judged == 3 and found.rejection_rate == 0 and found.level_holds
    assert "could never judge, so its false alarms are not known" in found.sentence
    assert found.to_dict()["p_values"] == {"parity": [None] * 3}


# Whatever the rows come in


@pytest.fixture(scope="module")
def expected():
    return p_values(es.placebo(ROWS, **SHORT, runs=2))


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers(name, expected):
    assert p_values(es.placebo(CONTAINERS[name](ROWS), **SHORT, runs=2)) == expected


def test_files_relations_and_ibis_tables(tmp_path, monkeypatch, expected):
    frame = pd.DataFrame(ROWS)
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    sources = [tmp_path / "rows.parquet", tmp_path / "rows.csv", duckdb.connect().from_df(frame)]
    ibis = pytest.importorskip("ibis")
    sources.append(ibis.memtable(pa.table(ROWS)))
    for source in sources:
        assert p_values(es.placebo(source, **SHORT, runs=2)) == expected
    for source in sources:
        monkeypatch.setattr("evenscore.engines.relations.FETCHED_BYTES", 1_000_000)  # a row: no file need be large
        with pytest.raises(es.DataError, match=r"do not fit into 1,000,000,000 bytes .*; write a sample of whole users"):
            es.placebo(source, **SHORT, runs=2)
        monkeypatch.undo()


# What it says


def test_limits_are_those_of_clopper_and_pearson():
    for found, runs in ((0, 10), (3, 10), (10, 10), (9, 200), (1, 1)):
        exact = stats.binomtest(found, runs).proportion_ci(0.95, "exact")
        assert clopper_pearson(found, runs) == pytest.approx((exact.low, exact.high), rel=1e-9)


def test_the_sentence_and_the_rows():
    found = es.placebo(people(), **NAMES, runs=4)
    p = np.append(np.full(9, 0.01), np.linspace(0.06, 1, 191))
    found = replace(found, runs=200, tests=(PlaceboTest("parity", 0.05, p, p <= 0.05),))
    assert found.sentence == (
        "with groups dealt out anew among users 200 times, the parity test gave a false alarm 9 times (4.5 %, 95 % limits 2.1 to "
        "8.4 %) where 5 % is promised"
    )
    (row,) = found.rows()
    assert list(row) == ["test", "runs", "rejected", "rejection_rate", "ci_low", "ci_high", "not_judged", "alpha"]
    assert (row["rejected"], row["rejection_rate"], row["not_judged"]) == (9, 0.045, 0)
    assert found.level_holds and found.failures == [] and "not a test of parity" in repr(found)
    assert found.frame("pandas").shape == (1, 8) and "<table>" in found._repr_html_()


def test_several_tests_are_also_taken_together():
    found = es.placebo(people(), **NAMES, runs=5, tests=("parity", "ordering"), alpha=0.2)
    assert [test.alpha for test in found.tests] == [0.1, 0.1] and found.alpha == 0.2
    alarms = found.tests[0].alarms | found.tests[1].alarms
    assert found.rejection_rate == alarms.mean() and "the tests together" in repr(found)
    assert [row["test"] for row in found.rows()] == ["parity", "ordering"]


def test_a_level_that_does_not_hold_is_said_plainly(failing):
    assert not failing.level_holds and failing.ci_low > 0.05
    assert "the level does not hold on this data, and the verdict should not be trusted at this level" in failing.sentence
    assert "the level of 5 % does not hold on this data" in failing.failures[0]


def test_it_can_be_drawn(failing):
    pytest.importorskip("matplotlib")
    (axes,) = failing.plot().figure_.axes
    assert axes.get_xlabel() == "p-value"


# In an audit


def test_an_audit_has_the_placebo_of_its_deciding_tests(failing):
    data = people()
    audit = es.audit(data, **NAMES, placebo=3, decide=("parity", "marginal"), threshold=0.5, repair=False)
    alone = es.placebo(data, **NAMES, runs=3, threshold=0.5)
    placebo = audit.subjects[0].placebo
    assert placebo.to_dict() == alone.to_dict() and placebo.sentence in audit.summary
    document = json.loads(audit.to_json())
    jsonschema.validate(document, SCHEMA)
    assert document["subjects"][0]["placebo"] == json.loads(json.dumps(alone.to_dict()))
    assert "False alarms on this data" in audit.to_html() and "dealt out anew" in audit.to_markdown()
    assert json.loads(es.audit(data, **NAMES, repair=False).to_json())["subjects"][0]["placebo"] is None


def disjoint_and_not(kind):
    """One row a user: two groups without a common score, with some, or three of which one shares none."""
    rng, n = np.random.default_rng(3), 300
    group = np.arange(n) % (3 if kind == "mixed" else 2)
    score = {
        "disjoint": rng.random(n) / 2 + group / 2,
        "partly": np.where(group == 0, rng.beta(2, 5, n), rng.beta(5, 2, n)),
        "mixed": rng.random(n) / 2 + (group == 2) / 2,
    }[kind]
    outcome = (rng.random(n) < 0.2 + 0.5 * score).astype(float)
    return {"score": score, "outcome": outcome, "group": group, "user": np.arange(n)}


@pytest.mark.parametrize(
    ("kind", "name"), [("disjoint", "ordering"), ("partly", "parity and ordering"), ("mixed", "parity and ordering")]
)
def test_an_audit_repeats_the_tests_that_its_scores_have_chosen(kind, name):
    """Groups dealt out anew have their scores in common, and parity would decide about them."""
    data = disjoint_and_not(kind)
    audit = es.audit(data, **NAMES, placebo=3, repair=False, seed=7)
    placebo = audit.subjects[0].placebo
    assert [test.name for test in placebo.tests] == [name]
    tally = es.tally(data, **NAMES)
    parity = es.parity_test(tally)
    overlaps = [find_overlap(comparison) for comparison in _comparisons(tally, parity, "user")]
    patterns = find_patterns(observe(data, TallySpec(**NAMES)), None)
    for number in range(3):
        group = patterns.deal(np.random.default_rng(np.random.SeedSequence((7, number))))
        dealt = es.tally(data | {"group": group.astype(int)}, **NAMES, lattice=tally.lattice)
        seed = int(np.random.SeedSequence((7, number, 1)).generate_state(1)[0])
        tests = es.parity_test(dealt, seed=seed), es.ordering_test(dealt, seed=seed)
        decided = make_decision(dealt, *tests, alpha=0.05, weighting="user", seed=seed, overlaps=overlaps)
        np.testing.assert_equal(placebo.tests[0].p_values[number], decided.p_value)
        assert {pair.decided_by for pair in decided.pairs} == {overlap.decides_by for overlap in overlaps}
        assert placebo.tests[0].alarms[number] == (decided.verdict == "disparity")
    if name != "ordering":
        assert f"the {name} tests gave" in placebo.sentence


def test_a_level_that_does_not_hold_is_a_limit_of_the_audit_and_changes_nothing_else(failing):
    audit = es.audit(people(), **NAMES, repair=False)
    warned = replace(audit, subjects=(replace(audit.subjects[0], placebo=failing),))
    assert (warned.verdict, warned.check()) == (audit.verdict, audit.check())
    assert any(text.startswith("the level of 5 % does not hold") for text in warned.summary)
    for text in (warned.to_html(), repr(warned), warned.to_markdown()):
        assert "does not hold on this data" in " ".join(text.split())


def test_two_attributes_share_the_level():
    data = people() | {"other": np.tile(["x", "y"], 270)[:540]}
    names = {name: column for name, column in NAMES.items() if name != "group"}
    audit = es.audit(data, **names, attributes=["group", "other"], placebo=2, repair=False)
    assert [subject.placebo.alpha for subject in audit.subjects] == [0.025, 0.025]


# Refused in words


def test_what_holds_no_rows_is_refused(tmp_path):
    tally = es.tally(people(), **NAMES)
    tally.save(tmp_path / "a.tally")
    for source in (tally, tmp_path / "a.tally", [tally, tally]):
        with pytest.raises(es.DataError, match="needs rows, and a tally holds only sums"):
            es.placebo(source, runs=2)
        with pytest.raises(es.DataError, match="placebo= needs rows"):
            es.audit(source, placebo=2)


def test_frames_that_lie_elsewhere_are_refused():
    dask = pytest.importorskip("dask.dataframe")
    with pytest.raises(es.DataError, match="a Dask frame is not; write a sample of whole users"):
        es.placebo(dask.from_pandas(pd.DataFrame(people()), npartitions=2), **NAMES)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"runs": 0}, "runs=0 must be a whole number"),
        ({"within": "group"}, "within='group' is not known"),
        ({"tests": ()}, "tests=.. leaves no test"),
        ({"tests": "marginal"}, "tests='marginal' needs threshold="),
        ({"tests": "parrity"}, "tests='parrity' is not known"),
        ({"group": np.repeat("a", 540)}, "all users are in the same group"),
        ({"scor": "score"}, "did you mean score"),
        ({"reference": "z"}, "z"),
        ({"outcome": None}, "missing: outcome="),
    ],
)
def test_options_that_cannot_be_used(options, words):
    with pytest.raises((es.EvenscoreError, TypeError), match=words):
        es.placebo(people(), **NAMES | options)


def test_processes_without_a_placebo():
    with pytest.raises(es.OptionError, match="workers=2 are processes for placebo="):
        es.audit(people(), **NAMES, workers=2)


# On the command line


@pytest.fixture(scope="module")
def rows_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "rows.csv"
    make_frame(0.0).to_csv(path, index=False)
    return path


def test_the_command(rows_file, tmp_path):
    report = tmp_path / "a.html"
    command = ("audit", rows_file, *FULL, "--placebo", "6", "--workers", "2", "--report", report, "--json", "-")
    done = run(*command)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    jsonschema.validate(found, SCHEMA)
    assert found["subjects"][0]["placebo"]["runs"] == 6 and "False alarms on this data" in report.read_text()
    shown = run("audit", rows_file, *FULL, "--placebo", "6")
    assert found["subjects"][0]["placebo"]["sentence"][1:] in " ".join(shown.stdout.split())


def test_the_command_on_a_tally(rows_file, tmp_path):
    assert run("tally", rows_file, *FULL, "-o", tmp_path / "a.tally").returncode == 0
    done = run("audit", tmp_path / "a.tally", "--placebo", "6")
    assert done.returncode == 2 and "--placebo needs rows, and a tally holds only sums" in done.stderr


def test_the_command_with_settings(rows_file, tmp_path):
    (tmp_path / "evenscore.toml").write_text("[test]\nplacebo = 2\n")
    done = run("audit", rows_file, *FULL, "--json", "-", cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)["subjects"][0]["placebo"]["runs"] == 2
