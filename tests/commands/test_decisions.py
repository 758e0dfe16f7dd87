"""``evenscore decisions``: thresholds by group, exit codes, JSON and packs."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import evenscore as es
from evenscore.commands.decisions_command import decisions


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    data = es.simulate(300, score={"a": (2, 2), "b": (2, 4)}, rows_per_user=3).data(seed=1)
    path = tmp_path_factory.mktemp("decisions") / "rows.csv"
    lines = ["s,y,g,h,u"]
    for i, (s, y, g, u) in enumerate(zip(data["score"], data["outcome"], data["group"], data["user"], strict=True)):
        lines.append(f"{s},{y},{g},{'' if i % 50 == 0 else 'xy'[int(u) % 2]},{u}")
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*arguments):
    return CliRunner().invoke(decisions, list(map(str, arguments)), standalone_mode=False)


COLUMNS = ("--score", "s", "--outcome", "y", "--group", "g", "--user", "u")


def test_text_json_and_exit_codes(table, tmp_path):
    plain = run(table, *COLUMNS, "--threshold", 0.5, "--json", tmp_path / "x.json")
    assert plain.return_value == 0 and "selection rate   ratio" in plain.output and "Written: " in plain.output
    document = json.loads((tmp_path / "x.json").read_text())
    assert {row["metric"] for row in document["decisions"]["rows"]} >= {"tpr", "selection_rate"}
    gated = run(table, *COLUMNS, "--threshold", 0.5, "--metric", "selection_rate")
    assert gated.return_value == 1 and "tpr" not in gated.output
    by_group = run(table, *COLUMNS, "--threshold", "a=0.5", "--threshold", "b=0.4")
    assert "0.5 (a), 0.4 (b)" in by_group.output


@pytest.mark.parametrize(
    ("thresholds", "words"),
    [(["x"], "give a score"), ([0.5, 0.6], "one score, or GROUP=SCORE"), (["a=0.5", "0.4"], "one score"), (["z=0.5"], "no group")],
)
def test_bad_thresholds(table, thresholds, words):
    given = [text for value in thresholds for text in ("--threshold", value)]
    result = run(table, *COLUMNS, *given)
    assert result.exception is not None and words in str(result.exception)


def test_packs_count_what_the_data_shows(table, tmp_path):
    report = tmp_path / "ll144.md"
    asked = ("--score", "s", "--group", "g", "--group", "h", "--independent", "--nulls", "drop", "--threshold", "0.5")
    assert run(table, *asked, "--pack", "ll144", "--report", report).return_value == 0
    text = report.read_text()
    rows = np.genfromtxt(table, delimiter=",", names=True, dtype=None, encoding="utf-8")
    for group in ("a", "b"):
        mine = rows["g"] == group
        assert f"| {group} | {mine.sum():,} | {(rows['s'][mine] >= 0.5).sum():,} |" in text
    unknown = (rows["h"] == "").sum()
    assert f"{unknown:,} rows where h is unknown" in text and "Intersection: g × h" in text
    assert "no legal advice" in text and "6 April 2023" in text and "convention, not a verdict" in text
    card = run(table, *COLUMNS, "--threshold", "0.5", "--pack", "model-card").output
    assert "Mitchell" in card and card.count("to be filled in") == 4 and "## Quantitative analyses" in card
    assert "no legal advice" in card


@pytest.mark.parametrize("positive", ["above", "below"])
def test_scoring_rates_are_about_the_median_of_all_applicants(table, positive):
    """Also of those whose category is not known; counts are those of rows, ties with the median on neither side."""
    rows = np.genfromtxt(table, delimiter=",", names=True, dtype=None, encoding="utf-8")
    asked = ("--score", "s", "--group", "h", "--independent", "--nulls", "drop", "--threshold", "median", "--positive", positive)
    text = run(table, *asked, "--pack", "ll144").output
    median = np.median(rows["s"])
    assert median != np.median(rows["s"][rows["h"] != ""])  # which is not what the rule asks for
    for group in ("x", "y"):
        mine = rows["s"][rows["h"] == group]
        passed = (mine > median if positive == "above" else mine < median).sum()
        assert f"| {group} | {len(mine):,} | {passed:,} | {passed / len(mine):.4f} |" in text
    assert "also of those whose category is unknown" in text


def test_report_needs_a_pack(table):
    assert "--pack" in str(run(table, *COLUMNS, "--threshold", 0.5, "--report", "x.md").exception)
