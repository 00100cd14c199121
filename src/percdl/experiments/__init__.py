"""Every figure and table of the paper, run by ``percdl reproduce``.

`catalog.CATALOG` lists the labels. Each names a function ``study -> Result`` in a module of its
study: it measures numbers as a frame, draws them, and compares them with the paper in `Line`. The
claims in ``benchmarks/`` use the same measurements. A new label is a function and a row of the
catalog.
"""

from percdl.experiments.catalog import CATALOG, Entry, find
from percdl.experiments.study import Ledger, Line, Result, Scale, Study

__all__ = ["CATALOG", "Entry", "Ledger", "Line", "Result", "Scale", "Study", "find"]
