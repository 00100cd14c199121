"""Link code in the text that names a public object to its page.

This covers the bare name (``judge_events``), the name with its package
(``percdl.analysis.judge_events``), a method (``Cohort.from_csv``), or a call of one of them. The
pages stay plain Markdown, which code hosts can show.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

# The arguments of a call.
CALL = re.compile(r"\(.*\)$", re.DOTALL)
KINDS = ("class", "function", "method", "exception", "property", "attribute")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("doctree-resolved", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def link_names(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Replace code that names a documented object by a link to it."""
    known = _known(app)
    for literal in list(doctree.findall(nodes.literal)):
        if isinstance(literal.parent, (nodes.reference, nodes.title)):
            continue
        found = known.get(CALL.sub("", literal.astext()))
        if found is None or found.docname == page:
            continue
        link = make_refnode(app.builder, page, found.docname, found.node_id, literal.deepcopy())
        literal.replace_self(link)


def _known(app: Sphinx) -> dict[str, Any]:
    """Return documented objects by each of their names; ambiguous names are left out."""
    known: dict[str, Any] = {}
    for name, entry in app.env.domains["py"].objects.items():
        if entry.objtype not in KINDS or not name.startswith("percdl."):
            continue
        parts = name.split(".")
        for start in range(len(parts)):
            short = ".".join(parts[start:])
            # A method needs its class: `fit` alone is ambiguous.
            if entry.objtype in KINDS[2:] and entry.objtype != "exception" and "." not in short:
                continue
            other = known.get(short, entry)
            known[short] = entry if other and other.docname == entry.docname else None
    return {short: entry for short, entry in known.items() if entry is not None}
