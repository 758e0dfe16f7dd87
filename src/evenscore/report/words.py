"""The result of an audit in plain sentences: what is shown, how large, what could have been seen, and what this does not say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.auditing.audit_result import Audit
from evenscore.auditing.subject import Subject
from evenscore.estimation.verdict import DISPARITY, PARITY
from evenscore.miscalibration.error_result import ErrorEstimate
from evenscore.naming import in_names
from evenscore.ordering.ordering_result import RISING, OrderingTest
from evenscore.parity.parity_result import PairTest, ParityTest, Region
from evenscore.report.headline import tolerance_text, verdict_sentence
from evenscore.report.limits import limits
from evenscore.tables import label_text
from evenscore.wording import amount_text, figures, p_text, p_words, place_text

NAMED = 6  # groups in a sentence about all
LEAST_CHANGE = 5e-4  # of a share of decisions, which are told in tenths of a percent
DECIDED = {
    "parity": "parity decides",
    "ordering": "the order across groups decides, as no score has enough people of both",
    "parity and ordering": "parity where scores overlap and the order of people beyond decide together, in the same draws",
}


NO_VERDICT = "this test was not to decide here, so that it makes no verdict"


@dataclass(frozen=True, slots=True)
class Sentence:
    """kind: "verdict", "tested", "gap", "power", "where", "weighting", "ordering" ... or "limit"."""

    kind: str
    text: str


def headline(audit: Audit) -> str:
    """The verdict of the whole in a sentence."""
    if len(audit.subjects) == 1 or audit.verdict == DISPARITY:
        return verdict_sentence(audit.headline, audit.tolerance)
    if audit.verdict == PARITY:
        return "At the same score, gaps stay within the tolerance for every score and attribute"
    if all(np.isnan(subject.p_value) for subject in audit.subjects):
        return "Nothing could be judged"
    if audit.tolerance is not None:
        most = tolerance_text(audit.tolerance, audit.headline.tally.binary)
        return f"Neither a difference of more than {most} between groups nor its absence in all is shown"
    return "No difference between groups is shown. That is not proof that there is none"


def audit_sentences(audit: Audit) -> list[Sentence]:
    """The whole audit, most important first."""
    sentences = [Sentence("verdict", f"{audit.verdict}: {headline(audit)}")]
    for subject in audit.subjects:
        name = f"{subject.name}: " if len(audit.subjects) > 1 else ""
        sentences += [Sentence(sentence.kind, name + sentence.text) for sentence in subject_sentences(subject)]
    return [*sentences, *(Sentence("limit", text) for text in limits(audit))]


@in_names
def subject_sentences(subject: Subject) -> list[Sentence]:
    """One score and attribute."""
    return [
        Sentence(kind, text)
        for kind, text in (
            ("means", subject.row_counts.sentence),
            ("tested", tested(subject)),
            ("groups", subject.selection.sentence),
            ("decided", decided(subject)),
            ("gap", largest_gap(subject.parity)),
            ("power", could_be_seen(subject.parity)),
            ("where", where(subject.parity)),
            ("weighting", other_weighting(subject)),
            ("ordering", ordering(subject)),
            ("calibration", calibration(subject)),
            ("threshold", threshold(subject)),
            ("labels", other_labels(subject)),
            ("thresholds", thresholds(subject)),
            ("impact", impact(subject)),
            ("repair", repair(subject)),
            ("placebo", placebo(subject)),
        )
        if text
    ]


def weighted(subject: Subject) -> bool:
    """Whether weights were given."""
    columns = subject.tally.columns
    return columns is not None and columns.weight is not None


def null_of(subject: Subject) -> str:
    """What is tested, in words: the order where it decides, since then nobody is compared at the same score."""
    if subject.order_decides:
        return subject.ordering.null
    null = subject.parity.null
    return null.replace("weighs the same)", "counts by its weight)") if weighted(subject) else null


def tested(subject: Subject) -> str:
    """What was tested on how many people, in the words of the estimand."""
    tally = subject.selection.tally
    users, rows = sum(tally.n_users.values()), sum(tally.n_rows.values())
    people = f"{rows:,} rows of {users:,} users"
    if tally.independent:
        people = f"{rows:,} {'independent rows' if tally.item is None else 'rows, each a user of its own,'}"
    elif tally.n_spanning:
        people = f"{rows:,} rows of users of whom {tally.n_spanning:,} are in more than one group,"
    return f"tested whether {null_of(subject)}, on {people} in {len(tally.groups)} groups"


def largest_gap(test: ParityTest) -> str:
    """The largest gap beside the p-value."""
    pair = largest_pair(test)
    if pair is None:
        return "no pair of groups could be judged: " + test.reason
    tail = "for no gap at any score" if test.tolerance is None else f"for no gap beyond {test.tolerance:g} at any score"
    return f"{gap_words(test)} (p = {p_text(test.p_value)} {tail})"


def gap_words(test: ParityTest) -> str:
    """The largest gap that is shown, with its limits; where none is shown at a score, the largest estimate, and called so."""
    shown, pair = largest_region(test), largest_pair(test)
    if shown is not None:
        region, pair = shown
        return (
            f"the largest gap that is shown is {amount_text(abs(region.gap))} ({limits_of(region)}) at score "
            f"{place_text(region.at_score)}, {sides(pair, region.gap)}"
        )
    if pair is None:
        return ""
    called, unshown = "the largest estimate of a gap", ""
    alone = " by itself" if test.verdict == DISPARITY else ""  # the evidence is spread along the score
    if test.tolerance is None:
        called += f", not shown{alone},"
    elif test.verdict != PARITY:
        unshown = f", not shown{alone} to exceed {test.tolerance:g}"
    where = f"between {pair.name} at score {place_text(pair.at_score)}"
    return f"{called} is {amount_text(abs(pair.max_gap))}, {where}{unshown}"


def largest_region(test: ParityTest) -> tuple[Region, PairTest] | None:
    """Where the largest gap is shown, and between whom."""
    regions = [(region, pair) for pair in test.pairs for region in pair.regions]
    return max(regions, key=lambda shown: abs(shown[0].gap), default=None)


def limits_of(region: Region) -> str:
    """The simultaneous limits of a region's largest gap, in the direction in which it is shown."""
    low, high = sorted((abs(region.low), abs(region.high)))
    return f"{amount_text(low)} to {amount_text(high)}"


