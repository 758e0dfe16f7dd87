"""The sliders of a report in a real browser: what they show is what the library says, and the page works without them."""

import json
import re

import numpy as np
import pytest
from browser import complaints, needs_chromium, open_page, requests, start, violations

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.report.explorer import explorer_section, script_json, tolerance_stops, verdict_at
from evenscore.report.pair_charts import pair_title
from evenscore.wording import number_text

LABELS = np.array(["a", '</script><script>alert("x")</script>', "c\u2028'd'"])


@pytest.fixture(scope="module")
def tally():
    rows = repeated_users(4_000, seed=1, n_groups=3, rows_per_user=4, gap=0.25)
    return es.tally(as_dict(rows) | {"g": LABELS[rows.group]}, cuts=[0.4], cells=128, **NAMES)


@pytest.fixture(scope="module")
def audit(tally):
    return es.audit(tally, threshold=0.4, repair=False)


@pytest.fixture(scope="module")
def page(audit, tmp_path_factory):
    path = tmp_path_factory.mktemp("explorer") / "report.html"
    audit.to_html(path)
    return path


@pytest.fixture(scope="module")
def numbers(page):
    """What is embedded in the page."""
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', page.read_text(encoding="utf-8"))[1])


@pytest.fixture(scope="module")
def driver():
    driver = start()
    yield driver
    driver.quit()


def opened(driver, page, state=""):
    open_page(driver, page)
    driver.get(page.as_uri() + state)
    driver.execute_script("document.querySelector('.explorer').closest('details').open = true")
    return [driver.find_element("css selector", f'[data-try="{name}"]') for name in ("thresholds", "tolerances")]


def cells(part):
    return [
        [cell.text for cell in row.find_elements("css selector", "th,td")] for row in part.find_elements("css selector", "tbody tr")
    ]


def press(part, *keys):
    from selenium.webdriver.common.keys import Keys

    part.find_element("css selector", "input").send_keys(*(getattr(Keys, key) for key in keys))


# Numbers


