"""The slow and obvious way: every statistic from rows, in plain NumPy, without lattice or tally.

Tests compare the fast way with this one, so nothing here is shared with the package.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

KERNELS = {
    "gaussian": lambda u: np.exp(-(u**2) / 2),
    "epanechnikov": lambda u: np.where(np.abs(u) < 1, 1 - u**2, 0.0),
    "box": lambda u: np.where(np.abs(u) <= 1, 1.0, 0.0),
    "triangular": lambda u: np.where(np.abs(u) < 1, 1 - np.abs(u), 0.0),
    "gaussian4": lambda u: (3 - u**2) * np.exp(-(u**2) / 2),
    "gaussian6": lambda u: (15 - 10 * u**2 + u**4) * np.exp(-(u**2) / 2),
}


@dataclass
class Rows:
    score: np.ndarray
    outcome: np.ndarray
    group: np.ndarray
    user: np.ndarray
    weight: np.ndarray

    def only(self, group):
        mine = self.group == group
        return Rows(*(getattr(self, name)[mine] for name in ("score", "outcome", "group", "user", "weight")))


def row_weights(rows, weighting):
    """w_i = v_i / n_m per user, n_m the user's rows in this group; w_i = v_i per row."""
    if weighting == "row":
        return rows.weight.astype(float)
    _, inverse, counts = np.unique(rows.user, return_inverse=True, return_counts=True)
    return rows.weight / counts[inverse]


def local_weights(rows, x, h, degree, kernel, weighting):
    """l_i with estimate = sum l_i y_i, and the fit at each row; by weighted least squares on the rows."""
    w = row_weights(rows, weighting)
    u = (rows.score - x) / h
    k = KERNELS[kernel](u)
    design = np.vander(u, degree + 1, increasing=True)
    gram = (design * (k * w)[:, None]).T @ design
    coefficients = np.linalg.solve(gram, design.T * (k * w))
    return coefficients[0], design @ (coefficients @ rows.outcome)


def normal_scores(rows, weighting):
    """Normal quantiles of each row's rank, the mean of its ties, at least half a user away from the ends."""
    from scipy import special

    w = row_weights(rows, weighting)
    below = np.array([w[rows.score < score].sum() + w[rows.score == score].sum() / 2 for score in np.unique(rows.score)])
    rank = below[np.searchsorted(np.unique(rows.score), rows.score)] / w.sum()
    least = 0.5 / len(np.unique(rows.user))
    return special.ndtri(np.clip(rank, least, 1 - least))


def guide(rows, outcome, weighting, binary):
    """A cubic in normal scores at the rows, with a normal prior of one user's worth on its slopes, by general optimisation."""
    from scipy import optimize

    w, z = row_weights(rows, weighting), normal_scores(rows, weighting)
    w = w / w.sum() * len(np.unique(rows.user))
    design = np.stack([z**0, z, (z**2 - 1) / 2**0.5, (z**3 - 3 * z) / 6**0.5], axis=1)
    precision = np.array([0, 1 / 3**2, 1 / 1.5**2, 1 / 0.75**2])

    if not binary:
        return design @ np.linalg.solve((design * w[:, None]).T @ design + np.diag(precision), design.T @ (w * outcome))

    def gradient(b):
        return design.T @ (w / (1 + np.exp(-design @ b)) - w * outcome) + precision * b

    start = np.array([np.log(w @ outcome / (w @ (1 - outcome))), 0, 0, 0])
    return 1 / (1 + np.exp(-design @ optimize.root(gradient, start, tol=1e-13).x))


def guided(rows, outcome, points, h, weighting, binary):
    """The guide and a local line through what it leaves, at scores that occur."""
    fit = guide(rows, outcome, weighting, binary)
    levels = []
    for x in points:
        weights, _ = local_weights(rows, x, h, 1, "gaussian", weighting)
        levels.append(fit[rows.score == x][0] + weights @ (outcome - fit))
    return np.array(levels)


def by_user(rows, values):
    users, inverse = np.unique(rows.user, return_inverse=True)
    return users, np.bincount(inverse, values, minlength=len(users))


