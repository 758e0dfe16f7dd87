"""Reads what an audit says as JSON, and lists what contradicts itself or cannot be."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from generated_audits import Case, Told

SLACK = 1e-9
CODES = {"passed": 0, "failed": 1, "unshown": 3}


def json_complaints(case: Case, told: Told) -> list[str]:
    """Everything that is wrong with the JSON."""
    return [*_codes(told), *_numbers_of_json(case, told.document), *_headline(told.document)]


def label_text(label: Any) -> str:
    return " × ".join(map(label_text, label)) if isinstance(label, list) else str(label)


def is_shown(tests: list[dict[str, Any]], named: set[str]) -> bool:
    return any(
        {label_text(pair["group_a"]), label_text(pair["group_b"])} == named and pair["verdict"] == "disparity"
        for test in tests
        for pair in test["pairs"]
    )


def _codes(told: Told) -> Iterator[str]:
    document = told.document
    gate, verdict = document["gate"], document["verdict"]
    if not told.exit_code == gate["exit_code"] == CODES[gate["outcome"]]:
        yield f"exit code {told.exit_code}, gate {gate}"
    if (gate["exit_code"] == 1) != (verdict == "disparity"):
        yield f"verdict {verdict} with exit code {gate['exit_code']}"
    verdicts = [subject["verdict"] for subject in document["subjects"]]
    if verdict != _combined(verdicts):
        yield f"verdict {verdict} of {verdicts}"
    if verdict == "parity" and document["tolerance"] is None:
        yield "parity without a tolerance"
    for name in ("terminal", "verbose", "page", "markdown"):
        said = set(re.findall(r"\b(disparity|parity|inconclusive)\b", told.texts[name][:100_000].lower()))
        if verdict not in said:
            yield f"{name} does not say {verdict}"


def _combined(verdicts: list[str]) -> str:
    if "disparity" in verdicts:
        return "disparity"
    return "parity" if set(verdicts) == {"parity"} else "inconclusive"


def _numbers_of_json(case: Case, document: dict[str, Any]) -> Iterator[str]:
    for path, row in _records(document["subjects"]):
        yield from (f"{path}: {what}" for what in _outside(row, case.binary and "calibration_error" not in path))
        yield from (f"{path}: {what}" for what in _limits(row))


def _records(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        if "calibrator" not in path:
            yield path, value
        for key, item in value.items():
            yield from _records(item, f"{path}.{key}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _records(item, f"{path}[{place}]")


RATES = ("p_value", "p_adjusted", "p_equal", "misordered_share", "at_least", "share_a", "share_b", "rate_before", "rate_after")
OF_BINARY = ("mean_outcome", "outcome_before", "outcome_after", "average", "average_ci_low", "average_ci_high")


def _outside(row: dict[str, Any], binary: bool) -> Iterator[str]:
    """Probabilities that are none, and gaps of probabilities beyond 1."""
    curve = ("estimate", "ci_low", "ci_high", "band_low", "band_high") if "effective_users" in row else ()
    for name in (*RATES, *((*OF_BINARY, *curve) if binary else ())):
        value = row.get(name)
        if isinstance(value, int | float) and not -SLACK <= value <= 1 + SLACK:
            yield f"{name} = {value} is no probability"
    changes = ("estimate", "ci_low", "ci_high") if {"rate_before", "estimate"} <= set(row) else ()
    for name in (*changes, *(("max_gap", "gap", "shown_gap", "worst") if binary else ())):
        value = row.get(name)
        if isinstance(value, int | float) and abs(value) > 1 + SLACK:
            yield f"{name} = {value} is no difference of probabilities"


LIMITS = (
    *(("estimate", f"{kind}_low", f"{kind}_high") for kind in ("ci", "band")),
    *((name, "ci_low", "ci_high") for name in ("gap", "threshold", "mse_change", "rejection_rate", "difference")),
    ("gap", "low", "high"),
    ("gap", "band_low", "band_high"),
    ("shown_gap", "shown_gap_low", "shown_gap_high"),
    ("average", "average_ci_low", "average_ci_high"),
    ("rate_after", "after_low", "after_high"),
    ("ratio_after", "ratio_low", "ratio_high"),
)


def _limits(row: dict[str, Any]) -> Iterator[str]:
    for names in LIMITS:
        values = [row.get(name) for name in names]
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            continue
        if names[0] == "threshold" and "estimate" in row:
            continue  # its limits are those of the estimate
        middle, low, high = values
        slack = SLACK * max(1.0, *map(abs, values))
        if not low - slack <= middle <= high + slack:
            yield f"{names[0]} = {middle} outside of {low} to {high}"
        if low == high != 0 and names[0] != "threshold" and names[1] in ("ci_low", "band_low") and not _may_be_exact(row, high):
            yield f"{names[0]} = {middle} as if it were known exactly"


def _may_be_exact(row: dict[str, Any], value: float) -> bool:
    """Whether outcomes do not vary, all decisions change for sure, or a reason beside the limits says why they are one."""
    if "rate_before" in row and abs(value) == 1:
        return True  # calibrated scores of a whole group are far beyond the threshold
    return row.get("se", 1.0) <= 1e-6 * abs(value) + 1e-6 or bool(row.get("reason"))


def _headline(document: dict[str, Any]) -> Iterator[str]:
    for subject in document["subjects"]:
        test = subject["tests"]["parity"]
        shown = [pair for pair in test["pairs"] if pair["verdict"] == "disparity"]
        largest = max((abs(pair["max_gap"]) for pair in shown or test["pairs"] if pair["max_gap"] is not None), default=None)
        for holder, name in ((subject, "subject"), (test, "parity test")):
            gap = holder["max_gap"]
            if (gap is None) != (largest is None) or (gap is not None and not math.isclose(abs(gap), largest)):
                yield f"max_gap of the {name} is {gap}; the largest {'that is shown' if shown else 'of all'} is {largest}"
        for region in test["regions"]:
            if not is_shown([test], {label_text(region["group_a"]), label_text(region["group_b"])}):
                yield f"a region of a pair that is not shown: {region}"
        if test.get("shown_gap") is not None and test["shown_gap"] not in test["regions"]:
            yield f"shown_gap {test['shown_gap']} is in no shown region"
        yield from _withheld(subject)
        yield from _small_groups(subject)


def _withheld(subject: dict[str, Any]) -> Iterator[str]:
    """What is null has its reason."""
    asked = ["calibration_error"] + (["thresholds", "impact"] if subject["threshold"] is not None else [])
    asked += ["repair"] if subject["verdict"] == "disparity" else []
    asked += ["max_gap", "minimum_detectable_gap"]
    given = {name.split(".")[-1] for name in subject["unavailable"]}
    for name in asked:
        if subject[name] is None and not {name, name.removesuffix("_error")} & given:
            yield f"{name} is null without a reason under unavailable {sorted(given)}"


def _small_groups(subject: dict[str, Any], least: int = 10) -> Iterator[str]:
    """A group below the minimum has no curve, and no limits."""
    small = {label_text(row["group"]) for row in subject["groups"] if row["users"] < least}
    for row in subject["curves"]["rows"]:
        if label_text(row["group"]) in small:
            yield f"{label_text(row['group'])} has too few users for a curve"
            return
