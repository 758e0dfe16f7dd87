"""What could be misread, lost or leaked, for the table of hostile inputs: each function gives what came of it, in words."""

from pathlib import Path

import numpy as np
import pandas as pd

import evenscore as es

NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}
LATE = 120_000


def rows(n_rows=40):
    """Rows whose scores are the same for the same number."""
    rng = np.random.default_rng(0)
    score = rng.random(n_rows).round(6)
    outcome = (rng.random(n_rows) < score).astype(int)
    return pd.DataFrame({"s": score, "y": outcome, "g": np.array(["a", "b"])[np.arange(n_rows) % 2], "u": np.arange(n_rows)})


def written(name, frame):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(name, index=False)
    return name


def n_rows(data, **options):
    return f"{sum(es.tally(data, **NAMES, **options).n_rows.values())} rows"


def late_fractions():
    """Outcomes that are whole numbers for 120,000 rows, and halves after that."""
    frame = rows(LATE + 1000)
    frame["y"] = np.where(np.arange(len(frame)) < LATE, "1", "0.5")
    tally = es.tally(written("late.csv", frame), **NAMES)
    return f"mean outcome {tally.rows()[0]['mean_outcome']:.6f}, which is {(LATE + 500) / (LATE + 1000):.6f}"


def leading_zeros():
    """Users 007 and 7 are two."""
    frame = rows()
    frame["u"] = ["007", "7"] * 20
    return f"{sum(es.tally(written('zeros.csv', frame.assign(g='a')), **NAMES).n_users.values())} users"


def brackets():
    written("data1.csv", rows(30))
    return n_rows(written("data[1].csv", rows(10)))


def twice():
    """A file, its other spelling and a link to it."""
    written("once.csv", rows())
    if not Path("link.csv").exists():
        Path("link.csv").symlink_to("once.csv")
    return n_rows(["once.csv", "./once.csv", "link.csv"])


def partition():
    """A column of the file that the folder's name would replace."""
    try:
        return n_rows(written("y=1/part.csv", rows()))
    except es.FileError as error:
        return f"FileError: {error}".replace(f"{Path.cwd()}/", "")


def unfinished():
    """A folder in which another program is writing."""
    written("folder/_temporary/part.csv", rows())
    written("folder/.part.csv", rows())
    written("folder/whole.csv", rows(20))
    return n_rows("folder")


def equal_scores():
    """Scores that are the outcomes: nothing is off, and there is nothing to search for."""
    data = rows().to_dict("list")
    error = es.calibration_error(data | {"s": np.array(data["y"], dtype=float)}, **NAMES)
    return f"an error of {error.rows()[0]['estimate']:.3g}"


def all_and_nobody():
    """40 people with the outcome against 40 without."""
    number = np.arange(80)
    data = {"s": np.linspace(0.1, 0.9, 80), "y": number % 2, "g": np.array(["a", "b"])[number % 2], "u": number}
    return es.parity_test(data, **NAMES, tolerance=0.1).verdict


def units(factor):
    """The same weights in other units."""
    data = rows(2000).to_dict("list") | {"w": np.random.default_rng(1).integers(1, 5, 2000).astype(float)}
    plain = es.parity_test(data, **NAMES, weight="w")
    scaled = es.parity_test(data | {"w": np.asarray(data["w"]) * factor}, **NAMES, weight="w")
    return f"the p-value is the same: {bool(np.isclose(plain.p_value, scaled.p_value, rtol=1e-9))}"


def moments():
    """Timestamps with fractions, in a frame and in a Parquet file."""
    frame = rows(600).assign(u=pd.Timestamp("2024-03-30") + pd.to_timedelta(np.arange(600) // 2 * 1.5, unit="s"))
    frame.to_parquet("moments.parquet")
    counts = {sum(es.tally(data, **NAMES, split="1/2").n_rows.values()) for data in (frame, "moments.parquet")}
    return f"the same rows in the first half: {len(counts) == 1}"


def one_income():
    """What the root of a released cell's squares tells of one income of 48,123,456 among 4,000."""
    rng = np.random.default_rng(0)
    income = rng.lognormal(10.3, 0.5, 4000).round()
    income[7] = 48_123_456
    data = {"s": rng.random(4000), "y": income, "g": np.array(["a", "b"])[np.arange(4000) % 2], "u": np.arange(4000)}
    released = es.tally(data, **NAMES).release(min_users=20)
    squares = max(float(np.diag(released.pair_matrices(group, group).yy).max()) for group in released.groups)
    return f"off by {abs(np.sqrt(squares) / 48_123_456 - 1):.0%} at least" if squares > 0 else "nothing"
