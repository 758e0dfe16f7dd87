"""A real browser for pages: Debian's Chromium, driven through its own driver. Nothing is downloaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="there is no Chromium and driver here (apt-get install chromium chromium-driver)"
)


def start(width=1100, height=1400, *, javascript=True, dark=False):
    """A headless browser."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--window-size={width},{height}",
    ):
        options.add_argument(argument)
    if dark:
        options.add_argument("--force-dark-mode")
        options.add_argument("--blink-settings=preferredColorScheme=0")
    if not javascript:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))


def dark(driver, wanted):
    """Whether the system asks for dark pages."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if wanted else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def open_page(driver, path):
    """Open a file, and forget what was logged before."""
    driver.get_log("browser"), driver.get_log("performance")
    driver.get(Path(path).as_uri())


def requests(driver):
    """The addresses that the page asked for."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]


def complaints(driver):
    """What the console shows."""
    return [entry["message"] for entry in driver.get_log("browser")]


def violations(driver):
    """What axe-core finds."""
    import axe_core_python

    driver.execute_script((Path(axe_core_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = driver.execute_async_script(
        "const done = arguments[arguments.length - 1]; axe.run({resultTypes: ['violations']}).then(done)"
    )
    return [(each["id"], [node["html"][:160] for node in each["nodes"]][:3]) for each in found["violations"]]
