"""
A pen that everybody holds differently
======================================

Three accelerations of a pen that writes two letters. People differ in their pace and in how they
hold the pen: a time warp and a rotation.
"""

import matplotlib.pyplot as plt
import numpy as np

from percdl import Compose, PerCDL, Rotation, TimeWarp
from percdl.datasets import make_handwriting

truth = make_handwriting(n_subjects=12, depth=1, width=3, random_state=0)

# %%
# Transformations are composed: the warp acts first, then the rotation.
transform = Compose(TimeWarp(1, 3), Rotation(allow_reflections=False))
model = PerCDL(2, 50, transform, penalty=0.01, random_state=0).fit(truth.cohort)
print(f"distance to the true letters: {truth.distance_to_truth(model.dictionary_):.2f}")
print(f"best achievable distance: {truth.gauge_floor():.2f}")

# %%
# One letter as all people write it, axis by axis, and the common letter in black.
figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
time = np.arange(50) / truth.cohort.sfreq
for ax, channel, name in zip(axes, range(3), "xyz", strict=True):
    ax.plot(time, model.personal_dictionary_[:, 0, :, channel].T, color="0.7", linewidth=0.8)
    ax.plot(time, model.dictionary_[0, :, channel], "k")
    ax.set(xlabel="time (s)", ylabel=f"acceleration {name} (unit norm)")
plt.show()
