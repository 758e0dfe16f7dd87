"""The scale that a tally chooses, the cells of [0, 1] that serve every scale, and shards that add up on them."""

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import evenscore as es
from data import NAMES
from evenscore.tallies.edges import find_in_unit, unit_edges, with_cuts
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.lattice_settings import lattice_from_settings, lattice_settings
from evenscore.tallies.scale_choice import MOST, NORMAL, WINDOW

CHOSEN = {
    "score": [stats.uniform.ppf, stats.uniform(300, 550).ppf, lambda u: u / 1000],
    "rank": [
        stats.beta(2, 2).ppf,
        stats.norm(600, 80).ppf,
        stats.beta(0.5, 50).ppf,
        stats.lognorm(1, scale=20).ppf,
        stats.beta(1, 30).ppf,
        stats.beta(5, 0.5).ppf,
        lambda u: special.expit(3 * special.ndtri(u) - 6),
        lambda u: np.where(u < 0.3, 0.4, u),
        stats.beta(0.1, 50).ppf,
    ],
}


def rows_of(quantile, n=4000, first=0, groups=2, seed=0):
    """People with scores at evenly spread ranks, and outcomes that rise with them."""
    rank = (np.random.default_rng(seed).permutation(n) + 0.5) / n
    outcome = (np.random.default_rng(seed + 1).random(n) < 0.2 + 0.6 * rank).astype(float)
    person = np.arange(first, first + n)
    return {"s": np.asarray(quantile(rank), dtype=float), "y": outcome, "g": person % groups, "u": person}


def split(data, part, parts=2):
    chosen = data["u"] // 2 % parts == part
    return {name: column[chosen] for name, column in data.items()}


def sums_of(tally):
    return [np.stack(list(group.vectors.under("user").values())) for group in tally.group_tallies]


# The cells


def test_cells_of_the_unit_interval_never_change():
    """Shards of last year must add up with those of today, from any machine."""
    edges = np.array(unit_edges(512))
    assert len(edges) == 511 and (edges * 2**30 % 1 == 0).all() and (edges[::-1] == 1 - edges).all()
    assert zlib.crc32((edges * 2**30).astype("<i8").tobytes()) == 3_081_964_620
    widths = np.diff(edges)
    assert 1 / widths.max() > 245 and (edges <= 0.001).sum() > 70
    assert (widths[:60] / edges[:60]).max() < 0.1


@pytest.mark.parametrize("cells", [1, 2, 3, 7, 64, 128, 511, 512])
def test_any_number_of_cells_is_possible(cells):
    lattice = Lattice(0, 1, cells=cells)
    assert lattice.n_cells == cells and (np.diff(lattice.edges) > 0).all() and lattice.is_unit


@given(
    st.lists(st.floats(-1, 2) | st.floats(0, 1e-5) | st.floats(1 - 1e-5, 1), max_size=40),
    st.integers(1, 512),
    st.lists(st.floats(0, 1), max_size=4),
)
@settings(max_examples=150, deadline=None)
def test_the_quick_way_finds_the_cell_that_bisection_finds(scores, cells, cuts):
    edges = with_cuts(np.array(unit_edges(cells)), cuts)
    probes = np.array([*scores, *cuts, *edges, *np.nextafter(edges, -1), *np.nextafter(edges, 2), 0.0, -0.0, 1.0, 0.5, 5e-324])
    np.testing.assert_array_equal(find_in_unit(probes, edges), np.searchsorted(edges, probes, side="right"))
    np.testing.assert_array_equal(find_in_unit(probes.reshape(-1, 1), edges)[:, 0], find_in_unit(probes, edges))


# The choice


def brute_crowd(axis, group):
    """The largest share of people in a window of half a standard deviation, the one within groups, by looking at everybody."""
    within = np.sqrt(np.mean([np.var(axis[group == own]) for own in np.unique(group)]))
    ordered = np.sort(axis)
    upto = np.searchsorted(ordered, ordered + WINDOW * within, side="right")
    return (upto - np.arange(len(axis))).max() / len(axis)


