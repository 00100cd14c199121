"""How Sphinx builds the documentation: ``make docs``."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))
# Pictures are drawn without a screen, and progress bars would fill the gallery.
os.environ.setdefault("MPLBACKEND", "agg")

from percdl import __version__

project = "PerCDL"
author = "PerCDL contributors"
project_copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "api_links",
    "commands",
    "parameter_groups",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_ext"]

# Warnings are errors (`-W`), and so is a name that leads nowhere.
nitpicky = True
nitpick_ignore_regex = [
    # Names of packages whose pages are not read here: this builds without a network.
    (r"py:.*", r"(sklearn|scipy|numpy|pandas|matplotlib|jax|jaxtyping|typing|collections)\..*"),
    # Modules of functions that have no separate page.
    (r"py:obj", r"percdl\.report\..*|features\.describe_people"),
]

# Pages are Markdown that a code host shows as well.
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "autolink"
numpydoc_show_class_members = False
numpydoc_use_plots = False

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"[\\/]\w+\.py$",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib",),
    "capture_repr": ("_repr_html_", "__repr__"),
    "matplotlib_animations": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 3600,
    "doc_module": ("percdl",),
    "reference_url": {},
    "backreferences_dir": None,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "PerCDL"
html_static_path = ["_static"]
html_css_files = ["percdl.css"]
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "start": [], "concepts": []}


# `make linkcheck` asks for every address; a few refuse programs but open in a browser.
linkcheck_timeout = 20
linkcheck_ignore = [r"https://doi\.org/.*"]


def link_files(app: Sphinx, page: str, source: list[str]) -> None:
    """Offer Markdown files outside of this folder as files: they are no pages of the site."""
    if "/" not in page:
        source[0] = re.sub(r"\]\((\.\./[\w./]+\.md)(#[\w-]+)?\)", r"](path:\1)", source[0])


def setup(app: Sphinx) -> None:
    """Register what changes the pages."""
    app.connect("source-read", link_files)
