"""``release()`` protects a person: attacks that try to read one person's outcome off a released tally, and how near they come.

Each attack is a function of what an attacker holds: a released tally, or two, and common knowledge such as what people usually
earn. It gives a few estimates. A person is protected when each is wrong by more than ``SAFE`` of the truth (the p % rule with
p = 10). Which rule the release follows (clipping, rounding, withheld squares) is not what these tests ask.
"""

import numpy as np
import pytest
from black_box import COLUMNS, NAMES, ended

import evenscore as es
from hostile import THOROUGH

SAFE = 0.10
INCOME = 48_123_456.0
MIN_USERS = 20


def incomes(n=4_000, seed=0, rows_per_user=1, target=INCOME, target_rows=None, where=0.5, target_group="a", n_groups=2):
    """People with usual incomes, and one (user 0) with another."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(n), rows_per_user)
    score = rng.random(len(user))
    outcome = np.exp(rng.normal(10.6, 0.5, n))[user] * np.exp(rng.normal(0, 0.1, len(user)))
    group = np.array(list("abcdefgh"))[:n_groups][user % n_groups]
    group[user == 0] = target_group
    own = np.flatnonzero(user == 0)
    outcome[own] = target
    score[own] = where if np.ndim(where) == 0 else np.resize(where, len(own))
    return {"s": score, "y": outcome, "g": group, "u": user}


def usual(data):
    """Common knowledge: what people earn on average without the one person."""
    return float(np.mean(data["y"][data["u"] != 0]))


def released_of(data, min_users=MIN_USERS, **options):
    return es.tally(data, **NAMES, **options).release(min_users=min_users)


# Attacks on one release: (released tally, common knowledge) -> estimates of one person's outcome


def each_cell(released, weighting):
    for group in released.groups:
        sums = released.sums(group, weighting)
        for cell in np.flatnonzero(sums.W > 0):
            yield group, int(cell), sums


def farthest(estimates, released):
    """The one estimate that an attacker would bet on: the farthest from what is usual; a lucky hit among many is none."""
    usable = [estimate for estimate in estimates if np.isfinite(estimate)]
    return max(usable, key=lambda estimate: abs(estimate - released.centre), default=np.nan)


def both_signs(squares, released):
    """Roots of squared deviations, in the direction that is possible or not: the attacker knows which."""
    usable = [square for square in squares if np.isfinite(square) and square > 0]
    root = np.sqrt(max(usable, default=np.nan))
    return [released.centre + root, released.centre - root]


def extremes(released, knowledge):
    """The root of a cell's largest squares: where one person dominates, it is theirs."""
    for weighting in ("user", "row"):
        for vector in ("Y2", "V2"):
            yield from both_signs([getattr(sums, vector)[cell] for _, cell, sums in each_cell(released, weighting)], released)


def moments(released, knowledge):
    """Samuelson: with n people of this mean and square none is beyond m + s sqrt(n - 1), and one that dominates is just there."""
    upper, lower = [], []
    for _, cell, sums in each_cell(released, "user"):
        n = sums.W[cell]
        mean = sums.Y[cell] / n
        variance = sums.Y2[cell] / n - mean**2
        if np.isfinite(variance) and variance > 0 and n > 1:
            upper.append(released.centre + mean + np.sqrt(variance * (n - 1)))
            lower.append(released.centre + mean - np.sqrt(variance * (n - 1)))
    yield farthest(upper, released)
    yield farthest(lower, released)


def dominance(released, knowledge):
    """A cell's total less what its other people usually have."""
    for weighting in ("user", "row"):
        totals = [
            sums.Y[cell] + released.centre * sums.W[cell] - (sums.W[cell] - 1) * knowledge
            for _, cell, sums in each_cell(released, weighting)
        ]
        yield farthest(totals, released)


def groups_total(released, knowledge):
    """The same with a whole group, and with everybody."""
    found, everybody = [], 0.0
    for row in released.rows():
        total = row["mean_outcome"] * row["users"]
        everybody += total
        found.append(total - (row["users"] - 1) * knowledge)
    n = sum(released.n_users.values())
    yield farthest(found, released)
    yield everybody - (n - 1) * knowledge
    yield (released.centre - knowledge) * n + knowledge


