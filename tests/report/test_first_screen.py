"""What is read in ten seconds is what was shown, no more: the headline, the pairs, the facts, and what fades."""

import re
import shlex

import numpy as np
import pytest
from click.testing import CliRunner

import evenscore as es
from evenscore.cli import cli
from evenscore.report.curve_charts import FEW_USERS, curve_chart
from evenscore.report.findings import amount, headline, shown_pairs
from evenscore.report.html import prose
from evenscore.report.sections import audit_document
from evenscore.wording import at_least, decimals

COLUMNS = {"score": "risk", "outcome": "ill", "group": "town", "user": "id"}


def drawn(gaps, n_users=700, seed=1, **more):
    """One row a user; the chance of being ill rises with the risk, and by the gap of each town."""
    rng = np.random.default_rng(seed)
    towns = np.repeat(list(gaps), n_users)
    risk = rng.random(len(towns))
    ill = rng.random(len(towns)) < 0.1 + 0.6 * risk + np.repeat(list(gaps.values()), n_users)
    return {"risk": risk, "ill": ill.astype(float), "town": towns, "id": np.arange(len(towns))} | more


@pytest.fixture(scope="module")
def uneven():
    return es.audit(drawn({"ash": 0.0, "birch": 0.02, "cedar": 0.25}), **COLUMNS, repair=False)


def test_the_headline_names_outcome_groups_and_the_largest_shown_gap(uneven):
    first = audit_document(uneven).first
    shown = uneven.shown_gap
    high, low = (shown["group_a"], shown["group_b"]) if shown["gap"] > 0 else (shown["group_b"], shown["group_a"])
    assert first.state == "Disparity" and first.verdict == "disparity"
    assert first.headline.startswith(f"At the same risk, ill is more common in {high} than in {low}: by ")
    gap, at, least, most = map(float, re.findall(r"\d+\.?\d*(?= points| \(95| to |\)\.)", first.headline))
    assert gap == pytest.approx(100 * abs(shown["gap"]), abs=0.5) and at == pytest.approx(shown["at_score"], abs=0.005)
    assert (least, most) == pytest.approx(sorted(abs(100 * shown[end]) for end in ("low", "high")), abs=0.5)
    assert first.lead[0].startswith("2,100 users, one row each, in 3 groups: ash (700), birch (700), cedar (700). 2 of 3 pairs")


def test_pairs_stand_in_the_order_of_what_is_shown(uneven):
    forest = next(figure for figure in audit_document(uneven).first.figures if figure.key == "pairs")
    series = forest.panels[0].series
    tones = [own.tone for own in series]
    sizes = [float(own.x[0]) for own in series if own.tone == "shown"]
    assert tones == ["shown", "shown", "unshown"] and sizes == sorted(sizes, reverse=True) and min(sizes) > 0
    assert [own.hollow for own in series] == [False, False, True]
    assert all("p < 0.0001" in own.notes[0] for own in series[:2]) and "not shown" in series[2].notes[0]
    assert {pair.name for pair in shown_pairs(uneven.subjects[0])} == {"ash and cedar", "birch and cedar"}


