"""Delta-RC: what calibrated scores would change about ranks, by group.

Items are ranked within their query by score now; calibrated, by S* = E(Y | S, G), each item with its own group's map.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.maps import GroupMap
from evenscore.errors import require_alpha, require_count, require_option
from evenscore.estimation.inference import normal_quantile, seeded
from evenscore.impact import require_calibrator
from evenscore.impact.impact_result import RANK, Impact
from evenscore.impact.items import Items, read_items
from evenscore.impact.ranks import WORTHS, blocks, places_of, starts_of, worths
from evenscore.naming import use_columns
from evenscore.threads import in_one_thread
from evenscore.types import Floats, Ints

NULLS = ("error", "drop")
UNKNOWN = ("error", "pooled")
MAP_DRAWS, FEWEST_DRAWS = 64, 12
MAP_ITEMS = 50_000  # items that a drawn map is tried on
SLOTS = 10
MOST_SLOTS = 100_000
MAX_COMPARED = 16  # groups up to which differences are given


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums by group over items: counts (n_groups,), what places are worth before and after (n_groups, n_worths)."""

    counts: Floats
    before: Floats
    after: Floats


@in_one_thread
def rank_impact(
    data: Any,
    *,
    query: Any,
    score: Any,
    group: Any,
    calibrator: Calibrator,
    user: Any = None,
    top_k: int | None = None,
    nulls: str = "error",
    on_unknown: str = "error",
    alpha: float = 0.05,
    seed: int = 0,
) -> Impact:
    """The mean change of rank of each group's items if they were ranked by calibrated scores.

    The estimate is E(rank by score - rank by calibrated score | group): positive when the group's items would move up. Rank 1 is
    the largest score of a query. Tied items share their places: ranks, exposure and top-k are averaged over all orders of the ties.

    Parameters
    ----------
    data
        A frame, a dict of arrays, a path to files, an iterator of frames, or None when all columns are arrays; in any order.
    query, score, group
        Columns, as in ``es.tally``.
    calibrator
        As ``es.calibrate`` makes it. Its own uncertainty is in the limits; they take it to be fitted on other data.
    user
        Who an item is from. Without it limits respect queries; with it both queries and users.
    top_k
        Also give the change in the chance to be among the first k.
    nulls
        "error", or "drop" (counted in the notes).
    on_unknown
        For groups that the calibrator does not know: "error" or "pooled".
    alpha, seed
        The level, and the seed of the draws behind limits; the same seed gives the same result.

    Returns
    -------
    Impact
        One row a group, and one for everybody (group None); ``.slots`` by position.

    Examples
    --------
    >>> import evenscore as es
    >>> from evenscore.simulation import simulate_ranking
    >>> data = simulate_ranking(3000, items=5, curve={"a": (0, 1), "b": (-0.5, 1)}).data(seed=1)
    >>> tally = es.tally(data, score="score", outcome="outcome", group="group", user="user")
    >>> found = es.rank_impact(data, query="query", score="score", group="group", calibrator=es.calibrate(tally))
    >>> round(found.of("b")["estimate"], 1)  # without end of queries it is -0.25
    -0.3
    """
    calibrator = require_calibrator(calibrator)
    use_columns(calibrator.columns)
    require_alpha(alpha)
    require_option("nulls", nulls, NULLS)
    require_option("on_unknown", on_unknown, UNKNOWN)
    if top_k is not None:
        top_k = require_count("top_k", top_k, high=MOST_SLOTS)
    roles = {"query": query, "score": score, "group": group, "user": user}
    items, labels, maps, kind, notes = read_items(data, roles, nulls, calibrator, on_unknown)
    sums, scatter, slots = _scan(items, len(labels), top_k)
    noise = _map_noise(items, maps, len(labels), top_k, seeded(seed))
    change = (sums.after - sums.before) / sums.counts[:, None]
    variance = scatter + noise
    table = _rows(labels, sums, change, variance, alpha, top_k)
    pairs = _pairs(labels, change, variance, alpha)
    notes = (*notes, *_notes(items, labels, top_k))
    what = "Mean change of rank if items were ranked by calibrated scores: positions moved up"
    return Impact(RANK, what, table, pairs, alpha, notes=notes, slots=_slot_rows(labels, slots), frame_kind=kind)


# Scanning: one block of whole queries after the other


def _scan(items: Items, n_groups: int, top_k: int | None) -> tuple[Sums, Floats, Floats]:
    """Sums by group, the clustered covariance of the mean changes (flat, n_groups * n_worths), and counts by slot."""
    n_worths = 3 if top_k is None else 4
    counts = np.bincount(items.group, minlength=n_groups).astype(np.float64)
    before, after = np.zeros((n_groups, n_worths)), np.zeros((n_groups, n_worths))
    slots = np.zeros((3, n_groups, SLOTS if top_k is None else max(SLOTS, top_k)))
    changes = np.empty((len(items), n_worths), dtype=np.float32)
    for rows in blocks(items.query):
        block = items.at(rows)
        start = starts_of(block.query)
        now, then = places_of(start, block.score), places_of(start, block.calibrated)
        worth_now, worth_then = worths(now, top_k), worths(then, top_k)
        for column in range(n_worths):
            before[:, column] += np.bincount(block.group, worth_now[:, column], minlength=n_groups)
            after[:, column] += np.bincount(block.group, worth_then[:, column], minlength=n_groups)
        changes[rows] = worth_then - worth_now
        _count_slots(slots, block.group, now.rank, then.rank)
    mean = (after - before) / counts[:, None]
    residual = changes - mean[items.group].astype(np.float32)
    return Sums(counts, before, after), _scatter(items, residual, counts), slots


