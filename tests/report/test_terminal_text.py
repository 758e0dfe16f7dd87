"""Text for a terminal: few lines, none too long, tables that fit, and progress that tells its pace."""

import numpy as np
import pytest

import evenscore as es
from evenscore.commands.steps import Steps, bar
from evenscore.report.headline import p_short
from evenscore.report.wrapping import terminal_width
from evenscore.tables import text_table


def audit_of(groups, **options):
    rng = np.random.default_rng(groups)
    group = rng.integers(0, groups, 600 * groups)
    score = rng.random(len(group))
    outcome = (rng.random(len(group)) < 0.1 + 0.5 * score + 0.3 * group / groups).astype(float)
    names = np.array([f"a group with a rather long name, number {number}" for number in range(groups)])
    data = {"predicted_risk": score, "diabetes": outcome, "region": names[group], "user": np.arange(len(group))}
    return es.audit(data, score="predicted_risk", outcome="diabetes", group="region", user="user", repair=False, **options)


@pytest.fixture(scope="module")
def many():
    return audit_of(7)


@pytest.mark.parametrize("width", [80, 60, 120])
def test_an_audit_is_told_in_twelve_lines_that_fit(many, width):
    lines = many.text(width=width).splitlines()
    assert len(lines) <= 12 and max(map(len, lines)) <= width
    assert max(map(len, many.text(verbose=True, width=width).splitlines())) <= width


def test_it_says_who_what_and_how_large(many):
    text = many.text(width=120)
    assert "4,200 users in 7 groups" in text and "more" in text.split("\n\n")[0]
    assert "DISPARITY: At the same predicted_risk, diabetes is not equally common in every group (p < 0.0001)." in text
    shown = [line for line in text.splitlines() if " points at " in line and line.startswith("  ")]
    assert len(shown) == 3 and "more pairs differ" in text
    assert repr(many) == str(many) == many.text(width=80)


def test_with_a_tolerance_pairs_are_not_said_to_be_alike():
    """The larger gaps exceed the tolerance; of the others no more is said than that this is not shown."""
    text = " ".join(audit_of(3, tolerance=0.05).text(width=120).split())
    assert "not shown to differ by more than 5 points (" in text


def test_words_of_a_table_are_cut_only_where_names_in_two_lines_are_not_enough():
    row = {"group": "a", "a long name": 1, "another long name": 2, "map": "local linear, bandwidth 0.236"}
    assert "local linear, bandwidth 0.236" in text_table([row], width=60)


def test_tables_that_are_too_wide_go_on_below():
    row = {"group": "a", **{f"a long name of column {number}": 0.123456 for number in range(12)}}
    lines = text_table([row, row], width=60).splitlines()
    assert max(map(len, lines)) <= 60 and sum(line.startswith("  a ") for line in lines) > 2
    assert " ".join(lines).count("0.1235") == 24
    narrow = text_table([{"group": "a", "x": 1}])
    assert narrow == "  group  x\n  a      1"


def test_each_part_of_a_wide_table_says_which_metric_it_is_about_and_reasons_stand_whole_below():
    why = "only 15 users; with fewer than 20 users or items chance cannot be told"
    row = {"group_a": "one", "group_b": "other", "metric": "tpr", **{f"number_{i}": 0.5 for i in range(6)}, "reason": ""}
    lines = text_table([row, row | {"metric": "fpr", "reason": why}], width=60).splitlines()
    assert sum(line.split()[:3] == ["one", "other", "fpr"] for line in lines) == 2
    assert " ".join(" ".join(lines[-2:]).split()) == f"one (other fpr): {why}" and "reason" not in " ".join(lines)


def test_there_is_no_terminal_here():
    assert terminal_width() == 80


def test_small_p_values_are_not_a_headline():
    assert [p_short(p) for p in (1e-30, 0.0123, 0.5, np.nan)] == ["p < 0.0001", "p = 0.012", "p = 0.50", ""]


