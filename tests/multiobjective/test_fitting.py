"""Joint maps against slow and obvious fits on rows, on users with repeated rows, and against known truth."""

import itertools

import numpy as np
import pytest
from scipy import optimize, special

import evenscore as es
from evenscore.multiobjective import points as points_module
from evenscore.multiobjective.axes import Axis, corners, make_axes, node_positions
from evenscore.multiobjective.product_kernel import RIDGE as KERNEL_RIDGE
from evenscore.multiobjective.regression import RIDGE
from evenscore.multiobjective.rows import N_FOLDS, ObjectivesSpec, observe_jointly
from evenscore.simulation.objectives import feed, simulate_objectives

EXACT = 1e-9  # the same sums in another order
NEWTON = 1e-5  # two optimisers of one likelihood
GATHERED = 0.004  # very many rows are gathered into cells: far below the error of any fit on them


def user_weights(data, outcome):
    """1 / n_m, n_m the labelled rows of the user in the group, by looping."""
    counts = {}
    known = ~np.isnan(np.asarray(data[outcome], dtype=float))
    for user, group, labelled in zip(data["user"], data["group"], known, strict=True):
        counts[user, group] = counts.get((user, group), 0) + labelled
    weights = [labelled / max(counts[u, g], 1) for u, g, labelled in zip(data["user"], data["group"], known, strict=True)]
    return np.array(weights)


def discrete_scores(n_values=9, users=60, seed=0, labelled=1.0):
    """Two scores with few values, so that binning rounds nothing."""
    spec = simulate_objectives(users, objectives=["x", "y"], rows_per_user=5, labelled=labelled, label_correlation=0.4)
    data = spec.data(seed)
    for name in spec.score_columns:
        data[name] = np.round(data[name] * (n_values + 1)).clip(1, n_values) / (n_values + 1)
    return spec, data


def logit(p):
    return np.log(p / (1 - p))


@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize("labelled", [1.0, 0.6])
def test_the_kernel_is_local_regression_on_rows_each_user_weighing_the_same(degree, labelled):
    spec, data = discrete_scores(labelled=labelled)
    h = (0.7, 0.9)
    joint = es.calibrate_jointly(data, **spec.columns, method="kernel", bandwidth=h, degree=degree)
    for group in ("a", "b"):
        mine = data["group"] == group
        x = np.column_stack([logit(data[name][mine]) for name in spec.score_columns])
        at = np.unique(np.column_stack([data[name][mine] for name in spec.score_columns]), axis=0)
        found = joint.apply(at, np.full(len(at), group)).scores
        for k, outcome in enumerate(spec.objectives):
            w = user_weights(data, outcome)[mine]
            y = np.nan_to_num(np.asarray(data[outcome], dtype=float)[mine])
            for scores, value in zip(at, found[:, k], strict=True):
                u = (x - logit(scores)) / h
                kernel = w * np.exp(-0.5 * (u**2).sum(axis=1))
                if kernel.sum() < 2:
                    continue  # nobody near: the nearest node decides
                design = np.column_stack([np.ones(len(u)), u])[:, : 1 + 2 * degree]
                gram = design.T @ (design * kernel[:, None]) + KERNEL_RIDGE * np.diag([0.0, 1.0, 1.0][: design.shape[1]])
                expected = np.linalg.solve(gram, design.T @ (kernel * y))[0]
                assert value == pytest.approx(np.clip(expected, 0, 1), abs=EXACT)


@pytest.mark.parametrize("squares", [False, True])
def test_the_logistic_maximises_the_users_likelihood(squares):
    spec = feed(80)
    data = spec.data(3)
    joint = es.calibrate_jointly(data, **spec.columns, method="logistic", squares=squares)
    mine = data["group"] == "b"
    scores = np.column_stack([data[name][mine] for name in spec.score_columns])
    x = special.logit(scores)
    w = user_weights(data, "comment")[mine]
    mean = w @ x / w.sum()
    z = (x - mean) / np.sqrt(w @ (x - mean) ** 2 / w.sum())
    columns = [np.ones(len(z)), *z.T]
    if squares:
        columns += [z[:, i] * z[:, j] for i, j in itertools.combinations_with_replacement(range(3), 2)]
    design = np.column_stack(columns)
    y = data["comment"][mine]

    def loss(beta):
        linear = design @ beta
        return w @ (np.logaddexp(0, linear) - y * linear) + RIDGE / 2 * (beta[1:] ** 2).sum()

    best = optimize.minimize(loss, np.zeros(design.shape[1]), method="BFGS", options={"gtol": 1e-9}).x
    assert joint.transform(scores, data["group"][mine])[:, 1] == pytest.approx(special.expit(design @ best), abs=NEWTON)


