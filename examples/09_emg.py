"""
Bursts of a muscle
==================

A simulated surface EMG of eight people who walk. A muscle is active twice in each step; people
differ in when the second burst comes. The fit works on the envelope, and the warps find this time.
"""

import matplotlib.pyplot as plt
import numpy as np

from percdl import Cohort, PerCDL, TimeWarp
from percdl.plotting import plot_personal_atoms

SFREQ = 1000
rng = np.random.default_rng(0)


# %%
# An EMG is noise whose strength follows the activity of the muscle.
def activity(second, length):
    """Return the activity in one step: a burst at 0.25, and one at ``second``."""
    phase = np.linspace(0, 1, length)
    return sum(h * np.exp(-(((phase - at) / 0.08) ** 2)) for at, h in ((0.25, 1), (second, 0.6)))


true = np.linspace(0.58, 0.74, 8)
signals = []
for second in true:
    steps = [activity(second, rng.integers(980, 1050)) for _ in range(12)]
    strength = 0.02 + 0.2 * np.concatenate(steps)
    signals.append(strength * rng.standard_normal(len(strength)))
raw = Cohort.from_arrays(signals, sfreq=SFREQ, channels=["tibialis anterior"], units="mV")

# %%
# The envelope is the magnitude below 6 Hz. It is smooth, so 50 samples per second suffice.
envelope = raw.apply(np.abs, "magnitude").bandpass(None, 6).resample(50)
model = PerCDL(1, "0.96s", TimeWarp(1, 3), penalty="10%", random_state=0).fit(envelope)
print(f"{12 * len(true)} steps, {len(model.events_)} found")

# %%
# The time between the two bursts of each person, from the personal atoms.
atoms = model.personal_dictionary_[:, 0, :, 0]
first = atoms.argmax(1)
later = np.arange(atoms.shape[1]) > first[:, None] + 10
found = (np.where(later, atoms, -np.inf).argmax(1) - first) / envelope.sfreq

figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
time = np.arange(3 * SFREQ) / SFREQ
axes[0].plot(time, raw[0].values[: len(time)], color="0.7", linewidth=0.5, label="EMG")
time = np.arange(3 * 50) / 50
axes[0].plot(time, envelope[0].values[: len(time)], "k", label="envelope")
axes[0].set(xlabel="time (s)", ylabel="EMG (mV)")
axes[0].legend()
plot_personal_atoms(
    model.personal_dictionary_, model.dictionary_, highlight=[0, 7], sfreq=50, ax=axes[1]
)
axes[2].plot(true - 0.25, found, "o")
axes[2].set(xlabel="true time between bursts (s)", ylabel="time found (s)")
plt.show()
