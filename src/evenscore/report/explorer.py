"""Sliders of a report: what other thresholds and tolerances would give. Numbers are computed here; the page only looks them up."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.auditing.subject import Subject
from evenscore.errors import EvenscoreError
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY
from evenscore.parity.parity_result import PairTest
from evenscore.report.document import Section
from evenscore.report.findings import above, below, share_of, unit
from evenscore.report.pair_charts import pair_title
from evenscore.report.ticks import short
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import GroupView
from evenscore.thresholds.thresholds_result import GroupThreshold
from evenscore.thresholds.tried import Tried, thinned, try_thresholds
from evenscore.types import Floats
from evenscore.wording import number_text

MOST_STOPS, CROWDED_STOPS, CROWD = 60, 30, 4
MOST_GROUPS = 12
MOST_PAIRS = 45
TOLERANCES = 50
BINS = 32
WIDE, HIGH = 1000, 40  # of the strips, in units of their own
WORDS = {DISPARITY: "beyond", PARITY: "within", INCONCLUSIVE: "undecided"}
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def explorer_section(subject: Subject, prefix: str) -> Section | None:
    """A threshold and a tolerance to try; without JavaScript a table of what the audit was asked for."""
    thresholds, tolerances = _thresholds(subject), _tolerances(subject)
    if thresholds is None and tolerances is None:
        return None
    key = f"{prefix}explorer"
    tried = {name: own for name, own in (("thresholds", thresholds), ("tolerances", tolerances)) if own is not None}
    embedded = {name: own["embedded"] for name, own in tried.items()}
    return Section(
        key,
        "Try a threshold or a tolerance" if thresholds else "Try a tolerance",
        _answer(subject, tolerances is not None),
        template="explorer.html",
        data={"key": key, "prefix": prefix, "thresholds": thresholds, "tolerances": tolerances, "json": script_json(embedded)},
    )


def script_json(values: Any) -> str:
    """JSON that can stand in a script element: nothing in it ends the element, or a line of JavaScript."""
    text = json.dumps(values, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _answer(subject: Subject, judged: bool) -> str:
    if not judged:
        return "What other thresholds would give."
    exceeded = max(pair.exceeds for pair in subject.parity.pairs)
    within = max(pair.within for pair in subject.parity.pairs)
    beyond = f"A gap above {below(subject, exceeded)}{unit(subject)} is shown" if exceeded > 0 else "No gap of any size is shown"
    return f"{beyond}; gaps above {above(subject, within)}{unit(subject)} are ruled out." if math.isfinite(within) else f"{beyond}."


def _size(subject: Subject, gap: float) -> str:
    """A gap or tolerance for people: in points for 0/1 outcomes."""
    return f"{100 * gap:.3g} points" if subject.tally.binary else number_text(gap)


# Thresholds


def _thresholds(subject: Subject) -> dict[str, Any] | None:
    """What happens at each stop; None where nothing can be decided by a threshold."""
    tally, weighting = subject.selection.tally, subject.parity.weighting
    if not 0 < len(tally.groups) <= MOST_GROUPS:
        return None
    stops = thinned(tally, weighting, CROWDED_STOPS if len(tally.groups) > CROWD else MOST_STOPS, subject.threshold)
    try:
        tried = try_thresholds(tally, stops, positive=subject.positive, weighting=weighting)
    except EvenscoreError:
        return None
    if len(tried) < 2 or (subject.threshold is not None and subject.threshold not in [own.threshold for own in tried]):
        return None
    start = _start(subject, tried)
    scale = Strip.of(tally, [own.threshold for own in tried])
    columns = {
        "rate": [[f"{100 * group.rate_before:.1f} %" for group in own.groups] for own in tried],
        "outcome": [[_outcome(subject, group.outcome_before) for group in own.groups] for own in tried],
        "fair": [[number_text(group.threshold) for group in own.groups] for own in tried],
        "change": [[_change(group) for group in own.groups] for own in tried],
    }
    embedded: dict[str, Any] = columns | {
        "start": start,
        "above": subject.positive == "above",
        "score": [own.threshold for own in tried],
        "text": [number_text(own.threshold) for own in tried],
        "sums": [_sums(own) for own in tried],
        "x": [scale.at(own.threshold) for own in tried],
        "fairX": [[scale.at(group.threshold) for group in own.groups] for own in tried],
    }
    return {
        "embedded": embedded,
        "asked": subject.threshold is not None,
        "side": "at or above" if subject.positive == "above" else "below",
        "outcome": share_of(subject),
        "unit": weighting,
        "groups": [
            {"name": short(view.label), "style": style % 7, "strip": scale.people(view)}
            for style, view in enumerate(GroupView.each(tally, weighting))
        ],
        "rows": [[columns[name][start][place] for name in columns] for place in range(len(tally.groups))],
        "text": embedded["text"][start],
        "sums": embedded["sums"][start],
        "last": len(tried) - 1,
        "start": start,
        "x": embedded["x"][start],
        "fairX": embedded["fairX"][start],
        "wide": WIDE,
        "high": HIGH,
    }


def _start(subject: Subject, tried: Sequence[Tried]) -> int:
    """The audit's threshold; without one, where half of all decisions are positive."""
    if subject.threshold is not None:
        return [own.threshold for own in tried].index(subject.threshold)
    return int(np.argmin([abs(_overall(own) - 0.5) for own in tried]))


