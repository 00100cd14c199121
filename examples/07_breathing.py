"""
Breaths of different lengths
============================

Eight simulated people breathe slower and faster within one recording. An activation may be longer
or shorter than the atom, so each breath has its own duration.
"""

import matplotlib.pyplot as plt
import numpy as np

from percdl import Cohort, L0Coder, PerCDL, TimeWarp

SFREQ = 25
rng = np.random.default_rng(0)


# %%
# Air flows in quickly and out slowly. Every breath lasts 2.5 to 4.5 seconds.
def breath(n_samples):
    """Return the volume of one breath."""
    time = np.linspace(0, 1, n_samples)
    return np.where(
        time < 0.4, np.sin(np.pi * time / 0.8) ** 2, np.sin(np.pi * (1 - time) / 1.2) ** 2
    )


signals, true = [], []
for _ in range(8):
    lengths = rng.integers(int(2.5 * SFREQ), int(4.5 * SFREQ), 14)
    true.append(lengths / SFREQ)
    signal = np.concatenate([breath(length) for length in lengths])
    signals.append(signal + 0.03 * rng.standard_normal(len(signal)))
cohort = Cohort.from_arrays(signals, sfreq=SFREQ, channels=["volume"], units="l")

# %%
# ``stretch=1.5``: from two thirds of the atom to one and a half times its length.
model = PerCDL(
    1, "3.3s", TimeWarp(1, 3), penalty="5%", coder=L0Coder(stretch=1.5), random_state=0
).fit(cohort)
model.events_[["subject", "onset_seconds", "duration_seconds"]].head()

# %%
# Durations lie on a grid of lengths, so points form rows.
figure, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
for subject, lengths in zip(cohort.subjects, true, strict=True):
    events = model.events_[model.events_["subject"] == subject]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    nearest = np.abs(starts[:, None] - events["onset_seconds"].to_numpy()).argmin(1)
    ax.plot(lengths, events["duration_seconds"].to_numpy()[nearest], "o", color="C0", alpha=0.5)
ax.set(xlabel="true duration of a breath (s)", ylabel="duration found (s)")
plt.show()
