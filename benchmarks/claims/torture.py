"""Amplitudes from 1e-12 to 1e12, odd recordings: the same fit or a refusal, no silent NaN."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.claims._claim import Claim, at_least, at_most, is_quick
from benchmarks.stress import torture
from benchmarks.timing import say
from percdl import PerCDL, PopCDL, TimeWarp, load
from percdl.exceptions import InvalidRecordingError
from percdl.signals import Recording

POWERS, DECADES = (2.0**-40, 2.0**40), (1e-12, 1e-6, 1e6, 1e12)
# Largest difference of atoms, parameters, amplitudes / c and objectives / c^2. Penalties are
# chosen in single precision even where the fit is in double.
MOST_DOUBLE, MOST_CHOSEN, MOST_SINGLE = 1e-9, 1e-5, 0.1
N_SHORT = 10_000


def claims() -> Iterator[Claim]:
    """Fit recordings times c in all ways, then all that is odd."""
    names = ["warp", "l1"] if is_quick() else list(torture.MODELS)
    yield from _scale(names)
    yield from _odd()
    yield from _bad_samples()
    yield from _short_subjects()
    yield _kept()


def _scale(names: list[str]) -> Iterator[Claim]:
    for name in names:
        say(name)
        reference = torture.fit(name)
        yield at_most(
            f"{name}, float32: x times 2^-40 and 2^40, largest difference",
            max(torture.distance(torture.fit(name, c), reference, c) for c in POWERS), 0,
        )  # fmt: skip
        yield at_most(
            f"{name}, float32: x times 1e-12, 1e-6, 1e6 and 1e12",
            max(torture.distance(torture.fit(name, c), reference, c) for c in DECADES),
            MOST_SINGLE,
        )
    for name in names[:3]:
        say(f"{name} in double precision")
        reference = torture.fit(name, dtype="float64")
        for title, factors, most in (
            ("2^-40 and 2^40", POWERS, 0),
            ("1e-12, 1e-6, 1e6 and 1e12", DECADES, MOST_DOUBLE if name == "warp" else MOST_CHOSEN),
        ):
            fits = ((torture.fit(name, c, "float64"), c) for c in factors)
            far = max(torture.distance(model, reference, c) for model, c in fits)
            yield at_most(f"{name}, float64: x times {title}", far, most)


def _odd() -> Iterator[Claim]:
    cases = torture.cases()
    wrong = []
    for name, case in list(cases.items())[: 4 if is_quick() else None]:
        say(name)
        outcome = torture.suffer(case)
        if outcome != ("refused" if case.refused else "finite"):
            wrong.append(f"{name}: {outcome}")
    detail = "; ".join(wrong) or f"of {len(cases)}"
    yield at_most("odd recordings and settings that crash or give NaN", len(wrong), 0, detail)


def _bad_samples() -> Iterator[Claim]:
    say("one bad sample in each place")
    x = list(torture.spoil_each(np.nan))
    model = torture.fit("warp")
    found = model.personalize(x)
    finite = np.isfinite(found.params).all((1, 2)) & (found.n_activations > 0).all(1)
    yield at_least("places of a missing sample that leave all finite", float(finite.mean()), 1)
    refused = 0
    for place, values in enumerate(torture.spoil_each(np.inf)):
        try:
            Recording(values)
        except InvalidRecordingError as error:
            refused += f"at sample {place} " in str(error)
    yield at_least("places of an infinite sample that are named", refused / torture.N_TIMES, 1)


def _short_subjects() -> Iterator[Claim]:
    n_subjects = 100 if is_quick() else N_SHORT
    say(f"{n_subjects} subjects of one cycle")
    x = torture.recordings(n_subjects, n_times=torture.LENGTH)
    for model in (
        PerCDL(1, torture.LENGTH, TimeWarp(1, 4), 0.1, **torture.SHORT),
        PopCDL(1, torture.LENGTH, 0.1, **torture.SHORT),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bad = torture.faults(model.fit(x))
        name = f"{type(model).__name__}, subjects of one cycle: results that are not finite"
        used = f"{int((model.n_activations_ > 0).sum())} of {n_subjects} with the atom"
        yield at_most(name, len(bad), 0, used)


def _kept() -> Claim:
    """Save, load, score and report on models of recordings of each size."""
    wrong = []
    for c in DECADES:
        model, x = torture.fit("warp", c), c * torture.recordings()
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "model")
            again = load(Path(folder) / "model")
            model.report(Path(folder) / "page.html")
            if again.score(x) != model.score(x) or not 0 < model.score(x) < 1:
                wrong.append(f"{c:g}")
    detail = ", ".join(wrong) or "saved, loaded, scored, reported"
    return at_most("sizes whose models cannot be kept", len(wrong), 0, detail)
