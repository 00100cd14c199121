"""Headings among the parameters of a class, such as ``**Problem**``, are shown as headings."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

# What numpydoc makes of a line `**Problem**` in a list of parameters.
HEADING = re.compile(r"^(\s*)\*\*(?:\\\*){2}([\w ]+?)(?:\\?\*)*\*\*$")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension, after numpydoc."""
    app.connect("autodoc-process-docstring", show_headings, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def show_headings(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list) -> None:
    """Take the stars away that numpydoc takes for those of ``**kwargs``."""
    lines[:] = [HEADING.sub(r"\1*\2*", line) for line in lines]
