"""The report in a real browser: nothing is loaded, nothing runs that should not, and everybody can read it."""

import re
import shlex
from html.parser import HTMLParser

import numpy as np
import pytest
from browser import CHROMIUM, complaints, dark, needs_chromium, open_page, requests, start, violations

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.report.curve_charts import MOST_GROUPS, shown_curves

EVIL = np.array(
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(2)>',
        "{{ 7 * 7 }} </style><style>*{display:none}",
        "\x1b[31m\u202ered",
    ]
)


EVIL_OUTCOME = "y</title></style><img src=x onerror=alert(3)>';`$(x)`"


def evil_tally():
    rows = repeated_users(6_000, seed=1, n_groups=4, gap=0.25)
    data = as_dict(rows) | {"g": EVIL[rows.group], EVIL_OUTCOME: rows.outcome}
    return es.tally(data, cuts=[0.4], **NAMES | {"outcome": EVIL_OUTCOME})


@pytest.fixture(scope="module")
def evil():
    """An audit with everything in it: a disparity, a threshold, a tolerance, and groups with wicked names."""
    return es.audit(evil_tally(), threshold=0.4, tolerance=0.02, title="An <em>audit</em>")


@pytest.fixture(scope="module")
def page(evil, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    evil.to_html(path)
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
    kinds = [attrs.get("type") for tag, attrs in found.tags if tag == "script"]
    assert kinds.count(None) == 1 and set(kinds) <= {None, "application/json"}  # one program; the rest is data
    assert not {"link", "iframe", "object", "embed", "img", "base", "form"} & {tag for tag, _ in found.tags}
    policy = next(attrs["content"] for tag, attrs in found.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy and len(re.findall("sha256-", policy)) == 2


def test_labels_are_text(page):
    text = "".join(Tags(page.read_text(encoding="utf-8")).words)
    for label in EVIL[:3]:
        assert label[:20] in text
    assert EVIL_OUTCOME[:20] in text and shlex.quote(EVIL_OUTCOME) in text
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
    assert driver.find_element("css selector", ".chip").text == "Disparity"
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
    assert first != output.text and row[0] in output.text and row[1].split(" (")[0] in output.text
    assert row[1] in slider.get_attribute("aria-valuetext")
    assert figure.find_element("css selector", ".cursor").get_attribute("visibility") == "visible"
    before = output.text
    ActionChains(driver).move_to_element(figure.find_element("css selector", "svg.chart")).perform()
    assert output.text != before and re.search(r"score 0\.\d+", output.text)


@needs_chromium
def test_every_picture_has_a_name_and_a_table(driver, page):
    open_page(driver, page)
    driver.find_element("css selector", "#all").click()
    for figure in driver.find_elements("css selector", "figure"):
        assert len(figure.find_element("css selector", "svg.chart").get_attribute("aria-label")) > 30
    for section in driver.find_elements("css selector", "details.section:has(figure)"):
        for summary in section.find_elements("css selector", ".numbers > summary"):
            driver.execute_script("arguments[0].click()", summary)
        assert any(table.is_displayed() for table in section.find_elements("css selector", "table")), section.text


@needs_chromium
def test_axe_finds_nothing_in_any_state(driver, page):
    """Folded and open, light and dark by the button; contrast is one of the rules."""
    open_page(driver, page)
    assert violations(driver) == []
    driver.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert violations(driver) == []
    driver.find_element("css selector", "#theme").click()
    assert violations(driver) == []


@needs_chromium
def test_the_theme_is_the_systems_until_the_button_says_otherwise(driver, page):
    dark(driver, True)
    try:
        open_page(driver, page)
        colour = "return getComputedStyle(document.body).backgroundColor"
        button = driver.find_element("css selector", "#theme")
        assert button.text == "Light" and driver.execute_script(colour) == "rgb(20, 25, 31)"
        button.click()
        assert button.text == "Dark" and driver.execute_script(colour) == "rgb(255, 255, 255)"
        assert violations(driver) == []
    finally:
        dark(driver, False)


@needs_chromium
def test_sections_are_folded_and_all_open_at_once(driver, page):
    open_page(driver, page)
    sections = driver.find_elements("css selector", "details.section")
    assert len(sections) >= 9 and not any(section.get_attribute("open") for section in sections)
    assert all(section.find_element("css selector", ".answer").text for section in sections)
    assert driver.execute_script("return document.documentElement.scrollHeight") <= 4500
    switch = driver.find_element("css selector", "#all")
    switch.click()
    assert all(section.get_attribute("open") for section in sections) and switch.get_attribute("aria-pressed") == "true"
    switch.click()
    assert not any(section.get_attribute("open") for section in sections)


@needs_chromium
def test_contents_stay_in_reach_and_unfold(driver, page):
    open_page(driver, page)
    link = driver.find_element("css selector", 'nav a[href="#ordering-section"]')
    link.click()
    assert driver.find_element("css selector", "#ordering-section").is_displayed()
    driver.execute_script("scrollTo(0, document.body.scrollHeight)")
    assert driver.execute_script("return document.querySelector('nav').getBoundingClientRect().top") >= 0


@needs_chromium
def test_pictures_are_saved_as_they_look(driver, page):
    """The file is whole: its own colours and rules, no script, nothing of the page around it."""
    from xml.etree import ElementTree

    open_page(driver, page)
    driver.execute_script("URL.createObjectURL = (blob) => { window.saved = blob; return 'data:,'; }")
    for button in driver.find_elements("css selector", ".pictures .save"):
        button.click()
        text = driver.execute_async_script("window.saved.text().then(arguments[0])")
        picture = ElementTree.fromstring(text)
        style = picture.find("{http://www.w3.org/2000/svg}style").text
        assert "--ink: #1b2430" in style.replace("--ink:#", "--ink: #") and ".line" in style and "evenscore-audit" not in style
        assert picture.get("width") and not [own for own in picture.iter() if own.tag.endswith(("script", "img", "image"))]


SMALLEST = """
const sizes = [...document.querySelectorAll("body *")].filter((own) => own.getClientRects().length && own.textContent.trim()
  && !own.closest(".hidden") && [...own.childNodes].some((node) => node.nodeType === 3 && node.data.trim())).map((own) => {
  const svg = own.closest("svg");
  const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
  return [parseFloat(getComputedStyle(own).fontSize) * scale, own.textContent.slice(0, 60)];
});
return sizes.reduce((least, own) => (own[0] < least[0] ? own : least));
"""
CUT = """
return [...document.querySelectorAll("figcaption, caption, p, summary, svg.chart text")].filter((own) => {
  const box = own.getBoundingClientRect();
  return box.width && !own.closest(".scroll, .hidden, nav") && (box.right > innerWidth + 1 || box.left < -1);
}).map((own) => own.textContent.slice(0, 60));
"""


@needs_chromium
def test_on_a_phone_everything_is_large_enough_and_nothing_is_cut(driver, page):
    try:
        open_page(driver, page)
        screen = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        driver.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 390
        size, words = driver.execute_script(SMALLEST)
        assert size >= 11, words
        assert driver.execute_script(CUT) == []
        assert violations(driver) == []
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@needs_chromium
def test_it_works_without_javascript_and_on_a_phone(page):
    driver = start(400, 900, javascript=False)
    try:
        open_page(driver, page)
        assert driver.find_elements("css selector", ".reader") == []
        assert driver.find_element("css selector", ".chip").text == "Disparity"
        driver.find_element("css selector", "figure summary").click()
        assert driver.find_element("css selector", "figure table").is_displayed()
        assert not driver.find_element("css selector", "#all").is_displayed()
        driver.find_element("css selector", "details.section > summary").click()
        assert driver.find_element("css selector", "details.section .body").is_displayed()
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
@pytest.mark.parametrize("system", [False, True], ids=["light", "dark"])
def test_a_notebook_shows_it(driver, evil, tmp_path, system):
    """The fragment stands in a page of its own, as in a notebook: pictures are drawn, labels are text, in the page's own
    colours whatever the system's theme."""
    style = "background: #fff; color: rgb(1, 2, 3)"
    html = f'<!DOCTYPE html><title>n</title><body style="{style}">{evil._repr_html_()}</body>'
    (tmp_path / "notebook.html").write_text(html, encoding="utf-8")
    dark(driver, system)
    open_page(driver, tmp_path / "notebook.html")
    words = driver.find_element("css selector", "svg.chart text").value_of_css_property("fill")
    dark(driver, False)
    assert words == "rgb(1, 2, 3)"
    assert complaints(driver) == []
    line = driver.find_element("css selector", "svg.chart path.line")
    assert line.value_of_css_property("stroke") == "rgb(43, 143, 203)"  # seen on white and on black
    assert "<script>alert(1)</script>" in driver.find_element("css selector", "body").text


def test_chromium_is_here_where_tests_are_run_in_full():
    """CI installs it; a laptop may lack it, and is told so by the skipped tests."""
    import os

    if os.environ.get("CI"):
        assert CHROMIUM is not None


def test_of_many_groups_those_that_differ_most_are_drawn():
    n_groups = MOST_GROUPS + 1
    rows = repeated_users(100 * n_groups, seed=2, n_groups=n_groups, rows_per_user=3)
    odd = rows.group == n_groups - 1
    rows.outcome[odd] = np.random.default_rng(1).random(odd.sum()) < 0.9
    labels = np.array([f"group {place}" for place in range(n_groups)])
    audit = es.audit(as_dict(rows) | {"g": labels[rows.group]}, **NAMES, compare="rest", method="bonferroni")
    shown = [curve.group for curve in shown_curves(audit.subjects[0])]
    assert len(shown) == MOST_GROUPS and labels[-1] in shown
    assert shown == [label for label in audit.subjects[0].curves.groups if label in shown]
    page = audit.to_html()
    for figure in ("curves", "repaired"):
        legend = page.split(f'<figure id="{figure}"')[1].split("</ul>")[0]
        assert [label for label in labels if f"{label}<" in legend] == sorted(shown, key=labels.tolist().index)
