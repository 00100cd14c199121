"""Show headings in a list of parameters, such as ``**Problem**``, as headings."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

# The output of numpydoc for a line `**Problem**` in a list of parameters.
HEADING = re.compile(r"^(\s*)\*\*(?:\\\*){2}([\w ]+?)(?:\\?\*)*\*\*$")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension, after numpydoc."""
    app.connect("autodoc-process-docstring", show_headings, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def show_headings(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list) -> None:
    """Remove the escaped stars that numpydoc writes as for ``**kwargs``."""
    lines[:] = [HEADING.sub(r"\1*\2*", line) for line in lines]