def decided(subject: Subject) -> str:
    """Which tests decide, unless parity does about every pair."""
    if subject.decision is None or subject.decision.tests == ("parity",):
        return ""
    decision, judged = subject.decision, [pair for pair in subject.decision.pairs if pair.judged]
    if len(decision.pairs) == 1 or not judged:
        how = "; ".join(dict.fromkeys(DECIDED[pair.decided_by] for pair in decision.pairs))
        return how + (p_words(subject.p_value) or ", but nothing could be judged")
    counts = Counter(pair.decided_by for pair in judged)
    parts = [f"for {count} of {len(decision.pairs)} pairs {DECIDED[by]}" for by, count in counts.items()]
    parts += [f"{len(decision.pairs) - len(judged)} could not be judged"] if len(judged) < len(decision.pairs) else []
    return f"{'; '.join(parts)}; adjusted for all that were judged by {decision.adjustment}, p = {p_text(subject.p_value)}"


def largest_pair(test: ParityTest) -> PairTest | None:
    """The pair of groups with the largest gap."""
    return test.largest_pair


def sides(pair: PairTest, gap: float) -> str:
    """Which group is above which."""
    high, low = (pair.group_a, pair.group_b) if gap > 0 else (pair.group_b, pair.group_a)
    return f"outcomes of {label_text(high)} above {label_text(low)}"


def could_be_seen(test: ParityTest) -> str:
    """The smallest gap that could have been seen."""
    if np.isnan(test.minimum_detectable_gap):
        return ""
    found = "found" if test.tolerance is None else "told from none"
    if np.isinf(test.minimum_detectable_gap):
        return f"even the largest possible gap would not be {found} with probability 0.8"
    power = f"a constant gap of {figures(test.minimum_detectable_gap)} or more would be {found} with probability 0.8"
    return "; ".join(filter(None, (power, at_some_scores(test))))


def at_some_scores(test: ParityTest) -> str:
    """That a constant gap shows where the band is narrow, and how wide it is elsewhere."""
    widest = widest_band(test)
    if widest is None:
        return ""
    return f"a gap at some scores only must be larger: at score {place_text(widest[0])} the band is ±{figures(widest[1], 2)} wide"