def test_thresholds_are_those_of_the_library(tally, numbers):
    own = numbers["thresholds"]
    assert 30 < len(own["score"]) <= 61 and own["score"][own["start"]] == 0.4
    for at in (0, len(own["score"]) // 2, len(own["score"]) - 1):
        fair = es.fair_thresholds(tally, threshold=own["score"][at])
        rates = es.decision_metrics(tally, threshold=own["score"][at]).by_group
        assert own["rate"][at] == [f"{100 * rates[group]['selection_rate']:.1f} %" for group in tally.groups]
        assert own["outcome"][at] == [f"{100 * group.outcome_before:.1f} %" for group in fair.groups]
        assert own["fair"][at] == [number_text(value) for value in fair.by_group.values()]
        change = [round(group.to_positive - group.to_negative) for group in fair.groups]
        assert [int(text.replace("\u2212", "-")) for text in own["change"][at]] == change


def test_tolerances_are_round_and_reach_every_verdict(audit):
    pairs = audit.subjects[0].parity.pairs
    stops = tolerance_stops(pairs, None)
    assert stops[0] == 0 and len(stops) <= 52 and all(len(f"{stop:g}") <= 6 for stop in stops)
    assert {verdict_at(pair, stops[-1], None) for pair in pairs} == {"parity"}
    assert tolerance_stops(pairs, 0.0123)[0] > 0 and 0.0123 in tolerance_stops(pairs, 0.0123)


def test_limits_of_the_tolerance_are_rounded_outwards_and_told_once(audit):
    """What is shown is no less than it is said to be, what is ruled out no more; the pair is called as elsewhere on the page."""
    section = explorer_section(audit.subjects[0], "")
    pairs = sorted(audit.subjects[0].parity.pairs, key=lambda pair: -abs(pair.max_gap))
    rows = section.data["tolerances"]["rows"]
    for pair, row in zip(pairs, rows, strict=True):
        assert row["exceeds"] == "–" or 0 <= 100 * pair.exceeds - float(row["exceeds"].removesuffix(" points")) < 0.1
        assert 0 <= float(row["within"].removesuffix(" points")) - 100 * pair.within < 0.1
        assert row["name"] == pair_title(pair, pair.max_gap).replace("\n", " ")
    told = re.findall(r"[\d.]+ points", section.answer)
    assert told == [
        max((row[end] for row in rows if row[end] != "–"), key=lambda text: float(text.split()[0])) for end in ("exceeds", "within")
    ]


def test_no_word_can_end_the_numbers():
    text = script_json({"a": "</script><!--\u2028&"})
    assert not set("<>&\u2028") & set(text) and json.loads(text) == {"a": "</script><!--\u2028&"}


def test_only_what_makes_sense_is_shown():
    """Groups without common scores have no threshold to try, and no pair to hold against a tolerance."""
    rows = repeated_users(800, seed=2, n_groups=2, rows_per_user=2)
    apart = es.audit(as_dict(rows) | {"s": rows.score / 3 + rows.group * 0.6}, **NAMES)
    assert explorer_section(apart.subjects[0], "") is None and 'class="explorer"' not in apart.to_html()
    numbers = es.audit(as_dict(rows) | {"y": 50 + 30 * rows.score + np.sin(np.arange(800.0))}, **NAMES)
    own = explorer_section(numbers.subjects[0], "").data["thresholds"]
    assert all(40 < float(text) < 90 for text in own["embedded"]["outcome"][own["start"]])


# In the browser


@needs_chromium
def test_the_threshold_slider_shows_what_the_library_says(driver, page, tally, numbers):
    part, _ = opened(driver, page)
    before = cells(part)
    press(part, "END", "ARROW_LEFT", "ARROW_LEFT")
    at = len(numbers["thresholds"]["score"]) - 3
    value = numbers["thresholds"]["score"][at]
    assert part.find_element("css selector", ".value").text == number_text(value)
    assert part.find_element("css selector", "input").get_attribute("aria-valuetext") == number_text(value)
    after = cells(part)
    rates = es.decision_metrics(tally, threshold=value).by_group
    fair = es.fair_thresholds(tally, threshold=value)
    assert [row[2] for row in after] == [f"{100 * rates[group]['selection_rate']:.1f} %" for group in tally.groups]
    assert [row[4] for row in after] == [number_text(own) for own in fair.by_group.values()]
    assert after != before and driver.current_url.endswith(f"#threshold={value}")
    assert complaints(driver) == [] and set(requests(driver)) == {page.as_uri()}


@needs_chromium
def test_the_tolerance_slider_shows_what_the_test_says(driver, page, tally, audit, numbers):
    _, part = opened(driver, page)
    words = {"disparity": "beyond", "parity": "within", "inconclusive": "undecided"}
    asked = {pair.name: words[pair.verdict] for pair in audit.subjects[0].parity.pairs}
    assert sorted(row[1] for row in cells(part)) == sorted(asked.values())
    press(part, *["ARROW_RIGHT"] * 4)
    tolerance = numbers["tolerances"]["tolerance"][4]
    test = es.parity_test(tally, tolerance=tolerance, both=False)
    verdicts = [words[pair.verdict] for pair in sorted(test.pairs, key=lambda pair: -abs(pair.max_gap))]
    assert [row[1] for row in cells(part)] == verdicts and len(set(verdicts)) > 1
    counts = [number.text for number in part.find_elements("css selector", ".live b")]
    assert counts == [str(verdicts.count(word)) for word in words.values()]


@needs_chromium
def test_the_address_keeps_what_was_chosen(driver, page, numbers):
    one, other = opened(driver, page)
    press(one, "HOME"), press(other, "END")
    shown, address = cells(one) + cells(other), driver.current_url
    assert address.endswith(f"#threshold={numbers['thresholds']['score'][0]}&tolerance={numbers['tolerances']['tolerance'][-1]}")
    driver.get("about:blank")
    driver.get(address)
    parts = [driver.find_element("css selector", f'[data-try="{name}"]') for name in ("thresholds", "tolerances")]
    assert parts[0].is_displayed() and cells(parts[0]) + cells(parts[1]) == shown
    for nonsense in ("#threshold=%E0%A4%A", "#threshold=x&tolerance=1e999", "#tolerance=constructor"):
        opened(driver, page, nonsense)
        assert complaints(driver) == []


@needs_chromium
def test_names_stay_text_and_axe_finds_nothing(driver, page):
    one, other = opened(driver, page)
    press(one, "HOME"), press(other, "END")
    assert LABELS[1][:16] in one.text and LABELS[1][:16] in other.text
    assert violations(driver) == []


@needs_chromium
def test_it_shows_the_defaults_without_javascript(page, numbers):
    driver = start(400, 900, javascript=False)
    try:
        open_page(driver, page)
        for section in driver.find_elements("css selector", "details.section > summary"):
            section.click()
        one, other = (driver.find_element("css selector", f'[data-try="{name}"]') for name in ("thresholds", "tolerances"))
        assert not [part for part in (one, other) if part.find_element("css selector", "input").is_displayed()]
        own = numbers["thresholds"]
        rates = [row[2] for row in cells(one)]
        assert rates == own["rate"][own["start"]] and one.find_element("css selector", ".value").text == "0.4000"
        assert other.find_element("css selector", ".badge").is_displayed()
    finally:
        driver.quit()


@needs_chromium
def test_would_i_have_been_fooled(driver, page, audit):
    open_page(driver, page)
    driver.execute_script("document.getElementById('fooled-section').closest('details').open = true")
    section = driver.find_element("css selector", '[aria-labelledby="fooled-title"]')
    assert audit.subjects[0].rows_as_people.sentence in section.text
    assert "rows taken for people: disparity" in section.find_element("css selector", "svg.chart").get_attribute("innerHTML")
