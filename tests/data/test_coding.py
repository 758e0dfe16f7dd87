"""Codes and hashes: the hash of a user must be the same in every engine, and spread users evenly over the folds."""

import hashlib
import uuid

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evenscore.data.coding import (
    CHUNK,
    FOLDS,
    PRIME,
    coded_users,
    encode,
    encode_integers,
    encode_typed,
    folds,
    hash_ids,
    hash_integers,
    independent_users,
    integer_users,
)

TOO_UNEVEN = 1e-4  # of some thirty tests of evenness; ids and hash are fixed, so what passes once passes always

CONNECTION = duckdb.connect()
ANY_ID = st.integers(-(2**63), 2**64 - 1)


def plain_hash(number):
    """The same hash in Python's own integers."""
    low, high = number % PRIME, number // PRIME % PRIME
    first = (low * 1103515245 + high * 69069 + 12345) % PRIME
    first ^= first >> 13
    second = (first * 1597334677 + low + 1013904223) % PRIME
    second ^= second >> 15
    third = (second * 741103597 + low * 48271 + high + 7) % PRIME
    third ^= third >> 14
    return second * 2**31 + third


# DuckDB's // and % round towards zero, so both are brought to the floor first.
SQL_HASH = f"""
    WITH halves AS (
        SELECT id, id % {PRIME} + CASE WHEN id % {PRIME} < 0 THEN {PRIME} ELSE 0 END AS low,
               id // {PRIME} - CASE WHEN id % {PRIME} < 0 THEN 1 ELSE 0 END AS above FROM ids
    ), parts AS (
        SELECT id, low, above % {PRIME} + CASE WHEN above % {PRIME} < 0 THEN {PRIME} ELSE 0 END AS high FROM halves
    ), one AS (
        SELECT *, (low * 1103515245 + high * 69069 + 12345) % {PRIME} AS a FROM parts
    ), two AS (
        SELECT *, (xor(a, a >> 13) * 1597334677 + low + 1013904223) % {PRIME} AS b FROM one
    ), three AS (
        SELECT *, xor(b, b >> 15) AS second, (xor(b, b >> 15) * 741103597 + low * 48271 + high + 7) % {PRIME} AS c FROM two
    )
    SELECT id, second * 2147483648 + xor(c, c >> 14) AS hash FROM three ORDER BY id
"""


def typed(numbers):
    return np.array(numbers, dtype=np.uint64 if max(numbers) >= 2**63 else np.int64)


@given(ANY_ID)
def test_the_integer_hash_is_what_python_integers_give(number):
    expected = plain_hash(number)
    assert hash_integers(typed([number])).tolist() == [expected]
    assert hash_ids([number]).tolist() == hash_ids([number, "x"]).tolist()[:1] == [expected]
    assert 0 <= expected < 2**62


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64, ">i8", ">u8", ">i2"])
def test_the_integer_hash_does_not_depend_on_the_width(dtype):
    limits = np.iinfo(dtype)
    numbers = [int(limits.min), int(limits.min) + 1, 0, 1, 100, int(limits.max) - 1, int(limits.max)]
    assert hash_integers(np.array(numbers, dtype=dtype)).tolist() == [plain_hash(number) for number in numbers]


def test_the_integer_hash_is_what_duckdb_gives():
    rng = np.random.default_rng(0)
    wide = rng.integers(-(2**63), 2**63 - 1, 5_000, endpoint=True)
    ids = np.unique(np.concatenate([wide, wide >> 33, [-(2**63), -1, 0, 1, PRIME, -PRIME, 2**63 - 1]]))
    CONNECTION.register("ids", {"id": ids})
    found = CONNECTION.execute(SQL_HASH).fetchnumpy()
    assert np.array_equal(found["id"], ids)
    assert np.array_equal(found["hash"], hash_integers(ids))


@settings(max_examples=50)
@given(st.lists(st.text(max_size=20), min_size=1, max_size=20, unique=True))
def test_the_text_hash_is_what_duckdb_gives(texts):
    found = CONNECTION.execute("SELECT unnest($1) AS id, ('0x' || md5(id)[:15])::BIGINT AS hash", [texts]).fetchall()
    assert [hash_ids([text])[0] for text, _ in found] == [hash for _, hash in found]
    assert hash_ids(texts).tolist() == [int(hashlib.md5(text.encode()).hexdigest()[:15], 16) for text in texts]


def test_other_ids_are_hashed_by_their_text():
    one = uuid.UUID(int=2**100 + 1)
    assert hash_ids([one]) == hash_ids([str(one)])
    assert hash_ids([b"abc"]) == hash_ids(["abc"])
    assert hash_ids([10**30]) == hash_ids([str(10**30)])
    assert hash_ids([5.0]) == hash_ids([5]) != hash_ids(["5"])
    assert hash_ids(["\udc80"]).shape == (1,)


