"""The tally's lines by native Spark expressions: each user's cells are collected into an array and paired there."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenscore.data.coding import FOLDS
from evenscore.engines.lines import (
    ALL_PAIRS,
    ALL_ROWS,
    CUBES,
    FOLDED,
    FOURTHS,
    HASHES,
    OTHERS,
    PAIRS,
    SCALARS,
    SQUARES,
    WIDTH,
    hash_limit,
)
from evenscore.engines.parts import Recipe
from evenscore.engines.sql import SPARK, integer_hash
from evenscore.engines.survey import Survey
from evenscore.tallies.lattice import Lattice

SUMS = {
    "n": "sum(m)",
    "a": "sum(m_all)",
    "w": "sum(m * v)",
    "y": "sum(m * v * d)",
    "x": "sum(m * v * s)",
    "y2": "sum(m * v * d * d)",
    "xy": "sum(m * v * s * d)",
    "q0": "sum(m * v * v)",
    "q1": "sum(m * v * v * d)",
    "q2": "sum(m * v * v * d * d)",
    **{f"c{k}": "sum(m * v * v * v" + " * d" * k + ")" for k in range(4)},
    **{f"f{k}": "sum(m * v * v * v * v" + " * d" * k + ")" for k in range(5)},
    "u": "sum((m_all - m) * v)",
    "r2": "sum(m_all * v * v)",
    "r3": "sum(m_all * v * v * v)",
}


def native_users(base: Any, facts: Survey) -> Any:
    """One row for each user and group, with an array of cells: what all lines are made from."""
    return _users(_cells(_rows(base, facts)), facts.recipe)


def native_lines(users: Any, recipe: Recipe, has_unlabelled: bool = False) -> Any:
    """A DataFrame of lines (kind, place, v0 to v7) that add up to the tally; sums of all rows only where some have no outcome."""
    n_groups, n_cells = len(recipe.labels), recipe.lattice.n_cells
    lines = _cell_lines(users, n_cells).unionAll(_count_lines(users)).unionAll(_pair_lines(users, n_groups, n_cells))
    if has_unlabelled:
        lines = lines.unionAll(_all_row_lines(users, n_cells)).unionAll(_all_pair_lines(users, n_groups, n_cells))
    return lines if recipe.columns.user is None else lines.unionAll(_hash_lines(users, recipe))


def _rows(base: Any, facts: Survey) -> Any:
    """key, g, c (cell), s, d (deviation), v (weight), m (labelled repeats), m_all (repeats)."""
    recipe = facts.recipe
    whole = base if recipe.columns.user is None else base.repartition("key")
    placed = with_cell(whole, "score", "c", recipe.lattice)
    count = "`count`" if "count" in facts.selected else "1"
    known = "outcome IS NOT NULL" if facts.has_unlabelled else "true"
    return placed.selectExpr(
        "key",
        "CAST(`group` AS INT) AS g",
        "c",
        "score AS s",
        f"coalesce(CAST(outcome AS DOUBLE) - {recipe.centre!r}D, 0D) AS d",
        f"{'weight' if 'weight' in facts.selected else '1D'} AS v",
        f"CASE WHEN {known} THEN CAST({count} AS DOUBLE) ELSE 0D END AS m",
        f"CAST({count} AS DOUBLE) AS m_all",
    )


def with_cell(frame: Any, score: str, name: str, lattice: Lattice) -> Any:
    """The frame with one more column: the number of edges that are not above the score, by bisection, as in NumPy."""
    n_cells = lattice.n_cells
    if n_cells & (n_cells - 1) == 0 and np.array_equal(lattice.edges, np.arange(1, n_cells) / n_cells):
        # Edges are multiples of a power of two, so the product is exact.
        guess = f"CAST(least(greatest(floor({score} * {n_cells}), 0), {n_cells - 1}) AS INT)"
        return frame.selectExpr("*", f"{guess} AS {name}")
    size = 1 << int(np.ceil(np.log2(n_cells)))
    padded = np.concatenate([lattice.edges, np.full(max(size - 1 - len(lattice.edges), 0), np.inf)])
    edges = "array(" + ", ".join(_double(edge) for edge in padded) + ")"
    frame = frame.selectExpr("*", f"0 AS {name}")
    while size > 1:
        size //= 2
        others = [f"`{column}`" for column in frame.columns if column != name]
        step = f"CASE WHEN element_at({edges}, {name} + {size}) <= {score} THEN {name} + {size} ELSE {name} END AS {name}"
        frame = frame.selectExpr(*others, step)
    return frame


def _double(value: float) -> str:
    return "double('Infinity')" if np.isinf(value) else f"{float(value)!r}D"


def _cells(rows: Any) -> Any:
    """What each user put into each cell of each group."""
    from pyspark.sql.functions import expr

    return rows.groupBy("key", "g", "c").agg(*(expr(sql).alias(name) for name, sql in SUMS.items()))


def _users(cells: Any, recipe: Recipe) -> Any:
    """One row for each user and group: labelled rows n_m, all rows a_m, the user's hash, and an array of cells."""
    from pyspark.sql.functions import expr

    held = "collect_list(struct(c, " + ", ".join(SUMS) + "))"
    users = cells.groupBy("key", "g").agg(expr("sum(n)").alias("n_m"), expr("sum(a)").alias("a_m"), expr(held).alias("cells"))
    return users.selectExpr("*", f"{'key' if recipe.hashed else integer_hash(SPARK, 'key')} AS h")