def _count_slots(slots: Floats, group: NDArray[np.uint8], now: Floats, then: Floats) -> None:
    """Add items at each slot before and after, and how far those that were there move up; a tie stands at its middle place."""
    n_groups, n_slots = slots.shape[1:]
    for place, (rank, weight) in enumerate(((now, None), (then, None), (now, now - then))):
        slot = np.minimum(np.floor(rank).astype(np.int64) - 1, n_slots)
        index = group.astype(np.int64) * (n_slots + 1) + slot
        counts = np.bincount(index, weight, minlength=n_groups * (n_slots + 1)).reshape(n_groups, n_slots + 1)
        slots[place] += counts[:, :n_slots]


def _scatter(items: Items, residual: NDArray[np.float32], counts: Floats) -> Floats:
    """The covariance of the mean changes, clustered by query, or by query and user (Cameron, Gelbach and Miller 2011)."""
    by_query = _cluster_covariance(_number_queries(items.query), items.group, residual, counts, spill=False)
    if items.user is None:
        return by_query
    by_user = _cluster_covariance(items.user, items.group, residual, counts, spill=True)
    both = by_query + by_user - _item_covariance(items.group, residual, counts)
    # A difference of covariances may come out too small; it is never less than what either alone gives.
    least = np.maximum(np.diag(by_query), np.diag(by_user))
    grow = np.sqrt(np.maximum(least / np.maximum(np.diag(both), 1e-300), 1.0))
    return both * np.outer(grow, grow)


def _number_queries(sorted_codes: Ints) -> Ints:
    return np.cumsum(np.concatenate([[0], (sorted_codes[1:] != sorted_codes[:-1]).astype(np.int64)]))


def _cluster_covariance(
    cluster: Ints, group: NDArray[np.uint8], residual: NDArray[np.float32], counts: Floats, spill: bool
) -> Floats:
    """Sum over clusters of the outer products of their influences on the means, with C / (C - 1); groups side by side.

    spill: what an item gains, items of other groups in its query lose, so a user also moves the means of groups it is not in.
    """
    n_groups, n_worths = len(counts), residual.shape[1]
    n_clusters = int(cluster.max()) + 1
    spilled = _spill_rates(counts) * spill
    rows = [np.flatnonzero(group == place) for place in range(n_groups)]

    def sum_clusters(mine: Ints, weight: Floats | float) -> Floats:
        sums = [np.bincount(cluster[mine], residual[mine, column] * weight, minlength=n_clusters) for column in range(n_worths)]
        return np.column_stack(sums)

    to_others = sum_clusters(np.arange(len(group)), spilled[group]) if spill else 0.0

    def influence(place: int) -> Floats:
        return sum_clusters(rows[place], 1 / counts[place] + spilled[place]) - to_others

    scale = n_clusters / max(n_clusters - 1, 1)
    if n_groups <= MAX_COMPARED:
        joint = np.concatenate([influence(place) for place in range(n_groups)], axis=1)
        return scale * (joint.T @ joint)
    total = np.zeros((n_groups * n_worths,) * 2)
    for place in range(n_groups):
        own, moves = slice(place * n_worths, (place + 1) * n_worths), influence(place)
        total[own, own] = scale * (moves.T @ moves)
    return total


def _spill_rates(counts: Floats) -> Floats:
    """What a group's item takes from the mean of each other group for what it gains itself, (n_groups,)."""
    others = counts.sum() - counts
    return np.where(others > 0, 1 / np.where(others > 0, others, 1), 0.0)


def _item_covariance(group: NDArray[np.uint8], residual: NDArray[np.float32], counts: Floats) -> Floats:
    """The same as ``_cluster_covariance`` with every item a cluster of its own, without a row for each."""
    n_groups, n_worths = len(counts), residual.shape[1]
    moves = np.where(np.eye(n_groups, dtype=bool), 1 / counts, -_spill_rates(counts))  # [a, g]: of an item of g on the mean of a
    total = np.zeros((n_groups * n_worths,) * 2)
    for place in range(n_groups):
        mine = residual[group == place]
        total += np.kron(np.outer(moves[:, place], moves[:, place]), (mine.T @ mine).astype(np.float64))
    return total


# The calibrator's own uncertainty


