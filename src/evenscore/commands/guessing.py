"""Which column plays which role: guesses from what columns are called and what they hold, for people to confirm."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evenscore.engines.column_facts import ColumnFacts

# Words that tell, whole words of a name or (from four letters on) its beginning; what a column holds weighs as much.
WORDS = {
    "score": "score scores prob probability proba pred prediction predicted p phat yhat risk rating forecast logit propensity",
    "outcome": "outcome outcomes label labels y target truth actual result event hit hits win won default repaid clicked liked",
    "group": "group race sex gender ethnicity ethnic age bracket party segment region country language religion disability "
    "nationality female male black white hispanic latino asian native minority class education marital cohort",
    "user": "id user uid member customer patient person people account client subject respondent applicant borrower student "
    "seqn participant device household child pupil "
    "viewer reader listener visitor guest shopper buyer driver rider worker employee voter player",
    "cluster": "location place county precinct school hospital clinic site store game match session",
    "item": "item product job creator post article movie song video doc document listing ad query",
    "weight": "weight weights wt",
    "step": "hour hours minute minutes second seconds secs sec week step round period position rank",
    "neither": "weight weights wt count counts num n year month day date time timestamp lat lon latitude longitude zip index row",
}
ID = re.compile(rf"id(code|num|no|nr)|({'|'.join(WORDS['user'].split() + WORDS['cluster'].split() + WORDS['item'].split())})id")
HINTS = {role: frozenset(words.split()) for role, words in WORDS.items()}
MOST_GROUPS = 20  # more distinct values are hardly groups that somebody wants compared
FEWEST_SCORES = 5
IDS = {"id", "uid", "user"}  # say whose row it is also where few are there, as in a file that somebody tries
FEWEST_ITEMS = 20  # with fewer nothing is judged
MOST_KEYS = 3  # that are named where none is taken
MEETS, MET_BY = 2, 5  # values that a user meets on average, and users that meet a value: fewer share next to nothing
CROSSED = 0.5  # of all pairs of a user and a number: more is a position or a step that every user goes through
SURE = 4  # points; less is a guess that is marked


@dataclass(frozen=True, slots=True)
class Guess:
    """A column for a role. sure: whether its name or what it holds says so; also: other columns that would do."""

    role: str
    name: str
    sure: bool
    also: tuple[str, ...] = ()


def guess_roles(columns: Sequence[ColumnFacts], given: dict[str, str | None]) -> dict[str, Guess]:
    """A guess for each role that somebody or something can fill; columns that are given are taken as they are."""
    guesses = {role: Guess(role, name, sure=True) for role, name in given.items() if name is not None}
    for role, rate in _RATINGS.items():
        if role in guesses:
            continue
        taken = {guess.name for guess in guesses.values()}
        outcome = guesses["outcome"].name if "outcome" in guesses else None
        rated = [(rate(column, outcome), column.name) for column in columns if column.name not in taken and column.n_distinct > 1]
        points = max((points for points, _ in rated), default=0)
        if points > 0:
            best = next(name for rating, name in rated if rating == points)
            also = tuple(name for rating, name in rated if name != best and rating >= min(points, SURE))
            guesses[role] = Guess(role, best, points >= SURE, also)
    return guesses


def may_be_items(columns: Sequence[ColumnFacts], guesses: dict[str, Guess]) -> list[str]:
    """Columns that are no other role and identify something; whether users meet several of its values is open."""
    taken = {guess.name for guess in guesses.values()}
    return [
        column.name
        for column in columns
        if column.name not in taken
        and FEWEST_ITEMS <= column.n_distinct < column.n_rows
        and not _says(column.name, "group")
        and (column.kind == "date" or (_identifies(column) and not words_of(column.name) & (HINTS["neither"] | HINTS["step"])))
    ]


def _identifies(column: ColumnFacts) -> bool:
    """Text, or whole numbers that are called so or leave none out: counts and measurements leave some out."""
    numbered = column.whole and column.n_distinct == column.high - column.low + 1
    named = column.whole and any(_says(column.name, role) for role in ("user", "cluster", "item"))
    return column.kind == "text" or numbered or named


def may_be_users(columns: Sequence[ColumnFacts], guesses: dict[str, Guess]) -> list[ColumnFacts]:
    """Whole numbers that come again and again and are no other role, the most different first: one may say whose row it is."""
    taken = {guess.name for guess in guesses.values()}
    keys = [
        column
        for column in columns
        if column.name not in taken
        and column.whole
        and MOST_GROUPS < column.n_distinct < column.n_rows
        and not words_of(column.name) & (HINTS["neither"] | HINTS["step"])
        and not any(_says(column.name, role) for role in ("score", "outcome", "group", "weight"))
    ]
    return sorted(keys, key=lambda column: -column.n_distinct)[:MOST_KEYS]


def guess_item(columns: Sequence[ColumnFacts], user: str, pairs: dict[str, int]) -> Guess | None:
    """The column that varies most within users and whose values many users meet; pairs: of a user and a value, by column."""
    facts = {column.name: column for column in columns}
    n_users = facts[user].n_distinct
    met = {}
    for name, n_pairs in pairs.items():
        n_values = facts[name].n_distinct
        position = facts[name].whole and n_pairs > CROSSED * n_users * n_values
        if n_pairs >= max(MET_BY * n_values, MEETS * n_users) and not position:
            met[name] = n_pairs
    return Guess("item", max(met, key=lambda name: met[name]), sure=False) if met else None


def _rate_outcome(column: ColumnFacts, _outcome: str | None) -> int:
    """0/1 that is neither a group nor a prediction; else a number that is called an outcome."""
    words = words_of(column.name)
    if not column.is_numeric or words & HINTS["user"]:
        return 0
    other = bool(words & HINTS["group"]) or (_says(column.name, "score") and not words & HINTS["outcome"])
    points = 4 * column.is_binary + 3 * _says(column.name, "outcome") - 6 * other - 2 * bool(words & HINTS["neither"])
    return max(points, 0)


def _rate_score(column: ColumnFacts, outcome: str | None) -> int:
    """A number of many values, best between 0 and 1, best called a score or after the outcome."""
    words = words_of(column.name)
    if column.kind != "number" or column.is_binary or words & HINTS["user"]:
        return 0
    many = column.n_distinct >= FEWEST_SCORES
    unit = column.low >= 0 and column.high <= 1 and not column.whole
    akin = outcome is not None and bool(words & words_of(outcome))
    points = 1 * many + 2 * unit + 4 * _says(column.name, "score") + 1 * akin
    other = _says(column.name, "outcome") or words & HINTS["neither"] or words & HINTS["group"]
    return max(points - 4 * bool(other), 0)


def _rate_group(column: ColumnFacts, _outcome: str | None) -> int:
    """A few values of text, truth values or whole numbers."""
    words = words_of(column.name)
    if column.n_distinct > MOST_GROUPS or column.kind == "date" or (column.kind == "number" and not column.whole):
        return 0
    is_id = bool(words & HINTS["user"]) or bool(words & HINTS["neither"])
    return max(1 + 5 * _says(column.name, "group") + 2 * (column.kind == "text") - 4 * is_id, 0)


def _rate_user(column: ColumnFacts, _outcome: str | None) -> int:
    """An id; else a place or an event that rows have in common; else text of many values."""
    fractions = column.kind == "number" and not column.whole
    words = words_of(column.name)
    few = column.n_distinct <= FEWEST_SCORES and not words & IDS
    if column.kind in ("date", "truth value", "nothing") or fractions or few:
        return 0
    if words & HINTS["neither"] or (words & HINTS["item"]):
        return 0
    many = column.kind == "text" and column.n_distinct > MOST_GROUPS
    single = column.whole and column.n_distinct == column.n_rows  # every row has a number of its own
    cluster = _says(column.name, "cluster")
    known = _says(column.name, "user") and not (cluster and not words & HINTS["user"] - IDS)  # school_id is a place
    # Of few places nothing could be judged.
    return 5 * known + 4 * (cluster and column.n_distinct > MOST_GROUPS) + 2 * (many or single)


def _rate_item(column: ColumnFacts, _outcome: str | None) -> int:
    """What rows of several users have in common: named, and with many values."""
    identifies = column.kind == "text" or column.whole
    return SURE * (identifies and column.n_distinct > FEWEST_SCORES and bool(words_of(column.name) & HINTS["item"]))


# In this order: the outcome is told by what it holds, and a score by its outcome.
_RATINGS: dict[str, Callable[[ColumnFacts, str | None], int]] = {
    "outcome": _rate_outcome,
    "score": _rate_score,
    "group": _rate_group,
    "user": _rate_user,
    "item": _rate_item,
}


def words_of(name: str) -> frozenset[str]:
    """The words of a name: p_like, pLike and "P like" have the same; childid and idcode hold an id."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    words = re.findall(r"[^\W\d_]+", parted.lower())
    ids = [word for word in words if ID.fullmatch(word)]
    return frozenset([*words, *(["id"] if ids else []), *(word.removesuffix("id") for word in ids)])


def _says(name: str, role: str) -> bool:
    """Whether a word of the name is one of the role's, or begins with one that is long enough."""
    long = tuple(word for word in HINTS[role] if len(word) >= 4)
    return any(word in HINTS[role] or word.startswith(long) for word in words_of(name))