def curve(rows, points, h, degree, kernel, weighting):
    """Estimates, their user-robust covariance and effective users, point by point."""
    estimates, influences, effective = [], [], []
    for x in points:
        weights, fit = local_weights(rows, x, h, degree, kernel, weighting)
        estimates.append(weights @ rows.outcome)
        effective.append(1 / (by_user(rows, weights)[1] ** 2).sum())
        influences.append(by_user(rows, weights * (rows.outcome - fit))[1])
    effective = np.array(effective)
    influence = np.array(influences) * (effective / (effective - 1))[:, None]
    return np.array(estimates), influence @ influence.T, effective


def pooled_curve(a, b, at, h, degree, kernel, weighting):
    """The curve of both groups together: each group's rows keep the weights of their own group."""
    score = np.concatenate([a.score, b.score])
    outcome = np.concatenate([a.outcome, b.outcome])
    w = np.concatenate([row_weights(a, weighting), row_weights(b, weighting)])
    fits = []
    for x in at:
        u = (score - x) / h
        design = np.vander(u, degree + 1, increasing=True)
        kw = KERNELS[kernel](u) * w
        fits.append(np.linalg.solve((design * kw[:, None]).T @ design, design.T @ (kw * outcome))[0])
    return np.array(fits)


def gap(a, b, points, h, degree, kernel, weighting, impose_null):
    """The gap, and its covariance by adding up each user's influence over both groups."""
    everyone = np.union1d(a.user, b.user)
    gaps, influence = np.zeros(len(points)), np.zeros((len(points), len(everyone)))
    for rows, sign in ((a, 1), (b, -1)):
        if impose_null:
            knots = np.linspace(rows.score.min(), rows.score.max(), 800)
            null = np.interp(rows.score, knots, pooled_curve(a, b, knots, h, degree, kernel, weighting))
        for j, x in enumerate(points):
            weights, fit = local_weights(rows, x, h, degree, kernel, weighting)
            gaps[j] += sign * (weights @ rows.outcome)
            users, share = by_user(rows, weights)
            effective = 1 / (share**2).sum()
            residual = rows.outcome - (null if impose_null else fit)
            users, own = by_user(rows, weights * residual)
            influence[j, np.searchsorted(everyone, users)] += sign * own * effective / (effective - 1)
    return gaps, influence @ influence.T


def tally(rows, cells, n_cells, weighting, centre=0.0, repeat=None):
    """All sums of the tally for one group by looping over users; cells is the cell of each row."""
    repeat = np.ones(len(cells), dtype=int) if repeat is None else repeat
    names = ("W", "Y", "X", "Y2", "V0", "V1", "V2", "N")
    sums = {name: np.zeros(n_cells) for name in names}
    pairs = {name: np.zeros((n_cells, n_cells)) for name in ("ww", "wy", "yy")}
    for user in np.unique(rows.user):
        mine = np.flatnonzero(rows.user == user)
        n = repeat[mine].sum()
        w_cells, y_cells = np.zeros(n_cells), np.zeros(n_cells)
        for i in mine:
            w = rows.weight[i] / (n if weighting == "user" else 1)
            y = rows.outcome[i] - centre
            for _ in range(repeat[i]):
                for name, value in zip(
                    names, (w, w * y, w * rows.score[i], w * y * y, w * w, w * w * y, w * w * y * y), strict=False
                ):
                    sums[name][cells[i]] += value
                w_cells[cells[i]] += w
                y_cells[cells[i]] += w * y
        sums["N"][np.unique(cells[mine])] += 1
        pairs["ww"] += np.outer(w_cells, w_cells)
        pairs["wy"] += np.outer(w_cells, y_cells)
        pairs["yy"] += np.outer(y_cells, y_cells)
    return sums, pairs


def two_way(influence, user, item):
    """The covariance of sums of influences (n, n_rows), (n, n): each pair of rows that share a user or an item counts once."""
    same = (user[:, None] == user) | (item[:, None] == item)
    return influence @ same @ influence.T


def shared_between(user, item, other_user, other_item):
    """Which pairs of rows have the same item and different users, (n_rows, n_other_rows)."""
    return (item[:, None] == other_item) & (user[:, None] != other_user)
