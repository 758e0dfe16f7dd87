"""The report in a real browser: nothing is loaded, nothing runs that should not, and everybody can read it."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from browser import CHROMIUM, complaints, needs_chromium, open_page, requests, start, violations

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.report.score_charts import MOST_GROUPS, shown_curves

EVIL = np.array(
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(2)>',
        "{{ 7 * 7 }} </style><style>*{display:none}",
        "\x1b[31m\u202ered",
    ]
)


def evil_tally():
    rows = repeated_users(6_000, seed=1, n_groups=4, gap=0.25)
    return es.tally(as_dict(rows) | {"g": EVIL[rows.group]}, cuts=[0.4], **NAMES)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report with everything in it: a disparity, a threshold, a tolerance, and groups with wicked names."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    es.audit(evil_tally(), threshold=0.4, tolerance=0.02, title="An <em>audit</em>").to_html(path)
    return path


@pytest.fixture(scope="module")
def driver():
    driver = start()
    yield driver
    driver.quit()


class Tags(HTMLParser):
    """Every element with its attributes, and all text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)


# What is in the file


def test_one_file_that_asks_for_nothing(page):
    found = Tags(page.read_text(encoding="utf-8"))
    loading = {"src", "srcset", "action", "data", "poster", "background", "formaction", "xlink:href"}
    assert not [attrs for _, attrs in found.tags if loading & set(attrs)]
    assert all(attrs["href"].startswith("#") for tag, attrs in found.tags if "href" in attrs)
    assert not [attrs for _, attrs in found.tags if "style" in attrs or any(name.startswith("on") for name in attrs)]
    assert [tag for tag, _ in found.tags].count("script") == 1
    assert not {"link", "iframe", "object", "embed", "img", "base", "form"} & {tag for tag, _ in found.tags}
    policy = next(attrs["content"] for tag, attrs in found.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy and len(re.findall("sha256-", policy)) == 2


def test_labels_are_text(page):
    text = "".join(Tags(page.read_text(encoding="utf-8")).words)
    for label in EVIL[:3]:
        assert label[:20] in text
    assert "49 </style>" not in text and "An <em>audit</em>" in text and "\x1b" not in text


def test_ids_are_unique_and_links_lead_somewhere(page):
    found = Tags(page.read_text(encoding="utf-8"))
    ids = [attrs["id"] for _, attrs in found.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["href"][1:] for _, attrs in found.tags if "href" in attrs} <= set(ids)
    named = {name for _, attrs in found.tags for name in attrs.get("aria-labelledby", "").split()}
    assert named <= set(ids)


def test_a_report_of_ten_groups_stays_small():
    n_groups = 10
    rows = repeated_users(600 * n_groups, seed=2, n_groups=n_groups, rows_per_user=3, gap=0.3)
    labels = np.array([f"a group with a long name, number {place}" for place in range(n_groups)])
    tally = es.tally(as_dict(rows) | {"g": labels[rows.group]}, cuts=[0.4], **NAMES)
    text = es.audit(tally, threshold=0.4, tolerance=0.01).to_html()
    assert len(text.encode()) < 300_000
    assert text.count('<svg class="chart') >= 2


@pytest.mark.parametrize("scale", ["logit", "rank", "score"])
def test_any_scale_and_few_values_can_be_drawn(scale):
    rows = repeated_users(3_000, seed=3)
    smooth = es.tally(as_dict(rows), scale=scale, **NAMES)
    steps = es.tally(as_dict(rows) | {"s": np.ceil(rows.score * 5) / 5 - 0.1}, scale=scale, **NAMES)
    wide = es.tally(as_dict(rows) | {"s": 300 + 500 * rows.score}, scale="score", **NAMES)
    for tally in (smooth, steps, wide):
        assert not re.search(r"[\s\">,(]nan\b", es.audit(tally).to_html())


def test_groups_that_cannot_be_judged_are_said_so():
    data = {
        "s": np.r_[np.linspace(0, 0.3, 300), np.linspace(0.7, 1, 300)],
        "y": np.tile([0, 1], 300),
        "g": np.repeat(["a", "b"], 300),
    }
    audit = es.audit(data, score="s", outcome="y", group="g", user=None)
    text = audit.to_html()
    assert audit.verdict == "inconclusive" and "could be judged" in " ".join(audit.summary) and "No pair of groups" in text


# In the browser


@needs_chromium
def test_the_page_opens_quietly(driver, page):
    open_page(driver, page)
    assert complaints(driver) == []
    assert requests(driver) == [page.as_uri()]
    from selenium.common.exceptions import NoAlertPresentException

    with pytest.raises(NoAlertPresentException):
        _ = driver.switch_to.alert
    assert driver.find_element("css selector", "h2 .word").text == "DISPARITY"
    assert "<script>alert(1)</script>" in driver.find_element("css selector", "main").text
    assert driver.execute_script("return document.images.length") == 0


@needs_chromium
def test_the_policy_is_enforced(driver, page):
    """An inline script that is put in later does not run: the hashes are no decoration."""
    open_page(driver, page)
    driver.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.body.append(s);"
        "const i = new Image(); i.src = 'https://example.org/x.png'; document.body.append(i);"
    )
    assert driver.execute_script("return window.hacked") is None
    assert any("Content Security Policy" in text for text in complaints(driver))


