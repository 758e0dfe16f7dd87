"""Audits with items: which key matters, in text, page and JSON; the command line, its settings, and what is refused."""

import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import evenscore as es
from evenscore.cli import cli
from evenscore.data.observations import observe, who_is_split
from evenscore.data.spec import TallySpec
from evenscore.errors import DataError, OptionError
from evenscore.report.text import full_text
from evenscore.tallies.two_way import with_keys

SCHEMA = json.loads((Path(es.__file__).parent / "report" / "schema" / "audit-1.1.json").read_text())
COLUMNS = {"score": "score", "outcome": "applied", "group": "field", "user": "viewer", "item": "job"}
OPTIONS = [word for name, column in COLUMNS.items() for word in (f"--{name}", column)]


def viewings(seed=8, *, n_jobs=80, effect=0.8, groups="jobs"):
    """Each of 500 viewers sees 16 jobs; fields are alike, and a job does well or badly for all."""
    rng = np.random.default_rng(seed)
    viewer = np.repeat(np.arange(500), 16)
    job = rng.integers(0, n_jobs, len(viewer))
    score = rng.uniform(0.02, 0.98, len(viewer))
    logit = np.log(score / (1 - score)) + effect * rng.normal(size=n_jobs)[job]
    applied = (rng.uniform(size=len(viewer)) < 1 / (1 + np.exp(-logit))).astype(int)
    field = np.array(["tech", "care"])[(job if groups == "jobs" else viewer) % 2]
    return pd.DataFrame({"score": score, "applied": applied, "field": field, "viewer": viewer, "job": job})


@pytest.fixture(scope="module")
def data():
    return viewings()


@pytest.fixture(scope="module")
def audit(data):
    return es.audit(data, **COLUMNS, repair=False)


def test_the_table_says_which_key_matters(audit, data):
    keys = audit.subjects[0].keys
    rows = {row["variances_by"]: row for row in keys.rows()}
    assert list(rows) == ["user", "item", "both"]
    assert (rows["user"]["verdict"], rows["both"]["verdict"]) == ("disparity", "inconclusive")
    assert rows["user"]["design_effect"] < 1.3 and rows["both"]["design_effect"] > 5
    without = es.parity_test(data, **{**COLUMNS, "item": None})
    assert rows["user"]["p_value"] == without.p_value and keys.item == "job" and keys.measure > 0.9
    assert audit.verdict == "inconclusive" and re.search(r"DISPARITY \(p = 0.00[34]\)", keys.sentence)


def test_text_page_and_json_have_it(audit):
    document = audit.to_dict()
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["subjects"][0]["keys"]["tests"][2]["variances_by"] == "both"
    assert "users: viewer, items: job" in full_text(audit) and "items: job" in repr(audit.subjects[0].tally)
    assert "variances by" in full_text(audit) and "Which key matters?" in audit.to_html()


def test_without_items_nothing_is_said_of_them(data):
    found = es.audit(data, **{**COLUMNS, "item": None}, repair=False)
    assert found.subjects[0].keys is None and "keys" not in found.to_dict()["subjects"][0]
    assert "Which key matters?" not in found.to_html()


def test_few_items_are_inconclusive_everywhere_with_the_number():
    data = viewings(n_jobs=30)
    found = es.audit(data, **COLUMNS, threshold=0.5)
    assert found.verdict == "inconclusive" and "only 15 values of job" in found.reason
    for test in found.tests.values():
        assert test.verdict == "inconclusive" and "only 15 values of job" in test.reason
    metrics = es.decision_metrics(data, **COLUMNS, threshold=0.5)
    assert all("only 15 values of job" in row["reason"] and np.isnan(row["ci_low"]) for row in metrics.rows())
    assert not metrics.comparisons and all("only 15 values of job" in reason for reason in metrics.left_out.values())
    for call in (es.calibration_error, es.decision_curves):
        with pytest.raises(DataError, match="only 15 values of job"):
            call(data, **COLUMNS)


def test_rows_that_share_items_are_not_said_to_be_independent(data):
    found = es.audit(data, **COLUMNS | {"user": None}, repair=False)
    said = " ".join((full_text(found) + found.to_html()).split())
    assert "each row is a user of its own, items: job" in said and "rows, each a user of its own, items: job," in said
    assert "taken as independent" not in said