def widest_band(test: ParityTest) -> tuple[float, float] | None:
    """The score at which least can be said, and half the width of the band there; None unless that is more than a constant gap."""
    points = [point for point in test.points if np.isfinite(point["band_high"] - point["band_low"])]
    if len(points) < 2:
        return None
    widest = max(points, key=lambda point: point["band_high"] - point["band_low"])
    half = float(widest["band_high"] - widest["band_low"]) / 2
    return (float(widest["score"]), half) if half > test.minimum_detectable_gap else None


def where(test: ParityTest, limit: int = 3) -> str:
    """Where along the score a gap is shown, the largest first."""
    regions = [(region, pair) for pair in test.pairs for region in pair.regions]
    regions.sort(key=lambda shown: -abs(shown[0].gap))
    if not regions:
        spread = "no single score shows a gap by itself; the evidence is spread along the score"
        return spread if test.verdict == DISPARITY else ""
    more = f"; and {len(regions) - limit} more" if len(regions) > limit else ""
    return "a gap is shown for " + "; ".join(_region(*shown) for shown in regions[:limit]) + more


def _region(region: Region, pair: PairTest) -> str:
    low, high = place_text(region.score_low), place_text(region.score_high)
    gap = f"{sides(pair, region.gap)} by up to {amount_text(abs(region.gap))}"
    if low == high:
        return f"{gap} at score {low}"
    share = (
        f"{100 * region.share_a:.0f} % of {label_text(pair.group_a)} and {100 * region.share_b:.0f} % of {label_text(pair.group_b)}"
    )
    return f"{gap} from score {low} to {high} ({share} score in this range)"


def other_weighting(subject: Subject) -> str:
    """What the other weighting says."""
    test = subject.parity
    if test.other is None:
        return ""
    if test.disagreement:
        return disagreement(subject)
    if np.isnan(test.other.p_value):
        return ""
    same = f"counting each {test.other.weighting} once instead gives the same verdict (p = {p_text(test.other.p_value)})"
    return _of_parity(subject, same)


def disagreement(subject: Subject) -> str:
    """That per user and per row the parity test comes to different verdicts; empty where it does not."""
    return _of_parity(subject, subject.parity.disagreement)


def _of_parity(subject: Subject, sentence: str) -> str:
    """The sentence, which is no word about the verdict of the whole where other tests have a say in that."""
    return sentence if subject.decides == ("parity",) or not sentence else f"by the parity test alone, {sentence}"


def ordering(subject: Subject) -> str:
    """What the ordering test says."""
    test = subject.ordering
    falls = "".join(f"; {own.words}, which is no disparity between groups" for own in test.not_monotone[:2])
    if test.verdict == DISPARITY:
        aside = f"; {NO_VERDICT}" if order_aside(subject) else ""
        return "order across groups: " + _shown_pairs(test.pairs, "at_least") + aside + falls
    if np.isnan(test.p_value):
        return falls.removeprefix("; ")
    decline = "a decline" if test.direction == RISING else "a rise"
    beyond = f", beyond what {decline} within a group explains," if falls else ""
    return f"order across groups: {no_misordering(test, beyond)} (p = {p_text(test.p_value)}){falls}"


def order_aside(subject: Subject) -> bool:
    """Whether the order shows something that the verdict, which it does not make, does not."""
    return subject.ordering.verdict == DISPARITY and subject.verdict != DISPARITY


def no_misordering(test: OrderingTest, beyond: str = "") -> str:
    """That none is shown, in words."""
    first, second = ("lower", "higher") if test.direction == RISING else ("higher", "lower")
    higher = "a higher outcome" if test.tolerance is None else f"an outcome higher by more than {test.tolerance:g}"
    return f"no {first} score of one group is shown to stand for {higher}{beyond} than a {second} score of another"


def _shown_pairs(pairs: Iterable[Any], size: str) -> str:
    """The two pairs of groups with the largest disparities, and how many more there are."""
    shown = sorted((pair for pair in pairs if pair.verdict == DISPARITY), key=lambda pair: -abs(getattr(pair, size)))
    more = len(shown) - 2
    tail = f"; and {more} more pair{'s' if more > 1 else ''} of groups" if more > 0 else ""
    return "; ".join(pair.reason for pair in shown[:2]) + tail


