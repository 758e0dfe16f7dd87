"""Verifying a repair: only on users it has not seen, and with numbers that rows confirm."""

import numpy as np
import oracle
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.calibration.accuracy import accuracies
from evenscore.calibration.calibrated_tally import calibrated_tally
from evenscore.calibration.sketching import overlap, sketch_users
from evenscore.data.coding import hash_integers
from evenscore.data.splits import Split

CELLS = 0.02  # rows of one cell stay together when a tally is calibrated: what that may cost, in units of the gap
COLUMNS = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


@pytest.fixture(scope="module")
def data():
    simulation = es.simulate(3000, curve={"a": (0, 1), "b": (-0.8, 0.9)}, outcome_correlation=0.5, score_correlation=0.3)
    return simulation.data(seed=2)


@pytest.fixture(scope="module")
def calibrator(data):
    return es.calibrate(es.tally(data, **COLUMNS, split="1/2"))


@pytest.fixture(scope="module")
def rest(data):
    return es.tally(data, **COLUMNS, split="2/2")


@pytest.fixture(scope="module")
def verification(calibrator, rest):
    return es.verify(calibrator, rest, tolerance=0.06)


def part(data, split):
    mine = Split.parse(split).holds(hash_integers(data["user"]))
    return {name: column[mine] for name, column in data.items()}


# What it finds


def test_a_repair_that_works(verification):
    assert verification.before.verdict == "disparity" and verification.verdict != "disparity"
    assert verification.rms_gap_before > 0.1 and verification.rms_gap_after < 0.2 * verification.rms_gap_before
    assert verification.ordering_before.verdict == "disparity" and verification.ordering_after.verdict != "disparity"
    assert verification.p_value == verification.after.p_value and verification.alpha == 0.05
    by_group = {row["group"]: row for row in verification.rows()}
    assert by_group["b"]["mse_change"] < by_group["b"]["ci_high"] < 0 and abs(by_group["a"]["mse_change"]) < 0.002
    assert by_group[None]["auc_after"] > by_group[None]["auc_before"]
    assert "split 1/2" in verification.unseen and "root mean squared gap" in " ".join(repr(verification).split())
    assert set(verification.to_dict()) >= {"verdict", "reason", "null", "p_value", "gaps", "rows", "before", "after", "unseen"}


def test_the_calibrated_tally_is_that_of_calibrated_rows(data, calibrator, rest):
    """Parity after the repair, from cells and from rows."""
    rows = part(data, "2/2")
    rows["repaired"] = calibrator.transform(rows["score"], rows["group"])
    by_rows = es.tally(rows, **(COLUMNS | {"score": "repaired"}))
    by_cells = calibrated_tally(rest, calibrator)
    assert by_cells.n_users == by_rows.n_users and by_cells.n_rows == by_rows.n_rows
    one, other = es.parity_test(by_rows), es.parity_test(by_cells)
    assert other.max_gap == pytest.approx(one.max_gap, abs=CELLS * 0.1)
    assert other.p_value == pytest.approx(one.p_value, abs=0.05)
    np.testing.assert_allclose(
        [row["mean_score"] for row in by_cells.rows()], [row["mean_score"] for row in by_rows.rows()], atol=1e-4
    )


def test_a_calibrated_tally_of_values_is_exact():
    """On few scores nothing is rounded: sums and pair sums are those of the rows."""
    rows = repeated_users(3000, seed=3, weights=True, spanning=True)
    rows.score = np.round(rows.score, 1)
    data = as_dict(rows)
    tally = es.tally(data, **NAMES, weight="v")
    calibrator = es.calibrate(tally, method="isotonic")
    found = calibrated_tally(tally, calibrator)
    again = es.tally(data | {"s": calibrator.transform(rows.score, rows.group)}, **NAMES, weight="v")
    assert found.lattice.n_cells == again.lattice.n_cells
    np.testing.assert_allclose(found.lattice.values, again.lattice.values)
    for weighting in ("user", "row"):
        for group in (0, 1):
            for name in ("W", "Y", "X", "Y2", "XY", "A", "V0"):
                one, other = (getattr(t.sums(group, weighting), name) for t in (found, again))
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
            for a, b in ((group, group), (0, 1)):
                one, other = (t.pair_matrices(a, b, weighting) for t in (found, again))
                for name in ("ww", "wy", "yw", "yy"):
                    np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-8, atol=1e-8)


