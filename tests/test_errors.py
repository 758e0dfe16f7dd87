"""Warnings point at the caller's line, however deep inside the package something was noticed."""

import warnings

import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users

FEW = as_dict(repeated_users(40, 1))
MANY = as_dict(repeated_users(2000, 1))


@pytest.mark.parametrize(
    "call",
    [
        lambda: es.tally(MANY, **NAMES, lattice=es.Lattice(0.4, 0.6)),
        lambda: es.parity_test(MANY, **NAMES, lattice=es.Lattice(0.4, 0.6)),
        lambda: es.curves(es.tally(MANY, **NAMES, cells=8), bandwidth=0.01),
        lambda: es.calibrate(es.tally(MANY, **NAMES)).transform([0.5, 7.0], [0, 1]),
    ],
)
def test_a_warning_names_the_line_that_called(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    ours = [warning for warning in caught if issubclass(warning.category, es.EvenscoreWarning)]
    assert ours and all(warning.filename == __file__ for warning in ours)