def test_progress_has_a_name_a_pace_and_a_time_left(monkeypatch):
    assert bar("counting", 500_000, 2_000_000, "rows", 2.0).endswith("500,000 of 2,000,000 rows, 250,000/s, 6 s left")
    assert bar("counting", 0, 10, "rows", 0.0) == "counting [........] 0 of 10 rows"
    assert len(bar("counting", 10**9, 2 * 10**9, "rows", 1400.0)) < 80  # which a terminal would cut
    told = []
    monkeypatch.setattr("evenscore.commands.steps.show", lambda words, quiet: told.append(words))
    steps = Steps(False)
    steps.say("testing")
    steps.say("counting 1,000 of 4,000 rows")
    steps.say("placebo run 3 of 200")
    assert told[0] == "testing" and told[1].startswith("counting [##......] 1,000 of 4,000 rows")
    assert told[2].startswith("placebo run [") and "3 of 200" in told[2]


def test_progress_is_silent_where_nobody_watches(capsys):
    Steps(False).say("counting 1 of 2 rows")
    assert capsys.readouterr() == ("", "")


def test_a_notebook_shows_the_picture_before_a_short_table(many):
    page = many.subjects[0].curves._repr_html_()
    assert page.index("<svg") < page.index("<table") and page.count("<tr>") <= 14
    assert "currentColor" in page and "more rows: .frame()" in page


def test_people_are_told_as_whole_people():
    rows = [{"group": "a", "users_gain": 511.6, "gain": 0.2}, {"group": "b", "users_gain": 0.0, "gain": 0.0}]
    assert [line.split()[1] for line in text_table(rows).splitlines()[1:]] == ["512", "0"]


def test_what_parity_alone_says_is_not_called_the_verdict_of_all_tests():
    """Of three groups one has scores of its own, so order has a say; users with many rows make a gap per row only."""
    rng = np.random.default_rng(3)
    often = np.arange(300) % 5 == 0
    user = np.repeat(np.arange(300), np.where(often, 40, 2))
    group = np.array(["a", "b", "c"])[user % 3]
    score = rng.uniform(0, 0.6, len(user))
    score = np.where(group == "c", 0.7 + score / 2, score)
    rate = np.clip(score + np.where((group == "a") & often[user], 0.14, 0), 0, 1)
    outcome = (rng.uniform(size=len(user)) < rate).astype(int)
    data = {"s": score, "y": outcome, "g": group, "u": user}
    audit = es.audit(data, score="s", outcome="y", group="g", user="u", repair=False)
    lead, text = audit.headline, " ".join(audit.text().split())
    assert lead.decision.tests == ("parity", "ordering") and lead.parity.disagreement
    assert "By the parity test alone, per user the verdict is inconclusive" in text
    assert lead.rows_as_people.sentence.startswith("By the parity test alone: taking rows for people would have said")
    assert "by the parity test alone, per user" in " ".join(audit.text(verbose=True).split())
    assert "A constant gap of" in text and len(audit.text().splitlines()) <= 12


def test_a_gap_that_could_be_seen_goes_before_where_groups_were_compared():
    """Users with few rows have more events, and there is much to tell: what could have been seen still is."""
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(400), np.where(np.arange(400) % 2, 1, 12))
    score = rng.uniform(size=len(user))
    outcome = (rng.uniform(size=len(user)) < np.where(user % 2, 0.9, 0.5) * score).astype(int)
    data = {
        "score": score,
        "outcome": outcome,
        "kind": np.array(["a rather long name", "another long name"])[user // 2 % 2],
        "u": user,
    }
    audit = es.audit(data, score="score", outcome="outcome", group="kind", user="u", repair=False)
    text = audit.text(width=60)
    assert "Users with more rows have lower outcomes: the mean is" in " ".join(text.split())
    assert "A constant gap of" in text and "at some scores" not in text and len(text.splitlines()) <= 12
