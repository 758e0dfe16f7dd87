"""The old scale kept: every group's score becomes the score of the reference group that stands for the same outcome."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenscore.calibration.maps import GroupMap
from evenscore.types import Floats

JUMP = 1e-7  # of the range: over so much of the score a map crosses a flat stretch of the reference
FLATTEST = 1e-3  # of the mean slope: where the reference is flatter, any score would do


def to_reference(own: GroupMap, reference: GroupMap) -> GroupMap:
    """The map s~ with f_ref(s~) = f_g(s), f_ref never falling; its error is that of both curves over the slope of f_ref.

    Outcomes beyond those of the reference get its lowest or highest score.
    """
    score = _breakpoints(own, reference)
    value = _inverse(reference, own.at(score))
    slope = _slope_at(reference, value)
    error, reference_error = own.design(score) @ own.factor, reference.design(value) @ reference.factor
    factor = np.concatenate([error, -reference_error], axis=1) / slope[:, None]
    words = f"{own.words}; on the scale of the reference"
    return replace(own, score=score, value=value, factor=factor, trials=None, words=words)


def identity(reference: GroupMap) -> GroupMap:
    """The reference group keeps its scores."""
    ends = np.unique([reference.low, reference.high])
    still, words = np.zeros((len(ends), 0)), "scores are kept"
    return replace(reference, score=ends, value=ends.copy(), factor=still, trials=None, identity=True, words=words)


def beyond(own: GroupMap, reference: GroupMap, score: Floats, weight: Floats) -> float:
    """The share of a group whose expected outcome no score of the reference stands for."""
    level = own.at(score)
    outside = (level < reference.value.min() - 1e-12) | (level > reference.value.max() + 1e-12)
    return float(weight[outside].sum() / weight.sum())


def _inverse(reference: GroupMap, level: Floats) -> Floats:
    """The score that stands for an outcome; of a flat stretch, its middle."""
    last = np.interp(level, reference.value, reference.score)
    first = -np.interp(-level, -reference.value[::-1], -reference.score[::-1])
    return (first + last) / 2


def _breakpoints(own: GroupMap, reference: GroupMap) -> Floats:
    """The knots of the group, and the scores where its curve passes a knot of the reference; twice where the reference is flat."""
    levels, counts = np.unique(reference.value, return_counts=True)
    span = max(own.score[-1] - own.score[0], 1e-300)
    scores = [own.score]
    for left in range(len(own.score) - 1):
        low, high = own.value[left : left + 2]
        inside = (levels > min(low, high)) & (levels < max(low, high))
        if inside.any():
            share = (levels[inside] - low) / (high - low)
            crossing = own.score[left] + share * (own.score[left + 1] - own.score[left])
            flat = crossing[counts[inside] > 1]
            scores += [crossing, flat - JUMP * span, flat + JUMP * span]
    score = np.unique(np.clip(np.concatenate(scores), own.score[0], own.score[-1]))
    return score[np.concatenate([[True], np.diff(score) > JUMP * span / 10])]


def _slope_at(reference: GroupMap, score: Floats) -> Floats:
    """How steeply the reference rises at scores, kept off 0."""
    if len(reference.score) == 1:
        return np.ones(len(score))
    overall = (reference.value[-1] - reference.value[0]) / (reference.score[-1] - reference.score[0])
    slopes = np.append(reference.slope[:-1], reference.slope[-2])
    at = np.clip(np.searchsorted(reference.score, score, side="right") - 1, 0, len(slopes) - 1)
    return np.maximum(slopes[at], FLATTEST * max(overall, 1e-300))