def _line(kind: int, place: str, values: list[str]) -> list[str]:
    padded = [*values, *["0D"] * (WIDTH - len(values))]
    return [
        f"CAST({kind} AS BIGINT) AS kind",
        f"CAST({place} AS BIGINT) AS place",
        *(f"CAST({value} AS DOUBLE) AS v{i}" for i, value in enumerate(padded)),
    ]


def _struct(kind: int, place: str, values: list[str]) -> str:
    return f"struct({', '.join(_line(kind, place, values))})"


def _cell_lines(users: Any, n_cells: int) -> Any:
    """The vectors: five lines for each cell of a user, added up inside Spark."""
    cells = users.selectExpr("g", "h", "n_m", "a_m", "inline(cells)")
    factor = "CASE WHEN n_m > 0 THEN 1D / n_m ELSE 0D END"
    cells = cells.selectExpr("*", f"{factor} AS f")
    folded = [f"{name} * f" for name in ("w", "y", "x", "y2")] + ["w", "y", "x", "y2"]
    others = ["xy * f", "xy", "u / a_m", "u", "(w + u) / a_m", "w + u", "CASE WHEN n > 0 THEN 1D ELSE 0D END"]
    squares = [*_both("q", 3, power=2), f"f4 * {_power(4)}", "f4"]
    lines = [
        _struct(FOLDED, f"(g * {FOLDS} + h % {FOLDS}) * {n_cells} + c", folded),
        _struct(OTHERS, f"g * {n_cells} + c", others),
        _struct(SQUARES, f"g * {n_cells} + c", squares),
        _struct(CUBES, f"g * {n_cells} + c", _both("c", 4, power=3)),
        _struct(FOURTHS, f"g * {n_cells} + c", _both("f", 4, power=4)),
    ]
    return cells.selectExpr(f"inline(array({', '.join(lines)}))")


def _power(power: int) -> str:
    return " * ".join(["f"] * power)


def _both(letter: str, n: int, power: int) -> list[str]:
    """Sums of a power of the weight per user, then per row."""
    names = [f"{letter}{k}" for k in range(n)]
    return [f"{name} * {_power(power)}" for name in names] + names


def _count_lines(users: Any) -> Any:
    """Users and rows of each group."""
    return users.selectExpr(*_line(SCALARS, "g + 1", ["CASE WHEN n_m > 0 THEN 1D ELSE 0D END", "n_m", "a_m - n_m"]))


def _all_row_lines(users: Any, n_cells: int) -> Any:
    """Squares and cubes of the weights of all rows, with an outcome or not."""
    cells = users.selectExpr("g", "a_m", "inline(cells)")
    powers = ["r2 / (a_m * a_m)", "r3 / (a_m * a_m * a_m)", "r2", "r3"]
    return cells.selectExpr(*_line(ALL_ROWS, f"g * {n_cells} + c", powers))


def _all_pair_lines(users: Any, n_groups: int, n_cells: int) -> Any:
    """Every pair of a user's cells by the weight of all rows."""
    held = "transform(cells, e -> struct(g, e.c AS c, e.w + e.u AS w, 1D / a_m AS f))"
    by_row = "one.w * other.w"
    pairs = _pairs_of(_people(users, held))
    return pairs.selectExpr(*_line(ALL_PAIRS, _pair_place(n_groups, n_cells), [f"{by_row} * (one.f * other.f)", by_row]))


def _people(users: Any, held: str) -> Any:
    """One row for each user, with an array of what is held in all groups and in how many these are."""
    from pyspark.sql.functions import expr

    every = expr(f"sort_array(flatten(collect_list({held})))").alias("held")
    return users.groupBy("key").agg(every, expr("count(*)").alias("n_groups"))


def _pairs_of(people: Any) -> Any:
    left = people.selectExpr("held", "posexplode(held) AS (i, one)")
    return left.selectExpr("one", "explode(slice(held, i + 1, size(held) - i)) AS other")


def _pair_place(n_groups: int, n_cells: int) -> str:
    return f"CAST(one.g * {n_groups} + other.g AS BIGINT) * {n_cells**2} + one.c * {n_cells} + other.c"


def _pair_lines(users: Any, n_groups: int, n_cells: int) -> Any:
    """Every pair of a user's cells, also across groups, and whether the user is in several groups."""
    held = "transform(filter(cells, e -> e.n > 0), e -> struct(g, e.c AS c, e.w AS w, e.y AS y, 1D / n_m AS f))"
    people = _people(users.where("n_m > 0"), held)
    pairs, place = _pairs_of(people), _pair_place(n_groups, n_cells)
    by_row = ["one.w * other.w", "one.w * other.y", "one.y * other.w", "one.y * other.y"]
    by_user = [f"{term} * (one.f * other.f)" for term in by_row]
    spanning = people.where("n_groups > 1").selectExpr(*_line(SCALARS, "0", ["1D"]))
    return pairs.selectExpr(*_line(PAIRS, place, by_user + by_row)).unionAll(spanning)


def _hash_lines(users: Any, recipe: Recipe) -> Any:
    """The smallest hashes of labelled users."""
    return users.where(f"n_m > 0 AND h < {hash_limit(recipe)}").selectExpr(*_line(HASHES, "h", ["1D"]))
