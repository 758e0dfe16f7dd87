"""What careless users and attackers feed in, and the one rule: a result or an EvenscoreError, whatever it is."""

from __future__ import annotations

import datetime
import decimal
import math
import os
import warnings

import numpy as np
from black_box import time_limit

import evenscore as es

# The default run tries a sample; EVENSCORE_FUZZ=thorough tries thousands of generated inputs.
THOROUGH = os.environ.get("EVENSCORE_FUZZ") == "thorough"

NAMES = (
    "plain",
    'quote"d',
    "it's; DROP TABLE pieces; --",
    "line\nbreak\r\n",
    "tab\tand \x00 nul",
    "😀👩‍👩‍👧",
    "‏עברית ‮reversed",
    "<script>alert('x')</script>&amp;",
    "${jndi:x}{{7*7}}%s%n",
    "=cmd|' /C calc'!A0",
    "long" * 2500,
    " ",
    "NULL",
    "nan",
)

VALUES = (
    *(None, True, False, 0, 1, -1, 2, 0.5, 1e-300, 1e300, math.nan, math.inf, -math.inf, 10**400, 10**5000, 10**9),
    *("", "x", "0.5", b"x", [], [1], [math.nan], ["a"], (), (1, 2), {}, {"a": 1}, {0: 0.5, 1: 0.5}, {0: "x", 1: None}, set()),
    *(object(), len, 1j, decimal.Decimal("0.5"), datetime.date(2020, 1, 1), np.datetime64("2020"), np.float64(0.3), np.int64(0)),
    *(np.array([]), np.array([0.1, 0.5]), np.array([[0.1]]), np.array(["a", "b"]), np.array([1j]), np.array(None, dtype=object)),
    "é" * 10_000,
)


TRIED = {"a result": 0, "a reason": 0}  # of all calls in this run


def survives(call, *arguments, **options):
    """Whether a result (True) or an EvenscoreError (False) came; anything else is raised, and so is what does not end.

    A result must also show itself.
    """
    found = _survives(call, arguments, options)
    TRIED["a result" if found else "a reason"] += 1
    return found


def _survives(call, arguments, options):
    with time_limit(), warnings.catch_warnings():
        warnings.simplefilter("ignore", es.EvenscoreWarning)
        try:
            show(call(*arguments, **options))
        except es.EvenscoreError as error:
            assert 0 < len(str(error)) < 5000, f"a message of {len(str(error)):,} characters helps nobody"
            return False
    return True


def show(result):
    repr(result)
    for name in ("rows", "to_dict", "_repr_html_"):
        if callable(getattr(result, name, None)):
            getattr(result, name)()
    return result


FORGED = (None, True, 0, -1, 1e308, 10**30, "", "x", [], {}, [[]], [1, 2], "a" * 100)


def places(value, before=()):
    """Every place in a JSON document; of a long list the first two."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, item in items:
        yield (*before, key)
        yield from places(item, (*before, key))