def test_curves_fade_where_few_people_are(uneven):
    panel = curve_chart(uneven.subjects[0], "curves").panels[0]
    for curve in uneven.subjects[0].curves.curves:
        line = next(own for own in panel.series if own.name == curve.group)
        dotted = [own for own in panel.series if own.kind == "thin" and own.style == line.style]
        known = np.interp(line.x, curve.score, curve.effective_users)
        assert line.low is not None and known.min() >= FEW_USERS and len(line.x) >= 60  # a fine grid
        assert len(dotted) == 2 and all(own.low is None for own in dotted)
        assert np.interp(curve.score[5], line.x, line.y) == pytest.approx(curve.estimate[5], abs=5e-3)
    tiny = es.audit(drawn({"ash": 0.0, "birch": 0.0}, 30, id=np.arange(60) // 2), **COLUMNS)
    assert all(own.low is None for own in curve_chart(tiny.subjects[0], "c").panels[0].series)


def test_every_verdict_has_words_of_its_own():
    even = drawn({"ash": 0.0, "birch": 0.0})
    silent = audit_document(es.audit(even, **COLUMNS)).first
    assert silent.state == "Inconclusive" and "no difference in ill is shown between ash and birch" in silent.headline
    assert "--tolerance GAP" in silent.step[1] and not silent.lead[1:] and not silent.gate
    assert [figure.title for figure in silent.figures][1].startswith("Gap in points: ")  # the only pair, along the score
    pair = es.audit(even, **COLUMNS).subjects[0].parity.pairs[0]
    ruled_out = float(silent.facts[0].value.removesuffix(" points"))
    assert 100 * pair.within <= ruled_out <= 100 * pair.within + 0.1

    within = audit_document(es.audit(drawn({"ash": 0.0, "birch": 0.0}, 4000), **COLUMNS, tolerance=0.15)).first
    assert within.state == "Parity within 15 points" and "by no more than 15 points" in within.headline
    assert "--gate equivalence" in within.step[1]

    few = audit_document(es.audit(drawn({"ash": 0.0, "birch": 0.0}, 5), **COLUMNS)).first
    assert few.state == "Inconclusive: nothing could be judged" and few.figures == () and "10 in 2 groups" not in few.headline

    apart = np.where(even["town"] == "ash", 0.4, 0.6)
    flat = (np.random.default_rng(2).random(1400) < np.where(even["town"] == "ash", 0.8, 0.3)).astype(float)
    misordered = es.audit(even | {"risk": even["risk"] * 0.2 + apart, "ill": flat}, **COLUMNS, repair=False)
    first = audit_document(misordered).first
    assert first.state == "Disparity in order" and first.headline.startswith("A lower risk in ash stands for ill more often than")
    assert f"{at_least(misordered.subjects[0].ordering.at_least)} pairs of people, one of each" in first.headline
    shares = (0.09549, 0.0999999, 0.99999, 1.0)  # never rounded up
    assert list(map(at_least, shares)) == ["at least 9.54 % of", "at least 9.99 % of", "at least 99.9 % of", "all"]


def test_a_group_of_one_person_keeps_parity_from_being_said():
    data = drawn({"ash": 0.0, "birch": 0.0}, 4000)
    data["town"] = np.where(np.arange(8000) == 3, "cedar $x", data["town"])
    first = audit_document(es.audit(data, **COLUMNS, tolerance=0.15)).first
    assert first.state == "Inconclusive" and first.headline.endswith("but not every group could be judged.")
    assert "'cedar $x=REASON'" in first.step[1]


def test_outcomes_in_other_units_are_no_points():
    data = drawn({"ash": 0.0, "birch": 0.0})
    cost = 1200 + 900 * data["risk"] + 300 * (data["town"] == "ash") + np.random.default_rng(1).normal(0, 90, 1400)
    first = audit_document(es.audit(data | {"ill": cost}, **COLUMNS, repair=False)).first
    assert "mean ill is higher in ash than in birch: by 3" in first.headline and "point" not in first.headline


def test_with_several_attributes_the_headline_is_of_one_that_decides():
    data = drawn({"ash": 0.0, "birch": 0.3})
    data["odd"] = np.where(np.arange(1400) % 2, "odd", "even")
    audit = es.audit(data, **COLUMNS | {"group": None}, attributes=["odd", "town"], repair=False)
    document = audit_document(audit)
    assert "in birch than in ash" in document.first.headline and len(document.first.overview.rows) == 2
    keys = [section.key for section in document.sections]
    assert len(keys) == len(set(keys)) and "s0-meaning" in keys and "s1-meaning" not in keys  # which is on the first screen
    assert headline(audit.subjects[0], None, several=True) == document.chapters[0].headline.rstrip(".")


def test_numbers_are_written_alike(uneven):
    subject = uneven.subjects[0]
    assert amount(subject, 0.163, 0.09, 0.23) == ["16", "9", "23"] and amount(subject, 0.0412) == ["4.1"]
    assert amount(subject, 0.12, 0.0041, 0.2) == ["12.0", "0.4", "20.0"]
    assert decimals(0.0) == 1


def test_names_that_would_run_into_a_sentence_are_quoted():
    audit = es.audit(drawn({"40 and older": 0.0, "younger": 0.0}), **COLUMNS, repair=False)
    assert audit_document(audit).first.headline.startswith(
        "At the same risk, no difference in ill is shown between “40 and older” and younger"
    )


def test_sentences_of_a_page_have_minus_signs_and_break_at_no_number():
    told = prose("from -0.5 to 12 % (-3 to 4, p = 0.02; p < 0.0001) of a-1")
    assert told == "from −0.5 to 12\u00a0% (−3 to 4, p\u00a0=\u00a00.02; p\u00a0<\u00a00.0001) of a-1"


def test_the_next_command_of_a_saved_tally_runs(tmp_path, monkeypatch):
    """It has its columns, and cannot be split."""
    monkeypatch.chdir(tmp_path)
    es.tally(drawn({"ash": 0.0, "cedar": 0.25}), **COLUMNS).save("towns.tally")
    step = audit_document(es.audit("towns.tally", repair=False)).first.step
    done = CliRunner().invoke(cli, shlex.split(step[1])[1:])
    assert done.exit_code == 0 and (tmp_path / "repair.json").is_file(), done.output
