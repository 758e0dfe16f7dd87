"""es.audit: the same numbers as its parts, one verdict, plain words, and a document that others can read."""

import json
import re
import warnings
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

import evenscore as es

NAMES = {"score": "score", "outcome": "outcome", "user": "user"}
SCHEMA = json.loads((Path(es.__file__).parent / "report" / "schema" / "audit-1.1.json").read_text())


def people(gap=0.0, n_users=600, seed=0):
    """Users with three rows each, a gender that matters by ``gap``, and an age band that does not."""
    curve = {"f": (0.0, 1.0), "m": (-gap, 1.0)}
    data = es.simulate(dict.fromkeys("fm", n_users // 2), curve=curve, rows_per_user=3).data(seed=seed)
    frame = pd.DataFrame(data).rename(columns={"group": "gender"})
    frame["age_band"] = np.array(["old", "young", "middle"])[pd.factorize(frame["user"])[0] % 3]
    frame["other"] = 1 - frame["score"]
    return frame


@pytest.fixture(scope="module")
def uneven():
    return es.audit(people(1.0), group="gender", **NAMES)


@pytest.fixture(scope="module")
def even():
    return es.audit(people(), group="gender", **NAMES)


def valid(audit):
    document = json.loads(audit.to_json())
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return document


# The same as its parts


def test_an_audit_is_its_parts(uneven):
    tally = es.tally(people(1.0), group="gender", **NAMES)
    assert uneven.verdict == "disparity"
    assert uneven.tests["parity"].to_dict() == es.parity_test(tally).to_dict()
    assert uneven.tests["ordering"].to_dict() == es.ordering_test(tally).to_dict()
    assert uneven.subjects[0].curves.rows() == es.curves(tally).rows()
    assert es.audit(tally).tests["parity"].p_value == uneven.tests["parity"].p_value


def test_a_saved_tally_is_audited_without_data(uneven, tmp_path):
    es.tally(people(1.0), group="gender", **NAMES).save(tmp_path / "a.tally")
    for data in (tmp_path / "a.tally", str(tmp_path / "a.tally"), [tmp_path / "a.tally"]):
        audit = es.audit(data)
        assert audit.tests["parity"].p_value == uneven.tests["parity"].p_value
        assert audit.subjects[0].to_dict()["fingerprint"] == uneven.subjects[0].to_dict()["fingerprint"]
        assert len(audit.provenance.sources[0].sha256) == 64


def test_several_attributes_scores_and_intersections():
    audit = es.audit(people(1.0), attributes=["gender", "age_band", ["gender", "age_band"]], repair=False, **NAMES)
    assert [subject.attribute for subject in audit.subjects] == [("gender",), ("age_band",), ("gender", "age_band")]
    assert [len(subject.tally.groups) for subject in audit.subjects] == [2, 3, 6]
    assert audit["gender"].verdict == audit.verdict == "disparity" and audit["age_band"].verdict == "inconclusive"
    assert "score by age_band: parity" in audit.tests
    assert len(valid(audit)["subjects"]) == 3
    both = es.audit(people(), score=["score", "other"], outcome="outcome", group="gender", user="user")
    assert [subject.score for subject in both.subjects] == ["score", "other"]


def test_the_level_is_shared_by_all_that_could_raise_an_alarm():
    audit = es.audit(people(), attributes=["gender", "age_band"], decide=["parity", "ordering"], **NAMES)
    assert [subject.parity.alpha for subject in audit.subjects] == [0.05 / 4] * 2
    assert "share the level 0.05" in " ".join(audit.summary)


def test_only_the_deciding_tests_decide(uneven):
    audit = es.audit(people(1.0), group="gender", decide="ordering", **NAMES)
    assert audit.verdict == audit.tests["ordering"].verdict
    assert [row["decides"] for row in audit.rows() if row["test"] in ("parity", "ordering")] == ["no", "yes"]


def test_a_reference_may_be_named_by_its_text():
    data = people(1.0).assign(gender=lambda frame: (frame["gender"] == "m").astype(int))
    audit = es.audit(data, group="gender", reference="1", **NAMES)
    assert [(pair.group_a, pair.group_b) for pair in audit.tests["parity"].pairs] == [(0, 1)]
    with pytest.raises(es.OptionError, match="reference='2': no group '2'; there are: 0, 1"):
        es.audit(data, group="gender", reference="2", **NAMES)


# Decisions, calibration and repair


@pytest.fixture(scope="module")
def decided():
    return es.audit(people(1.0, 1200), group="gender", threshold=0.5, decide=["parity", "marginal"], **NAMES)


def test_a_threshold_adds_what_its_parts_say(decided):
    tally = es.tally(people(1.0, 1200), group="gender", cuts=[0.5], **NAMES)
    (subject,) = decided.subjects
    assert subject.alpha == 0.025 and set(decided.tests) == {"parity", "ordering", "marginal"}
    shared = {"threshold": 0.5, "alpha": 0.025}
    assert decided.tests["marginal"].to_dict() == es.marginal_test(tally, **shared).to_dict()
    assert subject.thresholds.to_dict() == es.fair_thresholds(tally, **shared).to_dict()
    assert decided.impact.rows() == es.classification_impact(tally, **shared).rows()
    assert subject.calibration.rows() == es.calibration_error(tally, alpha=0.025).rows()
    assert valid(decided)["subjects"][0]["impact"]["rows"]
    text = " ".join(decided.summary)
    assert "the standard is higher for" in text and "would get the decision instead of" in text and "are off by" in text


def test_a_repair_is_tested_on_users_it_was_not_fitted_on(decided):
    repair = decided.subjects[0].repair
    assert (
        repair.state == "no longer shown"
        and not repair.verified
        and repair.calibrator.split == "1/2"
        and "split 2/2" in repair.verification.unseen
    )
    assert repair.verification.rms_gap_after < 0.5 * repair.verification.rms_gap_before
    assert repair.verification.to_dict() == es.verify(repair.calibrator, people(1.0, 1200), alpha=0.025, both=False).to_dict()
    assert "tested on the other half" in " ".join(decided.summary)
    assert valid(decided)["subjects"][0]["repair"]["verification"]["verdict"] == repair.verification.verdict


def test_a_repair_is_tested_on_the_pairs_that_were_asked_about():
    audit = es.audit(people(1.0, 1800), group=["gender", "age_band"], reference=("m", "old"), **NAMES)
    (subject,) = audit.subjects
    pairs = [(pair.group_a, pair.group_b) for pair in subject.parity.pairs]
    assert len(pairs) == 5 and pairs == [(pair.group_a, pair.group_b) for pair in subject.repair.verification.after.pairs]


def test_a_repair_without_other_users_is_marked_unverified(uneven):
    from_tally = es.audit(uneven.subjects[0].tally)
    of_split = es.audit(people(1.0), group="gender", split="1/2", **NAMES)
    for audit in (from_tally, of_split):
        assert audit.verdict == "disparity" and not audit.subjects[0].repair.verified
        assert "unverified: " in " ".join(audit.summary) and "not verified on other users" in audit.to_html()
    assert valid(from_tally)["subjects"][0]["repair"]["verified"] is False


def test_no_repair_is_sought_without_a_disparity_or_when_unwanted(even):
    assert even.subjects[0].repair is None
    assert es.audit(people(1.0), group="gender", repair=False, **NAMES).subjects[0].repair is None


def test_steps_that_cannot_be_done_are_said_to_be_so():
    data = people().assign(score=lambda frame: 300 + 500 * frame["score"])
    audit = es.audit(data, group="gender", threshold=500, **NAMES)
    (subject,) = audit.subjects
    assert subject.calibration is None and "calibration" in subject.unavailable
    assert "not given: calibration error, because score and outcome are not on one scale: the scores run from" in " ".join(
        audit.summary
    )
    assert valid(audit)["subjects"][0]["calibration_error"] is None


def test_several_impacts_must_be_named():
    audit = es.audit(people(), attributes=["gender", "age_band"], threshold=0.5, **NAMES)
    with pytest.raises(es.OptionError, match="say whose"):
        _ = audit.impact
    assert audit["gender"].impact is not None


# Gate


def test_assert_ok(uneven, even):
    even.assert_ok()
    with pytest.raises(es.GateError, match="gate difference: failed, a disparity is shown") as caught:
        uneven.assert_ok()
    assert caught.value.audit is uneven and caught.value.result.code == 1
    with pytest.raises(AssertionError, match="the largest gap that is shown is"):
        uneven.assert_ok()
    with pytest.raises(es.GateError, match="unshown"):
        even.assert_ok(require_power=0.001)
    with pytest.raises(es.OptionError, match="needs tolerance="):
        even.assert_ok(gate="equivalence")
    close = es.audit(people(), group="gender", tolerance=0.9, gate="equivalence", **NAMES)
    assert close.verdict == "parity"
    close.assert_ok()
    with pytest.raises(es.GateError, match="which is not shown"):
        es.audit(people(), group="gender", tolerance=0.001, **NAMES).assert_ok(gate="equivalence")


def test_power_cannot_be_shown_where_a_group_cannot_be_judged():
    data = people()
    data.loc[data["user"].isin(data["user"].unique()[:4]), "gender"] = "rare"
    audit = es.audit(data, group="gender", **NAMES)
    assert audit.check().passed
    assert audit.check(require_power=0.5).outcome == "unshown"
    assert "not judged: 4 users" in " ".join(audit.summary)


# Words


def test_the_summary_says_what_it_must(uneven, even):
    for audit in (uneven, even):
        text = " ".join(audit.summary)
        assert "fair" not in text and "fair" not in audit.to_markdown()
        assert not re.search(r" fair(?! thresholds?\b| one\b)", audit.to_html())
        assert "each user weighs the same" in text
        assert re.search(r"(gap that is shown|gap, not shown,) is 0\.\d{3},? .*at score .* \(p = ", text)
        assert f"a constant gap of {audit.minimum_detectable_gap:.3g} or more would be found" in text
        widest = max((point["band_high"] - point["band_low"]) / 2 for point in audit.tests["parity"].points)
        assert f"the band is ±{widest:.2g} wide" in text and widest > audit.minimum_detectable_gap
        assert "outcomes are taken as recorded" in text
    assert "is not evidence that there is none" in " ".join(even.summary)
    assert "outcomes of f above m" in " ".join(uneven.summary)


def test_independent_rows_and_unlabelled_rows_are_limits():
    data = people()
    data["outcome"] = data["outcome"].where(data["score"] > 0.3)
    text = " ".join(es.audit(data, group="gender", score="score", outcome="outcome", user=None, nulls="unlabelled").summary)
    assert "rows were declared independent" in text and "rows have no known outcome" in text


def test_warnings_become_notes(tmp_path):
    lattice = es.Lattice(0.2, 0.8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        audit = es.audit(people(), group="gender", lattice=lattice, **NAMES)
    assert any("lie outside" in note for note in audit.notes)


# The document


def test_json_is_as_the_schema_says(uneven, even):
    document = valid(uneven)
    assert document["verdict"] == "disparity" and document["gate"]["exit_code"] == 1
    assert document["subjects"][0]["tests"]["parity"]["points"]
    assert document["provenance"]["configuration"]["group"] == "gender"
    assert document["provenance"]["sources"] == [{"name": "pandas DataFrame in memory", "bytes": None, "sha256": None}]
    assert valid(even)["gate"]["outcome"] == "passed"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"verdict": "fair"}, SCHEMA)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_labels_of_any_type_are_in_the_json():
    data = {"s": np.tile([0.2, 0.5, 0.8], 200), "y": np.tile([0, 1, 1, 0, 1], 120), "g": [1, "1", True, None] * 150}
    data["g"] = np.array([(1, "a"), (1, "b"), (2, "a"), (2, "b")] * 150)[:, 0].astype(int)
    assert {
        row["group"] for row in valid(es.audit(data, score="s", outcome="y", group="g", user=None))["subjects"][0]["groups"]
    } == {1, 2}
    data["g"] = np.array([True, False] * 300)
    audit = es.audit(data, score="s", outcome="y", group="g", user=None)
    assert valid(audit)["subjects"][0]["groups"][0]["group"] in (True, False)


def test_the_same_audit_twice_is_the_same(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first, second = (es.audit(people(0.5), group="gender", **NAMES) for _ in range(2))
    assert first.to_json() == second.to_json() and first.to_html() == second.to_html()
    assert "2023-11-14T22:13:20+00:00" in first.to_json()


def test_files_are_hashed(tmp_path):
    import hashlib

    path = tmp_path / "people.csv"
    people().to_csv(path, index=False)
    audit = es.audit(path, group="gender", **NAMES)
    (source,) = audit.provenance.sources
    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest() and source.size == path.stat().st_size
    assert audit.provenance.versions["evenscore"] == es.__version__ and "duckdb" in audit.provenance.versions


def test_nothing_is_left_where_nothing_can_be_written(even, tmp_path):
    for write in (even.to_html, even.to_json, even.to_junit):
        with pytest.raises(es.FileError, match="cannot write"):
            write(tmp_path / "no" / "a")
    assert list(tmp_path.iterdir()) == []
    even.to_html(tmp_path / "a.html")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_shown_in_a_notebook_and_on_a_terminal(uneven):
    assert "DISPARITY" in repr(uneven)
    html = uneven._repr_html_()
    assert "<svg" in html and "<script" not in html and len(html) < 60_000


def test_the_last_line_of_a_cell_does_not_show_the_page_that_it_wrote(even, tmp_path):
    written = even.to_html(tmp_path / "a.html")
    assert len(repr(written)) < 60 and written == (tmp_path / "a.html").read_text(encoding="utf-8")
    assert repr(even.to_html()).startswith("'<!DOCTYPE")


# Bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": "gender", "attributes": ["gender"], **NAMES}, "not both"),
        ({"group": "gender", "score": "score", "outcome": "outcome"}, "missing: user="),
        ({"group": "gender", "user": "user"}, "missing: score=, outcome="),
        ({"attributes": [], **NAMES}, "must be a list of columns"),
        ({"attributes": "gender", **NAMES}, "must be a list of columns"),
        ({"group": "gender", "decide": "parities", **NAMES}, "decide='parities' is not known"),
        ({"group": "gender", "decide": (), **NAMES}, "leaves no test"),
        ({"group": "gender", "decide": "marginal", **NAMES}, "threshold="),
        ({"group": "gender", "positive": "up", **NAMES}, "positive='up' is not known"),
        ({"group": "gender", "tolerance": -1, **NAMES}, "tolerance=-1 must be a positive gap"),
        ({"group": "sex", **NAMES}, "no column 'sex'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(es.EvenscoreError, match=re.escape(message)):
        es.audit(people(), **options)


def test_a_tally_and_columns_contradict_each_other(uneven):
    tally = uneven.subjects[0].tally
    with pytest.raises(es.OptionError, match="leave out score="):
        es.audit(tally, score="score")
    with pytest.raises(es.DataError, match="some of the data are tallies"):
        es.audit([tally, "a.csv"])
