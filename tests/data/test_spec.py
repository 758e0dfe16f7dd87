"""What is asked of the data is checked when it is written down, and is then of one type whatever it was made from."""

import dataclasses
import inspect

import numpy as np
import pytest

import evenscore as es
from data import NAMES
from evenscore.data.spec import TallySpec
from evenscore.data.splits import Split

LATTICE = es.Lattice(0, 1, cells=8, cuts=[0.3])


def test_what_is_given_becomes_what_is_declared():
    spec = TallySpec(**NAMES, cuts=np.array([0.25, 0.5]), cells=np.int64(8), split="1-7/10@key")
    assert spec.cuts == (0.25, 0.5) and type(spec.cells) is int and spec.split == Split(1, 7, 10, "key")
    again = dataclasses.replace(spec, split="2/2", cuts=[0.3], lattice=LATTICE)
    assert (again.split, again.cuts, again.lattice) == (Split(2, 2, 2), (0.3,), LATTICE)
    assert again.roles == {"score": "s", "outcome": "y", "group": "g", "user": "u", "weight": None, "count": None, "item": None}
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.cells = 3


def test_a_tally_stands_for_its_lattice():
    rows = {"s": [0.1, 0.2, 0.7], "y": [0, 1, 1], "g": ["a", "b", "b"], "u": [1, 2, 3]}
    tally = es.tally(rows, **NAMES, lattice=LATTICE)
    assert TallySpec(**NAMES, lattice=tally).lattice == tally.lattice == LATTICE


WRONG = {
    "no score": ({"score": None}, "score=None: name a column or give an array"),
    "no outcome": ({"outcome": None}, "outcome=None: name a column or give an array"),
    "no group": ({"group": None}, "group=None: name a column or give an array"),
    "no column of a group": ({"group": []}, "group=[] names no column; give one name, or several for their intersection"),
    "cuts": ({"cuts": ["x"]}, "cuts=['x'] must be numbers"),
    "endless cuts": ({"cuts": [np.inf]}, "cuts=[inf] must be finite numbers"),
    "cells": ({"cells": 513}, "cells=513 must be a whole number from 1 to 512"),
    "scale": ({"scale": "log"}, "scale='log' is not known; choose one of 'auto', 'score', 'logit', 'rank'"),
    "nulls": ({"nulls": "keep"}, "nulls='keep' is not known; choose one of 'error', 'drop', 'unlabelled'"),
    "split": ({"split": "2/1"}, "split='2/1': parts are numbered from 1 to 1, and the first is not after the last"),
    "lattice": ({"lattice": 7}, "lattice=7 must be a Tally or an es.Lattice, not of type int"),
    "no such edge": ({"lattice": LATTICE, "cuts": [0.31]}, "the given lattice has no edge at 0.31; make it with cuts=[0.31]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_asked(name):
    change, message = WRONG[name]
    for ask in (lambda **options: TallySpec(**options), lambda **options: es.tally("no such file.csv", **options)):
        with pytest.raises(es.OptionError) as caught:
            ask(**NAMES | change)
        assert str(caught.value) == message


def test_defaults_are_those_of_tally():
    parameters = inspect.signature(es.tally).parameters
    for field in dataclasses.fields(TallySpec):
        default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        assert parameters[field.name].default == default, field.name
