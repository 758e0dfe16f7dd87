"""How the documentation is built: ``python -m sphinx -W -b html docs build/docs``. Nothing is fetched."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent / "src"), str(Path(__file__).parent)]

from evenscore import __version__

project = "evenscore"
author = "The evenscore authors"
copyright = author
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "reference_types", "plain_math"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = []
templates_path = ["templates"]
language = "en"

html_math_renderer = "plain"  # MathML, which browsers show by themselves: nothing is fetched
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_dmath_allow_digits = False  # "$5 and $6" are no formula
myst_heading_anchors = 3
myst_links_external_new_tab = True

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "signature"  # of methods; for functions ``reference_types`` puts them beside each argument
autodoc_typehints_format = "short"
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}  # else six lines of what NumPy means by it
python_use_unqualified_type_names = True
autodoc_member_order = "bysource"  # what matters most stands first in the source, too
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "evenscore"
html_static_path = ["static"]
html_css_files = ["evenscore.css"]
html_sidebars = {"index": [], "cases": []}  # pages without neighbours
html_context = {"default_mode": "auto"}  # else the theme complains on the first page
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
