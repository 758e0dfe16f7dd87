"""Every state of the report on one sheet: python tests/gallery.py [FOLDER] [STATE ...]

Draws each state at 1280 pixels (folded, open and dark), at 390 and printed, into FOLDER (default build/gallery), and a contact
sheet of them all, sheet.png. Look at it after every change of the report.

python tests/gallery.py --picture docs/images/report.png draws the first screen that the documentation shows.
"""

from __future__ import annotations

import base64
import os
import re
import sys
import time
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS / "support")]

from browser import start  # noqa: E402

import evenscore as es  # noqa: E402

EXAMPLES = Path(os.path.relpath(TESTS.parent / "examples"))  # as somebody types it: pages give the path that was given
VIEWS = ("1280", "open", "390", "dark", "print")
COLUMN, ROW = 330, 900  # pixels of the contact sheet


def drawn(groups, n_users, gaps, **options):
    """Made-up users of several groups, whose curves are shifted by the gaps."""
    curve = {group: (gap, 1) for group, gap in zip(groups, gaps, strict=True)}
    return es.simulate(n_users, groups=list(groups), curve=curve, **options).data(seed=1)


COLUMNS = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


def ncaa():
    """Repeated rows of 783 games; nothing is shown."""
    columns = {"score": "score", "outcome": "outcome", "group": "bracket", "user": "game_id"}
    return es.audit(EXAMPLES / "ncaa/ncaa_in_game.parquet", **columns, title="Live forecasts, men and women")


def nhanes(path=EXAMPLES / "nhanes/nhanes_diabetes.parquet"):
    """A disparity among four groups, a threshold, a repair."""
    columns = {"score": "score_blind", "outcome": "diabetes", "group": "race", "user": "seqn"}
    return es.audit(path, **columns, threshold=0.05, nulls="drop", title="Screening for diabetes")


def two_values():
    """A score with two values."""
    data = drawn(("women", "men"), 900, (0.6, 0))
    return es.audit(data | {"score": np.where(data["score"] > 0.5, 0.8, 0.2)}, **COLUMNS, threshold=0.5)


def ten_groups():
    """Ten groups with long names, a threshold and a tolerance."""
    names = [f"a group with a long name, number {place}" for place in range(10)]
    data = drawn(names, 600, np.linspace(0, 0.9, 10))
    return es.audit(data, **COLUMNS, threshold=0.4, tolerance=0.02)


def three_attributes():
    """Several verdicts on one page."""
    data = drawn(("women", "men"), 1500, (0.6, 0), rows_per_user=3)
    data["gender"] = data.pop("group")
    data["age"] = np.where(data["user"] % 2 == 0, "below 40", "40 and older")
    data["left_handed"] = data["user"] % 5 == 0
    columns = COLUMNS | {"group": None}
    return es.audit(data, **columns, attributes=["gender", "age", "left_handed"])


def unverified():
    """A repair found from sums alone."""
    return es.audit(es.tally(drawn(("women", "men"), 2000, (0.6, 0)), **COLUMNS, cuts=[0.5]), threshold=0.5)


def one_person():
    """A group of one person, and parity among the others."""
    data = drawn(("north", "south"), 6000, (0, 0))
    group = data["group"].astype(object)
    group[data["user"] == data["user"][0]] = "elsewhere"
    return es.audit(data | {"group": group.astype(str)}, **COLUMNS, tolerance=0.1)


def other_units():
    """An outcome in units of its own, and scores that are none of its kind."""
    data = drawn(("women", "men"), 2000, (0.5, 0), rows_per_user=2)
    rng = np.random.default_rng(1)
    cost = 1200 + 900 * data["score"] + 300 * (data["group"] == "women") + rng.normal(0, 250, len(data["score"]))
    return es.audit(data | {"outcome": cost, "score": np.round(300 + 500 * data["score"])}, **COLUMNS, threshold=600)


def order():
    """Groups that have no score in common."""
    data = drawn(("women", "men"), 1500, (0, 0))
    women = data["group"] == "women"
    rng = np.random.default_rng(2)
    outcome = (rng.random(len(women)) < np.where(women, 0.7, 0.4)).astype(float)
    return es.audit(data | {"score": data["score"] / 2.2 + 0.52 * ~women, "outcome": outcome}, **COLUMNS)


def parity():
    """Gaps that stay within a tolerance."""
    return es.audit(drawn(("north", "south", "west"), 9000, (0, 0, 0)), **COLUMNS, tolerance=0.1, threshold=0.5)


def nothing_judged():
    """Two groups of a few people."""
    return es.audit(drawn(("north", "south"), 8, (0, 0)), **COLUMNS)


def undecided():
    """A tolerance that nothing settles."""
    return es.audit(drawn(("north", "south"), 700, (0.1, 0), rows_per_user=4), **COLUMNS, tolerance=0.03, threshold=0.5)


