import pytest

import evenscore as es
from evenscore.simulation import simulate_ranking

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

NAMES = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
GAP = {"$a_b$": (0, 1), "_hidden": (-0.5, 1)}


@pytest.fixture(scope="module")
def tally():
    return es.tally(es.simulate(dict.fromkeys(GAP, 300), curve=GAP).data(1), **NAMES)


def finished(ax):
    """Draws the figure, which fails on labels that matplotlib cannot set."""
    ax.figure.canvas.draw()
    matplotlib.pyplot.close(ax.figure)
    return ax


def test_calibration_errors_are_points_with_limits(tally):
    found = es.calibration_error(tally)
    ax = finished(found.plot())
    assert [text.get_text().strip("\u200b") for text in ax.get_yticklabels()] == [r"\$a_b\$", "_hidden", "all groups"]
    points = [float(line.get_xdata()[0]) for line in ax.lines if len(line.get_xdata()) == 1]
    assert points == pytest.approx([row["estimate"] for row in found.rows()])
    assert ax.get_xlim()[0] == 0


def test_decisions_are_points_or_lines_along_thresholds(tally):
    _, ax = matplotlib.pyplot.subplots()
    one = es.classification_impact(tally, threshold=0.5)
    assert one.plot(ax).ax_ is ax
    ends = sorted(float(x) for line in ax.lines for x in line.get_xdata() if len(line.get_xdata()) == 2)
    assert ends[0] == pytest.approx(min(row["ci_low"] for row in one.rows()))
    finished(ax)
    several = es.classification_impact(tally, threshold=[0.3, 0.5, 0.7])
    ax = finished(several.plot())
    assert len(ax.collections) == 2
    line = next(line for line in ax.lines if len(line.get_xdata()) == 3)
    assert list(line.get_ydata()) == pytest.approx([several.of("$a_b$", t)["estimate"] for t in (0.3, 0.5, 0.7)])


def test_ranks_are_points(tally):
    data = simulate_ranking(50, groups=tuple(GAP), curve=GAP).data(1)
    found = es.rank_impact(data, query="query", score="score", group="group", calibrator=es.calibrate(tally))
    ax = finished(found.plot())
    assert "positions moved up" in ax.get_xlabel()
    assert sum(len(line.get_xdata()) == 1 for line in ax.lines) == 2
