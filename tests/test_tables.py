"""Results as JSON: plain values, and text that a person and a terminal can read."""

import json

import numpy as np
import pytest

from evenscore.tables import json_ready, json_text

NUMBERS = [1e22, -0.0, 5e-324, 10**30, True, None]
ODD = {"": [], "letters é 😀": {"a": {}}, "\x00\t\n\u202e": "\ud800 \udfff \x7f", "numbers": NUMBERS}


def test_text_is_indented_as_the_standard_library_does():
    assert json.loads(json_text(ODD)) == ODD
    plain = {name: value for name, value in ODD.items() if name.isprintable()}
    assert json_text(plain) == json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def test_only_what_can_be_printed_stands_as_it_is():
    assert all(line.isprintable() for line in json_text(ODD).split("\n"))


def test_what_json_does_not_know_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"a": float("nan")})


def test_values_become_plain():
    class Count(int):
        pass

    given = {("a", 1): np.float32(0.5), 2: np.array([np.nan, 1.0]), "b": (np.int64(3), np.True_), "c": Count(4), "d": -np.inf}
    found = json_ready(given)
    assert found == {"a × 1": 0.5, "2": [None, 1.0], "b": [3, True], "c": 4, "d": None}
    assert [type(value) for value in found["b"]] == [int, bool]
