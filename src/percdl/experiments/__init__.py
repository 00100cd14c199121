"""Every figure and table of the paper, run by ``percdl reproduce``.

``labels.toml`` lists the labels and their functions ``study -> Result``. The claims in
``benchmarks/`` use the same measurements. A new label is a function and an entry in that file.
"""

from percdl.experiments.study import CATALOG, Entry, Ledger, Line, Result, Scale, Study, find

__all__ = ["CATALOG", "Entry", "Ledger", "Line", "Result", "Scale", "Study", "find"]
