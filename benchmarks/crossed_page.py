"""The page of the crossed grid: which cells miss what is promised, and what each factor does, with Monte Carlo errors."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from crossed_cells import Cell
from evenscore.simulation.study_result import share_error
from writing import table

ALPHA = 0.05
LEAST_EVENTS = 20  # expected in the small group, where power is looked at
SHOWN = 5  # worst cells of each test
SEVERAL = 4  # reasons of each test

Result = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """One cell: results of its runs by name, what NumPy warned of, and the CPU seconds of a run by part."""

    cell: Cell
    runs: dict[str, list[Result]]
    warnings: tuple[str, ...] = ()
    seconds: dict[str, float] | None = None

    def answers(self, name: str, key: str) -> list[Any]:
        return [result[key] for result in self.runs.get(name, []) if key in result]


@dataclass(frozen=True)
class Share:
    """A share of the runs of a cell, of how many, and the share of all that gave no answer."""

    cell: Cell
    share: float
    runs: int
    unanswered: float

    @property
    def error(self) -> float:
        return share_error(self.share, self.runs)

    def __str__(self) -> str:
        return f"{100 * self.share:.1f} ± {100 * self.error:.1f}"


Shares = dict[str, list[Share]]


@dataclass(frozen=True)
class Target:
    """Where shares should lie, with two Monte Carlo errors of slack."""

    low: float
    high: float
    words: str

    def excess(self, cell: Share) -> float:
        """By how much a share is beyond; negative inside."""
        return max(cell.share - self.high, self.low - cell.share)

    def missed(self, cells: Iterable[Share]) -> list[Share]:
        """Cells beyond, the worst first."""
        return sorted((cell for cell in cells if self.excess(cell) > 2 * cell.error), key=self.excess, reverse=True)


SIZE = Target(-math.inf, 0.08, "above 8 %")
COVERAGE = Target(0.92, math.inf, "below 92 %")
PROMISE = Target(0.7, 0.9, "outside 70 to 90 %")


# Shares


def rejections(found: Found, name: str) -> Share | None:
    """Of all runs: one that cannot be judged rejects nothing."""
    p_values = found.answers(name, "p")
    if not p_values:
        return None
    rejected = sum(p is not None and p <= ALPHA for p in p_values)
    return Share(found.cell, rejected / len(p_values), len(p_values), p_values.count(None) / len(p_values))


def mistakes(found: Found, name: str) -> Share | None:
    """False verdicts, of all runs."""
    wrong = found.answers(name, "wrong")
    if not wrong:
        return None
    unjudged = sum(reason is not None for reason in found.answers(name, "why"))
    return Share(found.cell, sum(wrong) / len(wrong), len(wrong), unjudged / len(wrong))


def coverages(found: Found, name: str) -> Share | None:
    """Of the runs that gave limits."""
    covered = found.answers(name, "covered")
    known = [one for one in covered if one is not None]
    return Share(found.cell, sum(known) / len(known), len(known), covered.count(None) / len(covered)) if known else None


def powers(found: Found, name: str) -> Share | None:
    """Of the runs in which a gap was promised."""
    p_values = found.answers(name, "promised")
    known = [p for p in p_values if p != "nothing"]
    if not known:
        return None
    rejected = sum(p is not None and p <= ALPHA for p in known)
    return Share(found.cell, rejected / len(known), len(known), p_values.count("nothing") / len(p_values))


def shares_of(found: Iterable[Found], key: str, share: Callable[[Found, str], Share | None]) -> Shares:
    """The shares of every name that has such results, by name."""
    cells = list(found)
    names = dict.fromkeys(name for one in cells for name, results in one.runs.items() if any(key in result for result in results))
    by_name = {name: [share(one, name) for one in cells] for name in names}
    return {name: [one for one in shares if one is not None] for name, shares in by_name.items() if any(shares)}


# Sections


def sections(found: dict[str, list[Found]], fraction: str, lattice: int) -> list[Callable[[], str]]:
    """The page, in the order in which questions come up."""
    null = found.get("none", [])
    alarms = shares_of(null, "p", rejections) | shares_of(null, "wrong", mistakes)
    limits, promised = shares_of(null, "covered", coverages), shares_of(null, "promised", powers)
    made: list[Callable[[], str]] = [partial(introduction, found, fraction, lattice)]
    if alarms:
        made += [partial(section, "False alarms", "No gap, nominal 5 %; a run that is not judged counts.", alarms, SIZE)]
        made += [partial(reasons, null)]
    if limits:
        made += [partial(section, "Coverage", "Limits of 95 %, of the runs that gave some.", limits, COVERAGE)]
    if promised:
        note = "80 % are promised: the small group's curve is moved up by the gap that was said to be found, in fresh data."
        made += [partial(section, "Promised power", note, promised, PROMISE)]
    if "doubled" in found:
        made.append(partial(power_section, null, found["doubled"]))
    everything = [one for cells in found.values() for one in cells]
    return [*made, partial(trouble, everything), partial(costs, everything)]


def introduction(found: dict[str, list[Found]], fraction: str, lattice: int) -> str:
    """What the grid is."""
    n_cells = max(len(cells) for cells in found.values())
    part = f"part {fraction} of the grid, in which all pairs of levels of two factors occur equally often"
    return (
        f"{n_cells} cells of {'the whole grid' if fraction.endswith('/1') else part}. Outcomes x users of the large group for "
        "each of the small one (1, 5, 20) x users of the small group (100, 400, 2,000) x rows a user (1; 4 and 30, with outcomes "
        "that correlate by .1 or .4 within users at one score, and scores that correlate by .5 on the normal scale) x scores "
        "(Beta(2, 2), Beta(.5, 50)). 0/1 outcomes are beta-binomial with rate expit(a + 1.2 z), z the normal quantile of the "
        'score\'s rank. Costs are 0 in 70 % of rows and else log-normal, sigma 1 or 1.5; "sd x3": the small group is three times '
        "as far from the curve. Counts are Poisson or negative binomial with variance m + m². Both groups have the same curve and "
        f"scores. Tallies of {lattice} cells; ± is the Monte Carlo error."
    )


def section(title: str, note: str, shares: Shares, target: Target) -> str:
    """A line for each name, what the factors do, the worst cells, and which cells miss the target."""
    lines = []
    for name, cells in shares.items():
        empty = [cell.unanswered for cell in cells]
        unanswered = f"{100 * sum(empty) / len(empty):.1f} / {100 * max(empty):.0f}"
        worst = max(cells, key=target.excess)
        lines.append((name, f"{len(cells)}", percent(cells), str(worst), f"{len(target.missed(cells))}", unanswered))
    missed = f"cells {target.words} by two errors"
    overall = table(("", "cells", "mean %", "worst cell %", missed, "no answer %, mean / most"), lines)
    texts = [f"### {title}", f"{note} {caption(shares)}", overall, factor_table(shares, target), worst_table(shares, target)]
    for name, cells in shares.items():
        missed_cells = [f"{words(cell.cell)}: {cell}" for cell in target.missed(cells)]
        off = "; ".join(missed_cells[:SHOWN]) + (f"; and {len(missed_cells) - SHOWN} more" if len(missed_cells) > SHOWN else "")
        texts.append(f"**{name}**, cells {target.words} by more than two Monte Carlo errors: {off or 'none'}.")
    return "\n\n".join(texts)


def power_section(null: list[Found], doubled: list[Found]) -> str:
    """Power where it can be expected, with the size of the same test in brackets."""
    able = sorted((one for one in doubled if one.cell.events >= LEAST_EVENTS), key=lambda one: one.cell.events)
    power = shares_of(able, "p", rejections)
    even = {(name, cell.cell): cell for name, cells in shares_of(null, "p", rejections).items() for cell in cells}
    shown = {(name, cell.cell): cell for name, cells in power.items() for cell in cells}

    def entry(name: str, cell: Cell) -> str:
        if (name, cell) not in shown:
            return "–"
        size = f" ({100 * even[name, cell].share:.0f})" if (name, cell) in even else ""
        return f"{100 * shown[name, cell].share:.0f}{size}"

    lines = [(words(one.cell), f"{one.cell.events:.0f}", *(entry(name, one.cell) for name in power)) for one in able]
    note = (
        "The small group's outcome rate is doubled, to .95 at most. Rejections in %, in brackets those without a gap, in the "
        f"{len(able)} of {len(doubled)} cells with at least {LEAST_EVENTS} expected events in the small group. {caption(power)}"
    )
    by_factor = factor_table(power, Target(1, math.inf, "low"))
    return "\n\n".join(["### Power at a doubled rate", note, by_factor, table(("cell", "events", *power), lines)])


def reasons(found: list[Found]) -> str:
    """Why runs were not judged."""
    lines = []
    for name in dict.fromkeys(name for one in found for name in one.runs):
        why = [reason for one in found for reason in one.answers(name, "why")]
        for reason, count in Counter(reason for reason in why if reason).most_common(SEVERAL):
            lines.append((name, reason.replace("|", "/"), f"{100 * count / len(why):.1f}"))
    if not lines:
        return "Every run was judged."
    return "Why runs were not judged, numbers replaced by #:\n\n" + table(("test", "reason", "% of runs"), lines)


def trouble(found: list[Found]) -> str:
    """What should not be: warnings of NumPy, errors, and verdicts that do not follow from p-values."""
    texts: dict[str, list[Cell]] = {}
    for one in found:
        for text in _troubles(one):
            texts.setdefault(text, []).append(one.cell)
    lines = [f"- {text} ({len(cells)} times, first in {cells[0].name})" for text, cells in texts.items()]
    return "### Warnings and errors\n\n" + ("\n".join(lines) or "None.")


def _troubles(found: Found) -> Iterator[str]:
    yield from (f"RuntimeWarning: {warning}" for warning in found.warnings)
    for name, results in found.runs.items():
        for result in results:
            if "error" in result:
                yield f"{name}: {result['error']}"
            shown = result.get("p") is not None and result["p"] <= ALPHA
            if "verdict" in result and shown != (result["verdict"] == "disparity"):
                yield f'{name}: p-value {"at most" if shown else "above"} 5 % and verdict "{result["verdict"]}"'


def costs(found: list[Found]) -> str:
    """CPU seconds of a run, which need not be those of an idle machine."""
    timed = [one for one in found if one.seconds]
    lines = []
    for part in dict.fromkeys(part for one in timed for part in one.seconds or {}):
        seconds = {one.cell: one.seconds[part] for one in timed if one.seconds and part in one.seconds}
        dearest = max(seconds, key=lambda cell: seconds[cell])
        lines.append((part, f"{sum(seconds.values()) / len(seconds):.3f}", f"{seconds[dearest]:.3f}", words(dearest)))
    return "### CPU seconds of a run\n\n" + table(("part", "mean of cells", "dearest", "cell"), lines)


# Pieces


def percent(cells: list[Share]) -> str:
    """The mean of cells and its Monte Carlo error."""
    error = math.sqrt(sum(cell.error**2 for cell in cells)) / len(cells)
    return f"{100 * sum(cell.share for cell in cells) / len(cells):.1f} ± {100 * error:.1f}"


def caption(shares: Shares) -> str:
    """How many runs there were."""
    counts = [cell.runs for cells in shares.values() for cell in cells]
    if not counts:
        return "No runs."
    many = f"{min(counts):,} to {max(counts):,}" if min(counts) < max(counts) else f"{counts[0]:,}"
    errors = " and ".join(f"{100 * share_error(share, max(counts)):.1f} points at {100 * share:g} %" for share in (0.05, 0.5))
    return f"{many} runs a cell; Monte Carlo error {errors}."


def factor_table(shares: Shares, target: Target) -> str:
    """For each level of each factor the mean over the cells with it, and the worst of them."""
    levels: dict[str, dict[str, None]] = {}
    for cells in shares.values():
        for cell in cells:
            for factor, level in cell.cell.factors.items():
                levels.setdefault(factor, {})[level] = None
    lines = []
    rows = [(factor, level) for factor, own in levels.items() for level in in_order(factor, own)]
    for factor, level in rows:
        entries = []
        for cells in shares.values():
            own_cells = [cell for cell in cells if cell.cell.factors[factor] == level]
            worst = max(own_cells, key=target.excess, default=None)
            mean = sum(cell.share for cell in own_cells) / max(1, len(own_cells))
            entries.append(f"{100 * mean:.1f} ({100 * worst.share:.0f})" if worst else "–")
        lines.append((f"{factor} {level}", *entries))
    return table(("%, mean (worst cell)", *shares), lines)


def in_order(factor: str, levels: Iterable[str]) -> list[str]:
    """By their numbers; outcomes as they come."""
    if factor == "outcome":
        return list(levels)
    return sorted(levels, key=lambda level: [float(number) for number in re.findall(r"[\d.]+", level)])


def worst_table(shares: Shares, target: Target) -> str:
    """The worst cells of each name."""
    lines = []
    for name, cells in shares.items():
        for cell in sorted(cells, key=target.excess, reverse=True)[:SHOWN]:
            lines.append((name, words(cell.cell), str(cell), f"{100 * cell.unanswered:.0f}"))
    return table(("", "worst cells", "%", "no answer %"), lines)


def words(cell: Cell) -> str:
    """A cell for people."""
    factors = cell.factors
    people = f"{cell.users * cell.ratio:,}:{cell.users:,}"
    return f"{factors['outcome']}, {people} users, rows {factors['rows a user']}, {factors['scores']}"