def test_cells_that_change_their_order():
    """A map that falls turns pairs around, and cells that become one keep both orders."""
    rows = repeated_users(800, seed=5)
    rows.score = np.round(rows.score, 1)
    tally = es.tally(as_dict(rows), **NAMES)
    n_cells = tally.lattice.n_cells
    cells = np.array([(n_cells - 1 - c) // 2 for c in range(n_cells)])
    mine = rows.only(0)
    _, expected = oracle.tally(mine, cells[tally.lattice.cell(mine.score)], n_cells, "user")
    found = tally.group_tallies[0].pairs.remapped(cells, n_cells).matrices("user")
    for name in ("ww", "wy", "yy"):
        np.testing.assert_allclose(getattr(found, name), expected[name], atol=1e-9)


@pytest.mark.parametrize("method", ["kernel", "binning"])
def test_accuracy_is_that_of_the_rows(method):
    """Squared error, log loss and AUC beside scikit-learn's, on scores that are cells."""
    metrics = pytest.importorskip("sklearn.metrics")
    rows = repeated_users(3000, seed=4)
    rows.score = np.round(rows.score, 2).clip(0.01, 0.99)
    tally = es.tally(as_dict(rows), **NAMES)
    calibrator = es.calibrate(tally, method=method)
    found = {each.group: each for each in accuracies(tally, calibrator, "error", "user", 0.05)}
    everybody = [rows.only(g) for g in (0, 1)]
    for group, sides in ((0, everybody[:1]), (1, everybody[1:]), (None, everybody)):
        weight = np.concatenate([oracle.row_weights(side, "user") for side in sides])
        outcome = np.concatenate([side.outcome for side in sides])
        before = np.concatenate([side.score for side in sides])
        after = np.concatenate([calibrator.transform(side.score, side.group) for side in sides])
        for place, score in enumerate((before, after)):
            assert found[group].mse[place] == pytest.approx(metrics.mean_squared_error(outcome, score, sample_weight=weight))
            assert found[group].auc[place] == pytest.approx(metrics.roc_auc_score(outcome, score, sample_weight=weight))
            loss = metrics.log_loss(outcome, np.clip(score, 1e-6, 1 - 1e-6), sample_weight=weight)
            assert found[group].log_loss[place] == pytest.approx(loss)
    side = everybody[0]
    after = calibrator.transform(side.score, side.group)
    loss = (after - side.outcome) ** 2 - (side.score - side.outcome) ** 2
    change = oracle.by_user(side, oracle.row_weights(side, "user") * loss)[1]
    half = 1.959964 * np.sqrt(((change - change.mean()) ** 2).sum()) / len(change)
    assert (found[0].mse_high - found[0].mse_low) / 2 == pytest.approx(half, rel=1e-6)


def test_real_outcomes_have_no_log_loss():
    data = as_dict(repeated_users(4000, seed=8, real=True))
    calibrator = es.calibrate(es.tally(data, **NAMES, split="1/2"))
    found = es.verify(calibrator, data, same_scale=True)
    row = found.rows()[0]
    assert np.isnan(row["log_loss_after"]) and np.isnan(row["auc_after"]) and row["mse_after"] < row["mse_before"]


# Whom it refuses


def test_data_it_was_fitted_on_are_refused(calibrator, data):
    with pytest.raises(es.DataError, match="very data that the calibrator was fitted on"):
        es.verify(calibrator, es.tally(data, **COLUMNS, split="1/2"), unseen=True)
    with pytest.raises(es.DataError, match=r"may be among those.*split='2/2'"):
        es.verify(calibrator, es.tally(data, **COLUMNS, split="5-6/10"))


def test_data_of_unknown_origin_are_refused_unless_vouched_for(calibrator):
    fresh = es.simulate(500, curve={"a": (0, 1), "b": (-0.8, 0.9)}).data(seed=9)
    tally = es.tally(fresh, **COLUMNS)
    with pytest.raises(es.DataError, match=r"split='1/2'.*remember_users.*unseen=True"):
        es.verify(calibrator, tally)
    assert "caller says" in es.verify(calibrator, tally, unseen=True).unseen


def test_given_data_it_takes_the_users_that_were_left_out(calibrator, data, verification, tmp_path):
    import pandas

    found = es.verify(calibrator, data, tolerance=0.06)
    assert found.rows() == verification.rows() and found.p_value == verification.p_value
    pandas.DataFrame(data).to_parquet(tmp_path / "rows.parquet")
    assert es.verify(calibrator, tmp_path / "rows.parquet", tolerance=0.06).rms_gap_after == pytest.approx(found.rms_gap_after)


def test_users_can_be_remembered_under_a_key(data):
    fitted = es.tally(part(data, "1/2"), **COLUMNS)
    calibrator = es.calibrate(fitted, remember_users="a long secret")
    plain = set(fitted.sketch.tolist())
    assert len(calibrator.sketch.hashes) == 1024 and not plain & set(calibrator.sketch.hashes)
    others = es.tally(part(data, "2/2"), **COLUMNS)
    assert "could be looked up" in es.verify(calibrator, others, key="a long secret").unseen
    mixed = es.tally(part(data, "3-8/10"), **COLUMNS)
    with pytest.raises(es.DataError, match="were fitted on"):
        es.verify(calibrator, mixed, key="a long secret")
    with pytest.raises(es.DataError, match="nothing says"):
        es.verify(calibrator, others)
    # Another key recognises nobody: the sketch tells nothing to who does not have it.
    assert overlap(calibrator.sketch, fitted, "another secret").n_shared == 0
    assert overlap(calibrator.sketch, fitted, "a long secret").n_shared == 1024


def test_a_small_sketch_knows_everybody(data):
    few = {name: column[:200] for name, column in data.items()}
    tally = es.tally(few, **COLUMNS)
    sketch = sketch_users(tally, "a long secret")
    assert len(sketch.hashes) == len(np.unique(few["user"]))
    assert overlap(sketch, tally, "a long secret").n_shared == len(sketch.hashes)
    with pytest.raises(es.DataError, match="no users to remember"):
        sketch_users(es.tally(few, **(COLUMNS | {"user": None})), "a long secret")


def test_bad_arguments(calibrator, rest):
    with pytest.raises(es.OptionError, match="takes a calibrator"):
        es.verify(rest, calibrator)
    with pytest.raises(es.OptionError, match=r"split= belongs to es\.tally"):
        es.verify(calibrator, rest, split="2/2")
    strange = es.tally(es.simulate({"a": 200, "c": 200}, curve={"a": (0, 1), "c": (0, 1)}).data(seed=1), **COLUMNS)
    with pytest.raises(es.DataError, match="does not know 'c'"):
        es.verify(calibrator, strange, unseen=True)
    kept = es.verify(calibrator, strange, unseen=True, on_unknown="keep")
    assert {row["group"]: row["mse_change"] for row in kept.rows()}["c"] == 0


def test_columns_that_are_called_differently_are_named(data, calibrator, rest):
    other = {"s": data["score"], "y": data["outcome"], "g": data["group"], "u": data["user"]}
    named = es.verify(calibrator, other, score="s", outcome="y", group="g", user="u", method="sup")
    same = es.verify(calibrator, rest, method="sup")
    assert named.after.method == same.after.method == "sup" and named.p_value == same.p_value and named.rows() == same.rows()
    with pytest.raises(es.EvenscoreError, match="no column 'score'"):
        es.verify(calibrator, other)
