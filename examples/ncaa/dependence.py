"""Rows are not people: 138,349 live forecasts of 783 basketball games.

    python examples/ncaa/dependence.py [FIGURE [FIGURE OF GAMES [FIGURE OF BOTH VERDICTS]]]

Each game has some 180 forecasts and one result. Whoever takes every forecast for a new game finds that forecasts of the men's and
of the women's bracket mean different things, beyond any doubt. With the game as the unit there is nothing to be seen.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import evenscore as es

DATA = Path(__file__).parent / "ncaa_in_game.parquet"
COLUMNS = {"score": "score", "outcome": "outcome", "group": "bracket"}


def tallies() -> dict[str, es.Tally]:
    """The same forecasts, counted as if each were a game of its own, and by game."""
    return {"rows": es.tally(DATA, **COLUMNS, user=None), "games": es.tally(DATA, **COLUMNS, user="game_id")}


def tests() -> dict[str, es.ParityTest]:
    """The parity test of each."""
    return {unit: es.parity_test(tally) for unit, tally in tallies().items()}


def standard_errors(score: float = 0.5, bandwidth: float = 0.1) -> dict[str, float]:
    """The standard error of the men's curve at a score, smoothed alike."""
    found = {}
    for unit, tally in tallies().items():
        curves = es.curves(tally, grid=[score], bandwidth=bandwidth, weighting="row")
        found[unit] = next(row["se"] for row in curves.rows() if row["group"] == "men")
    return found


def games_figure(path: Any, games: tuple[str, ...] = ("m5", "m60", "m120", "w10", "w90", "w200")) -> None:
    """Forecasts of a few games over time, each with its one result: rows of a game are alike."""
    import duckdb
    import matplotlib.pyplot as plt

    drawing, ax = plt.subplots(figsize=(8, 4), layout="constrained")
    for place, game in enumerate(games):
        rows = duckdb.sql(f"SELECT t, score, outcome FROM '{DATA}' WHERE game_id = '{game}' ORDER BY t").fetchnumpy()
        colour = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")[place % 6]
        name = f"{'men' if game[0] == 'm' else 'women'}, {len(rows['t'])} forecasts"
        ax.plot(rows["t"], rows["score"], color=colour, label=name)
        ax.plot(len(rows["t"]) + 4, rows["outcome"][0], "o", color=colour, markersize=8)
    ax.set(xlabel="update of the forecast", ylabel="probability that team 1 wins", ylim=(-0.04, 1.04))
    drawing.legend(frameon=False, title="line: forecasts\ndot: the one result", loc="outside right center")
    drawing.savefig(path, dpi=110)


def figure(path: Any) -> None:
    """The gap along the score with its band: rows as the unit on the left, games on the right."""
    import matplotlib.pyplot as plt

    drawing, panels = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    titles = {"rows": "138,349 forecasts taken for independent", "games": "783 games"}
    for ax, (unit, test) in zip(panels, tests().items(), strict=True):
        test.plot(ax=ax)
        ax.get_legend().remove()  # one pair: the title says it
        p_value = "p < 0.0001" if test.p_value < 1e-4 else f"p = {test.p_value:.2g}"
        ax.set_title(f"{titles[unit]}: {test.verdict}\nmen − women, line: gap, band: 95 %, {p_value}", fontsize=11)
    drawing.savefig(path, dpi=110)


def fooled_figure(path: Any) -> None:
    """The curves twice: with bands that take forecasts for games, and with those of games."""
    import matplotlib.pyplot as plt

    drawing, panels = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    es.rows_as_people(tallies()["games"]).plot(ax=panels)
    drawing.savefig(path, dpi=100)


def main() -> None:
    for unit, test in tests().items():
        print(f"{unit} as the unit", test, sep="\n", end="\n\n")
    print("standard error of the men's curve at .5:", {unit: round(se, 4) for unit, se in standard_errors().items()})
    for draw, path in zip((figure, games_figure, fooled_figure), sys.argv[1:4], strict=False):
        draw(path)


if __name__ == "__main__":
    main()
