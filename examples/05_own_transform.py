"""
Write your own transformation
=============================

A transformation is a function of the atom and some parameters. In this one, the pattern grows or
fades from its start to its end.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from percdl import Cohort, Custom, PerCDL
from percdl.plotting import plot_personal_atoms


def fade(phi, a):
    """Return the atom (L, P), louder towards its end if a[0] > 0."""
    time = jnp.linspace(-1, 1, len(phi))[:, None]
    return phi * jnp.exp(a[0] * time)


# %%
# Sixteen people repeat a wave, each with their own fade.
rng = np.random.default_rng(0)
wave = np.sin(4 * np.pi * np.linspace(0, 1, 50)) * np.hanning(50)
true = rng.uniform(-0.8, 0.8, 16)
signals = []
for slope in true:
    own = wave * np.exp(slope * np.linspace(-1, 1, 50))
    parts = [np.pad(own, (rng.integers(20, 35), 0)) for _ in range(6)]
    signals.append(np.concatenate(parts) + 0.03 * rng.normal(size=sum(map(len, parts))))
cohort = Cohort.from_arrays(signals, sfreq=100)

# %%
# ``project`` keeps the parameters in a valid range; ``linear`` promises that the function is
# linear in the atom, which makes the dictionary update exact. Derivatives come from JAX.
transform = Custom(fade, n_params=1, project=lambda a: jnp.clip(a, -1, 1), linear=True)
model = PerCDL(1, 50, transform, penalty=0.5, random_state=0).fit(cohort)
print(model.params_.shape)

# %%
# A fade that all share is part of the common atom, so the parameters are determined up to a
# constant.
found = model.params_[:, 0, 0]
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plot_personal_atoms(
    model.personal_dictionary_,
    model.dictionary_,
    highlight=[int(np.argmin(true)), int(np.argmax(true))],
    sfreq=cohort.sfreq,
    ax=axes[0],
)
axes[1].plot(true, found, "o")
axes[1].set(xlabel="true fade", ylabel="fade found")
plt.show()
