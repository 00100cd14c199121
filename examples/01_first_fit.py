"""
A first fit
===========

Sixteen people repeat two patterns, each at a pace of their own. Nobody says where the patterns
are, nor what they look like: the fit finds both, and how each person differs.
"""

import matplotlib.pyplot as plt

from percdl import PerCDL, TimeWarp, make_synthetic
from percdl.plotting import plot_atoms, plot_personal_atoms, plot_reconstruction, plot_warps

truth = make_synthetic(n_subjects=16, noise_std=0.03, random_state=0)
cohort = truth.cohort

# %%
# Two atoms of 50 samples. ``penalty`` is what an activation costs, in squared units of the
# signal: a pattern that explains less energy than that is left out.
model = PerCDL(
    n_atoms=2, atom_length=50, transform=TimeWarp(3, 10), penalty=1.0, random_state=0
).fit(cohort)
model.events_.head()

# %%
# The truth is known here, so the common atoms can be compared with it. Sixteen people do not
# settle their mean pace; the gauge floor is what even perfect warps would leave.
print(f"distance to the truth: {truth.distance_to_truth(model.dictionary_):.2f}")
print(f"of which the draw of the people alone: {truth.gauge_floor():.2f}")

# %%
# What all share, everyone's version, the warps of time behind them, and one recording.
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
