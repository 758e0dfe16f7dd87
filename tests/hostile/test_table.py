"""The published table of hostile inputs is what they give now."""

import sys

import pytest

import hostile_table


@pytest.mark.skipif(sys.platform != "linux", reason="pipes, devices and the words of the system are those of Linux")
def test_the_table_is_current():
    page = hostile_table.PAGE.read_text(encoding="utf-8")
    found = hostile_table.with_table(page, hostile_table.table())
    assert found.splitlines() == page.splitlines(), "run python tests/hostile_table.py"


def test_no_row_ends_in_a_crash():
    page = hostile_table.PAGE.read_text(encoding="utf-8")
    assert page.count("\n| ") > 60 and "ends with 70" not in page and "another name" not in page and "the script" not in page