@needs_chromium
def test_values_are_read_by_keyboard_and_by_pointing(driver, page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    open_page(driver, page)
    figure = driver.find_element("css selector", "figure")
    slider, output = (figure.find_element("css selector", name) for name in (".reader input", ".reader output"))
    slider.send_keys(Keys.HOME)
    first = output.text
    slider.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    row = driver.execute_script("return [...document.querySelectorAll('figure table')[0].rows[3].cells].map((c) => c.textContent)")
    assert first != output.text and row[0] in output.text and row[1] in output.text
    assert row[1] in slider.get_attribute("aria-valuetext")
    assert figure.find_element("css selector", ".cursor").get_attribute("visibility") == "visible"
    before = output.text
    ActionChains(driver).move_to_element(figure.find_element("css selector", "svg.chart")).perform()
    assert output.text != before and re.search(r"score 0\.\d+", output.text)


@needs_chromium
def test_every_picture_has_a_name_and_a_table(driver, page):
    open_page(driver, page)
    for figure in driver.find_elements("css selector", "figure"):
        assert len(figure.find_element("css selector", "svg.chart").get_attribute("aria-label")) > 30
        figure.find_element("css selector", "summary").click()
        assert figure.find_element("css selector", "table").is_displayed()


@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing(page, dark):
    driver = start(dark=dark)
    try:
        open_page(driver, page)
        assert driver.execute_script("return matchMedia('(prefers-color-scheme: dark)').matches") == dark
        driver.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert violations(driver) == []
    finally:
        driver.quit()


@needs_chromium
def test_it_works_without_javascript_and_on_a_phone(page):
    driver = start(400, 900, javascript=False)
    try:
        open_page(driver, page)
        assert driver.find_elements("css selector", ".reader") == []
        assert driver.find_element("css selector", "h2 .word").text == "DISPARITY"
        driver.find_element("css selector", "figure summary").click()
        assert driver.find_element("css selector", "figure table").is_displayed()
        width = driver.find_element("css selector", "body").size["width"]
        assert all(figure.size["width"] <= width for figure in driver.find_elements("css selector", "figure"))
    finally:
        driver.quit()


@needs_chromium
def test_it_prints(driver, page):
    import base64

    open_page(driver, page)
    printed = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert printed.startswith(b"%PDF-") and 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 40


@needs_chromium
def test_a_notebook_shows_it(driver, tmp_path):
    """The fragment stands in a page of its own, as in a notebook: pictures are drawn, labels are text."""
    html = es.audit(evil_tally())._repr_html_()
    (tmp_path / "notebook.html").write_text(f"<!DOCTYPE html><title>n</title><body>{html}</body>", encoding="utf-8")
    open_page(driver, tmp_path / "notebook.html")
    assert complaints(driver) == []
    line = driver.find_element("css selector", "svg.chart path.line")
    assert line.value_of_css_property("stroke") == "rgb(0, 114, 178)"
    assert "<script>alert(1)</script>" in driver.find_element("css selector", "body").text


def test_chromium_is_here_where_tests_are_run_in_full():
    """CI installs it; a laptop may lack it, and is told so by the skipped tests."""
    import os

    if os.environ.get("CI"):
        assert CHROMIUM is not None


def test_of_many_groups_those_that_differ_most_are_drawn():
    n_groups = 13
    rows = repeated_users(300 * n_groups, seed=2, n_groups=n_groups, rows_per_user=3)
    odd = rows.group == n_groups - 1
    rows.outcome[odd] = np.random.default_rng(1).random(odd.sum()) < 0.9
    labels = np.array([f"group {place}" for place in range(n_groups)])
    audit = es.audit(as_dict(rows) | {"g": labels[rows.group]}, **NAMES, compare="rest")
    shown = [curve.group for curve in shown_curves(audit.subjects[0])]
    assert len(shown) == MOST_GROUPS and "group 12" in shown
    assert shown == [label for label in audit.subjects[0].curves.groups if label in shown]
    for figure in ("before", "after"):
        legend = audit.to_html().split(f'<figure id="{figure}">')[1].split("</ul>")[0]
        assert [label for label in labels if f"{label}<" in legend] == sorted(shown, key=labels.tolist().index)
