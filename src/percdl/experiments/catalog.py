"""All labels of the paper that can be reproduced, in the order of the paper."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import NamedTuple

from percdl.exceptions import InvalidParameterError
from percdl.experiments.study import Result, Study


class Entry(NamedTuple):
    """A label as in the paper's source, the function that reproduces it, and a title.

    Labels that start with ``gait:`` and ``ecg:`` are numbers of the paper's text. The name of the
    function is also that of the folder of the results.
    """

    label: str
    module: str
    name: str
    title: str

    def load(self) -> Callable[[Study], Result]:
        """Import the module and return the function."""
        return getattr(import_module(f"percdl.experiments.{self.module}"), self.name)


# Label, module, function and title.
_ROWS = """
fig:transfo_illustration | warps | fig_transfo_illustration | What a time warp can do
fig:conv | growth | fig_conv | Distance to the common atoms as the cohort grows
fig:supp:synth_conv | growth | fig_synth_conv | Common atoms as the cohort grows
theorem:convergence1 | growth | theorem_convergence | The rate of Theorem 1
fig:noise | noise | fig_noise | Impulse noise
fig:app:gaussian_noise | noise | fig_gaussian_noise | Gaussian noise
fig:app:activations | known_truth | fig_activations | Activations, all else known
fig:app:validation_common | known_truth | fig_validation_common | Common atoms, all else known
fig:app:perso | known_truth | fig_perso | Personalization, all else known
fig:sensitivity_analysis | warps | fig_sensitivity | Depth and width of the warp
tab:gait_segmentation | gait_segmentation | tab_gait_segmentation | Gait cycles found
gait:errors | gait_fits | gait_errors | Gait: reconstruction errors
fig:gait | gait_groups | fig_gait | Gait: what the groups share and how they differ
fig:IndCDL_PopCDL | gait_groups | fig_indcdl_popcdl | Gait: IndCDL and PopCDL in each group
fig:app:gait_comp_indcdl | gait_groups | fig_gait_indcdl | Gait: the same analysis with IndCDL
tab:app:group_popcdl | gait_groups | tab_group_popcdl | Gait: PopCDL in each group
fig:app:gait_personalization | gait_cycles | fig_gait_personalization | Gait: one person a group
tab:app:personalization | gait_cycles | tab_personalization | Gait: atoms and true cycles
ecg:errors | ecg | ecg_errors | ECG: reconstruction errors
ecg:classification | ecg_classification | ecg_classification | ECG: diagnosis from personalization
fig:app:ecg_atoms | ecg | fig_ecg_atoms | ECG: atoms of the superclasses
fig:app:ecg_recon | ecg | fig_ecg_recon | ECG: three reconstructions
time | computation_time | computation_time | Computation times
"""
CATALOG = tuple(Entry(*row.split(" | ")) for row in _ROWS.strip().splitlines())
# Labels of the paper that show the same numbers as another one.
ALIASES = {
    "tab:app:gait_segmentation": "tab:gait_segmentation",
    "theorem:convergence": "theorem:convergence1",
}


def find(label: str) -> Entry:
    """Return the entry of a label; the error for an unknown one lists all labels.

    >>> find("fig:conv").name
    'fig_conv'
    """
    entries = {entry.label: entry for entry in CATALOG}
    wanted = ALIASES.get(label, label)
    if wanted in entries:
        return entries[wanted]
    near = get_close_matches(label.lower(), entries, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise InvalidParameterError(
        f"The paper has no label {label!r} that can be reproduced. {hint}"
        f"Choose `all` or one of: {', '.join(entries)}."
    )
