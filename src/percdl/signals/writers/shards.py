"""A cohort of any size as a folder of shards, written as the recordings come."""

import json
import zipfile
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.signals.cohort import Cohort
from percdl.signals.measured import measure
from percdl.signals.readers.shard import ABOUT, SHARED, VALUES
from percdl.signals.recording import Recording, abbreviate
from percdl.signals.shards import CHECKSUM, INDEX, SCHEMA, ShardedCohort, digest_of
from percdl.signals.writers.files import replace_file, replacing
from percdl.signals.writers.leftovers import sweep_parts


def write_shards(
    recordings: Iterable[Recording],
    folder: str | PathLike[str],
    *,
    recordings_per_shard: int = 1024,
    megabytes_per_shard: float = 64.0,
) -> ShardedCohort:
    """Write recordings to a folder of shards, for fits that never hold all of them in memory.

    Recordings are taken one by one, so that a generator may make them; memory holds one shard.
    The index is written last: a folder without one was not finished, and may be written to
    again. Cost O(S N P).

    Parameters
    ----------
    recordings : Cohort or iterable of Recording
        They share channels, units, sampling rate and processing.
    folder : path
        Made if it does not exist; one that holds a cohort already is refused.
    recordings_per_shard : int, default=1024
        Most recordings in a shard.
    megabytes_per_shard : float, default=64
        A shard is closed, too, when its samples take as much.

    Returns
    -------
    ShardedCohort

    Examples
    --------
    >>> import tempfile
    >>> walks = Cohort.from_arrays(np.random.default_rng(0).normal(size=(5, 40)), sfreq=100)
    >>> write_shards(walks, tempfile.mkdtemp(), recordings_per_shard=2)
    ShardedCohort(5 recordings in 3 shards, 1 channel (ch0), 100 Hz, 40 samples)
    """
    if recordings_per_shard < 1 or not megabytes_per_shard > 0:
        raise InvalidParameterError(
            f"`recordings_per_shard={recordings_per_shard}` must be at least 1, and "
            f"`megabytes_per_shard={megabytes_per_shard}` above 0."
        )
    folder = Path(folder).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / INDEX).exists():
        raise InvalidParameterError(
            f"{folder} holds a cohort already. Write to another folder, or delete this one."
        )
    sweep_parts(folder)
    shards: list[dict[str, Any]] = []
    columns: dict[str, list[Any]] = {}
    shared, seen = None, set()
    batches = _batches(recordings, recordings_per_shard, megabytes_per_shard * 2**20)
    for index, batch in enumerate(batches):
        shared = _agree(shared, batch)
        _refuse_repeated(seen, batch)
        shards.append(_write_shard(folder / f"shard-{index:06d}.npz", batch, shared))
        for name, values in _measure(batch).items():
            columns.setdefault(name, []).extend(values)
    if shared is None:
        raise InvalidRecordingError("No recording was given, so there is nothing to write.")
    content = {"schema": SCHEMA, **shared, "shards": shards, "recordings": columns}
    content[CHECKSUM] = digest_of(json.loads(json.dumps(content)))
    replace_file(folder / INDEX, json.dumps(content).encode())
    for path in set(folder.glob(f"shard-{'[0-9]' * 6}.npz")) - {
        folder / s["file"] for s in shards
    }:
        path.unlink()  # of an earlier attempt that was not finished
    return ShardedCohort.open(folder)


def _batches(
    recordings: Iterable[Recording], most: int, most_bytes: float
) -> Iterator[list[Recording]]:
    """Yield the recordings of each shard."""
    batch, size = [], 0
    for recording in recordings:
        if batch and (len(batch) == most or size + recording.values.nbytes > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(recording)
        size += recording.values.nbytes
    if batch:
        yield batch


def _agree(shared: dict[str, Any] | None, batch: list[Recording]) -> dict[str, Any]:
    """Return what all recordings share; raise where these differ from those before."""
    cohort = Cohort(batch)  # which checks that they agree with one another
    own = {name: getattr(cohort, name) for name in SHARED}
    for name, before in (shared or {}).items():
        if own[name] != before:
            raise InvalidRecordingError(
                f"Recordings from subject {batch[0].subject!r} on have {name} {own[name]!r}, "
                f"those before {before!r}. All recordings of a cohort share them."
            )
    return own


def _refuse_repeated(seen: set[str | None], batch: list[Recording]) -> None:
    """Raise where a subject came before; then count these as seen."""
    own = {recording.subject for recording in batch}
    if repeated := sorted(str(subject) for subject in seen & own):
        raise InvalidRecordingError(
            f"Subject id(s) used more than once: {abbreviate(repeated)}. A cohort has one "
            f"recording per id; tell trials apart, e.g. '{repeated[0]}-trial2'."
        )
    seen |= own


def _write_shard(path: Path, batch: list[Recording], shared: dict[str, Any]) -> dict[str, Any]:
    """Write a shard; return what the index says of it."""
    about = {
        **shared,
        "subjects": [recording.subject for recording in batch],
        "groups": [recording.group for recording in batch],
        "lengths": [recording.n_times for recording in batch],
    }
    values = np.concatenate([recording.values for recording in batch])
    arrays: dict[str, Any] = {ABOUT: np.array(json.dumps(about)), VALUES: values}
    with replacing(path, tidy=False) as file:
        np.savez(file, **arrays)
    with zipfile.ZipFile(path) as archive:
        checksum = archive.getinfo(f"{VALUES}.npy").CRC
    size = path.stat().st_size
    return {"file": path.name, "count": len(batch), "bytes": size, "checksum": checksum}


def _measure(batch: list[Recording]) -> dict[str, list[Any]]:
    """Return what a fit will ask of each recording."""
    found = measure([recording.values for recording in batch])
    return {
        "subject": [recording.subject for recording in batch],
        "group": [recording.group for recording in batch],
        "length": [recording.n_times for recording in batch],
        "power": found.power.tolist(),
        "masks": found.masks.tolist(),
        "empty": found.is_empty.tolist(),
        "flat": np.asarray(found.is_constant.all(1)).tolist(),
    }
