"""An audit for a terminal."""

from __future__ import annotations

import textwrap

import numpy as np

from evenscore.parity_result import PairTest, ParityTest
from evenscore.tables import label_text, number_text, p_text, printable, text_table
from evenscore.tally import Tally
from evenscore.verdict import DISPARITY, INCONCLUSIVE, PARITY

WIDTH = 96
WORDS = {
    DISPARITY: "the same score does not mean the same outcome in every group",
    PARITY: "wherever there are enough people to tell, gaps stay within the tolerance",
    INCONCLUSIVE: "no disparity is shown, which is not the same as parity",
}


def audit_text(tally: Tally, test: ParityTest, notes: list[str]) -> str:
    """Groups, verdict, pairs and where the gaps are."""
    blocks = [_data(tally, notes), _verdict(test), _pairs(test), _where(test), _footer(test)]
    return "\n\n".join(block for block in blocks if block)


def _wrapped(text: str, indent: str = "  ") -> str:
    return textwrap.fill(printable(text, 400), WIDTH, initial_indent=indent, subsequent_indent=indent)


def _data(tally: Tally, notes: list[str]) -> str:
    lines = [text_table(tally.rows())]
    users = "rows are taken as independent" if tally.independent else f"users: {tally.columns.user}" if tally.columns else ""
    lines.append(_wrapped(f"{sum(tally.n_rows.values()):,} rows; {users}"))
    return "\n".join([*lines, *(_wrapped(note) for note in [*tally._notes(), *notes])])


def _verdict(test: ParityTest) -> str:
    words = WORDS[test.verdict]
    if test.verdict == DISPARITY and test.tolerance is not None:
        words = f"for the same score outcomes differ by more than {test.tolerance:g} between groups"
    lines = [f"  {test.verdict.upper()}: {words}  (p = {p_text(test.p_value)})"]
    if np.isfinite(test.max_gap):
        pair = max(test.pairs, key=lambda p: abs(p.max_gap) if np.isfinite(p.max_gap) else -1)
        where = f"at score {number_text(pair.at_score)}, outcomes of {_sides(pair, pair.max_gap)}"
        lines.append(_wrapped(f"largest gap: {abs(pair.max_gap):.3f} {where}"))
    if test.verdict != DISPARITY:
        lines.append(_wrapped(test.reason))
    return "\n".join(lines)


def _sides(pair: PairTest, gap: float) -> str:
    high, low = (pair.group_a, pair.group_b) if gap > 0 else (pair.group_b, pair.group_a)
    return f"{printable(label_text(high))} above {printable(label_text(low))}"


def _pairs(test: ParityTest) -> str:
    return text_table(test.rows())


def _where(test: ParityTest) -> str:
    lines = []
    for pair in test.pairs:
        for region in pair.regions:
            low, high = number_text(region.score_low), number_text(region.score_high)
            where = f"at score {low}" if low == high else f"from score {low} to {high}"
            lines.append(f"    {_sides(pair, region.gap)} {where}, by up to {abs(region.gap):.3f}")
    if lines:
        return "\n".join(["  where a gap is shown:", *lines])
    if test.verdict == DISPARITY:
        return "  no single score shows a gap by itself; the evidence is spread along the score"
    return ""


def _footer(test: ParityTest) -> str:
    weighed = "each user counts once, whatever the number of rows" if test.weighting == "user" else "each row counts once"
    lines = [f"tested: {test.null}", f"how: method {test.method}, {weighed}, level {test.alpha:g}", *test.remarks]
    return "\n".join(_wrapped(line) for line in lines)
