"""``es.CurvesDisplay``, as users of scikit-learn expect it."""

import numpy as np
import pytest

import evenscore as es

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def people():
    return es.simulate(200, rows_per_user=3).data(seed=1)


def test_it_draws_what_curves_give(people):
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    display = es.CurvesDisplay.from_predictions(
        people["outcome"], people["score"], group=people["group"], user=people["user"], ax=ax, weighting="row"
    )
    tally = es.tally(people, score="score", outcome="outcome", group="group", user="user")
    assert display.ax_ is ax and display.figure_ is ax.figure
    assert display.curves_.rows() == es.curves(tally, weighting="row").rows()
    assert repr(display) == "<CurvesDisplay of 2 groups>"
    assert display.plot() is display and display.ax_ is not ax
    plt.close("all")


def test_one_group_weights_and_labels(people):
    import matplotlib.pyplot as plt

    words = np.where(people["outcome"] == 1, "yes", "no")
    display = es.CurvesDisplay.from_predictions(
        words, people["score"], user=None, sample_weight=np.full(len(words), 2.0), pos_label="yes"
    )
    whole = es.tally(people | {"all": ["everyone"] * len(words)}, score="score", outcome="outcome", group="all", user=None)
    assert display.curves_.rows()[5]["estimate"] == pytest.approx(es.curves(whole).rows()[5]["estimate"], rel=1e-9)
    with pytest.raises(es.OptionError, match="pos_label='si' is not among"):
        es.CurvesDisplay.from_predictions(words, people["score"], user=None, pos_label="si")
    plt.close("all")


def test_an_estimator(people):
    linear_model = pytest.importorskip("sklearn.linear_model")
    import matplotlib.pyplot as plt

    X, y = people["score"].reshape(-1, 1), np.where(people["outcome"] == 1, "ill", "well")
    model = linear_model.LogisticRegression().fit(X, y)
    display = es.CurvesDisplay.from_estimator(model, X, y, group=people["group"], user=people["user"])
    expected = es.CurvesDisplay.from_predictions(
        y, model.predict_proba(X)[:, 1], group=people["group"], user=people["user"], pos_label="well"
    )
    assert display.curves_.rows() == expected.curves_.rows()
    several = linear_model.LogisticRegression().fit(X, np.arange(len(X)) % 3)
    with pytest.raises(es.OptionError, match="two classes"):
        es.CurvesDisplay.from_estimator(several, X, y, user=None)
    plt.close("all")
