"""ECG at the size of the paper: the error of warps per lead.

2,650 records of PTB-XL at unit power; all models from one first beat, in equally many rounds.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from percdl.experiments import Study, ecg

N_MEMBERS = 530
MOST_RATIO = 0.70


def claims() -> Iterator[Claim]:
    """Claim the ratio of PerCDL to PopCDL, and show the four errors."""
    n_members = 10 if is_quick() else N_MEMBERS
    numbers = ecg.measure_errors(Study(), n_members)
    for case in ecg.CASES:
        errors = numbers.loc[case]
        ratio = errors["PerCDL"] / errors["PopCDL"]
        detail = f"{5 * n_members} records, {case}"
        yield at_most("ECG, PerCDL / PopCDL", ratio, MOST_RATIO, detail)
        yield beside(f"ECG, errors, {case}", ", ".join(f"{m} {errors[m]:.3f}" for m in ecg.PAPER))
