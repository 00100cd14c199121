"""Every figure and table of the paper, one file per label, run by ``percdl reproduce``.

A file of this package offers ``run(study) -> Result``. By custom it is made of three verbs:
``measure`` (numbers, as a frame), ``draw`` (a figure of those numbers) and ``run``, which calls
both and says in `Line` what the paper states and what was found. The claims in ``benchmarks/``
call the same ``measure``. What several labels share, such as the fits of a cohort, is in
``studies/``. A new label is a new file and a row of `catalog.CATALOG`.
"""

from percdl.experiments.catalog import CATALOG, Entry, find
from percdl.experiments.ledger import Ledger
from percdl.experiments.result import Line, Result, Scale, Study

__all__ = ["CATALOG", "Entry", "Ledger", "Line", "Result", "Scale", "Study", "find"]
