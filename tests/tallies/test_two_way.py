"""Two keys, users and items: pair matrices, what they are made of, how they add up, and in which measure items count."""

import numpy as np
import pytest
from tests.support import oracle

import evenscore as es
from evenscore.errors import DataError, MergeError, OptionError
from evenscore.tallies import item_counting, item_sums
from evenscore.tallies.item_sums import ItemLines, block_of, products
from evenscore.tallies.two_way import excess, fold_lines, item_share, with_keys
from evenscore.tallies.view import GroupView

EXACT = 1e-9  # of the largest number compared: sums in another order
COLUMNS = {"score": "s", "outcome": "y", "group": "g", "user": "u", "item": "i"}


def draw(seed=0, n_rows=800, n_users=120, n_items=40, *, binary=True, by="item", values=40, item_sd=0.0):
    """Rows of users who meet items; scores have few values, so that nothing is lost in cells."""
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, n_users, n_rows), rng.integers(0, n_items, n_rows)
    score = rng.integers(0, values, n_rows) / values
    effect = item_sd * rng.normal(size=n_items)[item]
    outcome = (rng.uniform(size=n_rows) < np.clip(score + effect, 0, 1)).astype(float)
    if not binary:
        outcome = 3 + score + effect + rng.normal(size=n_rows)
    group = np.where((item if by == "item" else user if by == "user" else rng.integers(0, 2, n_rows)) % 2, "b", "a")
    return {"s": score, "y": outcome, "g": group, "u": user, "i": item, "v": rng.uniform(0.5, 2, n_rows)}


def rows_of(data, weight=None):
    weight = np.ones(len(data["s"])) if weight is None else data[weight]
    return oracle.Rows(data["s"], data["y"], data["g"], data["u"], weight)


def close(found, wanted):
    assert np.abs(found - wanted).max() <= EXACT * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize("by", ["item", "user", "row"])
@pytest.mark.parametrize("weighting", ["user", "row"])
@pytest.mark.parametrize(("binary", "weight"), [(True, None), (False, None), (False, "v")])
def test_pair_matrices_are_those_of_rows_that_share_a_user_or_an_item(by, weighting, binary, weight):
    data = draw(binary=binary, by=by)
    tally = with_keys(es.tally(data, **COLUMNS, weight=weight), "full")
    cell = tally.lattice.cell(data["s"])
    w = np.zeros(len(cell))
    for group in "ab":
        mine = data["g"] == group
        w[mine] = oracle.row_weights(rows_of(data, weight).only(group), weighting)
    y = w * (data["y"] - tally.centre)
    same = (data["u"][:, None] == data["u"]) | (data["i"][:, None] == data["i"])
    for a, b in ("aa", "ab", "bb"):
        left, right = ((data["g"] == group)[:, None] * np.eye(tally.lattice.n_cells)[cell] for group in (a, b))
        matrices = tally.pair_matrices(a, b, weighting)
        for name, one, other in (("ww", w, w), ("wy", w, y), ("yw", y, w), ("yy", y, y)):
            close(getattr(matrices, name), (left * one[:, None]).T @ same @ (right * other[:, None]))


@pytest.mark.parametrize("weighting", ["user", "row"])
@pytest.mark.parametrize(
    ("kernel", "degree"),
    [(kernel, degree) for kernel in oracle.KERNELS for degree in (0, 1, 2) if degree == 0 or kernel[-1] not in "46"],
)
def test_covariances_of_curves_are_those_of_an_oracle_on_rows(kernel, degree, weighting):
    from evenscore.estimation.smoothing import Smoothing

    data = draw(binary=False)
    view = GroupView.of(with_keys(es.tally(data, **COLUMNS, scale="score"), "full"), "a", weighting)
    mine = data["g"] == "a"
    rows, points = rows_of(data).only("a"), np.array([0.3, 0.6])
    smoother = Smoothing(degree, kernel, 0.2).local_polynomial(view, points)
    influence, fits = [], []
    for x in points:
        weights, fit = oracle.local_weights(rows, x, 0.2, degree, kernel, weighting)
        influence.append(weights * (rows.outcome - fit))
        fits.append(np.array([fit[rows.score == score][0] for score in view.tally.lattice.values]))
    fitted = smoother.matrix * (np.array(fits) - view.tally.centre)
    close(view.covariance(smoother.matrix, fitted), oracle.two_way(np.array(influence), data["u"][mine], data["i"][mine]))