def test_real_outcomes_get_least_squares_whatever_their_offset():
    spec = simulate_objectives(200, objectives=["x", "y"], kinds=("real", "binary"), slopes=((1, 0.5), (0.4, 1)), noise=0.5)
    data = spec.data(1)
    far = data | {"x": data["x"] + 1e9}
    plain, moved = (es.calibrate_jointly(each, **spec.columns, method="linear") for each in (data, far))
    fitted = plain.transform(data)
    assert moved.transform(data)[:, 0] - 1e9 == pytest.approx(fitted[:, 0], abs=1e-5)
    for group in ("a", "b"):
        mine = data["group"] == group
        x = np.column_stack([np.ones(mine.sum()), data["score_x"][mine], special.logit(data["score_y"][mine])])
        expected = x @ np.linalg.lstsq(x, data["x"][mine], rcond=None)[0]  # four rows a user, so that users weigh the same
        assert fitted[mine, 0] == pytest.approx(expected, abs=0.002)  # the ridge is a twentieth of a user


def test_the_risk_is_that_of_users_left_out():
    spec, data = discrete_scores(users=80)
    h = (0.8, 0.8)
    joint = es.calibrate_jointly(data, **spec.columns, method="kernel", bandwidth=h)
    rows = observe_jointly(data, ObjectivesSpec(**spec.columns))
    fold = rows.fold[rows.user]
    for place, group in enumerate(rows.groups):
        total, weight = 0.0, 0.0
        mine = data["group"] == group
        w = user_weights(data, "x")
        for left_out in range(N_FOLDS):
            kept = {name: values[mine & (fold != left_out)] for name, values in data.items()}
            fit = es.calibrate_jointly(kept, **spec.columns, method="kernel", bandwidth=h)
            held = mine & (fold == left_out)
            scores = np.column_stack([data[name][held] for name in spec.score_columns])
            total += w[held] @ (data["x"][held] - fit.apply(scores, data["group"][held]).scores[:, 0]) ** 2
            weight += w[held].sum()
        assert joint.maps[place].objectives[0].risk["kernel"] == pytest.approx(total / weight, rel=0.01)  # ranges differ a little


def test_each_objective_uses_its_own_labelled_rows_and_says_how_many():
    spec = simulate_objectives(150, objectives=["x", "y"], labelled=(0.5, 1.0))
    data = spec.data(2)
    joint = es.calibrate_jointly(data, **spec.columns, method="logistic")
    known = ~np.isnan(data["x"])
    rows = {(row["group"], row["outcome"]): row for row in joint.rows()}
    for group in ("a", "b"):
        mine = data["group"] == group
        assert rows[group, "x"]["rows"] == (known & mine).sum() and rows[group, "y"]["rows"] == mine.sum()
        assert rows[group, "x"]["users"] == len(np.unique(data["user"][known & mine]))
    full = es.calibrate_jointly(data | {"x": np.nan_to_num(data["x"])}, **spec.columns, method="logistic")
    assert np.array_equal(full.transform(data)[:, 1], joint.transform(data)[:, 1])
    alone = {name: values[known] for name, values in data.items()}
    only = es.calibrate_jointly(alone, **spec.columns, method="logistic")
    assert only.transform(alone)[:, 0] == pytest.approx(joint.transform(alone)[:, 0], abs=1e-6)


def test_rows_of_one_user_count_once_and_copies_change_nothing():
    spec, data = discrete_scores(users=40)
    twice = {name: np.concatenate([values, values]) for name, values in data.items()}
    for method in ("kernel", "logistic"):
        one, two = (es.calibrate_jointly(each, **spec.columns, method=method, bandwidth=1.0) for each in (data, twice))
        assert one.transform(data) == pytest.approx(two.transform(data), abs=1e-7)
    order = np.random.default_rng(0).permutation(len(data["user"]))
    mixed = {name: values[order] for name, values in data.items()}
    auto, again = (es.calibrate_jointly(each, **spec.columns) for each in (data, mixed))
    assert auto.transform(data) == pytest.approx(again.transform(data), abs=1e-7)


def test_weighting_by_row_and_survey_weights():
    spec, data = discrete_scores(users=50)
    heavy = data | {"v": np.where(data["user"] % 2 == 0, 3.0, 1.0)}
    weighed = es.calibrate_jointly(heavy, **spec.columns, weight="v", weighting="row", method="kernel", bandwidth=1.0)
    even = np.flatnonzero(data["user"] % 2 == 0)
    rows = np.concatenate([np.arange(len(data["user"])), even, even])
    copied = {name: values[rows] for name, values in data.items()}
    plain = es.calibrate_jointly(copied, **spec.columns, weighting="row", method="kernel", bandwidth=1.0)
    # A weight is no number of rows: copies are twice as many rows to have near, which shows at the edge of the scores.
    difference = np.abs(weighed.transform(data) - plain.transform(data))
    assert np.median(difference) < 0.002 and difference.max() < 0.02
    units = data | {"v": 7.0 * heavy["v"]}
    other = es.calibrate_jointly(units, **spec.columns, weight="v", weighting="row", method="kernel", bandwidth=1.0)
    assert other.transform(data) == pytest.approx(weighed.transform(data), abs=EXACT)


