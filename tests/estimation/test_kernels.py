import numpy as np
import pytest
from scipy.integrate import quad

import evenscore as es
from evenscore.estimation.kernels import KERNELS, _normal_beside, indicator_smoother, local_fits, smoother

ORDERS = {"gaussian": 2, "epanechnikov": 2, "box": 2, "triangular": 2, "gaussian4": 4, "gaussian6": 6}
RNG = np.random.default_rng(0)
POSITIONS = np.sort(RNG.random(200))
WEIGHT = RNG.gamma(2, 1, 200)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_integrate_to_one_and_have_their_order(name):
    def moment(power):
        return quad(lambda u: u**power * float(KERNELS[name].shape(np.array(u))), -12, 12, points=[-1, 0, 1], limit=400)[0]

    assert moment(0) == pytest.approx(1, abs=1e-8)
    for power in range(1, ORDERS[name]):
        assert moment(power) == pytest.approx(0, abs=1e-7)
    assert abs(moment(ORDERS[name])) > 0.01
    assert KERNELS[name].moments == ORDERS[name] - 1


@pytest.mark.parametrize("name", ["gaussian", "epanechnikov", "box", "triangular"])
def test_widths_are_canonical(name):
    """(int K^2 / (int u^2 K)^2)^(1/5), relative to the Gaussian's."""

    def canonical(kernel):
        def shape(u):
            return float(KERNELS[kernel].shape(np.array(u)))

        square = quad(lambda u: shape(u) ** 2, -12, 12, points=[-1, 0, 1], limit=400)[0]
        second = quad(lambda u: u * u * shape(u), -12, 12, points=[-1, 0, 1], limit=400)[0]
        return (square / second**2) ** 0.2

    assert KERNELS[name].width == pytest.approx(canonical(name) / canonical("gaussian"), rel=1e-3)


@pytest.mark.parametrize("half", [0.0, 1e-6, 0.06, 1 / 6, 3.0, 200.0])
def test_a_normal_kernel_half_a_cell_away(half):
    """From the kernel itself: the same as the kernel there, wherever a cell is followed inside; a number elsewhere."""
    u, normal = np.concatenate([np.linspace(-21, 21, 500), [-1e6, -30, 30, 1e6]]), KERNELS["gaussian"].shape
    upper, lower = _normal_beside(normal(u), u, np.full_like(u, half))
    assert np.isfinite(upper).all() and np.isfinite(lower).all()
    if half <= 1 / 6:
        np.testing.assert_allclose(upper, normal(u + half), rtol=1e-12, atol=1e-95)
        np.testing.assert_allclose(lower, normal(u - half), rtol=1e-12, atol=1e-95)


@pytest.mark.parametrize("side", ["both", "right", "left"])
@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov", "box", "triangular"])
def test_polynomials_are_reproduced(kernel, degree, side):
    """A smoother of degree p gives polynomials of degree p back, exactly."""
    points = np.array([0.3, 0.5, 0.7])
    smooth = smoother(points=points, positions=POSITIONS, weight=WEIGHT, bandwidth=0.2, degree=degree, kernel=kernel, side=side)
    np.testing.assert_allclose(smooth.matrix @ WEIGHT, 1, rtol=1e-9)
    for power in range(degree + 1):
        np.testing.assert_allclose(smooth.matrix @ (WEIGHT * POSITIONS**power), points**power, rtol=1e-8)
        np.testing.assert_allclose(
            smooth.local_fit(WEIGHT * POSITIONS**power), np.tile(POSITIONS**power, (3, 1)), rtol=1e-6, atol=1e-8
        )
    if side == "right":
        assert (smooth.matrix[:, POSITIONS < 0.3] == 0).all()
    if side == "left":
        assert (smooth.matrix[:, POSITIONS >= 0.7] == 0).all()


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_least_squares(degree):
    """The matrix against weighted least squares solved by NumPy."""
    outcome = RNG.normal(size=200)
    smooth = smoother(points=np.array([0.4]), positions=POSITIONS, weight=WEIGHT, bandwidth=0.1, degree=degree)
    root = np.sqrt(WEIGHT * np.exp(-(((POSITIONS - 0.4) / 0.1) ** 2) / 2))
    design = np.vander(POSITIONS - 0.4, degree + 1, increasing=True)
    expected = np.linalg.lstsq(design * root[:, None], outcome * root, rcond=None)[0][0]
    assert (smooth.matrix @ (WEIGHT * outcome))[0] == pytest.approx(expected, rel=1e-9)


