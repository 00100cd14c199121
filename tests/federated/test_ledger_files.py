"""Files that a site keeps of a run: damage is noticed, and only the site reads them."""

import os
import pickle
import stat

import numpy as np
import pytest
from federation import double, make_cohort, split

from percdl.estimators import container
from percdl.exceptions import FederationError
from percdl.federated.estimator import FederatedPerCDL
from percdl.federated.store import Ledger, Store


def huge(path):
    """Write the header of an array of 8 TB, and nothing after it."""
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
        np.lib.format.write_array_header_1_0(file, header)


def of_code(path):
    np.save(path, np.array([print], dtype=object), allow_pickle=True)


def archive(path):
    with path.open("wb") as file:
        np.savez(file, values=np.arange(3.0))


@pytest.mark.parametrize(
    "damage",
    [
        huge,
        of_code,
        archive,
        lambda path: path.write_bytes(pickle.dumps(np.arange(3.0))),
        lambda path: path.write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8',"),
        lambda path: path.write_bytes(b""),
        lambda path: path.mkdir(),
        lambda path: np.save(path, np.array(["text"])),
    ],
)
def test_a_damaged_release_ends_the_run(damage, tmp_path):
    """Otherwise noise would be drawn again for sums that were released."""
    Ledger(3, tmp_path).release("question", lambda: np.arange(3.0))
    assert len(Ledger(3, tmp_path)) == 1
    damage(tmp_path / "another.npy")
    with pytest.raises(FederationError, match=r"another\.npy is damaged"):
        Ledger(3, tmp_path)


def test_a_forged_agreement_is_refused(tmp_path):
    store = Store(tmp_path, "run")
    store.folder.mkdir()
    path = store.folder / "agreement.percdl"
    container.write(path, container.FEDERATION, {"recordings": "0" * 64}, {})
    with pytest.raises(FederationError, match="not an agreement of percdl"):
        store.read_agreement()


@pytest.fixture
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def rights(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(os.name != "posix", reason="rights of files are those of POSIX")
@pytest.mark.usefixtures("usual_umask")
def test_others_cannot_read_the_files_of_a_run(tmp_path):
    """Sums, states, releases and logs; what was learned lies in a folder that is closed."""
    server, place = tmp_path / "server", tmp_path / "new" / "sites"
    server.mkdir()
    options = {"checkpoint": server / "checkpoint", "audit": server / "audit.jsonl"}
    FederatedPerCDL(double("PopCDL"), **options).fit(split(make_cohort()), folder=place)
    Ledger(3, place / "released").release("question", lambda: np.arange(3.0))
    made = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
    assert {rights(path) for path in made if path.is_dir()} == {0o700}
    results = {"model.percdl", "events.csv"}
    kept = [path for path in made if path.is_file() and path.name not in results]
    kept += server.iterdir()
    assert {rights(path) for path in kept if path.suffix != ".pub"} == {0o600}
    names = {path.name for path in kept}
    assert {"log.jsonl", "agreement.percdl", "question.npy", "audit.jsonl", "checkpoint"} <= names
