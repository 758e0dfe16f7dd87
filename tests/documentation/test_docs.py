"""The documentation: its Python runs, what it shows is what is printed, its links lead somewhere, and Sphinx has no complaint."""

import inspect
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest
from pages import ROOT, blocks, run_page, shown

import evenscore as es

DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "generated" not in path.parts)
EXECUTED = [path for path in PAGES if blocks(path, "python")]


@pytest.mark.parametrize("page", EXECUTED, ids=lambda path: path.name)
def test_the_python_of_a_page_runs_and_prints_what_is_shown(page, tmp_path):
    printed = {" ".join(line.split()) for line in run_page(page, tmp_path).splitlines()}
    for line in shown(page):
        assert " ".join(line.split()) in printed, f"{page.name} shows a line that its Python does not print: {line}"


def test_output_is_shown_only_where_python_runs():
    for page in PAGES:
        assert not blocks(page, "text") or page in EXECUTED, page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?://)([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_public_name_is_in_the_reference():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^ +([A-Za-z_.]+)$", text, flags=re.MULTILINE))
    assert set(es.__all__) - {name.removeprefix("evenscore.") for name in listed} == set()


def test_the_tree_of_calls_has_every_function():
    text = (DOCS / "which.md").read_text(encoding="utf-8")
    assert [name for name in es.__all__ if name.islower() and f"es.{name}" not in text] == []


@pytest.mark.parametrize("name", [name for name in es.__all__ if name.islower()])
def test_every_argument_and_what_comes_back_is_explained(name):
    function = getattr(es, name)
    text = inspect.getdoc(function)
    assert "\nReturns\n-------\n" in text
    parameters = text.split("\nParameters\n----------\n")[1].split("\nReturns\n")[0]
    explained = [part.strip() for line in parameters.splitlines() if not line.startswith(" ") for part in line.split(",")]
    assert sorted(filter(None, explained)) == sorted(inspect.signature(function).parameters)


class Anchors(HTMLParser):
    """What a built page links to, and the places in it that a link can lead to."""

    def __init__(self, path):
        super().__init__()
        self.places, self.links = set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.places |= {found.get("id"), found.get("name")}
        self.links += [found[name] for name in ("href", "src") if found.get(name)]


def broken_links(folder):
    """Links within the built pages to a file or a heading that is not there."""
    pages = {path: Anchors(path) for path in folder.resolve().rglob("*.html") if "_static" not in path.parts}
    for path, page in pages.items():
        for link in page.links:
            file, _, place = link.partition("#")
            if re.match(r"[a-z]+:|//", link):
                continue
            target = (path.parent / unquote(file.split("?")[0])).resolve() if file else path
            if not target.exists() or (place and target in pages and unquote(place) not in pages[target].places):
                yield f"{path.name} links to {link}"


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="top"></h1><a href="b.html#here"></a><a href="#top"></a><a href="https://x.org"></a>')
    (tmp_path / "b.html").write_text('<h1 id="there"></h1><a href="a.html#top"></a><a href="c.html"></a>')
    assert sorted(broken_links(tmp_path)) == ["a.html links to b.html#here", "b.html links to c.html"]


def test_the_documentation_builds_without_a_warning(tmp_path):
    pytest.importorskip("pydata_sphinx_theme", reason="the docs dependency group is not installed")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-W",
            "--keep-going",
            "-q",
            "-b",
            "html",
            "-d",
            str(tmp_path / "trees"),
            str(DOCS),
            str(tmp_path / "out"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="https?://[^"]+\.(?:js|css)', written), "a page must not fetch anything"
    assert list(broken_links(tmp_path / "out")) == []
