"""The page about the reproduction: findings, settings, figures with their numbers, and what rests on what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenscore.reproduction.bias import CE_NP, ECE, ECE_USER, MSCE, MSCE_USER, OURS, bias_rows, pick, signed
from evenscore.reproduction.document import Block, Heading, Lines, Picture, Rows, Words
from evenscore.reproduction.settings import BIAS_USERS, DEPENDENT, INDEPENDENT, TABLE

if TYPE_CHECKING:
    from evenscore.reproduction import Reproduction

PAPER = "DiCiccio, Hsu, Yu, Nandy and Basu, Detection and Mitigation of Algorithmic Bias via Predictive Parity, FAccT '23"
SLIPS = (
    "Beta(max(N, Nmax), 1) must be Beta(min(N, Nmax), 1): with max nobody differs up to Nmax rows.",
    "Calibration errors of some people are lower because they have **more** repeated samples, not fewer.",
    "An expected outcome raised by 0.7 s must be clipped at 1.",
    "The text on Figure 1 and the caption of Figure 2 disagree on which group is lower. Group 1 below group 2 is the reading "
    "that works.",
    "The printed CE_NP lacks the 1/100 under the root, and its hundredth quantile is the maximum.",
)


def page(run: Reproduction, figures: dict[str, dict[str, bytes]]) -> list[Block]:
    """All blocks of the page."""
    return [
        Heading("Section 8 of the paper, reproduced", 1),
        *_opening(run),
        Heading("Settings"),
        Words("What the paper states is taken as stated; the rest is our reading, chosen so that its findings come out."),
        Rows(tuple(dict(zip(("where", "what", "here", "in the paper"), line, strict=True)) for line in TABLE)),
        *_flip(run, figures),
        *_bias(run, figures),
        *_rests(run),
        Heading("Slips in the paper's Section 8, and the form used here"),
        Lines(SLIPS),
    ]


def _opening(run: Reproduction) -> list[Block]:
    held = sum(finding.holds for finding in run.findings)
    effort = "a quick run with few draws, whose Monte Carlo errors are wide" if run.fast else "the full run"
    rows = tuple(
        {"": finding.key, "finding": finding.says, "holds": "yes" if finding.holds else "**NO**", "figures": finding.figures}
        for finding in run.findings
    )
    return [
        Words(f"{PAPER}."),
        Words(
            f"Written by `evenscore reproduce{' --fast' if run.fast else ''} --seed {run.seed}` ({effort}). {held} of "
            f"{len(run.findings)} findings hold. The command checks them by itself and ends with 1 when one does not. The same "
            "seed gives the same page, byte for byte."
        ),
        Rows(rows),
    ]


def _flip(run: Reproduction, figures: dict[str, dict[str, bytes]]) -> list[Block]:
    counts = tuple(
        {
            "reading": row["method"],
            "points with group 1 below, of 20": f"{row['mean']:.1f} ± {row['mean_error']:.1f}",
            "gap shown (p at most .05)": f"{row['rejected']:.0%}",
        }
        for row in run.flip.rows()
    )
    sizes = tuple(
        {"test": row["method"], "rejects": f"{row['rejected']:.1%} ± {row['rejected_error']:.1%}"} for row in run.null.rows()
    )
    return [
        Heading("Figures 1 and 2: ten users"),
        Words(
            "Two groups of 50,000 people, one row each. At the same score group 1 has slightly lower outcomes. Then ten people "
            "with 1,000 rows each and much better outcomes join group 1: a tenth more rows, a hundredth of a percent more "
            "people."
        ),
        _picture(figures, "figure-1", "Figure 1. Smoothed outcomes before and after the injection, every row counting the same."),
        Words("**Figure 1.** Smoothed outcomes before the injection (left) and after it (right), every row counting the same."),
        _picture(figures, "figure-2", "Figure 2. The test on the injected data, taking rows for people, and by users."),
        Words(
            "**Figure 2.** The gap on the injected data with rows taken for people (left), and with users as the unit (right), "
            "each with its simultaneous 95 % band."
        ),
        Rows(tuple(reading.row() for reading in run.readings)),
        Words(f"The same in {run.flip.runs} further draws, with Monte Carlo errors:"),
        Rows(counts),
        Words(
            f"And without any true gap (b0 = 0 in both groups, the same ten users, {run.null.runs} draws), how often the "
            "default test of this package rejects at the 5 % level:"
        ),
        Rows(sizes),
    ]


def _bias(run: Reproduction, figures: dict[str, dict[str, bytes]]) -> list[Block]:
    truths = tuple({"true calibration error": name, "by integration": f"{value:.4f}"} for name, value in run.truths.items())
    return [
        Heading("Figure 3: bias of calibration errors"),
        Words(
            "In the dependent data users have 1 + Poisson(4) rows; the more rows, the higher the scores and the better "
            "calibrated they are. In the independent data everybody has one row."
        ),
        _picture(figures, "figure-3", "Figure 3. Bias of calibration errors over the number of users."),
        Words(
            f"**Figure 3.** Mean of estimate minus true calibration error over {run.bias_runs} draws; bars are two Monte Carlo "
            "errors. The dotted line is where methods that take rows for people end."
        ),
        Rows(truths),
        Words("Dependent rows, bias with its Monte Carlo error:"),
        Rows(tuple(bias_rows(run.biases, DEPENDENT))),
        Words("Independent rows, where by rows and by users are the same:"),
        Rows(tuple(bias_rows(run.biases, INDEPENDENT))),
        Words(f'"{OURS}" is the default of `es.calibration_error`, which takes the sampling variance off and is not in the paper.'),
    ]


def _rests(run: Reproduction) -> list[Block]:
    last = BIAS_USERS[-1]

    def bias(kind: str, users: int, method: str) -> str:
        return signed(pick(run.biases, kind, users, method).bias)

    gap = run.truths["dependent, per row"] - run.truths["dependent, per user"]
    return [
        Heading("What rests on what"),
        Lines(
            (
                "**The flip rests on our reading of unstated settings.** It needs a small gap and a smooth curve. With a larger "
                "gap ten users turn fewer points around, and with a narrower bandwidth only those near their ten scores:",
            )
        ),
        Rows(tuple(_sensitivity(row) for row in run.sensitivity)),
        Lines(
            (
                "**That the per-user reading does not flip rests on nothing of the kind**: ten users among 50,000 weigh ten "
                "users' worth with any bandwidth and any gap.",
                "**With dependent rows the gain of CE_NP is that of the user weights, not of the kernel.** The paper gives "
                "weights 1/n to CE_NP alone. ECE and MSCE by rows estimate another quantity, the error per row, which is "
                f"{gap:+.4f} away from the error per user, and at {last:,} users they are off by {bias(DEPENDENT, last, ECE)} "
                f"and {bias(DEPENDENT, last, MSCE)}. With the same user weights they are off by "
                f"{bias(DEPENDENT, last, ECE_USER)} and {bias(DEPENDENT, last, MSCE_USER)}, CE_NP by "
                f"{bias(DEPENDENT, last, CE_NP)}. In small samples smoothing helps, too: at 50 users ECE by users is off by "
                f"{bias(DEPENDENT, 50, ECE_USER)}, CE_NP by {bias(DEPENDENT, 50, CE_NP)}.",
                "**With independent rows CE_NP is not the best.** MSCE has the smallest bias (at 50 users "
                f"{bias(INDEPENDENT, 50, MSCE)}, CE_NP {bias(INDEPENDENT, 50, CE_NP)}, ECE {bias(INDEPENDENT, 50, ECE)}); the "
                'paper\'s "as good as the benchmarks" holds from some 500 users on.',
                "**Whether a bias is one depends on the target.** Per user is the reading under which the paper's Figure 3 "
                "comes out. Someone who wants the error per row should weigh rows the same, and then the methods by rows have "
                "the smaller bias.",
            )
        ),
    ]


def _sensitivity(row: dict[str, Any]) -> dict[str, Any]:
    return {name if name.startswith("b0") else f"above, {name}": value for name, value in row.items()}


def _picture(figures: dict[str, dict[str, bytes]], name: str, words: str) -> Picture:
    return Picture(name, words, figures[name]["svg"])
