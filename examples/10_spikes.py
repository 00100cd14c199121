"""
Spikes of motor neurons
=======================

A simulated recording with a needle: two motor units fire, each with its own rate and action
potential. Two atoms are learned from six short recordings, and every spike is given to a unit.
"""

import matplotlib.pyplot as plt
import numpy as np

from percdl import Cohort, PopCDL

SFREQ = 2000
rng = np.random.default_rng(1)

# %%
# Two action potentials of 10 ms. Spikes that would overlap are left out: the exact coder places
# activations side by side (``L1Coder`` lets them overlap).
time = np.linspace(-1, 1, 20)
units = [np.exp(-30 * time**2), np.sin(3 * np.pi * time) * np.hanning(20)]
signals, true = [], []
for _ in range(6):
    signal = 0.02 * rng.standard_normal(SFREQ)
    firing = [
        (int(at), unit) for unit, rate in enumerate((9, 13))
        for at in np.cumsum(rng.normal(SFREQ / rate, SFREQ / rate / 8, rate - 1))
    ]  # fmt: skip
    kept, last = [], -100
    for at, unit in sorted(firing):
        if at - last >= 30 and at + 20 <= SFREQ:
            signal[at : at + 20] += units[unit]
            kept, last = [*kept, (at, unit)], at
    signals.append(signal)
    true.append(kept)
cohort = Cohort.from_arrays(signals, sfreq=SFREQ, channels=["EMG"], units="mV")

# %%
model = PopCDL(2, 20, penalty="10%", random_state=0).fit(cohort)
print(f"{sum(map(len, true))} spikes, {len(model.events_)} found")

# %%
# The action potentials, and who fired when in the first recording. The order of atoms is
# arbitrary: here the first atom is the second unit.
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
axes[0].plot(np.arange(20) / SFREQ * 1000, model.dictionary_[:, :, 0].T)
axes[0].set(xlabel="time (ms)", ylabel="potential (unit norm)")
found = model.events_[model.events_["subject"] == cohort.subjects[0]]
axes[1].plot([at / SFREQ for at, _ in true[0]], [unit for _, unit in true[0]], "k|", markersize=25)
axes[1].plot(found["onset_seconds"], found["atom"] + 0.25, "o")
axes[1].set(xlabel="time (s)", ylabel="unit (bars) and atom (dots)", yticks=[0, 1])
plt.show()