def pair_sums(released, knowledge):
    """Products of a person's outcomes in two cells, or in one: roots and ratios of them."""
    for weighting in ("user", "row"):
        found = {"yy": [], "yy / ww": [], "wy / ww": [], "yy / wy": []}
        for group in released.groups:
            pairs = released.pair_matrices(group, group, weighting)
            yy, ww, wy = (np.asarray(getattr(pairs, name), dtype=float) for name in ("yy", "ww", "wy"))
            with np.errstate(all="ignore"):
                found["yy"] += np.abs(yy).ravel().tolist()
                found["yy / ww"] += np.abs(yy / ww).ravel().tolist()
                found["wy / ww"] += ((wy / ww) ** 2).ravel().tolist()
                found["yy / wy"] += ((yy / wy) ** 2).ravel().tolist()
        for squares in found.values():
            yield from both_signs(squares, released)


def slopes(released, knowledge):
    """Score times outcome over score: where one dominates, the scores cancel."""
    found = []
    for _, cell, sums in each_cell(released, "user"):
        if sums.X[cell] > 0:
            found.append(released.centre + sums.XY[cell] / (sums.X[cell] / sums.W[cell]))
    yield farthest(found, released)


def higher_powers(released, knowledge):
    """Sums of fourth powers are nearly all the largest person's: their root, and ratios in which the weight cancels."""
    for weighting in ("user", "row"):
        every = [sums for sums in (released.higher(group, weighting) for group in released.groups) if sums is not None]
        if not every:
            continue
        fourths, cubes, thirds, squares = (
            np.concatenate([getattr(sums, name) for sums in every]) for name in ("Q4", "Q3", "T3", "T2")
        )
        yield from both_signs(np.sqrt(fourths), released)
        with np.errstate(all="ignore"):
            yield released.centre + (fourths / cubes)[np.argmax(fourths)]
            yield released.centre + (thirds / squares)[np.argmax(np.abs(thirds))]


ATTACKS = {each.__name__: each for each in (extremes, moments, dominance, groups_total, pair_sums, slopes, higher_powers)}


def error_of(estimates, truth):
    """The relative error of the nearest of a few estimates: what a release must keep large."""
    return min((abs(estimate - truth) / abs(truth) for estimate in estimates if np.isfinite(estimate)), default=np.inf)


DESIGNS = {
    "one of 4,000": {},
    "at the end of the scores": {"where": 1.0},
    "four rows each": {"rows_per_user": 4, "where": [0.2, 0.4, 0.6, 0.8]},
    "four rows each, two cells": {"rows_per_user": 4, "where": [0.2, 0.2, 0.8, 0.8]},
    "a debt": {"target": -INCOME},
    "a small group": {"n": 400, "n_groups": 8, "target_group": "h"},
    "few people": {"n": 100},
}


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_comes_near_an_extreme_outcome(attack, design):
    data = incomes(**DESIGNS[design])
    released = released_of(data)
    error = error_of(ATTACKS[attack](released, usual(data)), DESIGNS[design].get("target", INCOME))
    print(f"{attack} on {design}: relative error {error:.3f}")
    assert error > SAFE


@pytest.mark.parametrize("design", DESIGNS)
def test_higher_powers_show_a_person_unless_they_are_left_out(design):
    """Why no release has them: on the tally itself the attack finds the person, in every design."""
    data = incomes(**DESIGNS[design])
    tally = es.tally(data, **NAMES)
    assert error_of(higher_powers(tally, usual(data)), DESIGNS[design].get("target", INCOME)) < SAFE / 10
    assert "block 'higher' is left out: third and fourth powers show single persons" in repr(tally.release(min_users=MIN_USERS))


def test_higher_powers_of_yes_and_no_are_left_out_as_well():
    """With the numbers of rows that people have, sums of 1/n, 1/n^2, 1/n^3 and 1/n^4 say who is among the positive ones."""
    data = incomes(n=600, rows_per_user=3)
    data["y"] = (data["y"] > np.median(data["y"])).astype(int)
    released = released_of(data)
    assert released.binary and all(released.higher(group) is None for group in released.groups)


@pytest.mark.parametrize("attack", ["extremes", "moments", "pair_sums"])
def test_squares_do_not_show_the_second_largest_either(attack):
    """The largest person knows their own outcome, takes it off, and looks for the next."""
    data = incomes()
    data["y"][data["u"] == 0] = INCOME
    data["y"][data["u"] == 2] = INCOME / 2
    data["s"][data["u"] == 2] = 0.5
    data["g"][data["u"] == 2] = "a"
    released = released_of(data)
    estimates = []
    for estimate in ATTACKS[attack](released, usual(data)):
        rest = (estimate - released.centre) ** 2 - (INCOME - released.centre) ** 2
        estimates.append(released.centre + np.sqrt(max(rest, 0.0)))
    assert error_of(estimates, INCOME / 2) > SAFE


