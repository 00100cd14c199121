"""
A new patient against the norm
==============================

Twenty-six healthy people are the norm. How far is a new person from it, and where in the cycle?
"""

import matplotlib.pyplot as plt
import numpy as np

from percdl import Algorithm, Cohort, PerCDL, TimeWarp
from percdl.analysis import measure_deviation
from percdl.plotting import plot_deviation_profile, plot_deviation_ranking

rng = np.random.default_rng(0)
phase = np.linspace(0, 1, 60)
cycle = np.exp(-(((phase - 0.3) / 0.1) ** 2)) - 0.7 * np.exp(-(((phase - 0.7) / 0.1) ** 2))


def walk(slower_late: float = 0.0) -> np.ndarray:
    """Return ten cycles of one person; everyone has a small warp, some slow down late."""
    bend = rng.normal([0, slower_late, 0], [0.15, 0.1, 0.05])
    orders = np.pi * np.arange(1, 4)
    own = np.interp(phase + np.sin(np.outer(phase, orders)) @ (bend / orders), phase, cycle)
    signal = np.concatenate([np.pad(own, (int(rng.integers(5, 15)), 0)) for _ in range(10)])
    return signal + 0.05 * rng.normal(size=len(signal))


groups = ["healthy"] * 26 + ["patient"] * 6
walks = [walk() for _ in range(26)] + [walk(0.6) for _ in range(6)]
cohort = Cohort.from_arrays(walks, sfreq=100, groups=groups)
first = cycle[None, :, None]
quick = Algorithm(realign=False, multistart=False)
model = PerCDL(1, 60, TimeWarp(1, 4), penalty=1.0, init=first, algorithm=quick).fit(cohort)

# %%
# Compare everyone with the healthy; the norm of a healthy person excludes that person. An index
# of 1 is a typical healthy person.
found = measure_deviation(model, groups, "healthy")
found.table().head(6).round(2)

# %%
# Compare a person who was not in the fit, with the atom fixed.
new = Cohort.from_arrays([walk(0.6)], sfreq=100, subjects=["new"])
patient = measure_deviation(model.personalize(new), groups, "healthy", reference_from=model)
print(f"index {patient.index[0]:.1f}, above {patient.percentile[0]:.0f} % of the healthy")

# %%
# Everyone by rank, including the new person; and where in the cycle this person differs: a curve
# below -2 is slower.
figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
plot_deviation_ranking(
    np.append(found.index, patient.index),
    [*groups, "new"],
    reference="healthy",
    subjects=[*cohort.subjects, "new"],
    ax=axes[0],
)
plot_deviation_profile(
    patient.timing_profile[0, 0, 0], subject="local speed", sfreq=cohort.sfreq, ax=axes[1]
)
plt.show()
