"""The old scale kept: every group's score becomes the score of the reference group that stands for the same outcome."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenscore.calibration.maps import GroupMap
from evenscore.types import Floats

JUMP = 1e-7  # of the range: over so much of the score a map crosses a flat stretch of the reference
FLATTEST = 1e-3  # of the mean slope: where the reference is flatter, any score would do


def to_reference(each: GroupMap, reference: GroupMap) -> GroupMap:
    """The map s~ with f_ref(s~) = f_g(s), f_ref never falling; its error is that of both curves over the slope of f_ref.

    Outcomes beyond those of the reference get its lowest or highest score.
    """
    score = _breakpoints(each, reference)
    value = _inverse(reference, each.at(score))
    slope = _slope_at(reference, value)
    own, other = each.design(score) @ each.factor, reference.design(value) @ reference.factor
    factor = np.concatenate([own, -other], axis=1) / slope[:, None]
    words = f"{each.words}; on the scale of the reference"
    return replace(each, score=score, value=value, factor=factor, words=words)


def identity(reference: GroupMap) -> GroupMap:
    """The reference group keeps its scores."""
    ends = np.unique([reference.low, reference.high])
    return replace(
        reference, score=ends, value=ends.copy(), factor=np.zeros((len(ends), 0)), identity=True, words="scores are kept"
    )


def beyond(each: GroupMap, reference: GroupMap, score: Floats, weight: Floats) -> float:
    """The share of a group whose expected outcome no score of the reference stands for."""
    level = each.at(score)
    outside = (level < reference.value.min() - 1e-12) | (level > reference.value.max() + 1e-12)
    return float(weight[outside].sum() / weight.sum())


def _inverse(reference: GroupMap, level: Floats) -> Floats:
    """The score that stands for an outcome; of a flat stretch, its middle."""
    last = np.interp(level, reference.value, reference.score)
    first = -np.interp(-level, -reference.value[::-1], -reference.score[::-1])
    return (first + last) / 2


def _breakpoints(each: GroupMap, reference: GroupMap) -> Floats:
    """The knots of the group, and the scores where its curve passes a knot of the reference; twice where the reference is flat."""
    levels, counts = np.unique(reference.value, return_counts=True)
    span = max(each.score[-1] - each.score[0], 1e-300)
    found = [each.score]
    for left in range(len(each.score) - 1):
        low, high = each.value[left : left + 2]
        inside = (levels > min(low, high)) & (levels < max(low, high))
        if inside.any():
            share = (levels[inside] - low) / (high - low)
            crossing = each.score[left] + share * (each.score[left + 1] - each.score[left])
            flat = crossing[counts[inside] > 1]
            found += [crossing, flat - JUMP * span, flat + JUMP * span]
    score = np.unique(np.clip(np.concatenate(found), each.score[0], each.score[-1]))
    return score[np.concatenate([[True], np.diff(score) > JUMP * span / 10])]


def _slope_at(reference: GroupMap, score: Floats) -> Floats:
    """How steeply the reference rises at scores, kept off 0."""
    if len(reference.score) == 1:
        return np.ones(len(score))
    overall = (reference.value[-1] - reference.value[0]) / (reference.score[-1] - reference.score[0])
    slopes = np.append(reference.slope[:-1], reference.slope[-2])
    at = np.clip(np.searchsorted(reference.score, score, side="right") - 1, 0, len(slopes) - 1)
    return np.maximum(slopes[at], FLATTEST * max(overall, 1e-300))
