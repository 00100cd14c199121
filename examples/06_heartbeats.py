"""
Intervals of a heartbeat
========================

Twelve simulated hearts, each with its own rate and its own time from the P wave to the R peak. The
fit finds the beats and the usual beat. Two landmarks are placed on it once, and found in every
beat of everybody.
"""

import matplotlib.pyplot as plt
import numpy as np

from percdl import Cohort, PerCDL, TimeWarp
from percdl.estimators import intervals

SFREQ = 100
WAVES = {"P": (0.15, 0.025), "Q": (-0.12, 0.010), "R": (1.0, 0.011), "S": (-0.2, 0.012)}
WAVES |= {"T": (0.3, 0.045)}


# %%
# A wave is a bump with a height and a width; the T wave follows the R peak by 0.25 seconds.
def beat(time, pr):
    """Return one beat, with the R peak at time 0 and the P wave ``pr`` seconds before."""
    places = {"P": -pr, "Q": -0.03, "R": 0.0, "S": 0.03, "T": 0.25}
    return sum(h * np.exp(-0.5 * ((time - places[w]) / s) ** 2) for w, (h, s) in WAVES.items())


rng = np.random.default_rng(0)
time = np.arange(10 * SFREQ) / SFREQ
true_pr = rng.uniform(0.12, 0.20, 12)
signals = []
for pr in true_pr:
    peaks = np.arange(0.5, 9.5, 60 / rng.uniform(55, 80))
    clean = sum(beat(time - peak, pr) for peak in peaks)
    signals.append(clean + 0.02 * rng.standard_normal(len(time)))
cohort = Cohort.from_arrays(signals, sfreq=SFREQ, channels=["II"], units="mV")

# %%
# The window is shorter than the shortest beat, so that no beat lacks room.
model = PerCDL(1, "0.7s", TimeWarp(2, 7), penalty="10%", random_state=0).fit(cohort)
model.events_.head()

# %%
# The R peak is the maximum of the common beat, and the P wave the maximum before it.
atom = model.dictionary_[0, :, 0] * np.sign(model.dictionary_[0].sum())
r_peak = int(np.argmax(atom))
p_peak = int(np.argmax(atom[: r_peak - 6]))
model.mark("P", time=p_peak / SFREQ).mark("R", time=r_peak / SFREQ)
found = intervals(model.landmarks(), {"PR": ("P", "R")})
median = found.groupby("subject")["ms"].median().loc[list(cohort.subjects)]

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
axes[0].plot(np.arange(len(atom)) / SFREQ, atom, "k")
axes[0].plot(np.array([p_peak, r_peak]) / SFREQ, atom[[p_peak, r_peak]], "o")
axes[0].set(xlabel="time in the common beat (s)", ylabel="amplitude (unit norm)")
axes[1].plot(1000 * true_pr, median, "o")
axes[1].set(xlabel="true PR interval (ms)", ylabel="median PR interval found (ms)")
plt.show()
