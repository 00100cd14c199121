"""A stream against the whole recording: equality of events, lag, speed and memory.

Recordings are pushed in chunks of 0.1 s, with parameters of the person that are known before. The
batch run codes the whole recording with the same personal atoms, in double precision (``find``).
An event is equal if onset and atom are, and the amplitude to 1e-9. The lag is the time of signal
from the end of an event until it was settled; the last events, which the end of the recording
settles, have none. A cycle lasts the person's median time between onsets. An event is there in
time if it is settled or pending, with its final onset, after the last chunk that came within one
cycle and half a second of its end. Beside it: the share that was pending after any chunk until
then; a better code of the samples so far can hide an event again.

Atoms are shorter than the cycle: swings of gait, whole beats (LUDB) and QRS complexes (MIT-BIH).
Settings were chosen on the first eight walks, twelve LUDB records and four MIT-BIH records, of
which none is streamed here. For comparison: an atom as long as the cycle (gait, all "auto"), with
which each decision depends on the next ones. Memory is the size of the pickled stream without its
model, after an hour and after a day of a walk that goes on.
"""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks import Absent
from benchmarks.claims import ludb, mitdb
from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick
from benchmarks.cohorts import present
from percdl import Cohort, L0Coder, PerCDL, PopCDL, Recording, Stream, TimeWarp, load_gait
from percdl.datasets.downloads import find_dataset
from percdl.exceptions import DatasetError

SHARE, BEYOND_CYCLE, LEAST_THERE = 1.0, 0.5, 0.99
LEAST_SPEED, MOST_GROWTH = 10.0, 8192
CHUNK, DAY, HOUR = 0.1, 86_400, 3600
OPTIONS: Any = {"random_state": 0, "progress": False}


class Run(NamedTuple):
    """What was measured on a recording: equal events, of how many; times are in seconds.

    ``there`` says which events are there in time, ``shown`` which were at any time until then;
    ``taken`` is the work for the ``signal``.
    """

    n_equal: int
    n_events: int
    lag: np.ndarray
    cycle: np.ndarray
    there: np.ndarray
    shown: np.ndarray
    signal: float
    taken: float


def claims() -> Iterator[Claim]:
    """Claim equal events, lags below a cycle and half a second, speed and constant memory."""
    model, walks = gait("0.7s")
    cohorts = {"gait": (model, walks), "ludb": beats(), "mitdb": qrs()}
    for name, (fitted, unseen) in cohorts.items():
        yield from judge(name, [follow(fitted, one) for one in unseen])
    whole, walks = gait("auto")
    for claim in judge("gait, atoms as long as a cycle", [follow(whole, x) for x in walks]):
        yield beside(claim.name, claim.figure)
    yield keep_on(model, walks[0])


def judge(name: str, runs: list[Run]) -> Iterator[Claim]:
    """Compare what was measured with the limits."""
    n_equal, n_events = (sum(getattr(run, x) for run in runs) for x in ("n_equal", "n_events"))
    lag, cycle = (np.concatenate([getattr(run, x) for run in runs]) for x in ("lag", "cycle"))
    size = f"{n_events} events of {len(runs)} recordings"
    yield at_least(f"{name}: events equal to batch", n_equal / n_events, SHARE, size)
    median, most = np.median(lag), np.quantile(lag, 0.99)
    detail = f"lag {median:.2f} s, 99 % {most:.2f} s, largest {lag.max():.2f} s; in cycles "
    detail += f"{np.median(lag / cycle):.2f}, 99 % {np.quantile(lag / cycle, 0.99):.2f}"
    beyond = float(np.quantile(lag - cycle, 0.99))
    yield at_most(f"{name}: 99 % of lags beyond a cycle, s", beyond, BEYOND_CYCLE, detail)
    there, shown = (
        float(np.concatenate([getattr(run, x) for run in runs]).mean()) for x in ("there", "shown")
    )
    yield at_least(
        f"{name}: settled or pending a cycle and 0.5 s later", there, LEAST_THERE,
        f"shown at some time until then {shown:.4f}",
    )  # fmt: skip
    speed = sum(run.signal for run in runs) / sum(run.taken for run in runs)
    yield at_least(f"{name}: seconds of signal per second", speed, LEAST_SPEED)


