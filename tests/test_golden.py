"""Files that evenscore 0.1.0 wrote are read by every later version, and give the numbers that they gave.

The folder ``golden`` holds the files, ``expected.json`` the numbers, and ``computed.py`` the way from one to the other. Numbers
agree to 1e-12, absolute or relative; verdicts and labels are the same. Words are not compared.

Tests and limits of 0.1.0 gave false alarms where outcomes are rare or skewed and a group is small. What was mended gives other
numbers: ``since.json`` has those, and ``expected.json`` what 0.1.0 gave; sums, maps and files are what they were.
"""

import json
from fnmatch import fnmatch

import pytest

from golden.computed import ARITHMETIC, AS_BEFORE, COMPUTATIONS, FOLDER, arithmetic, original

CLOSE = 1e-12
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
SINCE = FOLDER / "since.json"
CHANGED = json.loads(SINCE.read_text(encoding="utf-8"))
EXPECTED |= CHANGED
CODE = {"computed.py", "expected.json", "since.json", "make.py", "public-0.1.0.json"}

# On a processor, or with libraries, whose last bits are others than those of the machine that made expected.json, draws are others
# (``arithmetic`` says why). These rest on draws, and then agree up to Monte Carlo error only, as do those of since.json, whose
# draws are no promise. Everything else agrees to 1e-8, as curves are fitted by Newton's steps, which magnify last bits.
SAME_ARITHMETIC = EXPECTED.pop(ARITHMETIC) == arithmetic()
NEAR = 1e-8
MONTE_CARLO = 0.15  # a band where hardly anybody is moves by a tenth from one set of draws to another
DRAWN = {
    *("p_value", "p_adjusted", "p_equal", "p_before", "p_after", "minimum_detectable_gap", "at_least", "debiased"),
    *("band_low", "band_high", "ci_low", "ci_high", "before_low", "before_high", "after_low", "after_high"),
    *("ratio_low", "ratio_high", "seen_before", "seen_after", "regions"),
}
# These magnify last bits: Newton's steps that end when they are small, weights of a mixture of maps, and the score at which a
# nearly flat curve has some value. The last one takes off noise by draws, so that estimates rest on them, too.
MAGNIFIED = {
    "binary.tally: maps, platt": 1e-8,
    "binary.tally: maps, auto": 1e-6,
    "binary.tally: maps, reference": 1e-3,
    "binary.tally: calibration error, per row": 1e-2,
}

# Of these, sums have since been added in another order: maps leave out cells without people.
REORDERED = {"binary.tally: maps, reference"}

# What later versions say no more: limits from -22,273 to 22,274 of a rate, where hardly more than one effective user is near.
WITHDRAWN = {
    "few-users.tally: curves": {"se", "ci_low", "ci_high", "band_low", "band_high"},
}


def differences(found, expected, path="", close=CLOSE, drawn=CLOSE):
    """Where two results differ, in words; a later version may say more than was expected, but not less."""
    if isinstance(found, dict) and isinstance(expected, dict):
        missing = [f"{path}/{name} is missing" for name in expected if name not in found]
        both = [(name, found[name], expected[name]) for name in expected if name in found]
        return missing + [line for name, *pair in both for line in differences(*pair, f"{path}/{name}", close, drawn)]
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        both = enumerate(zip(found, expected, strict=True))
        return [line for place, pair in both for line in differences(*pair, f"{path}/{place}", close, drawn)]
    if is_number(found) and is_number(expected):
        limit = drawn if not DRAWN.isdisjoint(path.split("/")) else close
        distance = abs(found - expected)
        return [] if distance <= limit * max(1, abs(expected)) else [f"{path} is {found!r}, not {expected!r}: {distance:.2g} off"]
    if isinstance(found, str) and isinstance(expected, str):
        found, expected = found.split(), expected.split()  # how SQL is broken into lines does not matter
    return [] if type(found) is type(expected) and found == expected else [f"{path} is {found!r}, not {expected!r}"]


def is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def assert_as_expected(compute, name):
    exact = SAME_ARITHMETIC and name not in CHANGED and name not in REORDERED
    limits = (CLOSE, CLOSE) if exact else (MAGNIFIED.get(name, NEAR), MONTE_CARLO)
    lines = differences(compute(), EXPECTED[name], "", *limits)
    lines = [line for line in lines if line.split(" is ")[0].rpartition("/")[2] not in WITHDRAWN.get(name, ())]
    assert not lines, "\n".join([f"{len(lines)} differences", *lines[:20]])


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_golden_numbers(name):
    assert_as_expected(COMPUTATIONS[name], name)


@pytest.mark.parametrize("name", AS_BEFORE)
def test_golden_numbers_in_another_way(name):
    """Written again by this version, or added in another order."""
    assert_as_expected(AS_BEFORE[name], original(name))


def test_draws_are_those_of_the_machine_that_made_the_numbers():
    if not SAME_ARITHMETIC:
        pytest.skip(f"other last bits than expected.json was made with: what rests on draws is compared to {MONTE_CARLO:g} only")


def test_nothing_is_left_out():
    """Every number that was written down is computed, and every file is read."""
    assert list(EXPECTED) == list(COMPUTATIONS)
    read = {name.partition(": ")[0] for name in COMPUTATIONS}
    files = [path.name for path in FOLDER.iterdir() if path.is_file() and path.name not in CODE]
    assert [name for name in files if not any(fnmatch(name, pattern) for pattern in read)] == []


def test_a_small_change_is_noticed():
    expected = {"a": [1, {"b": 0.25, "c": None}], "d": "parity", "e": 4e6}
    assert not differences({"a": [1.0, {"b": 0.25 + 1e-13, "c": None, "new": 1}], "d": "parity", "e": 4e6 + 1e-7}, expected)
    changed = {"a": [True, {"b": 0.25 + 1e-9, "c": 0.0}], "d": "disparity", "e": 4e6 + 1e-3}
    assert [line.split(" is ")[0] for line in differences(changed, expected)] == ["/a/0", "/a/1/b", "/a/1/c", "/d", "/e"]
    assert [line.split(" is ")[0] for line in differences({"a": [1]}, expected)] == ["/d", "/e", "/a"]
