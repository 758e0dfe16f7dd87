"""How the documentation is built: ``python -m sphinx -W -b html docs build/docs``. Nothing is fetched."""

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from evenscore import __version__

project = "evenscore"
author = "The evenscore authors"
copyright = author
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = []
templates_path = ["templates"]
language = "en"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
myst_links_external_new_tab = True

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the signature in words stands in the text; full types would fill the page
autodoc_member_order = "bysource"  # what matters most stands first in the source, too
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "evenscore"
html_static_path = ["static"]
html_css_files = ["evenscore.css"]
html_sidebars = {"index": [], "cases": []}  # pages without neighbours
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "evenscore"},
    "show_toc_level": 2,
    "navigation_with_keys": True,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}


def plain_signature(_app: Any, what: str, _name: str, thing: Any, _options: Any, signature: str | None, _returns: Any) -> Any:
    """Results are made by functions and not by readers: their signature is a list of their fields, without defaults."""
    if what != "class" or not signature or "Parameters" in (thing.__doc__ or ""):
        return None
    return re.sub(r"=[^,)]+", "", signature), None


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("autodoc-process-signature", plain_signature)