def test_a_small_group_is_left_out_and_the_others_are_judged(data):
    """It has too few users for both keys: curves, errors and decisions of the other groups are there, and the reason is said."""
    data = data.assign(field=np.where(data["viewer"] < 12, "new", data["field"]))
    found = es.audit(data, **COLUMNS, threshold=0.5, repair=False)
    subject = found.subjects[0]
    assert [(pair.group_a, pair.group_b) for pair in subject.parity.pairs] == [("care", "tech")] and subject.parity.pairs[0].judged
    assert not subject.unavailable and "new: not judged: only 12 users" in " ".join(full_text(found).split())
    assert "1 has fewer than 20 users or values of job" in subject.selection.sentence
    metrics = es.decision_metrics(data, **COLUMNS, threshold=0.5)
    assert list(metrics.left_out) == ["new"] and "only 12 users" in metrics.left_out["new"]
    assert np.isnan(metrics.of("new", "tpr")["ci_low"]) and "only 12 users" in metrics.of("new", "tpr")["reason"]
    ratios = {row["group"]: row for row in metrics.impact_ratios}
    assert np.isnan(ratios["new"]["ratio"]) and all(np.isfinite(ratios[g]["ci_low"]) for g in ("care", "tech"))
    compared_with = es.decision_metrics(data, **COLUMNS, threshold=0.5, reference="new").impact_ratios
    assert all("only 12 users" in row["reason"] for row in compared_with)


def test_without_outcomes_and_with_items_the_way_to_limits_is_right(data):
    """Selection rates of rows that have no outcome: what is advised gives the same rates, with limits."""
    hidden = data.assign(applied=data["applied"].where(data["viewer"] % 3 > 0))
    found = es.decision_metrics(hidden, **COLUMNS, threshold=0.5, nulls="unlabelled").of("care", "selection_rate")
    assert np.isnan(found["ci_low"]) and "with an outcome that every row has, such as the score itself" in found["reason"]
    advised = es.decision_metrics(hidden, **COLUMNS | {"outcome": "score"}, threshold=0.5).of("care", "selection_rate")
    assert np.isfinite(advised["ci_low"]) and advised["estimate"] == pytest.approx(found["estimate"], rel=1e-12)


def test_decisions_allow_for_items_whose_rows_have_like_scores():
    data = viewings()
    data["score"] = np.clip(data["score"] * 0.2 + data["job"] / 100, 0, 1)  # a job's rows have scores near each other
    by_user, by_both = (
        {row["metric"]: row for row in es.decision_metrics(data, **COLUMNS | {"item": item}, threshold=0.5).rows()}
        for item in (None, "job")
    )
    widths = [row["selection_rate"]["ci_high"] - row["selection_rate"]["ci_low"] for row in (by_user, by_both)]
    assert widths[1] > 5 * widths[0]


@pytest.mark.parametrize(("groups", "by"), [("jobs", "items"), ("viewers", "users")])
def test_halves_share_no_items_where_these_have_the_groups(groups, by):
    spec = TallySpec(**COLUMNS)
    observations = observe(viewings(groups=groups), spec)
    assert who_is_split(observations) is getattr(observations, by)
    halves = [es.tally(viewings(groups=groups), **COLUMNS, split=split) for split in ("1/2", "2/2")]
    shared = set(halves[0].items.item.tolist()) & set(halves[1].items.item.tolist())
    assert bool(shared) == (by == "users")


