import re

import numpy as np
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(scope="module")
def tally():
    rows = repeated_users(4000, seed=1, n_groups=3)
    return es.tally(as_dict(rows) | {"g": np.array(["$a_b$", "_hidden", "<script>"])[rows.group]}, **NAMES)


def test_curves_draw_every_group(tally):
    ax = es.curves(tally).plot()
    assert len(ax.lines) == 3
    assert len(ax.collections) == 3
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert any("_hidden" in label for label in labels)
    ax.figure.canvas.draw()
    matplotlib.pyplot.close(ax.figure)


def test_gaps_draw_every_pair_on_given_axes(tally):
    figure, ax = matplotlib.pyplot.subplots()
    display = es.parity_test(tally).plot(ax)
    assert display.ax_ is ax and display.figure_ is figure
    assert len(ax.lines) == 4
    figure.canvas.draw()
    matplotlib.pyplot.close(figure)


def test_maps_draw_every_group(tally):
    for method in ("kernel", "binning"):
        ax = es.calibrate(tally, method=method).plot()
        assert len(ax.lines) == 4 and len(ax.collections) == 3  # and the line of unchanged scores
        ax.figure.canvas.draw()
        matplotlib.pyplot.close(ax.figure)


def test_a_verification_draws_before_and_after():
    data = es.simulate(600, curve={"a": (0, 1), "b": (-0.8, 0.9)}).data(seed=1)
    columns = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
    found = es.verify(es.calibrate(es.tally(data, **columns, split="1/2")), data, tolerance=0.05)
    left, right = found.plot()
    assert left.get_title().startswith("before: disparity") and right.get_title().startswith("after")
    for side, test in ((left, found.before), (right, found.after)):
        assert np.array_equal(side.lines[1].get_ydata(), test.pairs[0].gap)
    left.figure.canvas.draw()
    matplotlib.pyplot.close(left.figure)
    figure, both = matplotlib.pyplot.subplots(1, 2)
    assert found.plot(both)[0] is both[0]
    matplotlib.pyplot.close(figure)


def test_every_result_draws_itself(tally):
    study = es.study(es.simulate(60), {"coin": lambda data, seed: seed % 2 / 2}, runs=4)
    audit = es.audit(tally)
    for result, n_axes in (
        (tally, 1),
        (es.ordering_test(tally), 1),
        (es.plan(tally), 1),
        (study, 1),
        (audit, 2),
        (es.compare_audits(audit, audit), 1),
    ):
        display = result.plot()
        assert np.size(display.ax_) == n_axes
        display.figure_.canvas.draw()
        matplotlib.pyplot.close(display.figure_)


def test_a_display_knows_its_axes(tally):
    display = es.curves(tally).plot()
    assert display.ax_.figure is display.figure_ and display.get_xlabel() == "s"
    matplotlib.pyplot.close(display.figure_)
    assert "0x" not in repr(display)  # a line above the picture in a notebook


def test_pictures_write_numbers_as_tables_and_headlines_do(tally):
    planned = es.plan(tally)
    (ax,) = planned.plot()
    names = [text.get_text() for text in ax.get_yticklabels()]
    for name, row in zip(names, planned.rows(), strict=True):
        assert name.endswith(f"\n{row['users_a']:,} and {row['users_b']:,} users")
    people = es.simulate(600, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    uneven = es.tally(people, score="score", outcome="outcome", group="group", user="user", cuts=(0.5,))
    order = es.ordering_test(uneven)
    assert order.p_value < 1e-4 and order.plot().get_title() == "disparity (p < 0.0001)"
    notes = " ".join(text.get_text() for text in es.classification_impact(uneven, threshold=0.5).plot().texts)
    assert "\u2212" in notes and "-" not in notes
    matplotlib.pyplot.close("all")


def test_lines_of_a_plan_have_room_for_both_lines_of_their_names(tally):
    heights = [float(y) for y in re.findall(r'<text class="name" x="[0-9]+" y="([0-9.]+)"', es.plan(tally)._repr_html_())]
    assert len(heights) >= 6 and np.diff(heights).min() > 13
