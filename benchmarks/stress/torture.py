"""Recordings and settings at the edge of what numbers can say, and fits of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from percdl import Algorithm, Cohort, Huber, IndCDL, L1Coder, PerCDL, PopCDL
from percdl.exceptions import PerCDLError
from percdl.transforms import Compose, Free, Gain, Modulation, Rotation, Shift, TimeWarp

LENGTH, N_TIMES, PENALTY, PRICE = 20, 160, 0.3, 0.05
SHORT = {
    "algorithm": Algorithm(population_rounds=2, personal_rounds=2), "random_state": 0,
    "progress": False,
}  # fmt: skip


def pattern(n_channels: int = 1) -> np.ndarray:
    """Return a wave that fades at both ends, array (L, P)."""
    time = np.linspace(0, 1, LENGTH)[:, None]
    phase = 0.5 * np.arange(n_channels)
    return np.sin(2 * np.pi * time + phase) * np.hanning(LENGTH)[:, None]


def recordings(n_subjects: int = 8, n_channels: int = 1, n_times: int = N_TIMES) -> np.ndarray:
    """Return recordings (S, N, P) of that wave, bent by each subject, again and again."""
    rng = np.random.default_rng(0)
    time, atom = np.linspace(0, 1, LENGTH), pattern(n_channels)
    values = 0.05 * rng.standard_normal((n_subjects, n_times, n_channels))
    for x in values:
        bent = time + rng.uniform(-0.5, 0.5) * np.sin(np.pi * time) / np.pi
        own = np.stack([np.interp(bent, time, channel) for channel in atom.T], axis=1)
        onset = int(rng.integers(0, 5)) if n_times > LENGTH else 0
        while onset + LENGTH <= n_times:
            x[onset : onset + LENGTH] += rng.uniform(0.7, 1.3) * own
            onset += LENGTH + int(rng.integers(2, 8))
    return values


def percdl(**options: Any) -> Callable[[float, str], PerCDL]:
    """Return a maker of models for signals times c: what has a unit follows."""

    def make(c: float, dtype: str) -> PerCDL:
        given: dict[str, Any] = {
            "transformation": TimeWarp(1, 4),
            "penalty": PENALTY * c * c,
            **options,
        }
        return PerCDL(1, LENGTH, dtype=dtype, **SHORT).set_params(**given)

    return make


def _rough(c: float, dtype: str) -> PerCDL:
    return percdl(transformation=TimeWarp(1, 4, roughness=PRICE * c * c))(c, dtype)


def _l1(c: float, dtype: str) -> PerCDL:
    return percdl(coder=L1Coder(n_steps=50), penalty=0.1 * c)(c, dtype)


def _huber(c: float, dtype: str) -> PerCDL:
    return percdl(loss=Huber(0.2 * c))(c, dtype)


def _population(c: float, dtype: str) -> PopCDL:
    return PopCDL(1, LENGTH, PENALTY * c * c, dtype=dtype, **SHORT)


def _individual(c: float, dtype: str) -> IndCDL:
    return IndCDL(1, LENGTH, PENALTY * c * c, dtype=dtype, **SHORT)


# What can be fitted: a maker of models for signals times c, and the number of channels.
MODELS: dict[str, tuple[Callable[[float, str], Any], int]] = {
    "warp": (percdl(), 1),
    "auto": (percdl(penalty="auto"), 1),
    "ratio": (percdl(penalty="10%"), 1),
    "polyak": (percdl(algorithm__solver="polyak", algorithm__solver_steps=10), 1),
    "robust": (percdl(algorithm__update="robust"), 1),
    "subjects": (percdl(algorithm__weighting="subjects"), 1),
    "paper": (
        percdl(
            algorithm__centering="paper", algorithm__realign=False, algorithm__multistart=False
        ),
        1,
    ),
    "rough": (_rough, 1),
    "l1": (_l1, 1),
    "huber": (_huber, 1),
    "PopCDL": (_population, 1),
    "IndCDL": (_individual, 1),
    "Free": (percdl(transformation=Free()), 1),
    "Modulation": (percdl(transformation=Modulation()), 1),
    "Shift": (percdl(transformation=Shift()), 1),
    "Gain": (percdl(transformation=Gain()), 2),
    "Rotation": (percdl(transformation=Rotation()), 2),
    "Compose": (percdl(transformation=Compose(TimeWarp(1, 4), Rotation())), 2),
}


def fit(name: str, c: float = 1.0, dtype: str = "float32") -> Any:
    """Fit one of the `MODELS` to recordings times c."""
    make, n_channels = MODELS[name]
    return make(c, dtype).fit(c * recordings(n_channels=n_channels))


def distance(model: Any, other: Any, c: float) -> float:
    """Return how far a fit of signals times c is from that of the signals; inf: other onsets."""
    events, others = model.events_, other.events_
    columns = ["subject", "atom", "onset_sample"]
    if not events[columns].equals(others[columns]):
        return float("inf")
    squared = ("objective_", "penalty_")
    amplitude = (events["amplitude"] / c, others["amplitude"])
    pairs = [
        (model.dictionary_, other.dictionary_), (model.params_, other.params_), amplitude,
        (model.personal_dictionary_, other.personal_dictionary_),
    ]  # fmt: skip
    if model.coder is None:  # an l1 price has another unit
        pairs += [(getattr(model, x) / c / c, getattr(other, x)) for x in squared]
        pairs += [(model.history_["objective"] / c / c, other.history_["objective"])]
    gaps = (np.abs(np.asarray(a, float) - np.asarray(b, float)) for a, b in pairs)
    return max(float(np.max(gap, initial=0)) for gap in gaps)


def faults(model: Any) -> list[str]:
    """Return the results of a fit that are not finite where nothing says that they may not be."""
    known = model.n_activations_ > 0
    results = {
        "dictionary_": model.dictionary_,
        "objective_": model.objective_,
        "penalty_": model.penalty_,
        "history_": model.history_["objective"],
        "events_": model.events_[["onset_sample", "onset_seconds", "amplitude"]],
        "params_": model.params_[known],
        "personal_dictionary_": model.personal_dictionary_[known],
        "warps_": model.warps_[known],
    }
    return [name for name, x in results.items() if not np.isfinite(np.asarray(x, float)).all()]


@dataclass(frozen=True)
class Case:
    """Recordings and options of a fit, and whether it is refused."""

    recordings: Any
    options: dict[str, Any] = field(default_factory=dict)
    refused: bool = False


def cases() -> dict[str, Case]:
    """Return what may go wrong, by name."""
    x, two, one = recordings(), recordings(n_channels=2), pattern()[None]
    holes = np.where(np.random.default_rng(1).random(x.shape) < 0.2, np.nan, x)
    sizes = 10.0 ** np.linspace(-12, 12, len(x))[:, None, None]
    louder, quieter = (
        x * np.where(np.arange(len(x)) < 7, 1, c)[:, None, None] for c in (1e30, 1e-30)
    )
    offsets = {f"offset of {size:g}": Case(x + size) for size in (1e2, 1e6, 1e12)}
    prices = {f"penalty of {p:g}": Case(x, {"penalty": p}) for p in (0, 1e-300, 1e39, 1e300)}
    return {
        **offsets,
        **prices,
        "penalty of infinity": Case(x, {"penalty": np.inf}, refused=True),
        "delta of 1e300": Case(x, {"loss": Huber(1e300)}),
        "delta of 1e-300": Case(x, {"loss": Huber(1e-300)}),
        "denormals, single": Case((x * 1e-40).astype(np.float32), {"penalty": "auto"}),
        "denormals, double": Case(x * 1e-310, {"penalty": "auto"}),
        "sizes from 1e-12 to 1e12": Case(x * sizes, {"penalty": 0.0}),
        "one subject 1e30 times louder": Case(louder, refused=True),
        "one subject 1e30 times quieter": Case(quieter),
        "holes": Case(holes),
        "holes, huber": Case(holes, {"loss": Huber()}),
        "atoms as long as the signal": Case(x[:, :LENGTH]),
        "one subject, exactly one atom": Case(one),
        "the same atom five times": Case(np.repeat(one, 5, axis=0)),
        "shorter than the atom": Case([*x, x[0, : LENGTH - 1]], refused=True),
        "one subject": Case(x[:1]),
        "one silent subject": Case([*x, 0 * x[0]], refused=True),
        "all silent": Case(0 * x, refused=True),
        "a constant channel": Case(np.concatenate([x, np.full_like(x, 3.0)], axis=2)),
        "a silent channel": Case(np.concatenate([x, 0 * x], axis=2)),
        "two equal channels, a rotation": Case(
            np.concatenate([x, x], axis=2), {"transformation": Rotation()}
        ),
        "rate of 1e300 Hz": Case(Cohort.from_arrays(x, sfreq=1e300)),
        "rate of 1e-300 Hz": Case(Cohort.from_arrays(x, sfreq=1e-300)),
        "atoms that no one uses": Case(
            x, {"n_atoms": 3, "init": np.random.default_rng(0).standard_normal((3, LENGTH, 1))}
        ),
        "Sigma singular: silent in the middle": Case(
            x[:, :LENGTH] * (np.abs(np.arange(LENGTH) - 9.5) > 4)[:, None]
        ),
        "weights by subject, two channels": Case(two, {"algorithm__weighting": "subjects"}),
    }


def suffer(case: Case) -> str:
    """Fit and use the result; return "finite", "refused", or what went wrong."""
    given: dict[str, Any] = {"n_atoms": 1, "penalty": PENALTY, "transformation": TimeWarp(1, 4)}
    model = PerCDL(atom_length=LENGTH, **SHORT).set_params(**given | case.options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            bad = faults(model.fit(case.recordings))
            found = model.personalize(case.recordings)
            rebuilt = model.reconstruct(case.recordings)
        except PerCDLError as error:
            return "refused" if case.refused else f"refused: {error}"
        except Exception as error:
            return f"crashed: {error!r}"
    if not np.isfinite(found.events["amplitude"]).all():
        bad.append("personalize")
    if not all(np.isfinite(x).all() for x in rebuilt):
        bad.append("reconstruct")
    if case.refused:
        bad.append("was not refused")
    return ", ".join(bad) or "finite"


def spoil_each(bad: float) -> Iterator[np.ndarray]:
    """Yield one recording with one bad sample, for each place in turn."""
    for i in range(N_TIMES):
        x = recordings(1)[0]
        x[i] = bad
        yield x
