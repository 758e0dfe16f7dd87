"""A race-blind diabetes risk, repaired with half of the people and verified on the other half.

    python examples/nhanes/repair.py [FIGURE [FIGURE OF CURVES]]

The race-blind risk understates the risk of Asian, Black and Hispanic adults against White ones: the same score stands for different
risks. One map for each group repairs that; whether it did is judged on people whom the maps have not seen.
"""

import sys
from pathlib import Path

import evenscore as es

DATA = Path(__file__).parent / "nhanes_diabetes.parquet"
COLUMNS = {"score": "score_blind", "outcome": "diabetes", "group": "race", "user": "seqn", "weight": "weight"}


def main() -> None:
    half = es.tally(DATA, **COLUMNS, nulls="drop", split="1/2")
    calibrator = es.calibrate(half, method="auto")
    print(calibrator)
    verification = es.verify(calibrator, DATA, weight="weight", nulls="drop", reference="White")
    print(verification)
    if len(sys.argv) > 1:
        axes = verification.plot()
        axes[0].figure.savefig(sys.argv[1], dpi=110)
    if len(sys.argv) > 2:
        people = {name: column for name, column in COLUMNS.items() if name != "weight"}
        es.curves(es.tally(DATA, **people, nulls="drop")).plot().figure_.savefig(sys.argv[2], dpi=110)


if __name__ == "__main__":
    main()
