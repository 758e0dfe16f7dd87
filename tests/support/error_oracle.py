"""Calibration errors from rows, the slow and obvious way; nothing here is shared with the package."""

from __future__ import annotations

import itertools

import numpy as np
from oracle import Rows, local_weights, row_weights


def distinct(rows, weighting):
    """Distinct scores with their weight and weighted outcome, by a loop."""
    weights, found = row_weights(rows, weighting), {}
    for score, outcome, weight in zip(rows.score, rows.outcome, weights, strict=True):
        w, y = found.get(score, (0.0, 0.0))
        found[score] = (w + weight, y + weight * outcome)
    scores = sorted(found)
    return np.array(scores), np.array([found[s][0] for s in scores]), np.array([found[s][1] for s in scores])


def fill_bins(scores, weight, n_bins):
    """Bins of equal mass filled one after the other; what a bin cannot take of a score goes into the next."""
    room = weight.sum() / n_bins
    bins, left = [[]], room
    for place, mass in enumerate(weight):
        while mass > 1e-12 * room:
            if left <= 1e-12 * room:
                bins.append([])
                left = room
            part = min(mass, left)
            bins[-1].append((place, part))
            mass, left = mass - part, left - part
    return bins


def width_bins(scores, weight, n_bins):
    bins = [[] for _ in range(n_bins)]
    edges = np.linspace(0, 1, n_bins + 1)
    for place, mass in enumerate(weight):
        own = max(b for b in range(n_bins) if edges[b] <= scores[place])
        bins[own].append((place, mass))
    return [members for members in bins if members]


def bins_of(scores, weight, n_bins, spacing):
    return (fill_bins if spacing == "mass" else width_bins)(scores, weight, n_bins)


def bin_means(members, scores, mean):
    mass = sum(part for _, part in members)
    return mass, sum(part * scores[i] for i, part in members) / mass, sum(part * mean[i] for i, part in members) / mass


def ece(rows, n_bins, spacing, power, weighting):
    scores, weight, outcome = distinct(rows, weighting)
    mean = outcome / weight
    error = 0.0
    for members in bins_of(scores, weight, n_bins, spacing):
        mass, score, level = bin_means(members, scores, mean)
        error += mass / weight.sum() * abs(level - score) ** power
    return error ** (1 / power)


def label_binned(rows, n_bins, spacing, power, weighting):
    scores, weight, outcome = distinct(rows, weighting)
    mean = outcome / weight
    error = 0.0
    for members in bins_of(scores, weight, n_bins, spacing):
        _, _, level = bin_means(members, scores, mean)
        error += sum(part * abs(level - scores[i]) ** power for i, part in members) / weight.sum()
    return error ** (1 / power)


def msce(rows, spacing, power, weighting):
    scores, weight, outcome = distinct(rows, weighting)
    mean = outcome / weight
    n_bins = 1
    while n_bins < min(len(scores), len(rows.score)):
        levels = [bin_means(members, scores, mean)[2] for members in bins_of(scores, weight, n_bins + 1, spacing)]
        if any(b < a - 1e-12 for a, b in itertools.pairwise(levels)):
            break
        n_bins += 1
    return ece(rows, n_bins, spacing, power, weighting), n_bins


def authors_msce(score, outcome, power):
    """The sweep as its authors' scripts define it: equal numbers of rows by floor(rank / n * bins), stopping at the first fall."""
    order = np.argsort(score, kind="stable")
    score, outcome = score[order], outcome[order]
    n = len(score)
    bins = np.zeros(n, dtype=int)
    for n_bins in range(2, n):
        fresh = np.minimum(n_bins - 1, np.floor(np.arange(n) / n * n_bins)).astype(int)
        means = [outcome[fresh == b].mean() for b in range(n_bins)]
        if any(b < a for a, b in itertools.pairwise(means)):
            break
        bins = fresh
    error = sum(
        (bins == b).sum() * abs(outcome[bins == b].mean() - score[bins == b].mean()) ** power for b in range(bins.max() + 1)
    )
    return (error / n) ** (1 / power), bins.max() + 1


def smoothed_residuals(rows, points, h, weighting):
    """Local linear fits of Y - S at points, and each user's influence on them, around the fit at the user's own scores."""
    residual = Rows(rows.score, rows.outcome - rows.score, rows.group, rows.user, rows.weight)
    at = np.unique(rows.score)
    fit = {x: local_weights(residual, x, h, 1, "gaussian", weighting)[0] @ residual.outcome for x in at}
    own = residual.outcome - np.array([fit[s] for s in rows.score])
    _, inverse = np.unique(rows.user, return_inverse=True)
    values, influences = [], []
    for x in points:
        weights, _ = local_weights(residual, x, h, 1, "gaussian", weighting)
        effective = 1 / (np.bincount(inverse, weights) ** 2).sum()
        values.append(weights @ residual.outcome)
        influences.append(np.bincount(inverse, weights * own) * effective / (effective - 1))
    return np.array(values), np.array(influences)


def kernel(rows, h, weighting):
    """The plug-in and the debiased root mean square."""
    scores, weight, _ = distinct(rows, weighting)
    values, influences = smoothed_residuals(rows, scores, h, weighting)
    share = weight / weight.sum()
    square, noise = share @ values**2, share @ (influences**2).sum(axis=1)
    return np.sqrt(square), np.sqrt(max(square - noise, 0))


def quantile_error(rows, h, weighting):
    scores, weight, _ = distinct(rows, weighting)
    running = np.cumsum(weight) / weight.sum()
    points = [scores[np.flatnonzero(running >= (q - 0.5) / 100 - 1e-12)[0]] for q in range(1, 101)]
    values, _ = smoothed_residuals(rows, points, h, weighting)
    return np.sqrt((values**2).mean())


def cumulative(rows, statistic, weighting):
    scores, weight, outcome = distinct(rows, weighting)
    running, highest, lowest = 0.0, 0.0, 0.0
    for score, w, y in zip(scores, weight, outcome, strict=True):
        running += (y - w * score) / weight.sum()
        highest, lowest = max(highest, running), min(lowest, running)
    return max(highest, -lowest) if statistic == "largest" else highest - lowest


def smooth(rows, weighting, points=4000):
    """smECE by images of the kernel beyond both ends, and bisection."""
    scores, weight, outcome = distinct(rows, weighting)
    residual = (outcome - weight * scores) / weight.sum()
    t = (np.arange(points) + 0.5) / points

    def integral(width):
        kernel = sum(
            np.exp(-0.5 * ((t[:, None] - 2 * k - sign * scores) / width) ** 2) for k in range(-3, 4) for sign in (1, -1)
        ) / (width * np.sqrt(2 * np.pi))
        return np.abs(kernel @ residual).mean()

    low, high = 0.002, 1.0
    while high - low > 1e-7:
        middle = (low + high) / 2
        low, high = (middle, high) if integral(middle) > middle else (low, middle)
    return (low + high) / 2