@pytest.mark.parametrize(("scale", "quantile"), [(scale, quantile) for scale, some in CHOSEN.items() for quantile in some])
def test_people_do_not_crowd_on_the_scale_that_is_chosen(scale, quantile):
    data = rows_of(quantile)
    lattice = es.tally(data, **NAMES).lattice
    assert lattice.scale == scale and lattice.auto
    crowded = brute_crowd(data["s"], data["g"])
    assert (crowded > MOST * NORMAL) == (scale != "score")
    if scale != "score":
        words = lattice.reason.split()  # because it spreads people evenly: 58 % have scores from 0 to 0.0069
        assert words[4:10] == ["evenly:", words[5], "%", "have", "scores", "from"]
        low, high = float(words[10]), float(words[12])
        inside = np.mean((data["s"] >= low) & (data["s"] <= high))
        assert float(words[5]) / 100 == pytest.approx(inside, abs=0.04) == pytest.approx(crowded, abs=0.04)


def test_groups_that_lie_apart_are_no_crowds():
    """Each is spread evenly; the room between them is nothing that a bandwidth, which looks within groups, follows."""
    data = rows_of(stats.uniform.ppf)
    data["s"] = 0.2 + 0.5 * data["g"] + 0.1 * data["s"]
    assert es.tally(data, **NAMES).lattice.scale == "score"


def test_few_values_need_no_scale_and_no_words():
    data = rows_of(lambda u: np.where(u < 0.9, 5.0, np.ceil(40 * (u - 0.9))))
    tally = es.tally(data, **NAMES)
    assert tally.lattice.scale == "score" and not tally.lattice.notes and "scale:" not in repr(tally)


def test_what_was_chosen_is_said_everywhere():
    data = rows_of(stats.beta(0.5, 50).ppf)
    tally = es.tally(data, **NAMES)
    sentence = f"scale: rank, {tally.lattice.reason}"
    shown, curves = (" ".join(repr(result).split()) for result in (tally, es.curves(tally)))
    assert sentence in shown and sentence in curves and "scale='auto' (rank)" in shown
    assert sentence in es.audit(tally).notes


def test_ranks_are_those_of_people():
    """Users with many rows count once, as in everything else."""
    data = rows_of(stats.lognorm(1, scale=20).ppf)
    many = np.repeat(np.arange(4000), np.where(data["u"] % 7 == 0, 9, 1))
    tally = es.tally({name: column[many] for name, column in data.items()}, **NAMES)
    edges = tally.lattice.edges
    share = np.array([(data["s"] < edge).mean() for edge in edges])
    np.testing.assert_allclose(tally.lattice.axis_edges[1:-1], share, atol=1e-6)
    np.testing.assert_allclose(tally.lattice.to_axis(edges), share, atol=1e-6)
    np.testing.assert_allclose(tally.lattice.to_score(tally.lattice.to_axis(edges)), edges, rtol=1e-6)


def test_ranks_of_values_are_in_the_middle_of_their_people():
    values = np.round(np.exp(0.5 * np.arange(30)))
    data = rows_of(lambda u: values[(u**2 * 30).astype(int)])
    tally = es.tally(data, **NAMES)
    assert tally.lattice.discrete and tally.lattice.scale == "rank"
    below = np.array([(data["s"] < value).mean() + (data["s"] == value).mean() / 2 for value in tally.lattice.values])
    np.testing.assert_allclose(tally.lattice.to_axis(tally.lattice.values), below, atol=1e-6)


def test_a_scale_that_is_asked_for_is_taken():
    data = rows_of(stats.beta(0.5, 50).ppf)
    for scale in ("score", "logit", "rank"):
        tally = es.tally(data, **NAMES, scale=scale)
        assert tally.lattice.scale == scale and not tally.lattice.auto and "scale:" not in repr(tally)
    assert (es.tally(data, **NAMES, scale="score").lattice.edges == np.arange(1, 512) / 512).all()


# Crowded scores


@pytest.mark.filterwarnings("ignore:the bandwidth:evenscore.EvenscoreWarning")
@pytest.mark.parametrize("top", [1e-3, 1e-5])
def test_scores_near_0_or_1_are_told_apart(top):
    data = rows_of(lambda u: top * u, n=8000)
    data["y"] = (np.random.default_rng(5).random(8000) < (0.2 + 0.5 * data["s"] / top) * np.where(data["g"] == 0, 1, 0.6)).astype(
        float
    )
    for scores in (data["s"], 1 - data["s"]):
        tally = es.tally(data | {"s": scores}, **NAMES)
        assert sum(tally.sums(0).W > 0) > 20
        assert es.parity_test(tally, both=False).verdict == "disparity"