@pytest.mark.parametrize("attack", ATTACKS)
def test_saved_and_loaded_it_shows_no_more(attack, tmp_path):
    data = incomes()
    released_of(data).save(tmp_path / "out.tally")
    again = es.Tally.load(tmp_path / "out.tally")
    assert error_of(ATTACKS[attack](again, usual(data)), INCOME) > SAFE


def test_the_command_line_releases_the_same(tmp_path):
    data = incomes()
    lines = ["s,y,g,u", *(",".join(map(str, row)) for row in zip(*(data[name].tolist() for name in "sygu"), strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "out.tally"
    assert ended("tally", tmp_path / "rows.csv", *COLUMNS, "--release", MIN_USERS, "--quiet", "-o", out) == 0
    released = es.Tally.load(out)
    for attack in ATTACKS.values():
        assert error_of(attack(released, usual(data)), INCOME) > SAFE
    assert ended("tally", tmp_path / "rows.csv", *COLUMNS, "--quiet", "-o", tmp_path / "whole.tally") == 0
    assert ended("merge", tmp_path / "whole.tally", "--release", MIN_USERS, "--quiet", "-o", out) == 0
    for attack in ATTACKS.values():
        assert error_of(attack(es.Tally.load(out), usual(data)), INCOME) > SAFE


@pytest.mark.parametrize("seed", range(100 if THOROUGH else 4))
def test_no_attack_comes_near_on_random_incomes(seed):
    """Heavier and lighter tails, more and fewer people: the person with the most is the one to protect."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 3_000))
    rows = int(rng.choice([1, 1, 3]))
    user = np.repeat(np.arange(n), rows)
    own = np.exp(rng.normal(0, rng.uniform(1.0, 3.0), n))
    data = {"s": rng.random(len(user)), "y": own[user] * 1e4, "g": np.array(["a", "b"])[user % 2], "u": user}
    top = int(own.argmax())
    if own[top] < 4 * np.sort(own)[-2]:
        own[top] *= 8
        data["y"] = own[user] * 1e4
    try:
        released = released_of(data)
    except es.DataError:
        return
    knowledge = float(data["y"][user != top].mean())
    errors = [error_of(ATTACKS[name](released, knowledge), own[top] * 1e4) for name in ("extremes", "moments", "pair_sums")]
    if min(errors) <= SAFE:  # one of dozens of numbers is near by chance if it stays where it is when the outcome moves
        assert min(reach(data, top, shares=(SAFE,))) >= SAFE, errors


# Scores are about people, too


def test_an_extreme_score_is_not_shown():
    """One score of 1,234,567 among scores around 600: the sum of its cell, the limits of the lattice."""
    data = incomes(target=50_000.0)
    data["s"] = 600 + 100 * np.random.default_rng(1).normal(size=len(data["s"]))
    data["y"] = (np.random.default_rng(2).random(len(data["s"])) < 0.5).astype(int)
    truth = 1_234_567.0
    data["s"][0] = truth
    released = released_of(data)
    estimates = [released.lattice.low, released.lattice.high]
    for weighting in ("user", "row"):
        estimates.append(max(sums.X[cell] - (sums.W[cell] - 1) * 600 for _, cell, sums in each_cell(released, weighting)))
        estimates.append(max(sums.X[cell] for _, cell, sums in each_cell(released, weighting)))
    assert error_of(estimates, truth) > SAFE


# Two releases


def totals(released):
    """What a release says about everybody: sums of weight, outcome and squares, by group and in all."""
    found = {}
    for group in released.groups:
        sums = released.sums(group, "user")
        outcome = sums.Y.sum() + released.centre * sums.W.sum()
        squares = sums.Y2.sum() + 2 * released.centre * sums.Y.sum() + released.centre**2 * sums.W.sum()
        found[group] = np.array([sums.W.sum(), outcome, squares])
    return found


def differencing(before, after):
    """One person joined between two releases: differences of sums, of centres times people, and roots of differences of squares."""
    one, other = totals(before), totals(after)
    for group in one:
        if group in other:
            difference = other[group] - one[group]
            yield difference[1]
            with np.errstate(all="ignore"):
                yield np.sqrt(abs(difference[2]))
    n_before, n_after = sum(before.n_rows.values()), sum(after.n_rows.values())
    yield after.centre * n_after - before.centre * n_before


@pytest.mark.parametrize("target", [INCOME, 61_234.0, 20_000.0], ids=["extreme", "usual", "small"])
def test_two_releases_do_not_show_who_joined(target):
    """The data of two days that differ by one person. Rounding, noise or refusing a second release: what it is, is to be stated."""
    data = incomes(target=target)
    others = {name: column[data["u"] != 0] for name, column in data.items()}
    error = error_of(differencing(released_of(others, scale="score"), released_of(data, scale="score")), target)
    print(f"differencing, {target:,.0f}: relative error {error:.3f}")
    assert error > SAFE


def test_what_two_releases_show_of_a_yes_or_no_is_said():
    """Sums of 0 and 1 stay exact, since any step that hides one answer would drown rare ones: who compares two, sees it."""
    right = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = 1_200
        data = {
            "s": rng.random(n),
            "y": (rng.random(n) < 0.4).astype(int),
            "g": np.array(["a", "b"])[np.arange(n) % 2],
            "u": np.arange(n),
        }
        person = int(rng.integers(n))
        others = {name: column[data["u"] != person] for name, column in data.items()}
        one, other = totals(released_of(others)), totals(released_of(data))
        group = data["g"][person]
        right.append(abs((other[group] - one[group])[1] - data["y"][person]) < 1e-6)
        assert "two releases that differ by one person show that person's outcome" in " ".join(repr(released_of(data)).split())
    assert all(right)


def test_two_thresholds_of_users_do_not_show_more():
    """The same data released with min_users 20 and 21: cells that differ by one old cell leave that cell's people."""
    data = incomes()
    leaks = []
    one, other = released_of(data, 20), released_of(data, 21)
    for group in one.groups:
        edges_one, edges_other = one.lattice.edges, other.lattice.edges
        sums_one, sums_other = one.sums(group, "user"), other.sums(group, "user")
        for edge in edges_one:
            nearest = int(np.abs(edges_other - edge).argmin())
            cell = int(np.searchsorted(edges_one, edge)) + 1
            below_one = (sums_one.Y[:cell] + one.centre * sums_one.W[:cell]).sum()
            below_other = (sums_other.Y[: nearest + 1] + other.centre * sums_other.W[: nearest + 1]).sum()
            leaks.append(abs(below_one - below_other))
    assert error_of([max(leaks)], INCOME) > SAFE


# Somebody who knows everybody else, and how a release is made


def every_number(released):
    blocks = [sums.values.ravel() for group in released.group_tallies for sums in group.blocks.values()]
    cross = [sums.values.ravel() for sums in released.cross.values()]
    return np.concatenate([[released.centre], released.lattice.edges, *blocks, *cross])


def reach(data, person=0, shares=(0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8)):
    """How far down and up a person's outcome can go, as shares of it, while not one number of the release changes.

    No attack does better: whoever knows all else can try every outcome, and keeps those that give this release.
    """
    truth = every_number(released_of(data))
    found = []
    for sign in (-1, 1):
        far = 0.0
        for share in shares:
            tried = np.where(data["u"] == person, data["y"] * (1 + sign * share), data["y"])
            numbers = every_number(released_of(data | {"y": tried}))
            if numbers.shape != truth.shape or not np.allclose(numbers, truth, rtol=1e-9, atol=1e-9 * abs(truth).max()):
                break
            far = share
        found.append(far)
    return found


@pytest.mark.parametrize("rows_per_user", [1, 4])
@pytest.mark.parametrize("target", [INCOME, 61_234.0, 20_000.0], ids=["extreme", "usual", "small"])
def test_knowing_everybody_else_leaves_an_interval(target, rows_per_user):
    where = 0.5 if rows_per_user == 1 else [0.2, 0.4, 0.6, 0.8]
    down, up = reach(incomes(n=600, target=target, rows_per_user=rows_per_user, where=where))
    print(f"knowing everybody else, {target:,.0f}, {rows_per_user} rows: from -{down:.0%} to +{up:.0%}")
    assert down + up >= 2 * SAFE
    if target == INCOME:
        assert min(down, up) >= 0.5


# What is said


def test_a_release_says_what_it_did_to_outcomes():
    """Somebody who is handed one must know what was clipped, rounded or left out."""
    text = repr(released_of(incomes()))
    assert "released" in text
    assert any(word in text.lower() for word in ("clip", "round", "suppress", "withheld", "left out", "limit")), text


def test_a_released_tally_still_answers():
    """Protection that leaves nothing is easy; curves, tests and calibrators of a usual outcome still come."""
    data = incomes(target=50_000.0)
    released = released_of(data)
    assert es.parity_test(released, method="bonferroni").verdict in ("inconclusive", "parity", "disparity")
    assert len(es.curves(released).rows()) > 2
    assert es.calibrate(released, method="binning").transform([0.5], ["a"]).shape == (1,)
    means = {row["group"]: row["mean_outcome"] for row in released.rows()}
    for group in "ab":
        assert means[group] == pytest.approx(data["y"][data["g"] == group].mean(), rel=0.05)