def test_many_rows_are_gathered_without_harm(monkeypatch):
    spec = simulate_objectives(800, objectives=["x", "y"], slopes=((1, 0.6), (0.3, 1)), bend=0.5, rows_per_user=6)
    data = spec.data(5)
    for method in ("logistic", "kernel"):
        exact = es.calibrate_jointly(data, **spec.columns, method=method).transform(data)
        monkeypatch.setattr(points_module, "MANY_ROWS", 1000)
        gathered = es.calibrate_jointly(data, **spec.columns, method=method).transform(data)
        monkeypatch.undo()
        assert np.sqrt(np.mean((exact - gathered) ** 2)) < GATHERED


def test_auto_follows_the_truth_where_a_logistic_cannot_and_keeps_the_logistic_where_it_is_right():
    for bend, expected in ((0.0, "logistic"), (0.9, "mixture")):
        spec = simulate_objectives(1000, objectives=["x", "y"], slopes=((1, 0.6), (0.3, 1)), bend=bend)
        data, fresh = spec.data(1), spec.data(2)
        error = {}
        for method in ("auto", "logistic", "kernel"):
            joint = es.calibrate_jointly(data, **spec.columns, method=method)
            found = joint.apply(fresh).scores
            truth = np.empty_like(found)
            for group in spec.groups:
                mine = fresh["group"] == group
                truth[mine] = spec.truth.means({name: values[mine] for name, values in fresh.items()}, group)
            error[method] = np.sqrt(np.mean((found - truth) ** 2))
            if method == "auto":
                assert all(
                    row["method"].startswith(expected) or (bend and row["method"] in ("guided", "kernel")) for row in joint.rows()
                )
                assert all("on users left out" in row["reason"] for row in joint.rows())
        assert error["auto"] < 1.15 * min(error.values())
        assert (error["logistic"] < error["kernel"]) == (bend == 0)


def test_more_users_come_closer_to_the_truth():
    errors = []
    for users in (60, 480, 3840):
        spec = simulate_objectives(users, objectives=["x", "y"], bend=0.8, rows_per_user=2)
        joint = es.calibrate_jointly(spec.data(4), **spec.columns, method="kernel")
        fresh = simulate_objectives(1000, objectives=["x", "y"], bend=0.8).data(9)
        mine = fresh["group"] == "a"
        truth = spec.truth.means({name: values[mine] for name, values in fresh.items()}, "a")
        errors.append(np.sqrt(np.mean((joint.apply(fresh).scores[mine] - truth) ** 2)))
    assert errors[1] < 0.75 * errors[0] and errors[2] < 0.75 * errors[1]


# The grid


def test_corners_bin_without_moving_the_mean_and_read_multilinear_functions_exactly():
    rng = np.random.default_rng(1)
    axes = (Axis("score", np.linspace(-1, 2, 7)), Axis("score", np.array([0.0, 0.3, 1.0, 4.0])), Axis("score", np.zeros(1)))
    x = [rng.uniform(-1, 2, 500), rng.uniform(0, 4, 500), np.zeros(500)]
    around = corners(axes, x)
    nodes = node_positions(axes)
    weight = rng.random(500)
    binned = around.bin(weight, len(nodes))
    assert binned.sum() == pytest.approx(weight.sum())
    for k in range(2):
        assert binned @ nodes[:, k] == pytest.approx(weight @ x[k])
    plane = 1 + 2 * nodes[:, 0] - 3 * nodes[:, 1] + 0.5 * nodes[:, 0] * nodes[:, 1]
    assert around.read(plane) == pytest.approx(1 + 2 * x[0] - 3 * x[1] + 0.5 * x[0] * x[1])
    assert around.read(np.stack([plane, -plane], axis=1))[:, 1] == pytest.approx(-around.read(plane))


def test_axes_suit_the_scores():
    rng = np.random.default_rng(0)
    unit, real, few = rng.random(5000), rng.normal(600, 50, 5000), rng.integers(0, 7, 5000)
    axes = make_axes([unit, real, few], ["unit", "real", "few"], "auto", 32)
    assert [axis.scale for axis in axes] == ["logit", "score", "score"]
    assert [len(axis.nodes) for axis in axes] == [32, 32, 7]
    with pytest.raises(es.DataError, match="'real' runs from"):
        make_axes([unit, real], ["unit", "real"], "logit", 32)