def test_one_cell_for_all_is_inconclusive_and_says_so():
    data = rows_of(lambda u: 1e-7 * u)
    found = es.parity_test(es.tally(data, **NAMES), tolerance=0.2)
    assert found.verdict == "inconclusive" and np.isnan(found.p_value)
    assert found.reason.startswith("all scores are in one of the 512 cells, from 0 to 1.09e-06") and "scale='rank'" in found.reason
    assert es.parity_test(data, **NAMES, scale="rank", tolerance=0.2).verdict == "parity"
    on_score = es.parity_test(rows_of(lambda u: u / 1000), **NAMES, scale="score")
    assert on_score.verdict == "inconclusive" and "from 0 to 0.00195" in on_score.reason


# Shards


@pytest.mark.parametrize("quantile", [stats.beta(2, 2).ppf, stats.beta(0.5, 50).ppf])
def test_shards_of_the_unit_interval_add_up_without_ceremony(quantile, tmp_path):
    data = rows_of(quantile)
    whole = es.tally(data, **NAMES)
    parts = [es.tally(split(data, part), **NAMES) for part in (0, 1)]
    parts[1].save(tmp_path / "second.tally")
    for together in (parts[0] + es.Tally.load(tmp_path / "second.tally"), parts[1] + parts[0]):
        assert together.lattice == whole.lattice and together.lattice.scale == whole.lattice.scale
        np.testing.assert_allclose(sums_of(together), sums_of(whole), rtol=1e-9, atol=1e-9)
        assert es.parity_test(together).p_value == pytest.approx(es.parity_test(whole).p_value, rel=1e-6)


def test_the_scale_is_chosen_anew_for_the_sum():
    crowded, spread = rows_of(stats.beta(0.5, 50).ppf, n=600), rows_of(stats.uniform.ppf, n=100_000, first=1000)
    tallies = [es.tally(data, **NAMES) for data in (crowded, spread)]
    assert [tally.lattice.scale for tally in tallies] == ["rank", "score"]
    assert tallies[0].lattice == tallies[1].lattice and (tallies[0] + tallies[1]).lattice.scale == "score"


def test_a_shard_of_few_values_falls_into_the_cells():
    few, many = rows_of(lambda u: np.ceil(50 * u) / 50, n=1000), rows_of(stats.uniform.ppf, first=1000)
    tallies = [es.tally(data, **NAMES) for data in (few, many)]
    assert tallies[0].lattice.discrete
    whole = es.tally({name: np.concatenate([few[name], many[name]]) for name in few}, **NAMES)
    for together in (tallies[0] + tallies[1], tallies[1] + tallies[0]):
        assert together.lattice == whole.lattice
        np.testing.assert_allclose(sums_of(together), sums_of(whole), rtol=1e-9, atol=1e-9)


def test_too_many_values_together_fall_into_the_cells():
    parts = [rows_of(lambda u, k=k: (np.ceil(300 * u) - k / 2) / 300, n=900, first=900 * k) for k in (0, 1)]
    one, other = (es.tally(part, **NAMES) for part in parts)
    assert one.lattice.discrete and other.lattice.discrete
    together = one + other
    assert together.lattice == Lattice(0, 1) and sum(together.n_rows.values()) == 1800


def test_other_ranges_are_refused_with_the_call():
    first, second = (es.tally(rows_of(stats.norm(600, 80).ppf, first=5000 * k, n=4000 + k), **NAMES) for k in (0, 1))
    with pytest.raises(es.MergeError) as caught:
        first + second
    assert "lattice=first" in str(caught.value) and "--lattice first.tally" in str(caught.value)
    call = str(caught.value).split("lattice=es.")[1].split("),")[0]
    lattice = eval(f"es.{call})")
    assert lattice.low <= first.lattice.low and lattice.high >= second.lattice.high
    parts = [es.tally(rows_of(stats.norm(600, 80).ppf, first=5000 * k), **NAMES, lattice=lattice) for k in (0, 1)]
    assert sum((parts[0] + parts[1]).n_rows.values()) == 8000