def _map_noise(items: Items, maps: list[GroupMap], n_groups: int, top_k: int | None, rng: np.random.Generator) -> Floats:
    """The covariance of the mean changes that other draws of the maps would give, tried on some of the queries."""
    some = _some_queries(items)
    start = starts_of(some.query)
    rows = [np.flatnonzero(some.group == place) for place in range(n_groups)]
    uncertain = [not group_map.identity and group_map.factor.size > 0 for group_map in maps]
    if not any(uncertain):
        return np.zeros((n_groups * (3 if top_k is None else 4),) * 2)
    n_draws = int(np.clip(MAP_DRAWS * MAP_ITEMS // len(some), FEWEST_DRAWS, MAP_DRAWS))
    knots = [group_map.draw(rng, n_draws) for group_map in maps]
    means = []
    for draw in range(n_draws):
        calibrated = some.calibrated.copy()
        for place, group_map in enumerate(maps):
            if uncertain[place]:
                calibrated[rows[place]] = replace(group_map, value=knots[place][draw]).at(some.score[rows[place]])
        worth = worths(places_of(start, calibrated), top_k)
        means.append(np.concatenate([worth[mine].mean(axis=0) if len(mine) else np.zeros(worth.shape[1]) for mine in rows]))
    return np.cov(np.array(means), rowvar=False)


def _some_queries(items: Items) -> Items:
    """Whole queries from all over the data, up to about MAP_ITEMS items."""
    if len(items) <= MAP_ITEMS:
        return items
    number = _number_queries(items.query)
    step = -(-len(items) // MAP_ITEMS)
    return items.at(np.flatnonzero(number % step == 0))


# Rows


def _rows(
    labels: tuple[Any, ...], sums: Sums, change: Floats, variance: Floats, alpha: float, top_k: int | None
) -> tuple[dict[str, Any], ...]:
    se = np.sqrt(np.maximum(np.diag(variance), 0)).reshape(change.shape)
    z = normal_quantile(alpha)
    before, after = sums.before / sums.counts[:, None], sums.after / sums.counts[:, None]
    shown = WORTHS if top_k is not None else WORTHS[:-1]
    table = []
    for place, label in enumerate(labels):
        row: dict[str, Any] = {"group": label}
        for column, worth in enumerate(shown):
            estimate, margin = float(change[place, column]), float(z * se[place, column])
            names = ("estimate", "ci_low", "ci_high") if worth == "rank" else (worth, f"{worth}_low", f"{worth}_high")
            row |= dict(zip(names, (estimate, estimate - margin, estimate + margin), strict=True))
            if worth == "rank":
                row |= {"rank_before": -float(before[place, column]), "rank_after": -float(after[place, column])}
        for column, worth in enumerate(shown[2:], start=2):
            for when, total in (("before", sums.before[:, column]), ("after", sums.after[:, column])):
                row[f"{worth}_share_{when}"] = float(total[place] / total.sum())
        table.append(row | {"items": int(sums.counts[place])})
    return tuple(table)


def _pairs(labels: tuple[Any, ...], change: Floats, variance: Floats, alpha: float) -> tuple[dict[str, Any], ...]:
    """Differences of the change in rank between groups."""
    if len(labels) > MAX_COMPARED:
        return ()
    table, n_worths = [], change.shape[1]
    for a, b in itertools.combinations(range(len(labels)), 2):
        i, j = a * n_worths, b * n_worths
        spread = float(variance[i, i] + variance[j, j] - 2 * variance[i, j])
        estimate, margin = float(change[a, 0] - change[b, 0]), normal_quantile(alpha) * np.sqrt(max(spread, 0.0))
        row = {"group_a": labels[a], "group_b": labels[b], "estimate": estimate}
        table.append(row | {"ci_low": estimate - float(margin), "ci_high": estimate + float(margin)})
    return tuple(table)


def _slot_rows(labels: tuple[Any, ...], slots: Floats) -> tuple[dict[str, Any], ...]:
    """One row for each group and slot: the group's share of it before and after, and how far its items that were there move up."""
    now, then, moved = slots
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = [items / items.sum(axis=0) for items in (now, then)]
        mean = moved / now
    return tuple(
        {
            "group": label,
            "slot": slot + 1,
            "share_before": float(shares[0][place, slot]),
            "share_after": float(shares[1][place, slot]),
            "change": float(mean[place, slot]),
        }
        for place, label in enumerate(labels)
        for slot in range(slots.shape[2])
        if now[:, slot].any() or then[:, slot].any()
    )


def _notes(items: Items, labels: tuple[Any, ...], top_k: int | None) -> tuple[str, ...]:
    sizes = np.bincount(_number_queries(items.query))
    single = int((sizes == 1).sum())
    who = "queries" if items.user is None else "queries and users"
    notes = [f"{len(items):,} items in {len(sizes):,} queries; limits respect {who} and the calibrator's own uncertainty"]
    if single:
        notes.append(f"{single:,} queries have one item, whose rank cannot change; they count")
    notes.append("ties share their places: averages over all orders of the tied items")
    notes.append("relative: change of rank over the slots of the query; exposure: of 1 / log2(1 + rank)")
    if top_k is not None:
        notes.append(f"top: of the chance to be among the first {top_k}")
    if len(labels) > MAX_COMPARED:
        notes.append(f"more than {MAX_COMPARED} groups: differences between them are left out")
    return tuple(notes)
