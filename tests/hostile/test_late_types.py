"""Numbers are read as written: a column that begins with whole numbers may hold a fraction, a zero in front or text in any row."""

import itertools
import json
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from black_box import COLUMNS, NAMES, assert_alike, ended, some

import evenscore as es
from hostile import THOROUGH

N = 106_000  # more than the 100,352 rows (49 vectors of DuckDB) from which types were guessed
LATE = 104_000
WEIGHTED = NAMES | {"weight": "v"}
COUNTED = NAMES | {"count": "k"}
ALONE = NAMES | {"group": "c"}  # everybody in one group


def make_rows(seed=0):
    """Columns of whole numbers."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, N // 4, N)
    score = rng.integers(0, 100, N)
    return {
        "s": score,
        "y": (rng.random(N) < 0.2 + score / 200).astype(int),
        "g": user % 2 + 1,
        "u": user,
        "v": rng.integers(1, 4, N),
        "k": rng.integers(1, 3, N),
        "c": np.ones(N, dtype=int),
    }


NUMBERS = make_rows()
ROWS = {name: column.astype(str).astype(object) for name, column in NUMBERS.items()}
LINES = list(map(",".join, zip(*ROWS.values(), strict=True)))
HEADER = ",".join(ROWS)


class Changed(dict):
    """The rows as text, with another writing of some columns from a row on; ``start``: the first row that may differ."""

    def __init__(self, late, start=LATE):
        super().__init__(ROWS)
        self.start = start
        for name, write in late.items():
            self[name] = ROWS[name].copy()
            self[name][start:] = [write(text, row) for row, text in enumerate(ROWS[name][start:].tolist(), start)]

    def lines(self):
        return LINES[: self.start] + list(map(",".join, zip(*(column[self.start :] for column in self.values()), strict=True)))

    def in_memory(self, text=()):
        """As somebody would hold them: numbers as floats, ids and groups as integers, or as text."""
        held = {}
        for name in self:
            changed = self[name] is not ROWS[name]
            if name in text:
                held[name] = self[name].astype(str)
            else:
                tail = self[name][self.start :].astype(float) if changed else NUMBERS[name][self.start :]
                held[name] = np.concatenate([NUMBERS[name][: self.start], tail])
        return held


def changed_at(position, **texts):
    """The rows with one row written otherwise."""
    return Changed({name: lambda held, row, text=text: text if row == position else held for name, text in texts.items()}, position)


def written(rows, path):
    """Rows as CSV, as they are."""
    path.write_text("\n".join([HEADER, *rows.lines()]) + "\n", encoding="utf-8")
    return path


FRACTIONS = {
    "score": ({"s": lambda text, row: f"{text}.{row % 9 + 1}"}, NAMES),
    "outcome": ({"y": lambda text, row: f"0.{row % 9 + 1}"}, NAMES),
    "weight": ({"v": lambda text, row: f"{text}.{row % 9 + 1}"}, WEIGHTED),
}
FORMS = {
    "exponents": ({"s": lambda text, row: f"{text}.25e0"}, NAMES),
    "long": ({"s": lambda text, row: f"{text}.12345678901234567"}, NAMES),
    "larger than 64 bits": ({"s": lambda text, row: f"{text}00000000000000000000000"}, NAMES),
    "negative zero": ({"s": lambda text, row: "-0.0" if row % 2 else text}, NAMES),
    "leading zeros": ({"s": lambda text, row: f"00{text}"}, NAMES),
    "leading plus": ({"s": lambda text, row: f"+{text}"}, NAMES),
    "points alone": ({"s": lambda text, row: f"{text}."}, NAMES),
    "no digit in front": ({"y": lambda text, row: f".{row % 9}"}, NAMES),
}


def check(data, rows, options, text=()):
    """A tally of the file is the tally of the rows as they are written."""
    wanted = es.tally(rows.in_memory(text), **options)
    found = es.tally(data, **options)
    assert sum(found.n_rows.values()) == sum(wanted.n_rows.values())
    for label, other in zip(found.groups, wanted.groups, strict=True):
        for weighting, vector in itertools.product(("user", "row"), "WYX"):
            np.testing.assert_allclose(
                getattr(found.sums(label, weighting), vector).sum(),
                getattr(wanted.sums(other, weighting), vector).sum(),
                rtol=1e-9,
                err_msg=f"{label} {vector}",
            )
    assert found.centre == pytest.approx(wanted.centre, rel=1e-12, abs=1e-12)
    return found, wanted


@pytest.mark.parametrize("role", FRACTIONS)
def test_late_fractions_are_read_as_written(role, tmp_path):
    late, options = FRACTIONS[role]
    rows = Changed(late)
    found, wanted = check(written(rows, tmp_path / "late.csv"), rows, options)
    assert_alike(found, wanted)


@pytest.mark.parametrize("form", some(FORMS, 3))
def test_late_forms_of_numbers_are_read_as_written(form, tmp_path):
    late, options = FORMS[form]
    rows = Changed(late)
    check(written(rows, tmp_path / "late.csv"), rows, options)


def test_a_late_fractional_count_is_refused_as_in_memory(tmp_path):
    rows = Changed({"k": lambda text, row: f"{text}.5"})
    with pytest.raises(es.DataError, match="not a whole number"):
        es.tally(rows.in_memory(), **COUNTED)
    with pytest.raises(es.DataError, match="not a whole number"):
        es.tally(written(rows, tmp_path / "late.csv"), **COUNTED)


def test_a_late_verdict_is_the_one_of_memory(tmp_path):
    """0.1.0 said "inconclusive" where the rows as they are written show a disparity."""
    rows = Changed({"y": lambda text, row: "0.9" if ROWS["g"][row] == "1" else "0.1"})
    wanted = es.parity_test(es.tally(rows.in_memory(), **NAMES), method="bonferroni")
    found = es.parity_test(es.tally(written(rows, tmp_path / "late.csv"), **NAMES), method="bonferroni")
    assert (found.verdict, wanted.verdict) == ("disparity", "disparity")
    assert found.p_value == pytest.approx(wanted.p_value, rel=1e-6, abs=1e-300)


GROUPS = {
    "1.5 is not 2": lambda text, row: "1.5" if text == "1" else text,
    "01 is not 1": lambda text, row: f"0{text}",
    "1.0 beside 1": lambda text, row: "1.5" if row % 2 else text,
    "text": lambda text, row: f"group {text}",
    "larger than 64 bits": lambda text, row: f"{text}0000000000000000000000",
}


@pytest.mark.parametrize("name", some(GROUPS, 3))
def test_late_groups_are_told_apart_by_what_is_written(name, tmp_path):
    """As many groups as there are texts, with as many rows each; a label may be a number only if no two texts become one."""
    rows = Changed({"g": GROUPS[name]})
    texts, counts = np.unique(rows["g"].astype(str), return_counts=True)
    found = es.tally(written(rows, tmp_path / "late.csv"), **NAMES)
    assert len(found.groups) == len(texts)
    assert sorted(found.n_rows.values()) == sorted(counts.tolist())
    assert {str(label).removesuffix(".0") for label in found.groups} == set(texts)


USERS = {
    "0123 is not 123": lambda text, row: f"0{text}",
    "fractions": lambda text, row: f"{text}.5",
    "text": lambda text, row: f"u{text}",
    "larger than 64 bits": lambda text, row: f"{int(text) + 1}0000000000000000000000",
    "larger than 53 bits": lambda text, row: str(2**60 + 2 * int(text) + row % 2),
    "negative": lambda text, row: f"-{int(text) + 1}",
}


@pytest.mark.parametrize("name", some(USERS, 3))
def test_late_users_are_told_apart_by_what_is_written(name, tmp_path):
    """Fractions may be refused, as in memory; nobody may become somebody else."""
    rows = Changed({"u": USERS[name]})
    wanted = es.tally(rows.in_memory(text=("u",)), **NAMES)
    try:
        found = es.tally(written(rows, tmp_path / "late.csv"), **NAMES)
    except es.DataError as error:
        assert "fractions" in str(error) and name == "fractions"
        return
    assert found.n_users == wanted.n_users and found.n_rows == wanted.n_rows


@pytest.mark.parametrize("position", some([N - 1, 100_352, 0, 2_048, 20_480, 100_351], 2))
def test_one_fraction_at_any_position_counts(position, tmp_path):
    """2,048 and 20,480 are other samples that readers take."""
    rows = changed_at(position, y="1000.25")
    check(written(rows, tmp_path / "late.csv"), rows, NAMES)


@pytest.mark.parametrize("position", some([N - 1, 1, 99_999], 1))
def test_one_odd_id_at_any_position_is_itself(position, tmp_path):
    """With 0123 in one row, 123 and 0123 are two people."""
    rows = changed_at(position, u="0" + ROWS["u"][position - 1])
    found = es.tally(written(rows, tmp_path / "late.csv"), **ALONE)
    assert list(found.n_users.values()) == [len(set(rows["u"].tolist()))]


@pytest.mark.parametrize("position", some([N - 1, 0, 99_999], 1))
def test_one_odd_group_at_any_position_is_itself(position, tmp_path):
    found = es.tally(written(changed_at(position, g="1.5"), tmp_path / "late.csv"), **NAMES)
    assert {str(label).removesuffix(".0") for label in found.groups} == {"1", "2", "1.5"}
    assert sorted(found.n_rows.values())[0] == 1


# Several files


def shards(folder, fraction_in, kind="csv", n_files=40, each=60):
    """40 small files; one of them has fractions."""
    rng = np.random.default_rng(1)
    held = []
    for number in range(n_files):
        score = rng.integers(0, 10, each)
        outcome = (rng.random(each) < 0.5).astype(int)
        fraction = number == fraction_in
        frame = {
            "s": score + (0.5 if fraction else 0),
            "y": outcome * (0.5 if fraction else 1),
            "g": np.array(["a", "b"])[np.arange(each) % 2],
            "u": np.arange(each) + number * each,
        }
        frame = frame if fraction else frame | {"s": score, "y": outcome}
        held.append(frame)
        if kind == "csv":
            lines = ["s,y,g,u", *(",".join(map(str, row)) for row in zip(*frame.values(), strict=True))]
            (folder / f"{number:02}.csv").write_text("\n".join(lines) + "\n")
        else:
            pq.write_table(pa.table(frame), folder / f"{number:02}.parquet")
    return {name: np.concatenate([frame[name] for frame in held]) for name in held[0]}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("fraction_in", some([17, 0, 39], 1))
def test_fractions_in_one_of_many_files_are_read(kind, fraction_in, tmp_path):
    wanted = es.tally(shards(tmp_path, fraction_in, kind), **NAMES)
    assert_alike(es.tally(tmp_path, **NAMES), wanted)


def test_ids_with_zeros_in_one_of_many_files_stay(tmp_path):
    """007 in the second file is not the 7 of the first."""
    (tmp_path / "1.csv").write_text("s,y,g,u\n" + "".join(f"0.{i},{i % 2},{'ab'[i % 2]},{i}\n" for i in range(1, 10)))
    (tmp_path / "2.csv").write_text("s,y,g,u\n" + "".join(f"0.{i},{i % 2},{'ab'[i % 2]},00{i}\n" for i in range(1, 10)))
    assert sum(es.tally(tmp_path, **NAMES).n_users.values()) == 18


@pytest.mark.parametrize("container", some(["csv.gz", "quoted", "tsv", "semicolons"], 2))
def test_other_ways_to_write_text_are_read_the_same(container, tmp_path):
    import gzip

    rows = Changed(FRACTIONS["outcome"][0])
    plain = written(rows, tmp_path / "late.csv").read_text()
    if container == "csv.gz":
        path = tmp_path / "late.csv.gz"
        path.write_bytes(gzip.compress(plain.encode(), 1))
    else:
        path = tmp_path / ("late.tsv" if container == "tsv" else "other.csv")
        marks = {"tsv": plain.replace(",", "\t"), "semicolons": plain.replace(",", ";")}
        path.write_text(marks.get(container) or "\n".join(f'"{line}"'.replace(",", '","') for line in plain.splitlines()) + "\n")
    with warnings.catch_warnings():  # which is said, see test_nothing_silent.py
        warnings.filterwarnings("ignore", "assumed: columns are separated by semicolons", es.EvenscoreWarning)
        check(path, rows, NAMES)


# Everything that reads files


def test_spilled_files_are_read_as_written(tmp_path):
    """Beyond the memory limit another way is taken."""
    rows = Changed(FRACTIONS["outcome"][0])
    path = tmp_path / "late.csv"
    path.write_text("\n".join(f"{line},{'x' * 320}" for line in [HEADER, *rows.lines()]) + "\n")
    wanted = es.tally(rows.in_memory(), **NAMES)
    assert_alike(es.tally(path, **NAMES, memory_limit="200MB"), wanted)


def test_user_level_files_are_made_of_what_is_written(tmp_path):
    rows = Changed(FRACTIONS["outcome"][0])
    written(rows, tmp_path / "late.csv")
    words = ["tally", tmp_path / "late.csv", *COLUMNS, "--lattice", "0:100", "--quiet"]
    assert ended(*words, "--by-user", "-o", tmp_path / "users.parquet") == 0
    assert ended("merge", tmp_path / "users.parquet", "-o", tmp_path / "all.tally", "--quiet") == 0
    found = es.Tally.load(tmp_path / "all.tally")
    assert found.rows()[0]["mean_outcome"] == pytest.approx(
        es.tally(rows.in_memory(), **NAMES, lattice=es.Lattice(0, 100)).rows()[0]["mean_outcome"], rel=1e-9
    )


def test_verify_rank_impact_and_joint_calibrators_read_what_is_written(tmp_path):
    rows = Changed({"s": lambda text, row: f"{text}.5"})
    path = written(rows, tmp_path / "late.csv")
    held = rows.in_memory()
    calibrator = es.calibrate(es.tally(held, **NAMES), method="binning", bins=4)
    options = {"query": "u", "score": "s", "group": "g", "calibrator": calibrator}
    from_file, from_memory = es.rank_impact(str(path), **options), es.rank_impact(held, **options)
    for one, other in zip(from_file.rows(), from_memory.rows(), strict=True):
        assert one["estimate"] == pytest.approx(other["estimate"], rel=1e-9, abs=1e-12)


@pytest.fixture(scope="module")
def applied(tmp_path_factory):
    """A calibrator, late fractions of scores, and what memory makes of them."""
    folder = tmp_path_factory.mktemp("applied")
    rows = Changed({"s": lambda text, row: f"{text}.5"})
    written(rows, folder / "late.csv")
    held = rows.in_memory()
    calibrator = es.calibrate(es.tally(held, **NAMES), method="kernel")
    calibrator.save(folder / "map.json")
    return folder, calibrator.transform(held["s"], held["g"]), rows


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_apply_writes_the_scores_of_what_is_written(kind, applied, tmp_path):
    """0.1.0 wrote 17,953 of 130,000 wrong scores."""
    folder, wanted, rows = applied
    out = tmp_path / f"out.{kind}"
    assert ended("apply", folder / "map.json", folder / "late.csv", "--quiet", "-o", out) == 0
    import polars as pl

    frame = pl.read_csv(out, infer_schema=False) if kind == "csv" else pl.read_parquet(out)
    found = frame["calibrated"].cast(pl.Float64).to_numpy()
    assert (~np.isclose(found, wanted, rtol=1e-9)).sum() == 0
    assert frame["s"].cast(pl.Float64).to_list() == rows["s"].astype(float).tolist()


def test_apply_tells_groups_apart_by_what_is_written(tmp_path):
    """A group 1.5 that begins late is not the group 2; 0.1.0 gave it the map of that."""
    (tmp_path / "few.csv").write_text("s,y,g,u\n" + "".join(f"0.{i % 9},{i % 2},{(1, 2, 1.5)[i % 3]},{i}\n" for i in range(90)))
    (tmp_path / "late.csv").write_text("\n".join(["s,y,g,u", *(f"0.5,1,{1 + i % 2},{i}" for i in range(N)), "0.5,1,1.5,7"]) + "\n")
    assert ended("calibrate", tmp_path / "few.csv", *COLUMNS, "--method", "binning", "--quiet", "-o", tmp_path / "map.json") == 0
    words = ["apply", tmp_path / "map.json", tmp_path / "late.csv", "--quiet", "-o", tmp_path / "out.csv"]
    assert ended(*words, "--json", tmp_path / "out.json") == 0
    rows = {str(row["group"]).removesuffix(".0"): row["rows"] for row in json.loads((tmp_path / "out.json").read_text())["rows"]}
    assert rows == {"1": N // 2, "2": N // 2, "1.5": 1}


@pytest.mark.parametrize("seed", range(60 if THOROUGH else 2))
def test_random_late_changes(seed, tmp_path):
    """Any column, any form, from any row on, one file or three: the sums of what is written."""
    rng = np.random.default_rng(seed)
    name = rng.choice(["s", "y", "v"])
    start = int(rng.choice([0, 5, 50_000, 100_351, 100_352, LATE, N - 1]))
    write = [
        lambda text, row: f"{text}.5",
        lambda text, row: f"{text}.50000000000001",
        lambda text, row: f"{text}5e-1",
        lambda text, row: f"{text}.0" if row % 2 else text,
    ][int(rng.integers(4))]
    rows = Changed({str(name): write}, start)
    if rng.random() < 0.5:
        data = written(rows, tmp_path / "late.csv")
    else:
        data = tmp_path / "parts"
        data.mkdir()
        cuts = [0, *sorted(rng.integers(1, N, 2).tolist()), N]
        for number, (first, last) in enumerate(itertools.pairwise(cuts)):
            if last > first:
                (data / f"{number}.csv").write_text("\n".join([HEADER, *rows.lines()[first:last]]) + "\n")
    check(data, rows, WEIGHTED)
