"""States of the report that people meet, in a real browser: short enough, quiet, and readable by everybody, also in the dark."""

import base64
import re
import shutil
from pathlib import Path

import pytest
from browser import complaints, dark, needs_chromium, open_page, requests, start, violations

import gallery

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def driver():
    driver = start(1280, 900)
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    """Writes the report of a state, once."""
    folder, written = tmp_path_factory.mktemp("states"), {}

    def page(state):
        if state not in written:
            written[state] = folder / f"{state}.html"
            getattr(gallery, state)().to_html(written[state])
        return written[state]

    return page


def n_printed(driver):
    paper = {"printBackground": True, "preferCSSPageSize": True, "paperWidth": 8.27, "paperHeight": 11.69}
    return len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", paper)["data"])))


@pytest.mark.parametrize("state", ["nhanes", "ncaa", "one_person", "order", "nothing_judged", "three_attributes"])
def test_every_state_is_quiet_and_axe_finds_nothing(driver, write, state):
    page = write(state)
    dark(driver, False)
    open_page(driver, page)
    assert driver.execute_script("return document.querySelectorAll('h1').length") == 1
    assert violations(driver) == []
    assert complaints(driver) == [] and requests(driver) == [page.as_uri()]
    driver.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    dark(driver, True)
    assert violations(driver) == []
    assert driver.execute_script("return document.documentElement.scrollWidth") <= 1280


def test_the_audit_of_nhanes_is_short(driver, write):
    """What is read in ten seconds is on the first screen; folded it is a few screens, and printed at most five pages."""
    dark(driver, False)
    open_page(driver, write("nhanes"))
    bottom = "return document.querySelector('{}').getBoundingClientRect().bottom"
    for part in ("h1", ".lead", "#curves svg.wide", "#pairs svg.chart", ".facts", ".next"):
        assert 0 < driver.execute_script(bottom.format(part)) <= 900, part
    assert driver.execute_script("return document.documentElement.scrollHeight") <= 4500
    assert write("nhanes").stat().st_size < 300_000
    assert 2 <= n_printed(driver) <= 5
    heights = "return [...document.querySelectorAll('.next .option')].map((each) => each.getClientRects().length)"
    assert set(driver.execute_script(heights)) == {1}  # no line ends within "--user"
    assert "--nulls drop" in driver.find_element("css selector", ".next code").text  # so that it reads the same rows


def test_the_next_step_is_on_the_first_screen_also_with_a_long_path(driver, tmp_path, monkeypatch):
    """The command gives the path that was given, which may be long."""
    folder = Path("a folder of a project with a long name") / "and one more inside"
    (tmp_path / folder).mkdir(parents=True)
    shutil.copy(gallery.EXAMPLES / "nhanes/nhanes_diabetes.parquet", tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.html"
    gallery.nhanes(folder / "nhanes_diabetes.parquet").to_html(page)
    open_page(driver, page)
    assert driver.find_element("css selector", ".next code").text.count("and one more inside") == 1
    assert 0 < driver.execute_script("return document.querySelector('.next').getBoundingClientRect().bottom") <= 900


def test_a_single_pair_is_drawn_once(driver, write):
    """Along the score on the first screen; its section has the numbers."""
    open_page(driver, write("ncaa"))
    assert driver.find_element("css selector", "#pairs strong").text == "Gap in points: men − women"
    assert not driver.find_elements("css selector", "#gaps-section figure") and n_printed(driver) <= 4
    facts = driver.find_element("css selector", ".facts").text
    assert "Disparity\nis what a test that takes 138,349 rows for people would have said (p < 0.0001)." in facts
    driver.execute_script("document.getElementById('fooled-section').closest('details').open = true")
    assert driver.find_element("css selector", "#fooled-section figure").is_displayed()


def test_on_a_phone_the_table_of_attributes_is_not_cut_off(driver, write):
    page = write("three_attributes")
    narrow = {"width": 390, "height": 900, "deviceScaleFactor": 1, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    open_page(driver, page)
    table = "const each = document.querySelector('.first .scroll'); return each.scrollWidth - each.clientWidth"
    assert driver.execute_script(table) <= 0
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow | {"width": 1280, "mobile": False})
