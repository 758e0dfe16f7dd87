"""Pair sums of all rows, with an outcome or not: against rows, through files, sums of shards and user-level lines."""

import numpy as np

import evenscore as es
from evenscore.tallies.everyone import all_pairs

NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u", "weight": "v", "nulls": "unlabelled"}


def make(n=2000):
    rng = np.random.default_rng(0)
    data = {"s": np.round(rng.random(n), 2), "y": rng.integers(0, 2, n).astype(float), "g": rng.integers(0, 2, n)}
    data |= {"u": rng.integers(0, 300, n), "v": rng.gamma(2, 1, n)}
    data["y"][(rng.random(n) < 0.3) | (data["u"] < 30)] = np.nan
    return data


def cells_of_users(data, tally, group, weighting):
    mine = data["g"] == group
    user, cell = data["u"][mine], tally.lattice.cell(data["s"][mine])
    weight = data["v"][mine] / (np.bincount(user, minlength=300)[user] if weighting == "user" else 1)
    held = np.zeros((300, tally.lattice.n_cells))
    np.add.at(held, (user, cell), weight)
    return held, [np.bincount(cell, weight**k, minlength=tally.lattice.n_cells) for k in (2, 3)]


def check(data, tally):
    for weighting in ("user", "row"):
        held = []
        for group in (0, 1):
            cells, powers = cells_of_users(data, tally, group, weighting)
            held.append(cells)
            found = tally.group_tallies[group].blocks["all_rows"].under(weighting)
            np.testing.assert_allclose([found["R2"], found["R3"]], powers, rtol=1e-10, atol=1e-12)
        for a in (0, 1):
            for b in (0, 1):
                np.testing.assert_allclose(all_pairs(tally, a, b, weighting), held[a].T @ held[b], rtol=1e-10, atol=1e-12)


def only(data, kept):
    return {name: values[kept] for name, values in data.items()}


def test_sums_are_those_of_rows_also_saved_and_added(tmp_path):
    data = make()
    tally = es.tally(data, **NAMES)
    check(data, tally)
    tally.save(tmp_path / "x.tally")
    check(data, es.Tally.load(tmp_path / "x.tally"))
    first = data["u"] < 150
    check(data, es.tally(only(data, first), **NAMES, lattice=tally) + es.tally(only(data, ~first), **NAMES, lattice=tally))


def test_a_shard_whose_rows_all_have_outcomes_adds_up():
    data = make()
    data["y"][data["u"] >= 150] = 1.0
    whole = es.tally(data, **NAMES)
    first = data["u"] < 150
    a, b = (es.tally(only(data, part), **NAMES, lattice=whole) for part in (first, ~first))
    assert "all_pairs" in a.block_names and "all_pairs" not in b.block_names
    check(data, a + b)
    check(data, b + a)


def test_nothing_is_kept_where_every_row_has_an_outcome():
    data = make()
    data["y"] = np.nan_to_num(data["y"])
    assert "all_pairs" not in es.tally(data, **NAMES).block_names


def test_lines_and_user_cells_make_the_same():
    from evenscore.data.observations import Columns
    from evenscore.engines.lines import from_lines, to_lines
    from evenscore.engines.parts import Recipe
    from evenscore.tallies.user_cells import tally_user_cells, user_cells

    data = make()
    data["v"] = np.round(data["v"]) + 1.0
    data["v"][:] = 2.0  # inside a line, unlabelled rows are taken to weigh the same
    tally = es.tally(data, **NAMES)
    columns = tally.columns
    assert isinstance(columns, Columns)
    recipe = Recipe(tally.lattice, tally.groups, columns, True, 0.0, False, len(data["s"]), 300)
    check(data, from_lines(to_lines(tally), recipe))
    missing = np.isnan(data["y"])
    arrays = {"score": data["s"], "group": data["g"], "key": data["u"], "weight": data["v"]}
    arrays["outcome"] = np.ma.MaskedArray(np.where(missing, 0.0, data["y"]), missing)
    observations = recipe.observations(arrays)
    check(data, tally_user_cells(user_cells(observations, tally.lattice, 0.0), recipe.zero, observations.users))
