"""Audits of generated data: nothing that they say, as JSON or as text, is more than they saw."""

from copy import deepcopy

import numpy as np
import pytest
from audit_checker import complaints
from generated_audits import NAMES, Case, draw_case, run_case

from hostile import THOROUGH

AUDITS = 500 if THOROUGH else 25
USUAL = 10  # of them in the default run; the rest is slow
# A variance that rounding had left below 0; no gap large enough to be found, told as 8e17; 1,038 read as text; no curve to draw;
# 14 lines in a terminal.
ONCE_WRONG = (76, 94, 157, 215, 269)


def seeds():
    slow = [] if THOROUGH else [pytest.mark.slow]
    yield from (*range(USUAL), *ONCE_WRONG)
    yield from (pytest.param(seed, marks=slow) for seed in range(USUAL, AUDITS) if seed not in ONCE_WRONG)


@pytest.mark.parametrize("seed", list(seeds()))
def test_an_audit_says_no_more_than_it_saw(seed, tmp_path):
    case = draw_case(seed)
    found = complaints(case, run_case(case, tmp_path))
    assert not found, "\n".join([str(case), *found[:20]])


# The checker finds what is planted


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """An audit that shows one pair of three, with a repair."""
    rng = np.random.default_rng(5)
    tree = rng.integers(0, 3, 1500)
    score = rng.random(1500)
    outcome = (rng.random(1500) < 0.2 + 0.5 * score + np.array([0.0, 0.0, 0.25])[tree]).astype(float)
    data = {"s": score, "y": outcome, "g": np.array(["ash", "birch", "cedar"])[tree], "u": np.arange(1500)}
    case = Case(0, data, NAMES | {"group": "g"}, "frame")
    return case, run_case(case, tmp_path_factory.mktemp("told"))


def test_nothing_is_found_where_nothing_is_wrong(told):
    assert complaints(*told) == []


@pytest.mark.parametrize("text", ["at score 9.52e+04, outcomes lie 95234 below", "from 9.52e+04 to 9.52e+04.", "9.52e+04 at most"])
def test_numbers_with_an_exponent_are_read_whole(told, text):
    case, sound = told
    known = deepcopy(sound)
    known.document["tolerance"] = 95234.0
    said(text)(known)
    assert complaints(case, known) == []


def test_an_end_of_a_number_is_no_number(told):
    """Of "11.0 to 1,420" the checker left 420."""
    case, sound = told
    known = deepcopy(sound)
    known.document["tolerance"] = 1420.0
    said("from 1,420.0 to 1,420 in all")(known)
    assert complaints(case, known) == []


def said(text):
    def plant(told):
        told.document["summary"].append(text)

    return plant


def put(*path):
    *names, value = path

    def plant(told):
        place = told.document
        for name in names[:-1]:
            place = place[name]
        place[names[-1]] = value

    return plant


FIRST = ("subjects", 0)
PLANTED = {
    "a number of its own": (said("the gap is 0.98765"), "'0.98765' is not in the JSON"),
    "a pair that is not shown": (said("outcomes of ash above birch"), "ash and birch are not shown to differ"),
    "nan": (said("the typical gap is nan"), "says what is not known"),
    "a dash for a number": (said("no gap (p = –)"), "says what is not known"),
    "a rise that falls": (said("the typical gap falls from 0.1 to 0.2"), "falls that does not"),
    "another exit code": (put("gate", "exit_code", 0), "exit code 1"),
    "another verdict": (put("verdict", "parity"), "verdict parity"),
    "no probability": (put(*FIRST, "curves", "rows", 0, "estimate", -0.006), "is no probability"),
    "limits elsewhere": (put(*FIRST, "curves", "rows", 0, "ci_low", 0.999), "outside of"),
    "a headline of another pair": (put(*FIRST, "max_gap", 0.9), "max_gap of the subject is 0.9"),
    "nothing without a reason": (put(*FIRST, "calibration_error", None), "calibration_error is null without a reason"),
    "a curve of nine people": (put(*FIRST, "groups", 0, "users", 9), "has too few users for a curve"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_checker_finds(told, name):
    plant, words = PLANTED[name]
    case, sound = told
    spoiled = deepcopy(sound)
    plant(spoiled)
    assert any(words in complaint for complaint in complaints(case, spoiled)), words
