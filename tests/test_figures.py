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
    assert es.parity_test(tally).plot(ax) is ax
    assert len(ax.lines) == 4
    figure.canvas.draw()
    matplotlib.pyplot.close(figure)