def hostile_names():
    """Names that try to run, to turn round or to burst a line, of groups, columns and title."""
    names = (
        "<script>alert('x')</script>",
        "\"quoted\" & 'so'",
        "\u202eright to left \u05e9\u05dc\u05d5\u05dd",
        "a name of eighty letters " * 3 + "ends",
    )
    data = drawn(names, 1200, (0.7, 0, 0.3, 0.1), rows_per_user=2)
    columns = {"score": "<b>risk</b>", "outcome": "</title>'ill'", "group": "group", "user": "user"}
    data["<b>risk</b>"], data["</title>'ill'"] = data.pop("score"), data.pop("outcome")
    return es.audit(data, **columns, threshold=0.4, title="<i>A title</i>")


def forty_groups():
    """More groups than fit any picture."""
    names = [f"district {place:02}" for place in range(40)]
    return es.audit(drawn(names, 150, np.linspace(0, 1, 40)), **COLUMNS, compare="rest", threshold=0.5)


STATES = (
    *(ncaa, nhanes, two_values, ten_groups, three_attributes, unverified, one_person, other_units),
    *(order, parity, nothing_judged, undecided, hostile_names, forty_groups),
)


def shoot(driver, page, folder, name, dark=None):
    """Pictures of one page; with ``dark`` a browser whose system is dark."""
    for view, width in (("1280", 1280), ("open", 1280), ("390", 390)) if dark is None else (("dark", 1280),):
        browser = dark or driver
        browser.get(page.as_uri())
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        )
        if view == "open":
            browser.execute_script("document.getElementById('all').click()")
        height = browser.execute_script("return document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, 9000), "scale": 1}
        found = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
        (folder / f"{name}-{view}.png").write_bytes(base64.b64decode(found["data"]))
        print(f"{name:18}{view:6}{height:6} px")
    if dark is None:
        printed = base64.b64decode(
            driver.execute_cdp_cmd(
                "Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True, "paperWidth": 8.27, "paperHeight": 11.69}
            )["data"]
        )
        (folder / f"{name}.pdf").write_bytes(printed)
        driver.get((folder / f"{name}.pdf").as_uri() + "#toolbar=0&navpanes=0&zoom=50")
        time.sleep(2)  # the viewer draws in its own time
        found = driver.execute_cdp_cmd("Page.captureScreenshot", {})
        (folder / f"{name}-print.png").write_bytes(base64.b64decode(found["data"]))
        pages = len(re.findall(rb"/Type\s*/Page\b", printed))
        print(f"{name:18}print {pages:5} pages, {page.stat().st_size / 1000:.0f} kB")


def contact_sheet(folder, names):
    """All pictures side by side, a row for each state."""
    cells = "".join(
        f"<h2>{name}</h2><div>"
        + "".join(f'<img src="{name}-{view}.png">' for view in VIEWS if (folder / f"{name}-{view}.png").exists())
        + "</div>"
        for name in names
    )
    image = f"width:{COLUMN}px;max-height:{ROW}px;object-fit:contain;object-position:top;align-self:start;border:1px solid #999"
    style = f"body{{margin:8px;font:14px sans-serif}}div{{display:flex;gap:8px}}img{{{image}}}"
    (folder / "sheet.html").write_text(f"<style>{style}</style>{cells}", encoding="utf-8")


def first_screen(path):
    """The first screen of the NHANES audit, as somebody sees it who runs it beside the data."""
    path = Path(path).resolve()
    os.chdir(EXAMPLES / "nhanes")
    columns = {"score": "score_blind", "outcome": "diabetes", "group": "race", "user": "seqn"}
    audit = es.audit("nhanes_diabetes.parquet", **columns, threshold=0.05, nulls="drop", title="Screening for diabetes")
    page = path.with_suffix(".html")
    driver = start(1280, 900)
    try:
        audit.to_html(page)
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        )
        driver.get(page.as_uri())
        clip = {"x": 0, "y": 0, "width": 1280, "height": 900, "scale": 1}  # beyond the viewport, so that no bar is seen
        found = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(found["data"]))
    finally:
        driver.quit()
        page.unlink(missing_ok=True)


def main(arguments):
    """Draw the states asked for, or all."""
    if arguments[:1] == ["--picture"]:
        return first_screen(arguments[1])
    folder = Path(arguments[0] if arguments else "build/gallery").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    states = [state for state in STATES if not arguments[1:] or state.__name__ in arguments[1:]]
    driver, dark = start(1280, 900), start(1280, 900, dark=True)
    try:
        for state in states:
            page = folder / f"{state.__name__}.html"
            state().to_html(page)
            shoot(driver, page, folder, state.__name__)
            shoot(driver, page, folder, state.__name__, dark)
        names = [state.__name__ for state in states]
        contact_sheet(folder, names)
        driver.get((folder / "sheet.html").as_uri())
        size = {"width": (COLUMN + 10) * len(VIEWS), "height": (ROW + 50) * len(names) + 20}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**size, "deviceScaleFactor": 1, "mobile": False})
        found = driver.execute_cdp_cmd(
            "Page.captureScreenshot", {"clip": {"x": 0, "y": 0, **size, "scale": 1}, "captureBeyondViewport": True}
        )
        (folder / "sheet.png").write_bytes(base64.b64decode(found["data"]))
    finally:
        driver.quit()
        dark.quit()


if __name__ == "__main__":
    main(sys.argv[1:])
