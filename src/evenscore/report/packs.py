"""Papers that others ask for, in Markdown: the tables of New York City's Local Law 144, and a model card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evenscore._version import __version__
from evenscore.decisions.decision_result import DecisionMetrics
from evenscore.decisions.scoring import KnownMedian
from evenscore.report.decision_text import COMPARED, RATIOS, without_blanks
from evenscore.report.markdown import escape
from evenscore.tables import cell_texts, label_text
from evenscore.tallies.tally_state import Tally
from evenscore.wording import number_text

LL144 = (
    "Follows the tables of the final rule of New York City's Department of Consumer and Worker Protection on automated employment "
    "decision tools (Rules of the City of New York, title 6, chapter 5, subchapter T, sections 5-300 to 5-304, the calculations in "
    "5-301; adopted 6 April 2023, enforced from 5 July 2023), which implements Local Law 144 of 2021 (Administrative Code, section "
    "20-870 and following)."
)
CARD = (
    "Follows the form of Mitchell, Wu, Zaldivar, Barnes, Vasserman, Hutchinson, Spitzer, Raji and Gebru, “Model Cards for Model "
    "Reporting”, Conference on Fairness, Accountability, and Transparency (FAT* 2019), pages 220 to 229."
)
NO_ADVICE = (
    "These are numbers about one set of data. They are no legal advice, no audit by an independent auditor and no statement that "
    "anything complies with a law."
)
TO_FILL = "*Not in the data; to be filled in by whoever publishes the card.*"


def ll144(found: Mapping[tuple[str, ...], tuple[Tally, DecisionMetrics]], data: Sequence[str], notes: Sequence[str]) -> str:
    """Rates and impact ratios for each attribute and their intersection, rows as applicants; numbers of unknown."""
    results = [result for _, result in found.values()]
    first = results[0]
    scoring = "tpr" in first.unavailable and "scoring rate" in first.unavailable["tpr"]
    rate = "Scoring rate" if scoring else "Selection rate"
    lines = [
        "# Selection rates and impact ratios",
        "",
        escape(LL144),
        "",
        f"**{escape(NO_ADVICE)}**",
        "",
        f"- Data: {escape(', '.join(data))}",
        f"- {rate}: {escape(_meaning(first, scoring))}",
        *([f"- {escape(_of_whom(results))}"] if scoring else []),
        "- Every row is counted as one applicant"
        + (", also where a person has several rows; the limits allow for that." if _has_users(found) else "."),
        _ratio_meaning(first),
        "",
    ]
    n_read = _rows_read([tally for tally, _ in found.values()])
    for columns, (tally, result) in found.items():
        lines += _ll144_table(columns, tally, result, rate, n_read)
    lines += [f"- {escape(note)}" for note in notes]
    lines += ["", _made()]
    return "\n".join(lines) + "\n"


def _meaning(result: DecisionMetrics, scoring: bool) -> str:
    if scoring:
        side = "above" if result.positive == "above" else "below"
        return f"the share of a category with a score {side} the median, {_median(result):.6g}."
    return f"the share of a category that is selected, {result.where}."


def _of_whom(results: Sequence[DecisionMetrics]) -> str:
    """Whose median it is: of the full sample, as the rule has it, or of the rows in a table, where no others are known."""
    if all(isinstance(value, KnownMedian) for result in results for value in result.thresholds.values()):
        return "The median is that of all rows with a score, also of those whose category is unknown."
    others = {_median(result) for result in results} - {_median(results[0])}
    more = f" In other tables it is {', '.join(f'{value:.6g}' for value in sorted(others))}." if others else ""
    return f"The median is that of the rows in the first table; the rule asks for that of the full sample.{more}"


def _median(result: DecisionMetrics) -> float:
    return float(next(iter(result.thresholds.values())))


def _ratio_meaning(result: DecisionMetrics) -> str:
    if result.reference is not None:
        base = escape(label_text(result.reference))
        return f"- Impact ratio: the rate of a category over that of {base}. The limits hold for all categories at once."
    return (
        "- Impact ratio: the rate of a category over the highest rate. The limits hold for all categories at once and for "
        "whichever category truly has the highest rate."
    )


def _has_users(found: Mapping[Any, tuple[Tally, DecisionMetrics]]) -> bool:
    return any(not tally.independent for tally, _ in found.values())


def _rows_read(tallies: Sequence[Tally]) -> int | None:
    """The rows of the data, from a tally that left none out twice; None where none did, or where that is not the number of rows."""
    for tally in tallies:
        if tally.split is None and len(tally.dropped) <= 1 and (tally.columns is None or tally.columns.count is None):
            return _n_applicants(tally) + sum(tally.dropped.values())
    return None


def _n_applicants(tally: Tally) -> int:
    return sum(tally.n_rows.values()) + sum(tally.n_unlabelled.values())


def _unknown(tally: Tally, n_read: int | None) -> str:
    """The rows that are not in a table, by column and, where columns are unknown together, in all."""
    unknown = [f"{n:,} rows where {escape(column)} is unknown" for column, n in tally.dropped.items()]
    if not unknown:
        return "No row was left out because its category is unknown."
    every = f" ({n_read - _n_applicants(tally):,} rows in all)" if len(unknown) > 1 and n_read is not None else ""
    return f"Not in the table: {'; '.join(unknown)}{every}."


def _ll144_table(columns: tuple[str, ...], tally: Tally, result: DecisionMetrics, rate: str, n_read: int | None) -> list[str]:
    name = " × ".join(columns) or (label_text(tally.columns.group) if tally.columns is not None else "group")
    title = "Intersection: " if len(columns) > 1 else ""
    rows = []
    counted = "Above the median" if rate == "Scoring rate" and result.positive == "above" else "Selected"
    percent = f"{100 * (1 - result.alpha):g} % limits"
    weighted = tally.columns is not None and tally.columns.weight is not None  # then rates are no shares of the applicants
    for group, row in zip(result.groups, result.impact_ratios, strict=True):
        limits = f"{row['ci_low']:.4f} to {row['ci_high']:.4f}" if np.isfinite(row["ci_low"]) else "–"
        applicants = tally.n_rows[group] + tally.n_unlabelled[group]
        selected = {} if weighted else {counted: round(row["selection_rate"] * applicants)}
        rates = {rate: row["selection_rate"], "Impact ratio": row["ratio"], percent: limits}
        rows.append({"Category": label_text(group), "Applicants": applicants, **selected, **rates})
    lines = [f"## {title}{escape(name)}", "", *markdown_table(rows), ""]
    lines += [_unknown(tally, n_read), ""]
    if result.errors:
        lines += [
            f"Rates are off by at most {number_text(max(result.errors.values()))}: the tally does not hold single scores.",
            "",
        ]
    for group, reason in result.left_out.items():
        lines += [f"{escape(label_text(group))} is not compared, as it has {escape(reason)}.", ""]
    if np.isfinite(result.equal_below):
        words = (
            f"Four fifths (Uniform Guidelines on Employee Selection Procedures, 29 CFR 1607.4(D)) is a convention, not a verdict: "
            f"if all categories of these sizes truly had one rate, the smallest impact ratio would "
            f"still be below 0.8 in {result.equal_below_text} of data sets."
        )
        lines += [escape(words), ""]
    return lines


def model_card(tally: Tally, result: DecisionMetrics, data: Sequence[str], notes: Sequence[str]) -> str:
    """A model card with what the data shows; what it does not show is left to be filled in."""
    columns = tally.columns
    factors = label_text(columns.group) if columns is not None else "group"
    users = "every row is taken as a different person" if tally.independent else f"rows of one {_keys(tally)} are not independent"
    quantities = without_blanks(result.rows(), ("group", "metric", "estimate", "ci_low", "ci_high", "users", "reason"))
    compared = without_blanks(list(result.comparisons), COMPARED)
    outcome = escape(columns.outcome) if columns is not None else "the outcome"
    kind = "Intersectional" if columns is not None and len(columns.group) > 1 else "Unitary"
    sections: list[tuple[str, list[str]]] = [
        ("Model details", [f"Score: {escape(columns.score) if columns is not None else 'not named'}.", TO_FILL]),
        ("Intended use", [TO_FILL]),
        ("Factors", [f"Groups: {escape(factors)}, {len(tally.groups)} of them. Others were not looked at."]),
        (
            "Metrics",
            [
                f"Decisions: {escape(result.where)}. Outcome: {outcome}.",
                f"Each estimate has limits of level {1 - result.alpha:g}; per {result.weighting}, and {users}.",
            ],
        ),
        ("Evaluation data", [f"{escape(', '.join(data))}: {_sizes(tally)}."]),
        ("Training data", [TO_FILL]),
        ("Quantitative analyses", [f"### {kind} results", "", *markdown_table(quantities)]),
    ]
    if compared:
        adjusted = result.adjustment_words
        sections[-1][1].extend(["", "### Groups compared", "", *markdown_table(compared), "", escape(adjusted) + "."])
        ratios = without_blanks(list(result.impact_ratios), RATIOS)
        sections[-1][1].extend(["", "### Impact ratios", "", *markdown_table(ratios)])
    caveats = [f"- {escape(note)}" for note in [*result._notes(), *notes]]
    sections += [("Ethical considerations", [TO_FILL]), ("Caveats and recommendations", [*caveats, "", escape(NO_ADVICE)])]
    lines = ["# Model card", "", escape(CARD), ""]
    for title, body in sections:
        lines += [f"## {title}", "", *body, ""]
    return "\n".join([*lines, _made()]) + "\n"


def _keys(tally: Tally) -> str:
    return "person" if tally.item is None else f"person or of one {escape(tally.item)}"


def _sizes(tally: Tally) -> str:
    rows, unlabelled = sum(tally.n_rows.values()), sum(tally.n_unlabelled.values())
    words = f"{rows:,} rows" if tally.independent else f"{rows:,} rows of {sum(tally.n_users.values()):,} users"
    if tally.n_spanning:
        words = f"{rows:,} rows; {tally.n_spanning:,} users are in more than one group"
    words += f", and {unlabelled:,} rows without a known outcome" if unlabelled else ""
    return words + "".join(f"; {escape(left_out)}" for left_out in tally.dropped_notes)


def markdown_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A table in Markdown; every label is escaped."""
    header, body, numeric = cell_texts(rows)
    lines = [[escape(cell) for cell in header], ["--:" if number else ":--" for number in numeric]]
    lines += [[escape(cell) for cell in line] for line in body]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _made() -> str:
    return f"<sub>evenscore {escape(__version__)}</sub>"
