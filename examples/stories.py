"""From data to a decision, twice: forecasts that look unequal and are not shown to be, and a risk score that is.

python examples/stories.py [FOLDER FOR THE REPORTS]
"""

from __future__ import annotations

import sys
from pathlib import Path

import evenscore as es

HERE = Path(__file__).parent
NCAA = HERE / "ncaa" / "ncaa_in_game.parquet"
NHANES = HERE / "nhanes" / "nhanes_diabetes.parquet"


def forecasts() -> tuple[es.Audit, es.Audit]:
    """Win probabilities of 783 basketball games, about 180 rows each: audited by game, and as if every row were a new game."""
    columns = {"score": "score", "outcome": "outcome", "group": "bracket"}
    by_game = es.audit(NCAA, **columns, user="game_id", title="Live forecasts, men and women")
    by_row = es.audit(NCAA, **columns, user=None, repair=False, title="The same, with rows taken for games")
    return by_game, by_row


def screening() -> es.Audit:
    """The risk of diabetes by a model that does not know race; people are screened from a risk of 5 % on."""
    return es.audit(
        NHANES,
        score="score_blind",
        outcome="diabetes",
        group="race",
        user="seqn",
        nulls="drop",
        threshold=0.05,
        title="Screening for diabetes at a risk of 5 %",
    )


def aware() -> es.Audit:
    """The same by a model that knows race: what it would take away from the gaps."""
    return es.audit(NHANES, score="score_aware", outcome="diabetes", group="race", user="seqn", nulls="drop", threshold=0.05)


def tell(folder: Path) -> None:
    """Both stories, with their reports in a folder."""
    by_game, by_row = forecasts()
    print("1. Forecasts of basketball games: do they mean the same for men and women?\n")
    print(by_game, "\n")
    print("   Had every row been taken for a game of its own, the same data would have said:")
    print(
        f"   {by_row.verdict.upper()}, p = {by_row.tests['parity'].p_value:.1e}. Each game has one result; that alarm is false.\n"
    )
    print("   Decision: nothing to repair. The forecasts go on; with more games smaller gaps could be seen.\n")

    blind = screening()
    print("2. Screening for diabetes: does a predicted risk mean the same whatever a person's race?\n")
    print(blind, "\n")
    subject = blind["race"]
    assert subject.repair is not None and subject.thresholds is not None
    print("   Decision: the score understates the risk of some groups, so that they are screened later than others.")
    print("   Either calibrate the score for each group, which was tested on people it was not fitted on:")
    print(f"   {subject.repair.words};")
    print("   or screen at thresholds with the same risk in every group:")
    print("   " + ", ".join(f"{group} {threshold:.3f}" for group, threshold in subject.thresholds.by_group.items()) + ".\n")
    print("   Would a model that knows race need no repair?\n")
    print(es.compare_audits(blind, aware()))

    for name, audit in (("ncaa", by_game), ("nhanes", blind)):
        audit.to_html(folder / f"{name}.html")
        print(f"\nreport: {folder / f'{name}.html'}", end="")
    print()


if __name__ == "__main__":
    tell(Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd())
