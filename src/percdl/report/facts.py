"""What a report states in words and numbers: sizes, settings, versions, warnings."""

from __future__ import annotations

import platform
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from percdl.analysis.deviation import Deviation
from percdl.report.people import MOST_COLUMNS, People, write_median
from percdl.signals.recording import abbreviate

# Packages whose versions decide the numbers.
PACKAGES = ("jax", "numpy", "scipy", "scikit-learn", "mne")
# Names that a warning lists before it only counts.
N_NAMED = 6


def summarize(people: People) -> list[dict[str, str]]:
    """Return the first numbers of the page: name, value, unit."""
    found, cohort = people.found, people.cohort
    seconds = cohort.lengths.sum() / cohort.sfreq
    tiles = [
        _tile("Recordings", str(len(cohort)), f"in {len(people.groups)} groups"
              if people.groups else ""),
        _tile("Cycles found", f"{len(found.events):,}", f"of {len(found.dictionary)} atom(s)"),
        _tile("Length of the atom", f"{people.model.atom_length_ / cohort.sfreq:.3g}", "s"),
        _tile("Recorded", *_duration(seconds)),
        _tile("Error", write_median(people.errors, ".3f"), "median"),
    ]  # fmt: skip
    if len(found.dictionary) == 1:
        cadence = write_median(people.regularity["cadence"], ".3g")
        tiles.insert(2, _tile("Cadence", cadence, "per minute, median"))
    return tiles


def _tile(name: str, value: str, unit: str) -> dict[str, str]:
    return {"name": name, "value": value, "unit": unit}


def _duration(seconds: float) -> tuple[str, str]:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g}", unit
    return f"{seconds:.3g}", "s"


def describe_data(people: People) -> list[tuple[str, str]]:
    """Return facts about the recordings."""
    cohort = people.cohort
    lengths = cohort.lengths / cohort.sfreq
    missing = sum(int(np.isnan(record.values).sum()) for record in cohort)
    total = sum(record.values.size for record in cohort)
    units = [
        f"{name} ({unit})" if unit else name
        for name, unit in zip(cohort.channels, cohort.units, strict=True)
    ]
    groups = [str(name) for name in cohort.groups if name is not None]
    return [
        ("Recordings", str(len(cohort))),
        ("Groups", ", ".join(f"{n}: {groups.count(n)}" for n in people.groups) or "none given"),
        ("Reference", people.reference or "everyone"),
        ("Channels", abbreviate(units, 16)),
        ("Sampling rate", f"{cohort.sfreq:g} Hz"),
        ("Lengths", f"{lengths.min():.3g} to {lengths.max():.3g} s"),
        ("Missing samples", f"{missing / total:.2%}" if missing else "none"),
        ("Processing", "; ".join(cohort.processing) or "none recorded"),
    ]


def describe_settings(people: People) -> list[tuple[str, str]]:
    """Return the settings of the model, with what was chosen where "auto" was asked."""
    model: Any = people.model
    chosen = {"n_atoms": model.n_atoms_, "atom_length": model.atom_length_,
              "penalty": model.penalty_}  # fmt: skip
    facts = [("model", type(model).__name__)]
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, np.ndarray) or (name == "init" and not isinstance(value, str)):
            text = "given"
        elif name in chosen and value != chosen[name]:
            text = f"{value}: {chosen[name]:g}"
        else:
            text = str(value)
        facts.append((name, text))
    return facts


def describe_versions() -> str:
    """Return the versions of what the numbers come from."""
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def time_of_writing() -> str:
    """Return date and time, to the minute."""
    return datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z").strip()


def find_warnings(people: People) -> list[str]:
    """Return what a reader should know first."""
    found = []
    inactive = np.flatnonzero(~(people.found.n_activations > 0).any(1))
    if len(inactive):
        names = abbreviate([people.cohort.subjects[s] for s in inactive], N_NAMED)
        found.append(f"No cycle was found in {len(inactive)} recording(s): {names}.")
    poor = np.flatnonzero(people.errors > 1)
    if len(poor):
        names = abbreviate([people.cohort.subjects[s] for s in poor], N_NAMED)
        found.append(f"The model explains nothing of {len(poor)} recording(s): {names}.")
    trained = people.model.processing_
    if trained is not None and tuple(trained) != tuple(people.cohort.processing):
        found.append(
            "These recordings were processed otherwise than those of the fit: "
            f"{'; '.join(people.cohort.processing) or 'not at all'}, instead of "
            f"{'; '.join(trained) or 'not at all'}."
        )
    if not isinstance(people.deviation, Deviation):
        found.append(f"There is no deviation index. {people.deviation}")
    if people.metadata is not None and people.metadata.shape[1] > MOST_COLUMNS:
        found.append(
            f"The table shows the first {MOST_COLUMNS} of {people.metadata.shape[1]} columns of "
            "the metadata."
        )
    return found