def test_a_fixed_scale_and_a_free_one_do_not_add_up():
    data = rows_of(stats.beta(2, 2).ppf)
    fixed = es.tally(split(data, 0), **NAMES, scale="score")
    with pytest.raises(es.MergeError, match="lattice=first"):
        fixed + es.tally(split(data, 1), **NAMES)
    together = fixed + es.tally(split(data, 1), **NAMES, lattice=fixed)
    assert together.lattice == fixed.lattice and not together.lattice.auto


# Kept and handed on


@pytest.mark.parametrize("quantile", [CHOSEN["score"][0], CHOSEN["rank"][2], CHOSEN["rank"][3]])
def test_files_keep_the_choice(quantile, tmp_path):
    tally = es.tally(rows_of(quantile), **NAMES)
    tally.save(tmp_path / "some.tally")
    loaded = es.Tally.load(tmp_path / "some.tally")
    assert repr(loaded) == repr(tally) and es.parity_test(loaded).p_value == es.parity_test(tally).p_value
    calibrator = es.calibrate(tally)
    calibrator.save(tmp_path / "some.json")
    again = es.Calibrator.load(tmp_path / "some.json")
    assert repr(again.lattice) == repr(calibrator.lattice) and again.lattice.reason == tally.lattice.reason
    np.testing.assert_array_equal(again.lattice.axis_edges, calibrator.lattice.axis_edges)
    scores = np.quantile(rows_of(quantile)["s"], [0.1, 0.5, 0.9])
    np.testing.assert_array_equal(again.transform(scores, [0, 0, 1]), calibrator.transform(scores, [0, 0, 1]))


@pytest.mark.parametrize("quantile", [CHOSEN["score"][0], CHOSEN["rank"][2], CHOSEN["rank"][3]])
def test_a_release_chooses_on_its_own_cells_and_ends_with_nobodys_score(quantile):
    data = rows_of(quantile)
    released = es.tally(data, **NAMES).release(min_users=20)
    assert released.lattice.auto and released.lattice.n_cells < 512
    if not released.lattice.is_unit:
        assert released.lattice.low not in data["s"] and released.lattice.high not in data["s"]
    assert np.isfinite(released.lattice.axis_edges).all() and (np.diff(released.lattice.axis_edges) > 0).all()
    es.parity_test(released)


@pytest.mark.parametrize("weight", [[1.0], [1.0, -1.0, 1.0, 1.0], [0.0] * 4, [np.nan, 1.0, 1.0, 1.0]])
def test_weights_that_do_not_fit_are_refused(weight):
    lattice = Lattice(0, 1, cells=4).on_scale("rank", np.ones(4), "because")
    settings = lattice_settings(lattice)
    assert lattice_from_settings(lattice.edges, settings) == lattice
    with pytest.raises(es.OptionError, match="do not fit"):
        lattice_from_settings(lattice.edges, settings | {"weight": weight})


@pytest.mark.filterwarnings("ignore::evenscore.EvenscoreWarning")
def test_ranks_of_cells_without_an_end():
    """On a lattice of the caller's own range, scores beyond it share the end cells, which are taken to be as wide as others."""
    data = rows_of(stats.lognorm(1, scale=20).ppf)
    tally = es.tally(data, **NAMES, lattice=es.Lattice(5, 200, cells=64))
    lattice = tally.lattice
    assert lattice.scale == "rank" and lattice.open_ended
    np.testing.assert_allclose(lattice.to_axis(lattice.edges), [(data["s"] < edge).mean() for edge in lattice.edges], atol=1e-6)
    slopes = lattice.axis_slopes(lattice.to_score(lattice.axis_edges[:-1]))
    assert np.isfinite(slopes).all() and slopes[0] == slopes[-1] == 0 and (slopes[1:-1] > 0).all()
    assert np.isfinite(es.parity_test(tally).p_value)
    assert tally.release(min_users=20).lattice.scale == "rank"


def test_people_without_a_known_outcome_have_ranks_too():
    data = rows_of(stats.beta(2, 2).ppf)
    data["y"][data["s"] < 0.5] = np.nan
    lattice = es.tally(data, **NAMES, nulls="unlabelled").lattice
    assert lattice.to_axis([0.5])[0] == pytest.approx(0.5, abs=1e-3)
