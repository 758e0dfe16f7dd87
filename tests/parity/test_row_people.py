"""What taking rows for people would have said."""

from dataclasses import replace

import numpy as np
import pytest
from simple_users import simple, tally_of

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.report.fooled import fooled_panels


@pytest.fixture(scope="module")
def repeated():
    """Users who are alike in all of their rows, and no gap."""
    rows = repeated_users(6000, seed=8, n_groups=2, rows_per_user=30)
    first = np.unique(rows.user, return_index=True)[1]
    same = {user: rows.outcome[place] for user, place in zip(rows.user[first], first, strict=True)}
    return as_dict(rows) | {"y": np.array([same[user] for user in rows.user])}


def test_both_verdicts_are_those_of_the_two_tests(repeated):
    tally = es.tally(repeated, **NAMES)
    found = es.rows_as_people(tally, seed=3)
    naive = es.parity_test(es.tally(repeated, lattice=tally, **NAMES | {"user": None}), seed=3, both=False)
    ours = es.parity_test(tally, seed=3)
    assert (found.by_row.verdict, found.by_user.verdict) == (naive.verdict, ours.verdict)
    assert found.by_row.p_value == pytest.approx(naive.p_value, rel=1e-6) and found.by_user.p_value == ours.p_value
    assert found.by_row.max_gap == pytest.approx(naive.max_gap) and found.n_rows == len(repeated["y"])
    assert found.rows_per_user == pytest.approx(len(repeated["y"]) / sum(tally.n_users.values()))
    assert found.narrowing > 1.5


def test_the_sentence_says_both(repeated):
    found = es.rows_as_people(repeated, **NAMES)
    assert found.fooled and found.by_row.verdict == "disparity"
    assert found.sentence.startswith("Taking rows for people would have said DISPARITY (p < 0.0001); each user has 30 rows")
    assert "INCONCLUSIVE (p = " in found.sentence and found.sentence in " ".join(repr(found).split())
    assert [row["person"] for row in found.rows()] == ["row", "user"]


def test_users_of_two_groups_count_once_and_items_are_named():
    rng = np.random.default_rng(0)
    user, item, score = rng.integers(0, 300, 6000), rng.integers(0, 60, 6000), rng.random(6000)
    effect = rng.normal(0, 0.2, 60)[item]
    data = {"s": score, "y": (rng.random(6000) < score + effect).astype(int), "g": item % 2, "u": user, "i": item}
    by_users = es.rows_as_people(data, **NAMES)
    assert by_users.n_users == 300 and "each user has 20 rows on average" in by_users.sentence
    both = es.rows_as_people(data, **NAMES, item="i")
    assert "rows of one user, and rows of one i, have something in common" in both.sentence
    assert any("300 users and i" in panel.title for panel in fooled_panels(both))


def test_careful_words_when_both_agree():
    rows = repeated_users(1500, seed=2, n_groups=2, rows_per_user=3, gap=0.4)
    found = es.rows_as_people(as_dict(rows), **NAMES)
    assert not found.fooled and "the same verdict, DISPARITY" in found.sentence


def test_rows_that_are_people_are_said_so():
    rows = repeated_users(400, seed=2, n_groups=2, rows_per_user=1)
    data = as_dict(rows) | {"u": np.arange(len(rows.score))}
    for columns in (NAMES, NAMES | {"user": None}):
        with pytest.raises(es.DataError, match="rows are people"):
            es.rows_as_people(data, **columns)
        audit = es.audit(data, **columns)
        assert audit.subjects[0].rows_as_people is None and audit.to_dict()["subjects"][0]["rows_as_people"] is None


def test_every_audit_of_repeated_users_has_it(repeated):
    audit = es.audit(repeated, **NAMES)
    own = audit.to_dict()["subjects"][0]["rows_as_people"]
    assert own["fooled"] and own["sentence"] == audit.subjects[0].rows_as_people.sentence
    assert own["sentence"] == es.rows_as_people(es.tally(repeated, **NAMES)).sentence
    narrow, wide = own["curves"]["rows"], audit.to_dict()["subjects"][0]["curves"]["rows"]
    known = [[row for row in rows if row["band_low"] is not None] for rows in (narrow, wide)]
    width = [np.median([row["band_high"] - row["band_low"] for row in rows]) for rows in known]
    assert width[0] < 0.7 * width[1]


def test_groups_that_cannot_be_compared_are_left_out():
    rows = repeated_users(200, seed=2, n_groups=2, rows_per_user=3)
    data = as_dict(rows) | {"s": rows.score / 3 + rows.group * 0.6}
    assert es.audit(data, **NAMES).subjects[0].rows_as_people is None


def test_it_draws_two_panels_on_the_same_axes(repeated):
    pytest.importorskip("matplotlib").use("Agg")
    found = es.rows_as_people(repeated, **NAMES)
    left, right = found.plot().ax_
    assert "rows taken for people: disparity" in left.get_title() and "users: inconclusive" in right.get_title()
    assert len({panel.limits() for panel in fooled_panels(found)}) == 1


def test_rows_that_could_not_be_judged_have_no_verdict():
    found = es.rows_as_people(tally_of(simple(300)))
    unjudged = replace(found, by_row=replace(found.by_row, verdict="inconclusive", p_value=np.nan))
    disparity = replace(unjudged, by_user=replace(found.by_user, verdict="disparity"))
    for own in (unjudged, disparity):
        assert not own.fooled and own.sentence.startswith("Taking rows for people, nothing could be judged; each user has 3")
