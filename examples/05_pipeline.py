"""
A scikit-learn pipeline with a grid search
==========================================

A model is a transformer: it turns recordings into one row of parameters per person. So it works in
a pipeline, and a grid search can choose its settings by the accuracy of a classifier.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from percdl import Algorithm, Cohort, PerCDL, TimeWarp
from percdl.plotting import plot_embedding

rng = np.random.default_rng(0)
phase = np.linspace(0, 1, 40)
groups = np.array(["quick start", "slow start"])[np.arange(24) % 2]


def record(group: str) -> np.ndarray:
    """Return five cycles; one group is early in the second half of the cycle, the other late."""
    bend = rng.normal(0.25 if group == "quick start" else -0.25, 0.2)
    warp = phase + bend * np.sin(2 * np.pi * phase) / (2 * np.pi)
    cycles = [np.pad(np.cos(3 * np.pi * warp), (4, 4)) for _ in range(5)]
    return np.concatenate(cycles) + 0.1 * rng.normal(size=240)


cohort = Cohort.from_arrays([record(group) for group in groups], sfreq=100)

# %%
# Parameters are NaN if no pattern was found in a recording, so impute them.
first = np.cos(3 * np.pi * phase)[None, :, None]
pipeline = make_pipeline(
    PerCDL(
        1,
        40,
        TimeWarp(1, 2),
        penalty=0.01,
        init=first,
        algorithm=Algorithm(realign=False, multistart=False),
    ),
    SimpleImputer(),
    LogisticRegression(),
).set_output(transform="pandas")
grid = {
    "percdl__transformation__width": [2, 4],
    "percdl__penalty": [0.5, 2.0],
}
search = GridSearchCV(pipeline, grid, cv=3).fit(cohort, groups)
print(search.best_params_)
print(f"accuracy on people not used in the fit: {search.best_score_:.2f}")

# %%
# The features are a pandas table with column names.
features = search.best_estimator_[:-1].transform(cohort)
features.head(3).round(2)

# %%
# All people in the plane of the first two principal components of the parameters.
figure, ax = plt.subplots(figsize=(6, 4.2), layout="constrained")
plot_embedding(features.to_numpy(), list(groups), ax=ax)
plt.show()