def test_nobody_near_gives_no_value():
    positions, weight = np.array([0.1, 0.12, 0.14, 0.9]), np.ones(4)
    for kernel in ("gaussian", "epanechnikov", "box"):
        smooth = smoother(
            points=np.array([0.12, 0.5, 0.9, 5.0]), positions=positions, weight=weight, bandwidth=0.05, degree=0, kernel=kernel
        )
        np.testing.assert_array_equal(np.isnan(smooth.matrix).all(axis=1), [False, True, False, True])


def test_too_few_cells_for_the_degree_give_no_value():
    smooth = smoother(points=np.array([0.5]), positions=np.array([0.5, 0.9]), weight=np.ones(2), bandwidth=0.01, degree=1)
    assert np.isnan(smooth.matrix).all()


def test_empty_cells_do_not_matter():
    weight = WEIGHT.copy()
    weight[50:100] = 0
    whole = smoother(points=np.array([0.2]), positions=POSITIONS, weight=weight, bandwidth=0.1)
    used = weight > 0
    part = smoother(points=np.array([0.2]), positions=POSITIONS[used], weight=weight[used], bandwidth=0.1)
    np.testing.assert_allclose(whole.matrix[:, used], part.matrix)


def test_indicators():
    smooth = indicator_smoother(np.array([2, 0]), np.array([2.0, 0.0, 4.0]))
    np.testing.assert_allclose(smooth.matrix, [[0, 0, 0.25], [0.5, 0, 0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degree": 3}, "degree=3"),
        ({"kernel": "cosine"}, "'gaussian', 'epanechnikov'"),
        ({"bandwidth": 0}, "positive"),
        ({"bandwidth": np.nan}, "positive"),
        ({"side": "up"}, "'both', 'right', 'left'"),
        ({"kernel": "gaussian4", "degree": 1}, "degree=0"),
    ],
)
def test_impossible_smoothers(options, message):
    with pytest.raises(es.OptionError, match=message):
        smoother(**{"points": np.array([0.5]), "positions": POSITIONS, "weight": WEIGHT, "bandwidth": 0.1} | options)


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_fits_of_several_sums_are_those_of_one_smoother_each(degree):
    rng = np.random.default_rng(0)
    positions, points = np.sort(rng.random(60)), np.linspace(0.1, 0.9, 7)
    weight, outcome = rng.random((3, 60)), rng.random((3, 60))
    weight[2, 2:] = 0.0  # too few cells for a slope
    u = (positions[None, :] - points[:, None]) / 0.15
    found = local_fits(KERNELS["gaussian"].shape(u), u, weight, outcome, degree)
    for own_weight, own_outcome, fit in zip(weight, outcome, found, strict=True):
        options = {"bandwidth": 0.15, "degree": degree, "near": False}
        matrix = smoother(points=points, positions=positions, weight=own_weight, **options).matrix
        np.testing.assert_allclose(fit, matrix @ own_outcome, rtol=1e-8)
    assert np.isnan(found[2]).all() == (degree == 2)


def test_a_single_cell_at_the_point_has_no_slope():
    """All moments but the first are 0: not a number, and no warning."""
    u, one = np.zeros((1, 1)), np.ones((1, 1))
    assert np.isnan(local_fits(one, u, one, one, 1)).all() and np.isnan(local_fits(one, u, one, one, 2)).all()
    assert local_fits(one, u, one, one, 0) == 1


def test_neighbours_that_the_kernel_hardly_reaches_give_no_infinite_value_and_no_warning():
    for apart in np.linspace(30, 40, 500):
        value = smoother(points=np.zeros(1), positions=np.array([0.0, apart]), weight=np.full(2, 1e-5), bandwidth=1.0)
        assert not np.isinf(value.matrix).any()