def _overall(tried: Tried) -> float:
    return sum(own.rate_before * own.people for own in tried.groups) / sum(own.people for own in tried.groups)


def _outcome(subject: Subject, value: float) -> str:
    return f"{100 * value:.1f} %" if subject.tally.binary else number_text(value)


def _change(group: GroupThreshold) -> str:
    """How many decisions of a group change: to positive, or to negative."""
    count = round(group.to_positive - group.to_negative)
    return f"+{count:,}" if count > 0 else f"\u2212{-count:,}" if count < 0 else "0"


def _sums(tried: Tried) -> list[str]:
    """All groups together: the positive rate, and how many change to positive and to negative."""
    changes = (round(sum(getattr(own, name) for own in tried.groups)) for name in ("to_positive", "to_negative"))
    return [f"{100 * _overall(tried):.1f} %", *(f"{count:,}" for count in changes)]


@dataclass(frozen=True, slots=True)
class Strip:
    """A strip of the scores, WIDE units long. low, high: its ends, on the axis of a picture."""

    tally: Tally
    low: float
    high: float

    @classmethod
    def of(cls, tally: Tally, scores: Sequence[float]) -> Strip:
        """Around some scores."""
        ends = cls(tally, 0.0, 1.0)._axis(np.array([min(scores), max(scores)]))
        room = 0.04 * float(ends[1] - ends[0]) or 0.5
        return cls(tally, float(ends[0]) - room, float(ends[1]) + room)

    def _axis(self, scores: Floats) -> Floats:
        lattice = self.tally.lattice
        return lattice.to_axis(scores) if lattice.scale == "logit" else np.asarray(scores, float)

    def at(self, score: float) -> int:
        """Where a score lies; beyond an end at the end."""
        place = (float(self._axis(np.array([score]))[0]) - self.low) / (self.high - self.low)
        return round(WIDE * min(max(place, 0.0), 1.0))

    def people(self, view: GroupView) -> str:
        """A group's people as the path of a histogram, the highest bar as high as the strip."""
        lattice = view.lattice
        position = self._axis(lattice.values if lattice.values is not None else view.score)
        shares, _ = np.histogram(position, BINS, (self.low, self.high), weights=view.sums.A)
        heights = HIGH * (1 - shares / max(shares.max(), 1e-300))
        step = WIDE / BINS
        bars = "".join(f"V{height:.0f}H{(place + 1) * step:.0f}" for place, height in enumerate(heights))
        return f"M0 {HIGH}{bars}V{HIGH}Z"


# Tolerances


def _tolerances(subject: Subject) -> dict[str, Any] | None:
    """Which pairs are beyond each tolerance; None where no pair could be judged."""
    test = subject.parity
    pairs = sorted((pair for pair in test.pairs if pair.judged), key=lambda pair: -abs(pair.max_gap))[:MOST_PAIRS]
    if not pairs:
        return None
    stops = tolerance_stops(pairs, test.tolerance)
    start = 0 if test.tolerance is None else stops.index(test.tolerance)
    limits = [[own if math.isfinite(own) else None for own in (pair.exceeds, pair.within)] for pair in pairs]
    verdicts = [verdict_at(pair, stops[start], test.tolerance) for pair in pairs]
    texts = ["0: any gap counts" if stop == 0 else _size(subject, stop) for stop in stops]
    return {
        "embedded": {
            "start": start,
            "tolerance": stops,
            "text": texts,
            "limits": limits,
            "asked": None if test.tolerance is not None else [pair.verdict for pair in pairs],
        },
        "rows": [
            {
                "name": pair_title(pair, pair.max_gap).replace("\n", " "),
                "exceeds": f"{below(subject, pair.exceeds)}{unit(subject)}" if pair.exceeds > 0 else "–",
                "within": f"{above(subject, pair.within)}{unit(subject)}" if math.isfinite(pair.within) else "–",
                "verdict": verdict,
                "words": WORDS[verdict],
            }
            for pair, verdict in zip(pairs, verdicts, strict=True)
        ],
        "text": texts[start],
        "counts": [(words, verdicts.count(verdict)) for verdict, words in WORDS.items()],
        "last": len(stops) - 1,
        "start": start,
        "left_out": len(test.pairs) - len(pairs),
    }


def verdict_at(pair: PairTest, tolerance: float, asked: float | None) -> str:
    """What ``es.parity_test`` says of a pair at this tolerance; 0: without one, if the test was asked without."""
    if tolerance == 0 and asked is None:
        return pair.verdict
    return DISPARITY if tolerance < pair.exceeds else PARITY if tolerance > pair.within else INCONCLUSIVE


def tolerance_stops(pairs: Sequence[PairTest], asked: float | None) -> list[float]:
    """Round tolerances up to where every pair is decided, the one that was asked for among them; 0 when none was."""
    ends = [end for pair in pairs for end in (pair.exceeds, pair.within) if math.isfinite(end) and end > 0]
    top = max([*ends, 2 * (asked or 0.0)], default=1.0) or 1.0
    size = 10.0 ** math.floor(math.log10(top / TOLERANCES))
    step = next(size * factor for factor in STEPS if size * factor * TOLERANCES >= top)
    stops = {float(f"{step * place:.12g}") for place in range(1, math.ceil(top / step) + 1)}
    return sorted(stops | {0.0 if asked is None else float(asked)})
