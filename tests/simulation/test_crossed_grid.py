"""The crossed grid of the benchmarks: its draws are what they say, its parts are balanced, and a small study runs and goes on."""

import collections
import importlib
import itertools
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MODULES = ("crossed", "crossed_cells", "crossed_tests", "crossed_page", "crossed_placebo", "bin_tests", "writing")
ERRORS = 5  # standard errors that a mean may be off: one in two million by chance


@pytest.fixture(scope="module")
def grid():
    """The modules of the benchmark by name, as if it were run; other tests do not see them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield {name: importlib.import_module(name) for name in MODULES}
    for name in MODULES:
        sys.modules.pop(name, None)


def close(values, expected):
    """Whether the mean of independent values is what is expected."""
    return abs(values.mean() - expected) <= ERRORS * values.std(ddof=1) / math.sqrt(len(values))


@pytest.mark.parametrize(("rate", "scores"), [(0.002, (0.5, 50.0)), (0.05, (2.0, 2.0)), (0.3, (0.5, 50.0))])
def test_rates_curves_and_scores_are_what_they_say(grid, rate, scores):
    cells = grid["crossed_cells"]
    cell = cells.Cell(cells.Event(rate), ratio=5, users=20_000, rows=4, icc=0.4, scores=scores)
    data = cell.data(3)
    outcome, score = (data[name].reshape(-1, 4) for name in ("outcome", "score"))
    assert close(outcome.mean(axis=1), rate)
    assert data["group"].mean() == 1 / 6 and len(np.unique(data["user"])) == 120_000
    first = score[:, 0]
    assert stats.kstest(first[:20_000], stats.beta(*scores).cdf).pvalue > 1e-4
    # The curve at the score's own rank, whatever the tabulated scores.
    z = stats.norm.ppf(stats.beta(*scores).cdf(score))
    for low, high in itertools.pairwise((-9, -1, 0, 1, 9)):
        inside = (z > low) & (z <= high)
        assert close((inside * (outcome - cell.outcome.mean(z))).sum(axis=1), 0)
    assert np.corrcoef(z[:, 0], z[:, 1])[0, 1] == pytest.approx(cells.SCORE_CORRELATION, abs=ERRORS / math.sqrt(120_000))
    assert np.abs(cells.quantile_at(scores, score) - z).max() < 1e-3


@pytest.mark.parametrize("icc", [0.1, 0.4])
def test_outcomes_are_beta_binomial_with_the_correlation_that_is_asked_for(grid, icc):
    cells = grid["crossed_cells"]
    cell = cells.Cell(cells.Event(0.2, steepness=0.0), users=30_000, rows=5, icc=icc)
    outcome = cell.data(1)["outcome"].reshape(-1, 5)
    concentration = 1 / icc - 1
    expected = stats.betabinom(5, 0.2 * concentration, 0.8 * concentration).pmf(np.arange(6)) * len(outcome)
    assert stats.chisquare(np.bincount(outcome.sum(axis=1).astype(int), minlength=6), expected).pvalue > 1e-4
    centred = outcome - 0.2
    within = (centred.sum(axis=1) ** 2 - (centred**2).sum(axis=1)) / 20
    assert close(within, icc * 0.16)


def test_costs_and_counts_have_their_curve_and_the_small_group_its_spread(grid):
    cells = grid["crossed_cells"]
    for outcome in (*cells.FAMILIES["costs"], *cells.FAMILIES["counts"]):
        cell = cells.Cell(outcome, users=20_000, rows=4, icc=0.4)
        data = cell.data(2)
        away = (data["outcome"] - outcome.mean(cells.quantile_at(cell.scores, data["score"]))).reshape(-1, 4)
        small = data["group"].reshape(-1, 4)[:, 0] == 1
        assert close(away[small].mean(axis=1), 0) and close(away[~small].mean(axis=1), 0), outcome.name
        ratio = away[small].std() / away[~small].std()
        assert ratio == pytest.approx(getattr(outcome, "spread", 1), rel=0.25), outcome.name
        assert (away[:, 0] * away[:, 1]).mean() > 0


def test_alternatives_move_the_small_group_only_on_the_same_draws(grid):
    cells = grid["crossed_cells"]
    for outcome in (cells.Event(0.05), cells.Cost(1, 3), cells.Count(3, False), cells.Count(0.3, True)):
        cell = cells.Cell(outcome, users=20_000, rows=2, icc=0.1)
        even, doubled = cell.data(1), cell.data(1, cells.DOUBLED)
        raised = cell.data(1, cells.Alternative("gap", 0.1))
        small = even["group"] == 1
        assert np.array_equal(even["score"], doubled["score"])
        assert np.array_equal(even["outcome"][~small], doubled["outcome"][~small])
        assert np.array_equal(even["outcome"][~small], raised["outcome"][~small])
        z = cells.quantile_at(cell.scores, even["score"][small])
        for data, alternative in ((doubled, cells.DOUBLED), (raised, cells.Alternative("gap", 0.1))):
            away = data["outcome"][small] - outcome.small_mean(z, alternative)
            assert close(away.reshape(-1, 2).mean(axis=1), 0), (outcome.name, alternative)
        assert (raised["outcome"] - even["outcome"])[small].mean() == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("parts", [1, 2, 3, 6])
def test_parts_are_balanced_and_together_the_whole_grid(grid, parts):
    cells = grid["crossed_cells"]
    sizes = (4, 3, 3, 3, 2, 2)
    points = [cells.levels_of(f"{part}/{parts}") for part in range(1, parts + 1)]
    assert sorted(itertools.chain(*points)) == sorted(itertools.product(*map(range, sizes)))
    for part in points:
        for i, j in itertools.combinations(range(6), 2):
            pairs = collections.Counter((point[i], point[j]) for point in part)
            assert set(pairs.values()) == {len(part) // (sizes[i] * sizes[j])} and len(pairs) == sizes[i] * sizes[j]
    assert len({cell.name for cell in cells.grid("rates", f"{parts}/{parts}")}) == {1: 360, 2: 216, 3: 120, 6: 72}[parts]


def test_a_part_that_is_not_there_is_refused(grid):
    with pytest.raises(ValueError, match="7/6 is not a part of the grid"):
        grid["crossed_cells"].levels_of("7/6")


def test_bin_tests_agree_with_sums_over_users(grid):
    """The score test by hand, bin by bin, in the one-bin case; and sizes on equal groups."""
    cells, bins = grid["crossed_cells"], grid["bin_tests"]
    data = cells.Cell(cells.Event(0.3), ratio=3, users=50, rows=3, icc=0.4).data(5)
    outcome, small = data["outcome"].reshape(-1, 3).mean(axis=1), data["group"].reshape(-1, 3)[:, 0]
    residual = outcome - outcome.mean()
    scores = (1 - small - 0.75) * residual
    found = bins.bin_tests(data, n_bins=1)
    assert found[bins.SCORE] == pytest.approx(stats.chi2.sf(scores.sum() ** 2 / (scores**2).sum(), 1))
    pooled = 0.75 * 0.25 * (residual**2).sum()
    assert found[bins.EXCHANGED] == pytest.approx(stats.chi2.sf(scores.sum() ** 2 / pooled, 1))
    even = cells.Cell(cells.Event(0.3), users=400, rows=2, icc=0.4)
    p_values = [bins.bin_tests(even.data(run)) for run in range(200)]
    for name in (bins.WALD, bins.SCORE, bins.EXCHANGED):
        assert np.mean([p[name] <= 0.05 for p in p_values]) < 0.12


def test_a_study_runs_all_parts_goes_on_and_makes_a_page(grid, tmp_path):
    crossed, cells, tests = grid["crossed"], grid["crossed_cells"], grid["crossed_tests"]
    chosen = [cells.Cell(cells.Event(0.05), 5, 100, 4, 0.1), cells.Cell(cells.Cost(1, 3), 1, 100, 1, 0.0, (0.5, 50.0))]
    parts = tuple(part for part in tests.PARTS if part != "binspwc")
    job = crossed.Job(parts, 2, 2, "none", 128, tmp_path)
    crossed.run_all(replace(job, parts=("parity",), runs=1), chosen, workers=1)
    with job.path(chosen[0], "parity").open("a") as journal:
        journal.write('{"run": 1, "results"')  # killed in the middle of a line
    for _ in range(2):
        crossed.run_all(job, chosen, workers=1)
    for cell, part in itertools.product(chosen, parts):
        assert [record["run"] for record in crossed.read_records(job.path(cell, part))] == [0, 1]
    power = replace(job, parts=tests.WITH_A_GAP[:2], alternative="doubled")
    crossed.run_all(power, chosen, workers=1)
    found = {"none": crossed.gather(job, chosen), "doubled": crossed.gather(power, chosen)}
    page = "\n\n".join(section() for section in grid["crossed_page"].sections(found, "3/6", 128))
    for words in (
        "### False alarms",
        "### Coverage",
        "### Promised power",
        "### Power at a doubled rate",
        "| false parity |",
        "10-bin",
    ):
        assert words in page
    assert "### Warnings and errors\n\nNone." in page


def test_a_share_is_off_only_beyond_two_errors(grid):
    page, cells = grid["crossed_page"], grid["crossed_cells"]
    cell = cells.Cell(cells.Event(0.05))
    near, far = (page.Share(cell, share, 300, 0.0) for share in (0.1, 0.13))
    assert page.SIZE.missed([near, far]) == [far]
    assert page.PROMISE.missed([page.Share(cell, share, 300, 0.0) for share in (0.66, 0.95)]) == [page.Share(cell, 0.95, 300, 0.0)]
