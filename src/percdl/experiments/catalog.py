"""All labels of the paper that can be reproduced, in the order of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module

from percdl.exceptions import InvalidParameterError
from percdl.experiments.result import Result, Study


@dataclass(frozen=True)
class Entry:
    """A label, the file of this package that reproduces it, and a title.

    Attributes
    ----------
    label : str
        As in the paper's source; ``gait:`` and ``ecg:`` for numbers that stand in its text.
    module : str
        Name of the file.
    title : str
        For people.
    """

    label: str
    module: str
    title: str

    def load(self) -> Callable[[Study], Result]:
        """Import the file and return its ``run``."""
        return import_module(f"percdl.experiments.{self.module}").run


CATALOG = (
    Entry("fig:transfo_illustration", "fig_transfo_illustration", "What a time warp can do"),
    Entry("fig:conv", "fig_conv", "Distance to the common atoms as the cohort grows"),
    Entry("fig:supp:synth_conv", "fig_synth_conv", "Common atoms as the cohort grows"),
    Entry("theorem:convergence1", "theorem_convergence", "The rate of Theorem 1"),
    Entry("fig:noise", "fig_noise", "Impulse noise"),
    Entry("fig:app:gaussian_noise", "fig_gaussian_noise", "Gaussian noise"),
    Entry("fig:app:activations", "fig_activations", "Activations, all else known"),
    Entry("fig:app:validation_common", "fig_validation_common", "Common atoms, all else known"),
    Entry("fig:app:perso", "fig_perso", "Personalization, all else known"),
    Entry("fig:sensitivity_analysis", "fig_sensitivity", "Depth and width of the warp"),
    Entry("tab:gait_segmentation", "tab_gait_segmentation", "Gait cycles found"),
    Entry("gait:errors", "gait_errors", "Gait: reconstruction errors"),
    Entry("fig:gait", "fig_gait", "Gait: what the groups share and how they differ"),
    Entry("fig:IndCDL_PopCDL", "fig_indcdl_popcdl", "Gait: IndCDL and PopCDL in each group"),
    Entry("fig:app:gait_comp_indcdl", "fig_gait_indcdl", "Gait: the same analysis with IndCDL"),
    Entry("tab:app:group_popcdl", "tab_group_popcdl", "Gait: PopCDL in each group"),
    Entry("fig:app:gait_personalization", "fig_gait_personalization", "Gait: one person a group"),
    Entry("tab:app:personalization", "tab_personalization", "Gait: atoms and true cycles"),
    Entry("ecg:errors", "ecg_errors", "ECG: reconstruction errors"),
    Entry("ecg:classification", "ecg_classification", "ECG: diagnosis from personalization"),
    Entry("fig:app:ecg_atoms", "fig_ecg_atoms", "ECG: atoms of the superclasses"),
    Entry("fig:app:ecg_recon", "fig_ecg_recon", "ECG: three reconstructions"),
    Entry("time", "computation_time", "Computation times"),
)
# Labels of the paper that show the same numbers as another one.
ALIASES = {
    "tab:app:gait_segmentation": "tab:gait_segmentation",
    "theorem:convergence": "theorem:convergence1",
}


def find(label: str) -> Entry:
    """Return the entry of a label, or say which labels there are.

    >>> find("fig:conv").module
    'fig_conv'
    """
    wanted = ALIASES.get(label, label)
    for entry in CATALOG:
        if entry.label == wanted:
            return entry
    names = {name.lower(): entry.label for entry in CATALOG for name in _names(entry)}
    near = get_close_matches(label.lower(), names, n=1)
    hint = f"Did you mean {names[near[0]]!r}? " if near else ""
    raise InvalidParameterError(
        f"The paper has no label {label!r} that can be reproduced. {hint}"
        f"Choose `all` or one of: {', '.join(entry.label for entry in CATALOG)}."
    )


def _names(entry: Entry) -> tuple[str, str, str]:
    """Return what people may type for a label: it, its folder, its last part."""
    return entry.label, entry.module, entry.label.split(":")[-1]
