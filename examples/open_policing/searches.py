"""Police searches: one question asked in two ways, and why average hit rates mislead.

    python examples/open_policing/searches.py [FIGURE]

When drivers of one group are searched on less suspicion, fewer of their searches find something. That is the outcome test, and
there is no score in it: nobody wrote down how suspicious the officer was. Three lessons:

1. *The estimand.* Weighing every search the same and weighing every place the same give different answers.
2. *The cluster.* Drivers of all groups are searched in the same places, which makes differences more exact, not less.
3. *Infra-marginality.* Hit rates also depend on how far beyond the bar suspicion goes. The bar itself, estimated by a model,
   differs where hit rates do not.

The file has counts, not searches: ``count=`` takes them as they are.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

import evenscore as es

DATA = Path(__file__).parent / "county_race_counts.csv"
COLUMNS = {"score": "searched", "outcome": "hit", "group": "race", "user": "place", "count": "searches"}


def places() -> dict[str, np.ndarray]:
    """One row for each place and race, as in the file."""
    with DATA.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    numbers = ("num_searches", "num_hits", "inferred_threshold")
    return {
        "race": np.array([row["driver_race"] for row in rows]),
        "place": np.array([row["location"] for row in rows]),
        **{name: np.array([float(row[name]) for row in rows]) for name in numbers},
    }


def searches() -> dict[str, np.ndarray]:
    """Two rows for each place and race: searches that found something and searches that did not, with their number."""
    cells = places()
    hits, misses = cells["num_hits"], cells["num_searches"] - cells["num_hits"]
    both = {name: np.concatenate([cells[name], cells[name]]) for name in ("race", "place")}
    both |= {"hit": np.repeat([1, 0], len(hits)), "searches": np.concatenate([hits, misses]).astype(int)}
    kept = both["searches"] > 0
    return {name: values[kept] for name, values in both.items()} | {"searched": np.ones(int(kept.sum()))}


def hit_rates(weighting: str = "user") -> es.ParityTest:
    """Hit rates of Black and Hispanic drivers against white ones; everybody has the same score, so means are compared."""
    return es.parity_test(es.tally(searches(), **COLUMNS), reference="White", weighting=weighting)


def unpaired() -> es.ParityTest:
    """The same, taking the drivers of one place but of different race for different places."""
    data = searches()
    data["place"] = np.array([f"{place} {race}" for place, race in zip(data["place"], data["race"], strict=True)])
    return es.parity_test(es.tally(data, **COLUMNS), reference="White")


def bars(weighting: str = "row") -> es.ParityTest:
    """The bar for a search, as a threshold test estimated it for each place and race; every search weighs the same."""
    data = places()
    data |= {"searched": np.ones(len(data["place"])), "searches": data["num_searches"].astype(int)}
    tally = es.tally(data, **(COLUMNS | {"outcome": "inferred_threshold"}))
    return es.parity_test(tally, reference="White", weighting=weighting)


def figure(path: Any) -> None:
    """Gaps to white drivers with their 95 % limits: hit rates per search and per place, and bars."""
    import matplotlib.pyplot as plt

    found = {
        "hit rate, every search\nthe same": hit_rates("row"),
        "hit rate, every place\nthe same": hit_rates(),
        "bar (model)": bars(),
    }
    drawing, ax = plt.subplots(figsize=(7.5, 3.3), layout="constrained")
    for place, (label, colour, marker) in enumerate((("Black", "#0072B2", "o"), ("Hispanic", "#D55E00", "s"))):
        for line, test in enumerate(found.values()):
            point = next(row for row in test.points if row["group_a"] == label)
            reach = [[point["gap"] - point["band_low"]], [point["band_high"] - point["gap"]]]
            name = f"{label} − white" if line == 0 else None
            ax.errorbar(point["gap"], line + 0.16 * place - 0.08, xerr=reach, fmt=marker, color=colour, capsize=3, label=name)
    ax.axvline(0, color="0.4", linewidth=0.8)
    ax.set_yticks(range(len(found)), list(found))
    ax.invert_yaxis()
    ax.set(xlabel="gap to white drivers, with 95 % limits")
    drawing.legend(frameon=False, loc="outside upper center", ncols=2)
    drawing.savefig(path, dpi=110)


def main() -> None:
    for title, test in (
        ("Hit rates, every search weighing the same", hit_rates("row")),
        ("Hit rates, every place weighing the same", hit_rates()),
        ("The bar for a search, every search weighing the same", bars()),
    ):
        print(title, "=" * len(title), test, sep="\n", end="\n\n")
    for title, test in (("places as they are", hit_rates()), ("places taken apart by race", unpaired())):
        print(f"{title}: " + ", ".join(f"{row['group_a']} se {row['se']:.4f}" for row in test.points))
    if len(sys.argv) > 1:
        figure(sys.argv[1])


if __name__ == "__main__":
    main()