def calibration(subject: Subject) -> str:
    """How far scores are from outcomes, best and worst."""
    if subject.calibration is None:
        return ""
    known = [
        error for error in subject.calibration.estimates[:-1] if np.isfinite((error.estimate, error.ci_low, error.ci_high)).all()
    ]
    if not known:
        return "how far scores are off cannot be told: outcomes vary too much for an upper limit"
    shown = [error for error in known if error.ci_low > 0]
    if shown:
        worst, best = max(shown, key=lambda error: error.estimate), min(known, key=lambda error: error.estimate)
        words = f"scores of {label_text(worst.group)} are off by {_error(worst)}"
        words += f", those of {label_text(best.group)} by {_error(best)}" if worst is not best else ""
    else:
        widest = max(known, key=lambda error: error.ci_high)
        words = f"no group's scores are shown to be off; those of {label_text(widest.group)} could be off by {_error(widest)}"
    return f"{words}: the root mean square of expected outcome minus score"


def _error(error: ErrorEstimate) -> str:
    """How far a group's scores are off: no estimate where the limits reach down to 0."""
    if not error.ci_low > 0:
        return f"at most {amount_text(error.ci_high)}"
    return f"{amount_text(error.estimate)} ({amount_text(error.ci_low)} to {amount_text(error.ci_high)})"


def threshold(subject: Subject) -> str:
    """What the marginal test says."""
    test = subject.marginal
    if test is None:
        return ""
    if test.verdict == DISPARITY:
        return f"at the threshold {subject.threshold:g}: {_shown_pairs(test.pairs, 'gap')} (p = {p_text(test.p_value)})"
    if np.isnan(test.p_value):
        why = "; ".join(f"{label_text(own.group)}: {own.reason}" for own in test.marginals if own.reason)
        return f"at the threshold {subject.threshold:g} nothing can be judged: {why or test.reason}"
    gap = f"largest gap {amount_text(abs(test.max_gap))}, p = {p_text(test.p_value)}"
    return f"at the threshold {subject.threshold:g}: {test.verdict}, {test.reason} ({gap})"


def other_labels(subject: Subject) -> str:
    """What the marginal test says with outcomes of both sides of the threshold."""
    told = [] if subject.marginal is None else subject.marginal.label_sentences
    return f"at the threshold {subject.threshold:g}, {'; '.join(told)}" if told else ""


def thresholds(subject: Subject) -> str:
    """The thresholds that would even out outcomes."""
    solution = subject.thresholds
    if solution is None or subject.marginal is None or subject.marginal.verdict != DISPARITY:
        return ""
    by_group = ", ".join(f"{place_text(own.threshold)} for {label_text(own.group)}" for own in solution.groups[:NAMED])
    more = len(solution.groups) - NAMED
    by_group += f" and others for {more} more," if more > 0 else ""
    state = "would have the same expected outcome at their thresholds"
    if not solution.solved:
        state = "would come closest to equal outcomes"
    rate = "the same" if solution.solved else "about the same"
    return f"with {by_group} all groups {state}, at {rate} overall share of positive decisions"


def impact(subject: Subject) -> str:
    """Whose decisions calibrated scores would change most, among those that are shown to change; of all, and called so, if none."""
    if subject.impact is None:
        return ""
    known = [row for row in subject.impact.rows() if row["group"] is not None and np.isfinite(row["estimate"])]
    if not known:
        return ""
    shown = shown_changes(known)
    row = max(shown or known, key=lambda row: abs(row["estimate"]))
    same = ""
    if subject.impact.keep == "rate":
        whole = subject.impact.of(None)
        same = f" and the same overall share of positive decisions ({100 * whole['rate_before']:.1f} %),"
    before, after = (f"{100 * row[name]:.1f} %" for name in ("rate_before", "rate_after"))
    change, low, high = (f"{100 * row[name]:+.1f}" for name in ("estimate", "ci_low", "ci_high"))
    if not shown:
        return (
            f"with calibrated scores{same} no group's share of positive decisions is shown to change; the largest estimate is "
            f"{change} points for {label_text(row['group'])} ({low} to {high})"
        )
    return (
        f"with calibrated scores{same} {after} of {label_text(row['group'])} would get the decision instead of {before} "
        f"(change {change} points, {low} to {high})"
    )


def shown_changes(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The changes of decisions that are shown, and are more than nothing when they are written."""
    return [row for row in rows if (row["ci_low"] > 0 or row["ci_high"] < 0) and abs(row["estimate"]) >= LEAST_CHANGE]


def repair(subject: Subject) -> str:
    """What a repair would do."""
    return "" if subject.repair is None else subject.repair.sentence


def placebo(subject: Subject) -> str:
    """How often the deciding tests gave a false alarm on groups dealt out anew."""
    return "" if subject.placebo is None else subject.placebo.sentence
