"""
Your own recordings, from a folder of CSV files
===============================================

One file per walk, a table of subjects, a model, and a walk that is recorded later.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import percdl
from percdl import Algorithm, Cohort, PerCDL, TimeWarp, events_to_csv, suggest_atom_length
from percdl.plotting import plot_reconstruction

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
phase = np.linspace(0, 1, 60)
step = np.exp(-(((phase - 0.3) / 0.08) ** 2)) - 0.6 * np.exp(-(((phase - 0.6) / 0.1) ** 2))


def write_walk(path: Path) -> None:
    """Write ten steps at a random pace, in degrees per second."""
    length, bend = rng.integers(54, 68), rng.normal(0, 0.25)
    own = np.linspace(0, 1, length)
    own = np.interp(own + bend * np.sin(np.pi * own) / np.pi, phase, step)
    signal = np.concatenate([np.zeros(40), *(rng.uniform(0.9, 1.1) * own for _ in range(10))])
    signal = 100 * (signal + 0.03 * rng.normal(size=len(signal)))
    time = np.arange(len(signal)) / 100
    pd.DataFrame({"t": time, "gyro_y": signal}).to_csv(path, index=False, float_format="%.6g")


(folder / "walks").mkdir()
people = [f"P{i:02d}" for i in range(16)]
for name in people:
    write_walk(folder / "walks" / f"{name}.csv")
pd.DataFrame({"subject": people, "group": ["first", "second"] * 8}).to_csv(
    folder / "subjects.csv", index=False
)

# %%
# The clock of each file is checked with its column of times; a file with a gap raises an error
# that names file and line. Processing is explicit, and the model records it.
options = {"channels": ["gyro_y"], "time": "t", "units": "deg/s"}
walks = Cohort.from_csv(folder / "walks" / "*.csv", metadata=folder / "subjects.csv", **options)
ready = walks.zscore()
ready

# %%
# The atom length comes from the period of the recordings.
length = suggest_atom_length(ready)
print(f"period {length.period:.0f} samples, atom {length.length} samples")

# %%
# The penalty is chosen from the noise of the recordings. Two searches that help if onsets are
# ambiguous are switched off: compiling them takes most of the time of a first fit.
quick = Algorithm(realign=False, multistart=False)
model = PerCDL(1, length.length, TimeWarp(1, 4), algorithm=quick, random_state=0).fit(ready)
model.save(folder / "walks.percdl")
print(f"{len(model.events_)} steps found, {16 * 10} were taken; penalty {model.penalty_:.2g}")

# %%
# A later walk: the atom stays fixed, and the warp of the new person is found.
write_walk(folder / "new.csv")
model = percdl.load(folder / "walks.percdl")
new = Cohort.from_csv(folder / "new.csv", **options).zscore()
found = model.personalize(new)
events_to_csv(found.events, folder / "events.csv")
found

# %%
# The new walk, its reconstruction, and the steps found in it.
figure, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
plot_reconstruction(
    new[0].values,
    model.reconstruct(new)[0],
    found.events,
    atom_length=model.atom_length_,
    sfreq=new.sfreq,
    ax=ax,
)
plt.show()
