"""
A first fit
===========

Sixteen people repeat two patterns, each at their own pace. The fit does not use the true onsets or
the true patterns: it finds both, and how each person differs.
"""

import matplotlib.pyplot as plt

from percdl import PerCDL, TimeWarp, make_synthetic
from percdl.plotting import plot_atoms, plot_personal_atoms, plot_reconstruction, plot_warps

truth = make_synthetic(n_subjects=16, noise_std=0.03, random_state=0)
cohort = truth.cohort

# %%
# Two atoms of 50 samples. ``penalty`` is the cost of an activation, in squared units of the
# signal: a pattern that explains less energy is left out.
model = PerCDL(
    n_atoms=2, atom_length=50, transformation=TimeWarp(3, 10), penalty=1.0, random_state=0
).fit(cohort)
model.events_.head()

# %%
# The truth is known here, so the common atoms can be compared with it. The gauge floor is the best
# achievable distance: the mean pace of sixteen people differs from that of the population.
print(f"distance to the truth: {truth.distance_to_truth(model.dictionary_):.2f}")
print(f"best achievable distance: {truth.gauge_floor():.2f}")

# %%
# The common atoms, everyone's version, the time warps, and one recording.
figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
people = {"highlight": [1, 3], "sfreq": cohort.sfreq}
plot_atoms(model.dictionary_, truth.dictionary, sfreq=cohort.sfreq, ax=axes[0, 0])
plot_personal_atoms(model.personal_dictionary_, model.dictionary_, ax=axes[0, 1], **people)
plot_warps(model.warps_[:, 0, 0], ax=axes[1, 0], **people)
plot_reconstruction(
    cohort[3].values,
    model.reconstruct(cohort)[3],
    model.events_[model.events_["subject"] == cohort.subjects[3]],
    atom_length=model.atom_length_,
    sfreq=cohort.sfreq,
    ax=axes[1, 1],
)
plt.show()