def follow(model: PerCDL, record: Recording) -> Run:
    """Stream a recording, and compare it with the batch run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        params = model.personalize(Cohort([record])).params[0]
        stream = Stream(model, "unseen", params, scaling=None)
        atoms = stream.atoms_
        batch: Any = PopCDL(
            len(atoms), atoms.shape[1], model.penalty_, init=atoms, coder=model.coder,
            dtype="float64", progress=False,
        )  # fmt: skip
        known = batch.find(Cohort([record])).events_
    step, taken = round(CHUNK * record.sfreq), 0.0
    tables, shown = [stream.push(record.values[:step])], []
    for i in range(step, record.n_times, step):
        began = time.perf_counter()
        tables.append(stream.push(record.values[i : i + step]))
        taken += time.perf_counter() - began
        shown.append((stream.n_times / record.sfreq, {*stream.pending["onset_sample"]}))
    last = stream.finish()
    found = pd.concat([*tables, last], ignore_index=True)
    both = known.merge(found, on=["onset_sample", "atom"], suffixes=("", "_live"))
    norm = np.sqrt((atoms**2).sum((1, 2)))[both["atom"]]
    equal = np.isclose(both["amplitude"], both["amplitude_live"] * norm, rtol=1e-9, atol=0)
    lag = found["lag_seconds"].to_numpy()[: len(found) - len(last)]
    length, onset = atoms.shape[1] / record.sfreq, found["onset_seconds"].to_numpy()
    cycle = np.full(len(lag), np.median(np.diff(onset)) if len(onset) > 1 else length)
    end = onset[: len(lag)] + length
    looks = np.array([at for at, _ in shown])
    due = np.searchsorted(looks, end + cycle + BEYOND_CYCLE, side="right")
    settled = lag <= looks[due - 1] - end
    pairs = [*zip(found["onset_sample"], due, strict=False)]
    there = settled | [onset in shown[i - 1][1] for onset, i in pairs]
    ever = there | [any(onset in some for _, some in shown[:i]) for onset, i in pairs]
    n_events = max(len(known), len(found))
    return Run(int(equal.sum()), n_events, lag, cycle, there, ever, record.duration, taken)


def keep_on(model: PerCDL, record: Recording) -> Claim:
    """Repeat a walk for a day, and measure the growth of the stream after the first hour."""
    params = model.personalize(Cohort([record])).params[0]
    stream, sizes = Stream(model, "day", params, scaling=None), {}
    n_seconds = 2 * HOUR if is_quick() else DAY
    values = np.tile(record.values, (round(60 / record.duration) + 1, 1))
    while stream.n_times < n_seconds * record.sfreq:
        stream.push(values)
        sizes[stream.n_times / record.sfreq] = _size(stream)
    later = [size for at, size in sizes.items() if at >= HOUR]
    detail = f"{later[0]} bytes after an hour, {later[-1]} after {n_seconds / HOUR:g}"
    return at_most("memory: growth in a day, bytes", max(later) - later[0], MOST_GROWTH, detail)


def _size(stream: Stream) -> int:
    return len(pickle.dumps({k: v for k, v in vars(stream).items() if k != "model"}))


def gait(length: str) -> tuple[PerCDL, list[Recording]]:
    """Return a model of the first 40 walks, and walks that it has not seen."""
    cohort = present(load_gait).cohort.zscore()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PerCDL(1, length, penalty="auto", **OPTIONS).fit(cohort[:40])
    return model, list(cohort[40 : 42 if is_quick() else 60])


def beats() -> tuple[PerCDL, list[Recording]]:
    """Return a model of whole beats in lead II of 40 records, and records not seen."""
    headers = sorted(_folder("ludb", ludb.with_waves).glob("*.hea"), key=lambda x: int(x.stem))
    raw = Cohort.from_wfdb(headers[: 42 if is_quick() else 60], channels=[ludb.LEAD])
    cohort = raw.bandpass(*ludb.BAND).resample(ludb.SFREQ)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PerCDL(1, ludb.LENGTH, TimeWarp(4, 14), ludb.PENALTY, **OPTIONS).fit(cohort[:40])
    return model, list(cohort[40:])


def qrs() -> tuple[PerCDL, list[Recording]]:
    """Return a model of the first minutes of QRS complexes, and whole records."""
    headers = sorted(_folder("mitdb", mitdb._with_beats).glob("*.hea"))
    raw = mitdb.read_records(headers[6 : 7 if is_quick() else 10])
    cohort = raw.bandpass(*mitdb.BAND).resample(mitdb.SFREQ).zscore()
    n_first = mitdb.MINUTES * 60 * mitdb.SFREQ
    first = Cohort(replace(one, values=one.values[:n_first]) for one in cohort)
    options = OPTIONS | {"coder": L0Coder(signed=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PerCDL(1, "0.28s", TimeWarp(2, 7), penalty=mitdb.PENALTY, **options).fit(first)
    return model, list(cohort)


def _folder(name: str, holds: Any) -> Any:
    try:
        return find_dataset(name, holds, None, None)
    except DatasetError as error:
        raise Absent(str(error)) from error
