"""Is the bar equally high for everyone? Three cases: screening for diabetes, police searches, loans.

    python examples/thresholds.py [FIGURE]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import evenscore as es

NHANES = Path(__file__).parent / "nhanes" / "nhanes_diabetes.parquet"
COLUMNS = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


def screening() -> tuple[es.MarginalTest, es.Thresholds]:
    """People are screened for diabetes from a predicted risk of 5 % on, by a model that does not know their race."""
    tally = es.tally(NHANES, score="score_blind", outcome="diabetes", group="race", user="seqn", nulls="drop", cuts=[0.05])
    return es.marginal_test(tally, threshold=0.05), es.fair_thresholds(tally, threshold=0.05, strategy="rate")


def searches(*, biased: bool) -> es.MarginalTest:
    """Drivers are searched from a chance of 30 % of a hit on; one group's chances vary more than the other's.

    Without bias average hit rates differ all the same. With bias, which here means that drivers of one group are searched on
    less than they seem to be, they can be equal.
    """
    spec = es.simulate(
        6000,
        groups=["narrow", "wide"],
        score={"narrow": (5, 9), "wide": (1, 2)},
        curve={"narrow": (0, 1), "wide": (-0.52 if biased else 0, 1)},
        rows_per_user=1,
    )
    return es.marginal_test(es.tally(spec.data(seed=2), **COLUMNS, cuts=[0.3]), threshold=0.3)


def loans() -> tuple[es.MarginalTest, es.Thresholds]:
    """Loans are granted below a risk of default of 40 %; whether a refused applicant would have defaulted nobody knows."""
    spec = es.simulate(8000, curve={"north": (0, 1), "south": (-0.5, 1)}, groups=["north", "south"], rows_per_user=2)
    data = spec.data(seed=3)
    outcome = data["outcome"].astype(float)
    outcome[data["score"] >= 0.4] = float("nan")
    tally = es.tally(data | {"outcome": outcome}, **COLUMNS, cuts=[0.4], nulls="unlabelled")
    test = es.marginal_test(tally, threshold=0.4, positive="below")
    return test, es.fair_thresholds(tally, threshold=0.4, positive="below", strategy="raise")


def figure(path: Any) -> None:
    """Screening: outcomes at the threshold beside average ones, and the thresholds with equal outcomes."""
    import matplotlib.pyplot as plt

    drawing, axes = plt.subplots(1, 2, figsize=(12, 4.2), layout="constrained")
    for result, ax in zip(screening(), axes, strict=True):
        result.plot(ax=ax)
    drawing.savefig(path, dpi=90)


if __name__ == "__main__":
    for title, results in (
        ("Screening for diabetes at a risk of 5 %", screening()),
        ("Police searches, one standard for all", (searches(biased=False),)),
        ("Police searches, two standards", (searches(biased=True),)),
        ("Loans below a risk of 40 %", loans()),
    ):
        print(f"\n{title}\n{'=' * len(title)}\n")
        for result in results:
            print(result, end="\n\n")
    if len(sys.argv) > 1:
        figure(sys.argv[1])
