"""Which type a column of text has: each of its rows decides, wherever it stands."""

import datetime

import pytest

from evenscore.engines.duck import query
from evenscore.engines.text_types import type_columns

GROUPS = {
    "integers": (["1", "-20"], [1, -20]),
    "integers after blanks": ([" 1", "2"], [1, 2]),
    "zeros in front": (["1", "02"], ["1", "02"]),
    "points": (["1.0", "2.0"], [1.0, 2.0]),
    "the same whole number in two ways": (["1", "1.0"], [1.0, 1.0]),
    "fractions": (["1", "1.5"], [1.0, 1.5]),
    "the same fraction in two ways": (["3.1", "3.10"], ["3.1", "3.10"]),
    "more digits than a double has": (
        ["0.12345678901234567", "0.12345678901234568"],
        ["0.12345678901234567", "0.12345678901234568"],
    ),
    "integers of 64 bits": (["1", "18446744073709551615"], [1, 2**64 - 1]),
    "integers of 70 bits": (["1", "1000000000000000000000"], ["1", "1000000000000000000000"]),
    "not finite": (["1", "inf", "nan"], ["1", "inf", "nan"]),
    "other writings of numbers": (["1", "0x10", "1_0"], ["1", "0x10", "1_0"]),
    "truth values": (["true", "False"], [True, False]),
    "truth values and others": (["true", "maybe"], ["true", "maybe"]),
    "words that DuckDB takes for truth": (["yes", "no"], ["yes", "no"]),
    "days": (["2024-02-29", "2024-03-01"], [datetime.date(2024, 2, 29), datetime.date(2024, 3, 1)]),
    "no days": (["2024-02-29", "2023-02-29"], ["2024-02-29", "2023-02-29"]),
    "days in another order": (["01/02/2024"], ["01/02/2024"]),
    "moments": (["2024-01-01T10:00:00", "2024-01-01 10:00"], [datetime.datetime(2024, 1, 1, 10)] * 2),
    "moments in nanoseconds": (["2024-01-01 10:00:00.123456789"], ["2024-01-01 10:00:00.123456789"]),
    "nothing": ([None, None], [None, None]),
}
USERS = {
    "integers": (["1", None, "2"], [1, None, 2]),
    "integers of 64 bits": (["18446744073709551615", "1"], [2**64 - 1, 1]),
    "negative and of 64 bits": (["9223372036854775808", "-1"], [2**63, -1]),
    "integers of 70 bits": (["1", "1000000000000000000000"], [1, 10**21]),
    "zeros in front of 64 bits": (["09223372036854775808", "7"], ["09223372036854775808", "7"]),
    "points": (["1.0", "2"], [1, 2]),
    "fractions": (["1", "1.5"], ["1", "1.5"]),
    "zeros in front": (["007", "7"], ["007", "7"]),
    "points beyond 2^53": (["9007199254740993.0", "1"], ["9007199254740993.0", "1"]),
}
SCORES = {
    "integers, then fractions": (["1", "0.1"], [1.0, 0.1]),
    "all forms": (["+1", ".5", "1.", "1e-3", "-0", "00.5"], [1.0, 0.5, 1.0, 0.001, 0.0, 0.5]),
    "missing": (["0.5", "NA", "nan"], [0.5, None, None]),
    "decimal commas": (["0,5", "1.000,25", "2"], [0.5, 1000.25, 2.0]),
    "truth values": (["true", "false"], [True, False]),
}


def typed(texts, **roles):
    listed = ", ".join("(NULL)" if text is None else f"('{text}')" for text in texts)
    source = f"(VALUES {listed}) AS held(t)"
    column = type_columns(source, {"x": "t"}, {role: ["x"] for role in roles})["x"]
    return [row[0] for row in query(f"SELECT {column.sql} FROM {source}").fetchall()], column


@pytest.mark.parametrize(
    ("role", "texts", "expected"),
    [
        pytest.param(role, texts, expected, id=f"{role}: {name}")
        for role, cases in (("group", GROUPS), ("user", USERS), ("score", SCORES))
        for name, (texts, expected) in cases.items()
    ],
)
def test_all_rows_decide(role, texts, expected):
    for order in (slice(None), slice(None, None, -1)):
        values, _ = typed(texts[order], **{role: True})
        assert values == expected[order]
        assert list(map(type, values)) == list(map(type, expected[order]))


def test_a_column_in_two_roles_has_one_type():
    assert typed(["1", "0"], outcome=True, group=True)[0] == [1, 0]
    assert typed(["0,5", "1"], score=True, group=True)[0] == [0.5, 1.0]


def test_what_is_assumed_is_said():
    assert typed(["0,5", "NA"], score=True)[1].notes == (
        "assumed: column 'x' has a decimal comma: '0,5' is read as 0.5",
        "assumed: column 'x' is missing where it says 'NA' or the like, in 1 of 2 rows",
    )
