"""Unprocessed signals: problems that used to be silent.

Cohorts of 32 people who repeat one pattern twelve times, noise 0.1 of its standard deviation,
`PerCDL` with an atom of 50 samples and a penalty "auto". One thing is wrong each time, with one
person (Ada) or all. Either 95 % of each person's onsets are found within two samples, or a warning
names the person or, if it concerns the whole cohort, the problem. Onsets count after the common
lag and a personal lag of at most a tenth of the atom are removed, since a warp and a shift cannot
be separated exactly.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.claims._claim import Claim
from percdl import Cohort, L0Coder, PerCDL

LEAST, TOLERANCE = 0.95, 2
N_PEOPLE, N_CYCLES, LENGTH = 32, 12, 50
Person = tuple[np.ndarray, np.ndarray]


def claims() -> Iterator[Claim]:
    """Try each, with the library's defaults and with what the warnings advise."""
    wrong: dict[str, tuple[Callable[[list[Person]], list[Person]], dict[str, Any], str]] = {
        "one person 100 times larger": (_larger, {}, "Ada"),
        'one person 100 times larger, loss="relative"': (_larger, {"loss": "relative"}, ""),
        "one person upside down": (_inverted, {}, "Ada"),
        'one person upside down, polarity="person"': (
            _inverted, {"coder": L0Coder(polarity="person")}, "",
        ),
        "one person's second channel constant at 5": (_constant, {}, "Ada"),
        "drift as large as the pattern": (_drifting, {}, "drift"),
        'drift as large as the pattern, baseline="line"': (
            _drifting, {"coder": L0Coder(baseline="line")}, "",
        ),
        "one person's only lead is dead": (_dead, {}, "Ada"),
        "five atoms for one pattern": (_nothing, {"n_atoms": 5}, "alike"),
    }  # fmt: skip
    for name, (spoil, options, said) in wrong.items():
        people = spoil(draw_people(0))
        yield judge(name, people, options, said)


def judge(name: str, people: list[Person], options: dict[str, Any], said: str) -> Claim:
    """Fit, and look for the onsets or the warning."""
    names = ["Ada", *(f"P{i:02d}" for i in range(1, len(people)))]
    cohort = Cohort.from_arrays([x for x, _ in people], subjects=names, sfreq=100)
    settings: dict[str, Any] = {"n_atoms": 1, "atom_length": LENGTH, "random_state": 0} | options
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            model = PerCDL(progress=False, **settings).fit(cohort)
        except Exception as error:
            refused = said != "" and said in str(error)
            return Claim(name, "onsets or a warning", f"refused: {error}"[:150], refused)
    share = min(_found(model, names, people))
    texts = [str(warning.message) for warning in heard]
    warned = said != "" and any(said.lower() in text.lower() for text in texts)
    figure = f"onsets of the worst person {share:.2f}" + (", named in a warning" * warned)
    return Claim(name, f"onsets >= {LEAST:g} or named", figure, bool(share >= LEAST or warned))


def _found(model: PerCDL, names: list[str], people: list[Person]) -> Iterator[float]:
    """Yield the share of each person's onsets that are found, after the lags."""
    nearest = []
    for name, (_, truth) in zip(names, people, strict=True):
        own = model.events_.loc[model.events_["subject"] == name, "onset_sample"].to_numpy()
        away = own[None] - truth[:, None] if len(own) else np.full((len(truth), 1), 10**6)
        nearest.append(away[np.arange(len(truth)), np.abs(away).argmin(1)])
    lag = np.median(np.concatenate([away[np.abs(away) < LENGTH] for away in nearest]))
    for away in nearest:
        own = np.clip(np.median(away - lag), -LENGTH / 10, LENGTH / 10)
        yield float(np.mean(np.abs(away - lag - own) <= TOLERANCE))


def draw_people(seed: int) -> list[Person]:
    """Return recordings (N, 2) and onsets: a pattern in two channels, at random gaps."""
    rng, people = np.random.default_rng(seed), []
    time = np.linspace(0, 1, LENGTH)
    for _ in range(N_PEOPLE):
        bend = time + rng.uniform(-0.1, 0.1) * np.sin(np.pi * time)
        wave = np.exp(-(((bend - 0.4) / 0.08) ** 2)) - 0.6 * np.exp(-(((bend - 0.65) / 0.1) ** 2))
        atom = np.stack([wave, 0.7 * np.gradient(wave) / np.abs(np.gradient(wave)).max()], 1)
        onsets = np.cumsum(rng.integers(LENGTH + 5, 2 * LENGTH, N_CYCLES)) - LENGTH
        values = np.zeros((onsets[-1] + 2 * LENGTH, 2))
        for onset in onsets:
            values[onset : onset + LENGTH] += atom
        values += 0.1 * atom.std() * rng.standard_normal(values.shape)
        people.append((values, onsets))
    return people


def _nothing(people: list[Person]) -> list[Person]:
    return people


def _larger(people: list[Person]) -> list[Person]:
    return [(100 * people[0][0], people[0][1]), *people[1:]]


def _inverted(people: list[Person]) -> list[Person]:
    return [(-people[0][0], people[0][1]), *people[1:]]


def _constant(people: list[Person]) -> list[Person]:
    return [(people[0][0] * [1, 0] + [0, 5], people[0][1]), *people[1:]]


def _drifting(people: list[Person]) -> list[Person]:
    rng, spoiled = np.random.default_rng(1), []
    for values, onsets in people:
        time = np.arange(len(values)) / (4 * LENGTH)
        drift = np.sin(2 * np.pi * (time[:, None] + rng.random(2)))
        spoiled.append((values + drift * np.abs(values).max(), onsets))
    return spoiled


def _dead(people: list[Person]) -> list[Person]:
    people = [(values[:, :1], onsets) for values, onsets in people]
    dead = 1e-3 * np.random.default_rng(2).standard_normal(people[0][0].shape)
    return [(dead, people[0][1]), *people[1:]]
