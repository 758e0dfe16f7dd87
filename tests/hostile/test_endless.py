"""It always ends: a group whose scores equal its outcomes has no error at all, and no search may grow from 0 for ever."""

import numpy as np
import pytest
from black_box import COLUMNS, NAMES, run, time_limit

import evenscore as es
from hostile import THOROUGH, survives

SECONDS = 15
METHODS = ("ce_np", "ece", "debiased_ece", "label_binned", "msce", "smooth", "cumulative")  # beside kernel, the default


def with_perfect_people(n=402, n_perfect=2, value=0.0, seed=0):
    """Many people of two groups, and a third group of a few whose scores are their outcomes."""
    rng = np.random.default_rng(seed)
    score = rng.random(n)
    outcome = (rng.random(n) < score).astype(float)
    group = np.array(["a", "b"])[np.arange(n) % 2].astype(object)
    score[:n_perfect] = outcome[:n_perfect] = value
    group[:n_perfect] = "perfect"
    return {"s": score, "y": outcome, "g": group.astype(str), "u": np.arange(n)}


def all_perfect(values):
    """Nobody's score differs from the outcome."""
    score = np.resize(np.array(values, dtype=float), 80)
    return {"s": score, "y": score.copy(), "g": np.array(["a", "b"])[np.arange(80) // 40], "u": np.arange(80)}


FRAMES = {
    "two people, 0 and 0": with_perfect_people(),
    "two people, 1 and 1": with_perfect_people(value=1.0),
    "one person": with_perfect_people(n_perfect=1),
    "thirty people": with_perfect_people(n_perfect=30),
    "all 0": all_perfect([0.0]),
    "all 1": all_perfect([1.0]),
    "all 0 or 1": all_perfect([0.0, 1.0]),
    "real outcomes that are the scores": all_perfect([0.1, 0.2, 0.7]),
    "large ones": all_perfect([1e9, 2e9]),
    "tiny ones": all_perfect([1e-30, 2e-30]),
}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("weighting", ["user", "row"])
def test_the_calibration_error_of_perfect_scores_ends(frame, weighting):
    with time_limit(SECONDS):
        found = es.calibration_error(es.tally(FRAMES[frame], **NAMES), weighting=weighting, same_scale=True)
    rows = {row["group"]: row for row in found.rows()}
    if "perfect" in rows:
        assert rows["perfect"]["estimate"] == pytest.approx(0, abs=1e-9)
        assert rows["perfect"]["ci_low"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("frame", ["two people, 0 and 0", "one person", "all 0 or 1", "real outcomes that are the scores"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_ends_on_perfect_scores(frame, method):
    tally = es.tally(FRAMES[frame], **NAMES)
    with time_limit(SECONDS):
        survives(es.calibration_error, tally, method=method)


@pytest.mark.parametrize("frame", FRAMES)
def test_an_audit_of_perfect_scores_ends(frame):
    with time_limit(SECONDS):
        survives(es.audit, FRAMES[frame], **NAMES, threshold=0.5, method="bonferroni")


@pytest.mark.parametrize("norm", [1, 2])
def test_every_norm_ends_on_perfect_scores(norm):
    tally = es.tally(FRAMES["two people, 0 and 0"], **NAMES)
    with time_limit(SECONDS):
        survives(es.calibration_error, tally, norm=norm)


def test_the_command_line_ends(tmp_path):
    """The example of a CSV of 402 rows."""
    frame = FRAMES["two people, 0 and 0"]
    lines = ["s,y,g,u", *(",".join(map(str, row)) for row in zip(*frame.values(), strict=True))]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    done = run("audit", "people.csv", *COLUMNS, "--quiet", cwd=tmp_path, limit=SECONDS + 15)
    assert done.returncode in (0, 1), done.stderr


OTHERS = {
    "parity_test": es.parity_test,
    "parity_test with a tolerance": lambda tally: es.parity_test(tally, tolerance=0.05),
    "ordering_test": es.ordering_test,
    "curves": es.curves,
    "calibrate auto": lambda tally: es.calibrate(tally, method="auto"),
    "calibrate platt": lambda tally: es.calibrate(tally, method="platt"),
    "marginal_test": lambda tally: es.marginal_test(tally, threshold=0.5),
    "fair_thresholds": lambda tally: es.fair_thresholds(tally, threshold=0.5),
    "fair_thresholds target": lambda tally: es.fair_thresholds(tally, threshold=0.5, strategy="target", target=0.0),
    "classification_impact": lambda tally: es.classification_impact(tally, threshold=0.5),
    "decision_metrics": lambda tally: es.decision_metrics(tally, threshold=0.5),
    "decision_metrics median": lambda tally: es.decision_metrics(tally, threshold="median"),
    "decision_curves": es.decision_curves,
    "release": lambda tally: tally.release(min_users=5),
    "plan": lambda tally: es.plan(tally, gap=0.05),
}


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_search_ends_on_perfect_scores(name):
    for frame in FRAMES.values():
        with time_limit(SECONDS):
            survives(lambda frame=frame: OTHERS[name](es.tally(frame, **NAMES)))


def degenerate(rng):
    """A small frame in which much is equal: few distinct scores, outcomes that are the score, its opposite, a constant or noise."""
    n = int(rng.integers(4, 120))
    values = rng.choice(
        np.array([0, 1, 0.5, 1e-300, 1e-12, 1 - 1e-16, 1e9, -1, 3.0]), int(rng.integers(1, 5)), replace=False
    ).astype(float)
    score = rng.choice(values, n)
    constant = np.full(n, rng.choice(values))
    outcome = [score, 1 - score, constant, (rng.random(n) < 0.5).astype(float)][int(rng.integers(4))]
    user = rng.integers(0, max(1, int(rng.integers(1, n + 1))), n)
    return {"s": score, "y": outcome, "g": rng.integers(0, int(rng.integers(1, 4)), n), "u": user, "i": rng.integers(0, 30, n)}


@pytest.mark.parametrize("seed", range(500 if THOROUGH else 24))
def test_degenerate_frames_end_everywhere(seed):
    """A result or a reason, within the time limit, from everything that searches."""
    rng = np.random.default_rng(seed)
    data = degenerate(rng)
    try:
        with time_limit(SECONDS):
            tally = es.tally(data, **NAMES, item="i" if seed % 3 == 0 else None, cells=int(rng.choice([1, 8, 64, 512])))
    except es.EvenscoreError:
        return
    calls = [es.calibration_error, *OTHERS.values()]
    picked = calls if THOROUGH else [calls[0], *(calls[i] for i in rng.choice(len(calls), 3, replace=False))]
    for call in picked:
        with time_limit(SECONDS), np.errstate(all="ignore"):
            survives(call, tally)