def test_the_command_line_and_its_settings(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data.to_parquet("views.parquet")

    def ended(*words):
        found = CliRunner().invoke(cli, list(words), standalone_mode=False)
        return found.exception or found.return_value

    assert ended("audit", "views.parquet", *OPTIONS, "--no-repair", "--json", "a.json") == 0
    assert json.loads(Path("a.json").read_text())["subjects"][0]["keys"]["item"] == "job"
    assert ended("audit", "views.parquet", *OPTIONS[:-2], "--no-repair") == 1  # viewers alone
    assert ended("init", "views.parquet", *OPTIONS, "--force") is None
    assert 'item = "job"' in Path("evenscore.toml").read_text()
    assert ended("audit", "--no-repair", "--json", "b.json") == 0
    assert json.loads(Path("b.json").read_text())["subjects"][0]["keys"]["item"] == "job"
    assert ended("tally", "views.parquet", *OPTIONS, "-o", "v.tally") == 0
    assert es.Tally.load("v.tally").item == "job"
    assert isinstance(ended("tally", "views.parquet", *OPTIONS, "--by-user", "-o", "u.parquet"), OptionError)


def test_init_names_columns_that_look_like_items(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data.to_parquet("views.parquet")
    assert CliRunner().invoke(cli, ["init", "views.parquet", *OPTIONS[:-2]], standalone_mode=False).exception is None
    assert '# item = "job"' in Path("evenscore.toml").read_text()


def test_placebo_and_joint_audits_refuse_items(data):
    with pytest.raises(OptionError, match="each job has a group"):
        es.placebo(data, **COLUMNS, runs=2)
    assert es.placebo(viewings(groups="viewers"), **COLUMNS, runs=2).runs == 2


def test_every_function_takes_a_tally_with_items(data):
    tally = es.tally(data, **COLUMNS, cuts=[0.5])
    assert es.curves(tally).rows() and es.plan(tally, gap=0.1).pairs and es.calibrate(tally).maps
    assert es.fair_thresholds(tally, threshold=0.5).by_group.keys() == {"care", "tech"}
    assert es.classification_impact(tally, threshold=0.5).rows() and es.marginal_test(tally, threshold=0.5).p_value > 0
    halves = [es.tally(data, **COLUMNS, split=split) for split in ("1/2", "2/2")]
    assert es.calibration_error(tally).rows() and es.verify(es.calibrate(halves[0]), halves[1]).after.verdict
    full, users = (es.curves(with_keys(tally, keys)).rows()[5]["se"] for keys in ("both", "user"))
    assert full > 1.2 * users


def test_a_repair_fitted_on_half_of_the_items_is_verified_on_the_others(tmp_path):
    data = viewings(n_jobs=160)
    calibrator = es.calibrate(es.tally(data, **COLUMNS, split="1/2"), method="platt")
    calibrator.save(tmp_path / "map.json")
    loaded = es.Calibrator.load(tmp_path / "map.json")
    assert loaded.item == "job" and loaded.by_item
    found = es.verify(loaded, data)  # the item is remembered, as the other columns are
    assert "fitted on the items of split 1/2" in found.unseen and "unseen items" in repr(found)
    half = es.tally(data, **COLUMNS, split="2/2")
    half.save(tmp_path / "half.tally")
    assert es.verify(calibrator, es.Tally.load(tmp_path / "half.tally")).p_value == found.p_value
    assert "only the items of split 2/2" in repr(half)


def test_halves_of_users_and_of_items_are_not_taken_for_each_other(data):
    without = {**COLUMNS, "item": None}
    by_item, by_user = (es.calibrate(es.tally(data, **columns, split="1/2"), method="platt") for columns in (COLUMNS, without))
    with pytest.raises(DataError, match="fitted on a share of the items, and these data are a share of the users"):
        es.verify(by_item, es.tally(data, **without, split="2/2"))
    with pytest.raises(DataError, match="fitted on a share of the users, and these data are a share of the items"):
        es.verify(by_user, data, item="job")
    assert "users of split 1/2" in es.verify(by_user, data).unseen


def test_users_that_are_new_say_nothing_about_items_that_have_groups(data):
    calibrator = es.calibrate(es.tally(data[data.viewer % 2 == 0], **COLUMNS), method="platt", remember_users="a secret")
    others = data[data.viewer % 2 == 1]
    with pytest.raises(DataError, match="each job has a group, and nothing says that these are new"):
        es.verify(calibrator, others, key="a secret")
    assert "none of these items" in es.verify(calibrator, others, unseen=True).unseen


def test_the_next_step_names_the_item_that_the_halves_go_by():
    data = viewings(n_jobs=160)
    data["applied"] = np.where(data["field"] == data["field"].iloc[0], 1, data["applied"])
    page = " ".join(re.sub(r"<[^>]+>", "", es.audit(data, **COLUMNS).to_html()).replace("\xa0", " ").split())
    assert "--user viewer --item job --split 1/2" in page and "half of the items" in page and "half of the users" not in page


def test_only_items_that_groups_share_make_limits_of_ratios_uncertain(data):
    calibrator = es.calibrate(es.tally(data, **COLUMNS), method="platt")
    for groups, shared in (("jobs", False), ("viewers", True)):
        tally = es.tally(viewings(groups=groups), **COLUMNS)
        impact = es.classification_impact(tally, threshold=0.5, calibrator=calibrator)
        assert ("items that are in several groups" in str(impact)) == shared
