"""A picture is described once: what SVG and matplotlib draw is the same."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.report import svg
from evenscore.report.chart import Axis, Chart, Panel, Rule, Series
from evenscore.report.plots import PANELS, name_axes
from evenscore.report.sheets import Sheet

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def drawn_as_svg(panel):
    return ElementTree.fromstring(svg.draw(Chart("key", "A title", "A caption.", (panel,), Sheet((), (), ()))))


@pytest.fixture(scope="module")
def results():
    rows = repeated_users(3000, seed=1, n_groups=3, gap=0.2)
    tally = es.tally(as_dict(rows) | {"g": np.array(["$a_b$", "_hidden", "<script>"])[rows.group]}, cuts=[0.5], **NAMES)
    few = es.tally(as_dict(rows) | {"s": np.ceil(rows.score * 5) / 5 - 0.1}, **NAMES)
    return {
        "tally": tally,
        "few": few,
        "curves": es.curves(tally),
        "points": es.curves(few),
        "parity": es.parity_test(tally, tolerance=0.1),
        "ordering": es.ordering_test(tally),
        "plan": es.plan(tally),
        "marginal": es.marginal_test(tally, threshold=0.5),
        "thresholds": es.fair_thresholds(tally, threshold=0.5),
        "error": es.calibration_error(tally),
        "impact": es.classification_impact(tally, threshold=0.5),
        "impacts": es.classification_impact(tally, threshold=[0.3, 0.5]),
        "calibrator": es.calibrate(tally),
        "decisions": es.decision_metrics(tally, threshold=0.5),
        "roc": es.decision_curves(tally),
    }


NAMES_OF_RESULTS = ("tally", "few", "curves", "points", "parity", "ordering", "plan", "marginal", "thresholds", "error", "impact")


@pytest.mark.parametrize("name", [*NAMES_OF_RESULTS, "impacts", "calibrator", "decisions", "roc"])
def test_both_drawings_show_the_same(results, name):
    result = results[name]
    panel = name_axes(PANELS[type(result)](result), result.group_names)
    picture, ax = drawn_as_svg(panel), result.plot().ax_
    (low, high), heights = panel.limits()
    room = 0.22 * (heights[1] - heights[0]) if panel.people else 0.0
    assert (*ax.get_xlim(), *ax.get_ylim()) == pytest.approx((low, high, heights[0] - room, heights[1]))
    classes = [element.get("class", "").split() for element in picture.iter()]
    marks = sum("dot" in names or "ring" in names for names in classes)
    assert marks == sum(line.get_marker() not in ("None", None) and len(line.get_xdata()) for line in ax.lines)
    lines = sum(np.isfinite(series.y).any() for series in panel.series if series.kind not in ("points", "dodged", "bars"))
    paths = [element for element in picture.iter("path") if set(element.get("class").split()) & {"line", "thin", "diagonal"}]
    assert len(paths) >= lines and sum("bar" in names for names in classes) == len(ax.patches)
    text = " ".join(element.text or "" for element in picture.iter("text"))
    assert panel.x.label in text and panel.x.label.replace("$", r"\$") == ax.get_xlabel()
    matplotlib.pyplot.close(ax.figure)


def test_svg_needs_no_styles_and_marks_what_is_missing():
    numbers = np.array([0.0, 1.0, np.nan, 3.0, 4.0])
    series = (
        Series("a", 1, np.arange(5.0), numbers, numbers - 1, numbers + 1),
        Series("b", 9, np.arange(5.0), numbers, kind="area"),
        Series("<c>", 2, np.arange(5.0), numbers, kind="marked", hollow=True),
    )
    panel = Panel(
        Axis("x"), Axis("y", (1e-3, 10.0), kind="log"), series, (Rule(0.1, "<level>"), Rule(2, "cut", "mark", upright=True))
    )
    picture = drawn_as_svg(panel)
    looks = [element.get("class") for element in picture.iter("path")]
    assert looks.count("line c1 d1") == 2 and looks.count("line c2 d1") == 2 and looks.count("band f1") == 2
    assert looks.count("area f2") == 2 and looks.count("ring c2") == 4
    assert not [element for element in picture.iter() if "style" in element.attrib]
    assert {"<level>", "cut", "0.01"} <= {element.text for element in picture.iter("text")}
    assert picture.get("aria-label").startswith("A title. A caption.")
    assert not re.search(r"\bnan\b", ElementTree.tostring(picture, encoding="unicode"))


def test_what_is_drawn_on_given_axes_keeps_what_is_there(results):
    figure, ax = matplotlib.pyplot.subplots()
    ax.plot([-1, 2], [-3, 4])
    results["curves"].plot(ax)
    assert ax.get_xlim()[0] <= -1 and ax.get_ylim()[1] >= 4
    with pytest.raises(es.EvenscoreError, match="needs 2 axes, not 1"):
        es.audit(results["tally"]).plot(ax)
    matplotlib.pyplot.close(figure)


def test_a_result_without_a_picture_says_so():
    with pytest.raises(es.EvenscoreError, match="Truth has no picture"):
        es.simulate(10).truth.plot()


def test_all_groups_together_are_grey_as_in_the_report(results):
    ax = results["error"].plot().ax_
    assert [line.get_color() for line in ax.lines].count("#8a95a3") > 0
    matplotlib.pyplot.close("all")


def test_names_of_lines_that_end_early_do_not_lie_over_each_other():
    """Of eight groups three names stood on top of one another, and a fourth was hidden below them."""
    ends = [(0.6, 0.9, "Amerindian"), (0.65, 0.91, "Hispanic"), (0.62, 0.89, "Puertorican"), (0.3, 0.2, "alone"), (1, 0.5, "last")]
    series = tuple(Series(name, place, np.array([0.0, x]), np.array([0.1, y])) for place, (x, y, name) in enumerate(ends))
    panel = Panel(Axis("score", (0.0, 1.0)), Axis("", (0.0, 1.0)), series, legend="", direct=True)
    names = {name for *_, name in ends}
    texts = [text for text in drawn_as_svg(panel).iter() if text.text in names and text.tag.endswith("text")]
    placed = {text.text: (float(text.get("x")), float(text.get("y"))) for text in texts}
    assert set(placed) == names and placed["alone"][0] < placed["last"][0]
    beside = sorted(y for name, (x, y) in placed.items() if name != "alone")
    assert np.diff(beside).min() >= svg.LINE_HEIGHT - 2