def test_the_share_of_items_is_what_rows_say():
    data = draw(n_rows=3000, n_users=400, item_sd=0.2, values=20)
    tally = es.tally(data, **COLUMNS)
    sums = np.zeros((2, 2))
    for group in "ab":
        mine = data["g"] == group
        rows, user, item = rows_of(data).only(group), data["u"][mine], data["i"][mine]
        w = oracle.row_weights(rows, "user")
        levels = min(16, len(user) // 50)
        place = np.unique(rows.score, return_inverse=True)[1]
        weight = np.bincount(place, w)
        middle = (np.cumsum(weight) - weight / 2) / weight.sum()
        level, through = (np.minimum((middle * n).astype(int), n - 1)[place] for n in (levels, len(np.unique(item)) // 10))
        score, outcome = (
            [np.average(values[through == k], weights=w[through == k]) for k in range(through.max() + 1)]
            for values in (rows.score, rows.outcome)
        )
        fit = np.interp(rows.score, score, outcome)
        ends = np.polyfit(score[:2], outcome[:2], 1), np.polyfit(score[-2:], outcome[-2:], 1)
        fit = np.where(rows.score < score[0], np.polyval(ends[0], rows.score), fit)
        fit = np.where(rows.score > score[-1], np.polyval(ends[1], rows.score), fit)
        residual, other = w * (rows.outcome - fit), oracle.shared_between(user, item, user, item)
        unit = np.sqrt(np.bincount(level, residual**2) / np.bincount(level, w))[level]
        for number, label in enumerate((np.zeros(len(w), dtype=int), level)):
            near = other & (label[:, None] == label)
            sums[number] += residual / unit @ near @ (residual / unit) / w.sum() ** 2, 2 * w @ near @ w / w.sum() ** 4
    z = (sums[:, 0] / np.sqrt(sums[:, 1])).max()
    assert z > 2 and item_share(tally, "user") == pytest.approx(1 - 1 / z**2, rel=1e-9)


def test_items_that_do_not_matter_mostly_count_for_nothing_and_items_that_do_count_fully():
    shares = [[item_share(es.tally(draw(seed, item_sd=sd), **COLUMNS), "user") for seed in range(30)] for sd in (0.0, 0.3)]
    assert np.mean(shares[0]) < 0.25 and np.median(shares[0]) == 0 and min(shares[1]) > 0.5


def test_items_of_costs_that_grow_with_the_score_are_seen_with_few_users():
    """Forty cities in 120 months: what a month does is a tenth of a city's sales, and the largest sell fifty times the least."""
    rng = np.random.default_rng(0)
    user, item = np.repeat(np.arange(40), 120), np.tile(np.arange(120), 40)
    score = np.exp(4 + rng.normal(size=40))[user] * np.exp(0.15 * rng.normal(size=len(user)))
    shares = []
    for effect in (0.0, 0.1):
        outcome = score * (1 + effect * rng.normal(size=120)[item] + 0.1 * rng.normal(size=len(user)))
        data = {"s": score, "y": outcome, "g": np.array(["a", "b"])[item % 2], "u": user, "i": item}
        shares.append(item_share(es.tally(data, **COLUMNS), "user"))
    assert shares[0] < 0.5 and shares[1] > 0.95


def test_without_items_nothing_changes():
    data = draw()
    columns = {**COLUMNS, "item": None}
    without = es.tally(data, **columns)
    with_items = es.tally(data, **COLUMNS)
    assert without.item is None and without.items is None and "both_pairs" not in without.block_names
    by_user = with_keys(with_items, "user")
    for a, b in ("aa", "ab", "bb"):
        one, other = without.pair_matrices(a, b), by_user.pair_matrices(a, b)
        assert (one is None) == (other is None)
        if one is not None:
            assert all((getattr(one, name) == getattr(other, name)).all() for name in ("ww", "wy", "yw", "yy"))
    assert es.parity_test(by_user).to_dict() == es.parity_test(without).to_dict()


@pytest.mark.parametrize("by", ["item", "user", "row"])
def test_shards_of_users_add_up(by):
    data = draw(by=by, binary=False)
    lattice = es.tally(data, **COLUMNS)
    shards = []
    for part in range(3):
        mine = data["u"] % 3 == part
        shards.append(es.tally({name: column[mine] for name, column in data.items()}, **COLUMNS, lattice=lattice))
    total = shards[0] + shards[1] + shards[2]
    assert total.item == "i" and total.item_counts == lattice.item_counts
    for pair in ((0, 0), (0, 1), (1, 1)):
        for weighting in ("user", "row"):
            one, other = (excess(with_keys(tally, "full"), pair, weighting) for tally in (total, lattice))
            assert (one is None) == (other is None)
            if one is not None:
                close(one.other.yy, other.other.yy)
    assert item_share(total, "user") == pytest.approx(item_share(lattice, "user"), rel=1e-9)
    assert es.parity_test(total).p_value == pytest.approx(es.parity_test(lattice).p_value, abs=1e-9)


def test_what_does_not_add_up_is_refused():
    data = draw()
    half = data["u"] % 2 == 0
    first, second = ({name: column[mine] for name, column in data.items()} for mine in (half, ~half))
    a = es.tally(first, **COLUMNS)
    b = es.tally(second, **COLUMNS, lattice=a)
    without = es.tally(second, **{**COLUMNS, "item": None}, lattice=a)
    with pytest.raises(MergeError, match="one tally has items, the other has none"):
        a + without
    with pytest.raises(MergeError, match="products only, which do not add up"):
        a + fold_lines(b, most=10)


def test_more_sums_by_item_than_are_kept_leave_their_products():
    data = draw()
    whole, folded = es.tally(data, **COLUMNS), fold_lines(es.tally(data, **COLUMNS), most=10)
    assert folded.items is None and folded.item_counts == whole.item_counts
    assert item_share(folded, "user") == pytest.approx(item_share(whole, "user"), rel=1e-12)
    assert es.parity_test(folded).p_value == es.parity_test(whole).p_value


@pytest.mark.parametrize("folded", [False, True])
def test_save_and_load(tmp_path, folded):
    tally = es.tally(draw(item_sd=0.3), **COLUMNS)
    tally = fold_lines(tally, most=10) if folded else tally
    tally.save(tmp_path / "t.tally")
    again = es.Tally.load(tmp_path / "t.tally")
    assert (again.item, again.item_counts, again.items is None) == (tally.item, tally.item_counts, folded)
    assert item_share(again, "user") == item_share(tally, "user") > 0
    assert es.parity_test(again).to_dict() == es.parity_test(tally).to_dict()


def test_a_file_without_items_has_no_word_of_them(tmp_path):
    es.tally(draw(), **{**COLUMNS, "item": None}).save(tmp_path / "t.tally")
    header = (tmp_path / "t.tally").read_bytes()[:4000]
    assert b"item" not in header and b"both_pairs" not in header


def test_a_tally_with_items_is_not_released():
    with pytest.raises(DataError, match="an item that few people met would show what they did"):
        es.tally(draw(), **COLUMNS).release(min_users=2)


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("chunk", [50, 1 << 17])
def test_plain_rows_are_counted_as_weighted_ones(labelled, chunk, monkeypatch):
    """0/1 outcomes without weights have keys of their own, whatever the chunks; half of a user's rows may be of one item."""
    monkeypatch.setattr(item_counting, "CHUNK", chunk)
    data = draw(n_items=25, n_users=60, by="row") | {"v": np.ones(800)}
    if not labelled:
        data["y"] = np.where(data["u"] % 5 == data["i"] % 5, np.nan, data["y"])
    columns = {**COLUMNS, "nulls": "unlabelled"}
    plain, weighted = es.tally(data, **columns), es.tally(data, **columns, weight="v")
    assert np.array_equal(plain.items.item, weighted.items.item) and np.array_equal(plain.items.cell, weighted.items.cell)
    close(plain.items.values, weighted.items.values)
    for pair in ((0, 0), (0, 1), (1, 1)):
        for weighting in ("user", "row"):
            one, other = (excess(tally, pair, weighting) for tally in (plain, weighted))
            for name in ("ww", "wy", "yw", "yy"):
                close(getattr(one.other, name), getattr(other.other, name))


def test_blocks_of_cells_lose_little():
    data = draw(n_rows=4000, n_users=500, item_sd=0.3, values=10**6)
    fine, coarse = (es.tally(data, **COLUMNS, cells=cells, scale="score") for cells in (512, 64))
    assert fine.lattice.n_cells == 512 and block_of(512).max() == 63
    for a, b in ("aa", "bb"):
        one, other = (with_keys(tally, "full").pair_matrices(a, b) for tally in (fine, coarse))
        for name in ("ww", "yy"):
            square = getattr(one, name)
            summed = np.add.reduceat(np.add.reduceat(square, np.arange(0, 512, 8), axis=0), np.arange(0, 512, 8), axis=1)
            close(summed, getattr(other, name))
    tests = [es.parity_test(with_keys(tally, "full"), both=False).pairs[0] for tally in (fine, coarse)]
    assert np.abs(tests[0].se / tests[1].se - 1).max() < 0.02


def test_long_and_short_items_make_the_same_products(monkeypatch):
    rng = np.random.default_rng(3)
    lines = ItemLines.of(*(rng.integers(0, n, 600) for n in (30, 2, 25)), rng.normal(size=(2, 2, 600)))
    one = ItemLines.of(np.array([99]), np.array([0]), np.array([3]), rng.normal(size=(2, 2, 1)))  # an item with one line
    lines = lines + one
    found = {}
    for long in (0, 6, 10**9):
        monkeypatch.setattr(item_sums, "LONG", long)
        found[long] = products(lines, 2, 25)
    dense = np.zeros((2, 2, 2, 25, 31))
    _, owner = np.unique(lines.item, return_inverse=True)
    dense[:, :, lines.group, lines.cell, owner] = lines.values
    for (a, b), sums in found[6].items():
        for weighting, name in enumerate(("user", "row")):
            square = sums.squares(name)
            close(square["wy"], dense[weighting, 0, a] @ dense[weighting, 1, b].T)
            for other in (0, 10**9):
                close(found[other][a, b].squares(name)["yy"], square["yy"])


def test_an_item_is_another_key_than_the_user():
    with pytest.raises(OptionError, match="an item is a second key"):
        es.tally(draw(), **{**COLUMNS, "item": "u"})


def test_one_key_is_the_case_of_independent_rows():
    data = draw(binary=False)
    by_item = with_keys(es.tally(data, **{**COLUMNS, "user": None}), "full")
    as_users = es.tally(data, **{**COLUMNS, "user": "i", "item": None})
    for name in ("ww", "wy", "yw", "yy"):
        close(getattr(by_item.pair_matrices("a", "a", "row"), name), getattr(as_users.pair_matrices("a", "a", "row"), name))


def test_moving_cells_groups_and_centres_keeps_items():
    from evenscore.tallies.reshaping import keep_groups, recentre

    data = draw(binary=False, by="user", n_items=30)
    tally = with_keys(es.tally(data, **COLUMNS), "full")
    moved = recentre(tally, 1.5)
    fit = np.full(tally.lattice.n_cells, 3.2)
    one, other = (t.pair_matrices("a", "b").residual(fit - t.centre, fit - t.centre) for t in (tally, moved))
    close(one, other)
    only = keep_groups(tally, ["b"])
    assert only.item_counts == tally.item_counts[1:]
    close(only.pair_matrices("b", "b").yy, tally.pair_matrices("b", "b").yy)


# Standard errors of six bins by users, by items and by both, from pyfixest 0.60.0: ``by_pyfixest`` of ``bins``.
PYFIXEST = {
    "u": [0.0272165526975909, 0.0349596734171259, 0.0390314846005562, 0.0335548197123144, 0.0395580523556562, 0.0310460271608001],
    "i": [0.0325755645754207, 0.0262804626300486, 0.0581602723854576, 0.0383130187717884, 0.042445026174024, 0.0300694176289334],
    "u + i": [
        0.0279727557049426,
        0.0214791314167903,
        0.0565440940143286,
        0.0267514208691523,
        0.0423821532437917,
        0.0258674303056427,
    ],
}


def bins():
    """Rows of 29 users and 29 items by arithmetic alone, so that they are the same everywhere for ever."""
    row = np.arange(900)
    user, item, place = (row * row // 3 + row) % 45, (row * row // 7 + 3 * row) % 31, row * 5 % 6
    outcome = ((row**3 + 11 * row + 5 * item + 3 * user) % 17 < 3 + 2 * place).astype(float)
    return {"s": place / 6, "y": outcome, "g": np.zeros(len(row), dtype=int), "u": user, "i": item}


def by_pyfixest(data, keys):
    """Standard errors of means of bins: a regression on dummies, without factors for small samples."""
    import pandas
    import pyfixest

    frame = pandas.DataFrame(data).assign(b=data["s"].astype(str))
    model = pyfixest.feols("y ~ 0 + C(b)", frame, vcov={"CRV1": keys}, ssc=pyfixest.ssc(k_adj=False, G_adj=False))
    return model.se().to_numpy()


@pytest.mark.parametrize(("keys", "ours"), [("u", "user"), ("i", "item"), ("u + i", "full")])
def test_two_way_variances_are_those_of_pyfixest(keys, ours):
    view = GroupView.of(with_keys(es.tally(bins(), **COLUMNS), ours), 0, "row")
    matrix = np.diag(1 / view.sums.W)
    found = np.sqrt(np.diag(view.covariance(matrix, matrix * (view.sums.Y / view.sums.W))))
    np.testing.assert_allclose(found, PYFIXEST[keys], rtol=EXACT)


@pytest.mark.filterwarnings("ignore::Warning")  # those of a peer
@pytest.mark.parametrize("keys", PYFIXEST)
def test_pyfixest_still_says_so(keys):
    pytest.importorskip("pyfixest", reason="a peer for comparison, in the bench group")
    np.testing.assert_allclose(by_pyfixest(bins(), keys), PYFIXEST[keys], rtol=EXACT)
