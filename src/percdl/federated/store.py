"""Files that a site keeps of a run: agreement, state by round, log, and released noisy sums."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from percdl.estimators import container
from percdl.exceptions import FederationError
from percdl.federated.agreement import Agreement
from percdl.federated.identities import Claims
from percdl.federated.messages import check_name
from percdl.signals.files import PRIVATE, append_private, make_private_folder, replacing

# A coordinator that crashed may ask again for the last round and for the one before.
KEPT_ROUNDS = 3
_STATE = "state/"


class Store:
    """Folder of one run at one site, private to this account; files are replaced atomically."""

    def __init__(self, folder: Path, run: str):
        self.run = run
        self.folder = folder / check_name("run", run)
        self.keys = self.folder / "run.key"
        self._keys_deleted = self.folder / "run.key.deleted"
        self._agreement = self.folder / "agreement.percdl"
        self._round = f"{self.folder}/round-{{:06d}}.percdl"

    @property
    def had_keys(self) -> bool:
        """Whether the site has ever had a key for the run."""
        return self.keys.exists() or self._keys_deleted.exists()

    def forget_keys(self) -> None:
        """Delete the key of a run that is over: its masks can no longer be computed."""
        if self.keys.exists():
            self._keys_deleted.touch(PRIVATE)
            self.keys.unlink()

    def write_agreement(self, agreement: Agreement, recordings: str) -> None:
        """Keep the agreement and the checksum of the recordings; refuse another agreement."""
        if self._agreement.is_file() and self.read_agreement()[0].digest != agreement.digest:
            raise FederationError(
                f"This site has agreed to other terms of run {self.run}. Give the new run another "
                "name."
            )
        make_private_folder(self.folder)
        content = {"agreement": agreement.model_dump(), "recordings": recordings}
        container.write(self._agreement, container.FEDERATION, content, agreement.arrays)

    def read_agreement(self) -> tuple[Agreement, str]:
        """Return the agreement, and the checksum of the recordings."""
        if not self._agreement.is_file():
            raise FederationError(f"This site has not joined run {self.run}.")
        content, arrays = container.read(self._agreement, container.FEDERATION)
        return Agreement.from_message(content.get("agreement"), arrays), content["recordings"]

    def spend_round(self, n_agreed: int, kind: str, index: int, question: str) -> None:
        """Record a round before it is answered; raise if it is one more than agreed.

        The same question may be repeated in the same round, after a fault or when a run is
        resumed. Another question, or the same one in another round, counts.
        """
        claims = Claims(self.folder / "rounds.answered")
        if claims.claim(f"{index}-{question}", kind, most=n_agreed) != kind:
            raise FederationError(
                f"The agreed number of rounds of kind {kind!r} in this run is {n_agreed}, and "
                f"this site has answered all of them: round {index} would be one more. Nothing "
                "is sent. Start a new run, with more rounds if they are needed."
            )

    def write_round(
        self, index: int, question: str, sums: np.ndarray, state: dict[str, np.ndarray]
    ) -> None:
        """Keep the state after a round, and the answer to its question."""
        arrays = {"sums": sums, **container.prefixed(_STATE, state)}
        arrays = {name: np.ascontiguousarray(x) for name, x in arrays.items()}
        path = self._round.format(index)
        container.write(path, container.FEDERATION, {"question": question}, arrays)
        for path in sorted(self.folder.glob("round-*"))[:-KEPT_ROUNDS]:
            path.unlink(missing_ok=True)

    def read_sums(self, index: int, question: str) -> np.ndarray | None:
        """Return the answer of a round if the question was the same."""
        known, arrays = self._read_round(index)
        return arrays["sums"] if known == question else None

    def read_state(self, index: int | None) -> dict[str, np.ndarray]:
        """Return the state after a round, empty if it is not kept."""
        return container.under(_STATE, self._read_round(index)[1])

    def log(self, line: dict[str, Any]) -> None:
        """Add a line to the site's own log of requests and answers."""
        make_private_folder(self.folder)
        append_private(self.folder / "log.jsonl", stamped(line))

    def _read_round(self, index: int | None) -> tuple[str | None, dict[str, np.ndarray]]:
        """Return question and arrays of a round; a damaged file counts as missing."""
        try:
            content, arrays = container.read(self._round.format(index), container.FEDERATION)
            return content["question"], arrays
        except (OSError, KeyError, TypeError, ValueError):
            return None, {}


class Ledger:
    """Noisy sums that were released, by question.

    The same question gets the same answer, at no cost. Another question, even for the same round,
    is another release. At most ``n_releases`` are made. A private ``folder`` keeps them over
    restarts; by default they are kept in memory.
    """

    def __init__(self, n_releases: int, folder: str | Path | None = None):
        self.n_releases = n_releases
        self._folder = None if folder is None else Path(folder)
        self._released: dict[str, np.ndarray] = {}
        if self._folder is None:
            return
        make_private_folder(self._folder)
        for path in sorted(self._folder.glob("*.npy")):
            try:
                values = np.load(path, allow_pickle=False).astype(float, casting="no")
            except Exception as error:  # NumPy raises many types for a malformed header
                raise FederationError(
                    f"{path} is damaged ({error}), so this site does not know what it has "
                    "released. Nothing is sent. Restore the file, or start a new run."
                ) from error
            self._released[path.stem] = values.reshape(-1)

    def __len__(self) -> int:
        return len(self._released)

    def release(self, question: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the answer to a question; a new one is made and kept before it is given."""
        if question in self._released:
            return self._released[question]
        if len(self) >= self.n_releases:
            raise FederationError(
                f"All {self.n_releases} agreed releases are spent: one more would break the "
                "guarantee of differential privacy. Nothing is sent. Agree on more rounds or a "
                "larger epsilon, and start a new run."
            )
        answer = make()
        if self._folder is not None:
            with replacing(self._folder / f"{question}.npy", mode=PRIVATE) as file:
                np.save(file, answer, allow_pickle=False)
        self._released[question] = answer
        return answer


def stamped(line: dict[str, Any]) -> bytes:
    """Return a line of JSON with the time in front."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return (json.dumps({"time": stamp, **line}) + "\n").encode()
