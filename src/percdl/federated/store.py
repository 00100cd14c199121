"""What a site keeps of a run on its own disk: the agreement, its state by round, its log."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from percdl.estimators import container
from percdl.exceptions import FederationError
from percdl.federated.agreement import Agreement
from percdl.federated.keys import check_name
from percdl.signals.contents import Array, ByName, FreeForm, Record, Text
from percdl.signals.files import PRIVATE, append_private, make_private_folder

# A coordinator that was lost may ask again for a round, and once more for the one before.
KEPT_ROUNDS = 3
_STATE = "state/"
_AGREED = Record({"agreement": ByName(FreeForm()), "recordings": Text()})
_ASKED = Record({"question": Text()})


class Store:
    """The folder of one run at one site; every file is written whole or not at all.

    No other account may read the files, nor look into the folder.

    Parameters
    ----------
    folder : Path
        The site's folder for all runs.
    run : str
        Name of the run, a folder in it.
    """

    def __init__(self, folder: Path, run: str):
        self.run = run
        self.folder = folder / check_name("run", run)

    @property
    def keys(self) -> Path:
        """Where the site's key for the run lies."""
        return self.folder / "run.key"

    @property
    def answered(self) -> Path:
        """Where the rounds that were answered are counted."""
        return self.folder / "rounds.answered"

    @property
    def had_keys(self) -> bool:
        """Whether the site has ever had a key for the run."""
        return self.keys.exists() or self._no_keys.exists()

    def forget_keys(self) -> None:
        """Delete the key of a run that is over: from then on nobody can take its masks off."""
        if self.keys.exists():
            self._no_keys.touch(PRIVATE)
            self.keys.unlink()

    def write_agreement(self, agreement: Agreement, recordings: str) -> None:
        """Keep what was agreed on, for good, and the checksum of the recordings of the time."""
        if self._agreement.is_file() and self.read_agreement()[0].digest != agreement.digest:
            raise FederationError(
                f"This site has agreed to other terms of run {self.run}. Give the new run another "
                "name."
            )
        make_private_folder(self.folder)
        content = {"agreement": agreement.to_json(), "recordings": recordings}
        container.write(self._agreement, container.FEDERATION, content, agreement.arrays)

    def read_agreement(self) -> tuple[Agreement, str]:
        """Return the agreement, and the checksum of the recordings."""
        if not self._agreement.is_file():
            raise FederationError(f"This site has not joined run {self.run}.")
        content, arrays = container.read(self._agreement, container.FEDERATION)
        with container.naming(self._agreement, container.FEDERATION):
            _AGREED.check(content, "")
        return Agreement.from_message(content["agreement"], arrays), content["recordings"]

    def write_round(
        self, index: int, question: str, sums: np.ndarray, state: dict[str, np.ndarray]
    ) -> None:
        """Keep the state after a round and what was answered to which question."""
        arrays = {f"{_STATE}{name}": np.ascontiguousarray(x) for name, x in state.items()}
        content = {"question": question}
        arrays["sums"] = sums
        container.write(self._round(index), container.FEDERATION, content, arrays)
        for path in sorted(self.folder.glob("round-*"))[:-KEPT_ROUNDS]:
            path.unlink(missing_ok=True)

    def read_sums(self, index: int, question: str) -> np.ndarray | None:
        """Return what was answered in a round, if it was asked just so."""
        known = self._read_round(index)
        return known[1]["sums"] if known is not None and known[0] == question else None

    def read_state(self, index: int | None) -> dict[str, np.ndarray] | None:
        """Return the state after a round; None where there is none."""
        known = None if index is None else self._read_round(index)
        if known is None:
            return None
        return container.under(_STATE, known[1])

    def log(self, line: dict[str, Any]) -> None:
        """Add a line to the site's own log of what it was asked and has answered."""
        make_private_folder(self.folder)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        text = json.dumps({"time": stamp, **line}) + "\n"
        append_private(self.folder / "log.jsonl", text.encode())

    @property
    def _no_keys(self) -> Path:
        return self.folder / "run.key.deleted"

    @property
    def _agreement(self) -> Path:
        return self.folder / "agreement.percdl"

    def _round(self, index: int) -> Path:
        return self.folder / f"round-{index:06d}.percdl"

    def _read_round(self, index: int) -> tuple[str, dict[str, np.ndarray]] | None:
        """Return a round's question and arrays; a damaged file counts as none."""
        try:
            content, arrays = container.read(self._round(index), container.FEDERATION)
            _ASKED.check(content, "")
            Array("float64 int64 uint64", "n").check(arrays["sums"], "sums", {})
        except (OSError, KeyError, ValueError):
            return None
        return content["question"], arrays
