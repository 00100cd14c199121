"""Tables of a model: the kind of every event, one row per person, and their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import softmax
from scipy.stats import norm

from percdl.estimators.personalization import Personalization, errors_of
from percdl.exceptions import InvalidParameterError
from percdl.signals import AnyCohort, Cohort
from percdl.signals.events import event_lengths
from percdl.signals.reconstruction import level as without_baseline
from percdl.signals.reconstruction import read_dilated
from percdl.steps.kinds import detrend, free_variance
from percdl.steps.period import NORMAL_MAD

if TYPE_CHECKING:
    from percdl.estimators.described import Described

OTHER = "other"
# How far the alternatives of an event may be shifted, as a share of the atom.
NEAR = 0.125
# An uncoded window counts as a pattern if it holds this share of the energy of a usual event.
LIKE_AN_EVENT = 0.5
# Two activations are back to back if there is no room for more than this share of the atom.
BACK_TO_BACK = 0.02


def check_names(names: Any, n_atoms: int) -> tuple[str, ...]:
    """Return names of all atoms: those given, by position or in order, and "atom0", ..."""
    given = names if isinstance(names, dict) else dict(enumerate(names))
    own = {k: f"atom{k}" for k in range(n_atoms)} | given
    if len(own) > n_atoms or len({*own.values()}) < n_atoms or {"", OTHER} & {*own.values()}:
        raise InvalidParameterError(
            f"`name_atoms({names!r})`: the model has {n_atoms} atom(s). Give different names, "
            f'none of them empty or "{OTHER}", which is for events of no kind.'
        )
    return tuple(str(own[k]) for k in range(n_atoms))


def describe_kinds(
    found: Personalization, cohort: AnyCohort, names: Sequence[str], level: float
) -> pd.DataFrame:
    """Return the kind of each event, and patterns of unknown kind (see `PerCDL.kinds`)."""
    frames = []
    for i, recording in enumerate(cohort):
        values = np.asarray(recording.values, float)
        rows: Any = found.events.iloc[found.rows_of[i]]
        if not len(rows):
            continue
        atoms = found.atoms_of(np.array([i]))[0]
        own = _sort_events(values, rows, atoms, found.n_terms, names, level)
        others = _find_others(values, own, atoms, cohort.sfreq)
        both = pd.concat([own, others]) if len(others) else own
        frames.append(both.sort_values("onset_sample", kind="stable"))
    empty = found.events[:0].assign(kind="", kind_probability=0.0, residual=0.0)
    table: Any = pd.concat(frames, ignore_index=True) if frames else empty
    first = ["subject", "kind", "kind_probability", "residual"]
    return table[first + [name for name in table if name not in first]]


def _sort_events(
    values: np.ndarray,
    rows: pd.DataFrame,
    atoms: np.ndarray,
    n_terms: int,
    names: Sequence[str],
    level: float,
) -> pd.DataFrame:
    """Return the events of a person with kind, probability and residual."""
    length = atoms.shape[1]
    present = np.flatnonzero(np.isfinite(atoms).all((1, 2)))
    flat = without_baseline(atoms[present], n_terms).reshape(len(present), -1)
    flat = flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-300)
    windows = _cut_windows(values, rows, length, n_terms)
    products = np.einsum("esl,kl->eks", windows, flat, optimize=True)
    signed = bool((rows["amplitude"] < 0).any())
    gains = (np.abs(products) if signed else np.maximum(products, 0)).max(2) ** 2
    own = np.searchsorted(present, rows["atom"].to_numpy(int))
    pick, unmoved = np.arange(len(rows)), windows.shape[1] // 2
    middle = windows[:, unmoved]
    energy = (middle**2).sum(1)
    left = middle - products[pick, own, unmoved][:, None] * flat[own]
    error = (left**2).sum(1)
    scale = free_variance(left, error)
    share = np.bincount(own, minlength=len(present)) / len(rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = softmax(np.log(share) + gains / (2 * scale), axis=1)[pick, own]
        noise = np.log(error)
        away = noise - np.median(noise)
        usual = max(np.median(np.abs(away)) / NORMAL_MAD, 1e-12)
        odd = norm.sf(away / usual) < level
        residual = error / energy
    kind = np.where(odd, OTHER, np.asarray(names, object)[rows["atom"].to_numpy(int)])
    return rows.assign(kind=kind, kind_probability=chance, residual=residual)


def _cut_windows(values: np.ndarray, rows: pd.DataFrame, length: int, n_terms: int) -> np.ndarray:
    """Return the window of each event on the grid of the atom, at all shifts: (E, shifts, L P)."""
    reach = round(NEAR * length)
    padded = np.nan_to_num(np.pad(values, ((reach, 2 * reach), (0, 0))))
    cuts = []
    for onset, n in zip(rows["onset_sample"], event_lengths(rows, length), strict=True):
        wide = padded[onset : onset + n + 2 * reach]
        wide = np.pad(wide, ((0, n + 2 * reach - len(wide)), (0, 0)))
        moved = np.lib.stride_tricks.sliding_window_view(wide, n, axis=0)
        cuts.append(np.einsum("ln,spn->slp", read_dilated(int(n), length), moved))
    stacked = without_baseline(np.stack(cuts), n_terms)
    return stacked.reshape(*stacked.shape[:2], -1)


def _find_others(
    values: np.ndarray, rows: pd.DataFrame, atoms: np.ndarray, sfreq: float
) -> pd.DataFrame:
    """Return the windows without an event that hold as much energy as one."""
    length, there = atoms.shape[1], np.zeros(len(values), bool)
    for onset, n in zip(rows["onset_sample"], event_lengths(rows, length), strict=True):
        there[onset : onset + n] = True
    rest = np.nan_to_num(values)
    if not there.all():  # a line replaces each event, so that an offset leaves no edges
        time = np.arange(len(values))
        for channel in rest.T:
            channel[there] = np.interp(time[there], time[~there], channel[~there])
    size = (np.nan_to_num(atoms) ** 2).sum((1, 2))[rows["atom"].to_numpy(int)]
    usual = float(np.median(rows["amplitude"].to_numpy() ** 2 * size))
    step = max(1, length // 8)
    starts = np.arange(0, max(len(rest) - length + 1, 0), step)
    windows = rest[starts[:, None] + np.arange(length)] if len(starts) else np.zeros((0, 2, 1))
    energy = (detrend(windows) ** 2).sum((1, 2))
    for onset in rows.loc[rows["kind"] == OTHER, "onset_sample"]:  # of the same pattern
        energy[np.abs(starts - onset) < 1.5 * length] = 0
    onsets = []
    while len(energy) and energy.max() >= LIKE_AN_EVENT * usual > 0:
        best = int(energy.argmax())
        onsets.append(int(starts[best]))
        energy[np.abs(starts - starts[best]) < length] = 0
    onset = np.sort(np.asarray(onsets, int))
    table = pd.DataFrame({"onset_sample": onset, "onset_seconds": onset / sfreq})
    unknown = {"amplitude": np.nan, "kind": OTHER, "kind_probability": np.nan, "residual": 1.0}
    return table.assign(subject=rows["subject"].iloc[0], atom=-1, **unknown)


def describe_people(
    found: Personalization, cohort: AnyCohort, names: Sequence[str]
) -> pd.DataFrame:
    """Return one row per person (see `PerCDL.people`)."""
    amplitude: Any = found.events["amplitude"]
    size = np.sqrt(np.asarray(cohort.power, float))
    signs = np.sign(amplitude).groupby(found.positions).sum()
    table = pd.DataFrame(
        {
            "subject": list(found.subjects),
            "scale": size / np.nanmedian(size),
            "polarity": (1.0 - 2.0 * (signs < 0)).reindex(range(len(size))),
            "constant_channels": _constant(cohort),
            "explained": 1 - errors_of(cohort, found),
            "back_to_back": _back_to_back(found).reindex(range(len(size))),
        }
    )
    for k, name in enumerate(names):
        own = found.events["atom"] == k
        table[f"n_{name}"] = found.n_activations[:, k]
        table[f"amplitude_{name}"] = amplitude[own].abs().groupby(found.positions[own]).median()
    if found.suspects is not None:
        said: Any = found.suspects.groupby("subject")["message"]
        remarks = {subject: "; ".join(own) for subject, own in said}
        table["remarks"] = [remarks.get(subject, "") for subject in found.subjects]
    return table


def _constant(cohort: AnyCohort) -> list[str]:
    """Return the names of the constant channels of each recording in memory."""
    if not isinstance(cohort, Cohort):
        return [""] * len(cohort)
    names = np.asarray(cohort.channels, object)
    return [", ".join(names[own]) for own in np.asarray(cohort.constant)]


def _back_to_back(found: Personalization) -> pd.Series:
    """Return the share of each person's activations that end where the next begins."""
    length, onset = found.dictionary.shape[1], found.events["onset_sample"].to_numpy()
    end = onset + event_lengths(found.events, length)
    table = pd.DataFrame({"who": found.positions, "onset": onset, "end": end})
    table = table.sort_values(["who", "onset"], kind="stable")
    room = (table.groupby("who")["onset"].shift(-1) - table["end"]).dropna()
    return (room <= BACK_TO_BACK * length).groupby(table["who"]).mean()


def describe_parameters(model: Described, found: Personalization) -> pd.DataFrame:
    """Return one row per person and atom (see `PerCDL.parameters`)."""
    length, n_people, frames = model.atom_length_, len(found.subjects), []
    for k, clock in enumerate(found.clocks(model.sfreq_)):
        own: Any = found.events[found.events["atom"] == k]
        usual: Any = own["amplitude"].abs().groupby(own["subject"]).median()
        columns = {
            "subject": list(found.subjects),
            "atom": k,
            "activations": found.n_activations[:, k],
            "amplitude": usual.reindex(found.subjects).to_numpy(),
        }
        numbers = found.transform.describe(found.params[:, k], length, model.channels_, clock)
        frames.append(pd.DataFrame(columns | numbers))
    by_person = np.arange(n_people * len(frames)).reshape(-1, n_people).T.ravel()
    return pd.concat(frames, ignore_index=True).iloc[by_person].reset_index(drop=True)
