"""The case studies run, and find what the documentation says they find."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(
    path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*.py") if path.name != "stories.py"
)  # test_stories.py has it


def pages(name):
    """A page as one line, in which prose is looked for: what it quotes must be what comes out."""
    return " ".join((EXAMPLES.parent / "docs" / f"{name}.md").read_text(encoding="utf-8").split())


def short(number):
    """A number as pages quote it: .023."""
    return f"{number:.3f}".lstrip("0")


def load(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, EXAMPLES / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def searches():
    return load("open_policing/searches.py")


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_the_script_runs_and_draws(script, tmp_path):
    """Also from another folder, since readers stand anywhere; scripts that draw take a path."""
    text = (EXAMPLES / script).read_text(encoding="utf-8")
    arguments = [str(tmp_path / "figure.png")] if "[FIGURE" in text else []
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / script), *arguments],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert not arguments or (tmp_path / "figure.png").stat().st_size > 10_000


def test_every_example_and_every_file_is_described():
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in (path for path in EXAMPLES.rglob("*.*") if path.suffix in (".py", ".parquet", ".csv")):
        assert path.name in text, path


def test_forecasts_of_one_game_are_not_many_games(tmp_path):
    ncaa = load("ncaa/dependence.py")
    found = ncaa.tests()
    assert found["rows"].verdict == "disparity" and found["rows"].p_value < 1e-18
    assert found["games"].verdict == "inconclusive" and found["games"].p_value > 0.5
    errors = ncaa.standard_errors()
    assert 7 < errors["games"] / errors["rows"] < 11
    quoted = pages("cases")
    assert f"p = {found['rows'].p_value:.0e}; with games" in quoted
    assert f"a constant gap of {short(found['games'].minimum_detectable_gap)} would have been found" in quoted
    assert f"a *constant* gap of {short(found['games'].minimum_detectable_gap)} would have been found" in pages("dependence")
    assert f"Standard errors grow {errors['games'] / errors['rows']:.1f} times" in quoted
    ncaa.games_figure(tmp_path / "games.png")
    assert (tmp_path / "games.png").stat().st_size > 10_000


def test_races_span_parties():
    governors = load("governors/spanning.py")
    found = governors.tests()
    errors = {unit: governors.standard_error(test) for unit, test in found.items()}
    assert errors["race"] > 1.15 * errors["candidate"] > 1.15 * 3 * errors["forecast"]
    assert found["forecast"].verdict == "disparity" and found["race"].verdict == found["candidate"].verdict == "inconclusive"
    quoted = pages("parity-tests")
    assert (
        f"is {short(errors['race'])}; taking the two candidates for different people it would be {short(errors['candidate'])}"
        in quoted
    )
    assert f"a new race {short(errors['forecast'])}, and the test rejects with p = {found['forecast'].p_value:.0e}" in quoted
    quoted = pages("cases")
    assert f"makes the standard error {errors['race'] / errors['candidate']:.1f} times too small" in quoted
    assert f"makes it {errors['race'] / errors['forecast']:.1f} times too small" in quoted
    assert f"the test rejects with p = {found['forecast'].p_value:.0e}" in quoted


def test_pages_quote_what_thresholds_give():
    thresholds = load("thresholds.py")
    test, found = thresholds.screening()
    quoted = pages("cases")
    at_bar = {group: f"{100 * level['estimate']:.1f} %" for group, level in test.by_group.items()}
    assert f"Asian adults at the bar have diabetes in {at_bar['Asian']} of cases and White ones in {at_bar['White']}" in quoted
    bars = {group: short(bar) for group, bar in found.by_group.items()}
    assert f"are {bars['Asian']} for Asian adults and {bars['White']} for White ones" in quoted
    (hispanic,) = [pair for pair in test.pairs if (pair.group_a, pair.group_b) == ("Hispanic", "White")]
    quoted = pages("thresholds")
    assert f"higher by {short(hispanic.average_gap)} (p = {hispanic.p_average:.0e})" in quoted
    (one,), (two,) = (thresholds.searches(biased=biased).pairs for biased in (False, True))
    assert f"differ by {short(abs(one.average_gap))} (p = {one.p_average:.0e}) and the outcomes at the threshold by" in quoted
    assert f"{short(abs(one.gap))} (p = {f'{one.p_value:.2f}'.lstrip('0')}); and searches with two standards" in quoted
    assert f"outcomes at the threshold by {short(abs(two.gap))} (p = {short(two.p_value)})" in quoted


def test_per_search_and_per_place_answer_different_questions(searches):
    per_search, per_place = searches.hit_rates("row"), searches.hit_rates()
    verdicts = {test.weighting: {pair.group_a: pair.verdict for pair in test.pairs} for test in (per_search, per_place)}
    assert verdicts["row"] == {"Black": "inconclusive", "Hispanic": "disparity"}
    assert verdicts["user"] == {"Black": "disparity", "Hispanic": "disparity"}


def test_hit_rates_are_those_of_the_counts(searches):
    cells = searches.places()
    rate = {race: cells["race"] == race for race in ("Black", "White")}
    pooled = {race: cells["num_hits"][rows].sum() / cells["num_searches"][rows].sum() for race, rows in rate.items()}
    local = {race: np.mean(cells["num_hits"][rows] / cells["num_searches"][rows]) for race, rows in rate.items()}
    for weighting, means in (("row", pooled), ("user", local)):
        gap = next(pair.max_gap for pair in searches.hit_rates(weighting).pairs if pair.group_a == "Black")
        assert gap == pytest.approx(means["Black"] - means["White"], abs=1e-12)


def test_the_bar_differs_where_hit_rates_do_not(searches):
    hits = next(pair for pair in searches.hit_rates("row").pairs if pair.group_a == "Black")
    bar = next(pair for pair in searches.bars().pairs if pair.group_a == "Black")
    assert abs(hits.max_gap) < 0.01 and hits.verdict == "inconclusive"
    assert bar.max_gap < -0.03 and bar.verdict == "disparity"


def test_shared_places_make_differences_more_exact(searches):
    for paired, apart in zip(searches.hit_rates().points, searches.unpaired().points, strict=True):
        assert paired["gap"] == pytest.approx(apart["gap"], abs=1e-12) and paired["se"] < 0.75 * apart["se"]


def test_only_joint_calibration_makes_the_feed_fair():
    feed = load("feed/feed.py")
    rows = feed.data()
    swept = feed.sweep(rows)
    assert swept.verdict_of("before") == swept.verdict_of("one by one") == "disparity"
    assert swept.verdict_of("jointly") == "inconclusive"
    moved = feed.ranks(rows)
    assert moved.of("a")["top_low"] > 0 > moved.of("b")["top_high"]
    top, low, high = (short(moved.of("a")[name]) for name in ("top", "top_low", "top_high"))
    assert f"by {top} [{low}, {high}]" in pages("cases")
