"""Users in several groups: races for governor, in which what one party wins the other loses.

    python examples/governors/spanning.py

A race is one cluster with a Democrat and a Republican in it, so the curves of the two parties are not independent and neither is
their gap. The tally keeps what a race puts into both groups; the standard error of the gap is then right without being told.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

import evenscore as es

DATA = Path(__file__).parent / "governors.parquet"
COLUMNS = {"score": "probwin", "outcome": "probwin_outcome", "group": "party"}
UNITS = ("race", "candidate", "forecast")


def forecasts() -> dict[str, object]:
    """Forecasts of Democrats and Republicans in races that have an id; a candidate is a race and a party."""
    return duckdb.sql(
        f"SELECT probwin, probwin_outcome, party, race_id AS race, race_id || party AS candidate FROM '{DATA}' "
        "WHERE race_id IS NOT NULL AND party IN ('D', 'R')"
    ).fetchnumpy()


def tests() -> dict[str, es.ParityTest]:
    """The parity test with the race, the candidate and the single forecast as the unit."""
    data = forecasts()
    return {unit: es.parity_test(es.tally(data, **COLUMNS, user=None if unit == "forecast" else unit)) for unit in UNITS}


def standard_error(test: es.ParityTest, score: float = 0.3) -> float:
    """Of the gap, at the grid point nearest to a score."""
    return min(test.points, key=lambda point: abs(point["score"] - score))["se"]


def main() -> None:
    for unit, test in tests().items():
        print(f"{unit:>9} as the unit: {test.verdict}, p = {test.p_value:.2g}, standard error at .30 {standard_error(test):.3f}")


if __name__ == "__main__":
    main()