RANDOM = np.random.default_rng(1)
SERIES = {
    "in sequence": np.arange(100_000),
    "even": np.arange(0, 200_000, 2),
    "multiples of ten": np.arange(0, 1_000_000, 10),
    "negative": -np.arange(100_000),
    "random": RANDOM.integers(-(2**63), 2**63 - 1, 100_000),
    "large": np.arange(100_000) + 2**62,
    "multiples of the prime": np.arange(100_000) * PRIME,
    "powers": np.arange(100_000) << 40,
}


@pytest.mark.parametrize("name", SERIES)
def test_folds_are_even_and_do_not_know_the_id(name):
    ids = SERIES[name]
    found = folds(hash_integers(ids))
    sizes = np.bincount(found, minlength=FOLDS)
    assert len(sizes) == FOLDS and stats.chisquare(sizes).pvalue > TOO_UNEVEN
    for trait in (ids % 2, np.arange(len(ids)) % 2, ids % 10):
        table = np.bincount(trait * FOLDS + found, minlength=10 * FOLDS).reshape(10, FOLDS)
        table = table[table.sum(axis=1) > 0]
        if len(table) > 1:
            assert stats.chi2_contingency(table).pvalue > TOO_UNEVEN


def test_ids_do_not_share_a_hash():
    everyone = np.unique(np.concatenate([*SERIES.values(), np.arange(500_000)]))
    assert (np.diff(np.sort(hash_integers(everyone))) > 0).all()


def test_folds_of_text_are_even():
    found = folds(hash_ids([f"user-{number}" for number in range(50_000)]))
    assert stats.chisquare(np.bincount(found, minlength=FOLDS)).pvalue > TOO_UNEVEN


# Codes


def by_hand(values):
    distinct = list(dict.fromkeys(values))
    place = {value: code for code, value in enumerate(distinct)}
    return [place[value] for value in values], distinct


class Colliding:
    """A thing whose hash says little."""

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return self.number == other.number

    def __hash__(self):
        return self.number % 1_000


MANY = np.random.default_rng(2).integers(0, CHUNK // 2, 3 * CHUNK)
ARRAYS = {
    "few words": np.array(["b", "a", "b", "ccc"]),
    "few words, many rows": np.array(["b", "a", "c"])[MANY % 3],
    "many words": np.char.add("user-", MANY.astype(str)),
    "many bytes": MANY.astype("S"),
    "many objects": np.array([f"user-{number}" for number in MANY.tolist()], dtype=object),
    "many numbers": MANY.astype(object),
    "many of the same hash": np.array([Colliding(number) for number in (MANY % 6_000).tolist()], dtype=object),
    "words that differ late": np.char.add("x" * 60, MANY.astype(str)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_codes_are_in_order_of_appearance(name):
    codes, distinct = encode(ARRAYS[name])
    expected_codes, expected = by_hand(ARRAYS[name].tolist())
    assert codes.tolist() == expected_codes and distinct == expected


@given(st.lists(st.sampled_from([0, 1, True, False, 1.0, "1", "b", b"1"]), min_size=1, max_size=30))
def test_typed_codes_keep_one_true_and_1_0_apart(values):
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    codes, distinct = encode_typed(objects)
    expected_codes, expected = by_hand([(type(value).__name__, value) for value in values])
    assert codes.tolist() == expected_codes
    assert [(type(value).__name__, value) for value in distinct] == expected


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.uint64, ">i4"])
@pytest.mark.parametrize("n_rows", [1, 100, 2 * CHUNK + 1])
def test_codes_of_small_integers_by_a_table(dtype, n_rows):
    values = (np.random.default_rng(3).integers(0, 120, n_rows) // 7 * 7).astype(dtype)
    codes, distinct = encode_integers(values, int(values.min()))
    assert distinct == sorted(set(values.tolist())) and {type(value) for value in distinct} == {type(values.tolist()[0])}
    assert [distinct[code] for code in codes.tolist()] == values.tolist()


# Users


@pytest.mark.parametrize(
    "users",
    [
        integer_users(np.array([7, -3, 7, 2**40])),
        integer_users(np.array([2**63, 5, 2**64 - 1, 5], dtype=np.uint64)),
        integer_users(np.array([-(2**63), 2**63 - 1, 0, 0])),
        coded_users(np.array([0, 1, 0, 2]), ["a", 7, uuid.UUID(int=3)]),
        independent_users(4),
    ],
    ids=["integers", "above 2^63", "from end to end", "anything", "independent"],
)
def test_compact_users_are_the_same_users(users):
    compact = users.compact()
    assert (compact.low, compact.span) == (0, len(set(users.codes.tolist())))
    assert sorted(set(compact.codes.tolist())) == list(range(compact.span))
    assert np.array_equal(compact.hashes(compact.codes.astype(np.int64)), users.hashes(users.codes.astype(np.int64)))
    assert all(users.low <= code < users.low + users.span for code in users.codes.tolist())
