"""Audits of generated data: nothing that they say, as JSON or as text, is more than they saw."""

import pytest
from audit_checker import complaints
from generated_audits import draw_case, run_case

from hostile import THOROUGH

AUDITS = 500 if THOROUGH else 25


@pytest.mark.parametrize("seed", range(AUDITS))
def test_an_audit_says_no_more_than_it_saw(seed, tmp_path):
    case = draw_case(seed)
    found = complaints(case, run_case(case, tmp_path))
    assert not found, "\n".join([str(case), *found[:20]])
