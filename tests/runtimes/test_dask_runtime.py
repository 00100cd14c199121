"""A fit over workers is the fit in this process, bit for bit, whatever happens to the workers."""

import os
import signal
import threading
import time
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest
from small_models import assert_same_fit, make, spaced_recordings

from percdl import Cohort, write_shards
from percdl.estimators.checkpoint import fit_with_checkpoints, read_checkpoint
from percdl.exceptions import UnreadableFileError

pytest.importorskip("distributed", reason="needs percdl[distributed]")
# What Dask and its dependencies are warned of is not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")

LENGTHS = (97, 110, 118, 128, 101, 125, 99, 120, 104, 127, 112, 98)


def double(**options):
    return make("PerCDL", dtype="float64", **options)


@pytest.fixture(scope="module")
def cohort():
    return Cohort.from_arrays(spaced_recordings(3, LENGTHS), sfreq=50)


@pytest.fixture
def on_disk(cohort, tmp_path):
    return write_shards(cohort, tmp_path / "cohort", recordings_per_shard=2)


@pytest.fixture(scope="module")
def client():
    from percdl.runtimes.dask import local_cluster

    with local_cluster(2) as client:
        yield client


@pytest.fixture
def runtime(client):
    from percdl.runtimes.dask import DaskRuntime

    client.wait_for_workers(2, timeout=180)
    return DaskRuntime(client)


def kill_when(ready, pid):
    """Kill a process with -9 as soon as ``ready()``; return the thread that does."""

    def wait():
        while not ready():
            time.sleep(0.001)
        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_a_local_cluster_talks_over_tls_with_a_certificate_of_its_own(client):
    distributed = pytest.importorskip("distributed")
    scheduler = client.scheduler.address
    assert all(x.startswith("tls://") for x in (scheduler, *client.scheduler_info()["workers"]))
    client.wait_for_workers(2, timeout=180)
    strangers = {scheduler.replace("tls://", "tcp://"): None}
    strangers[scheduler] = distributed.Security.temporary()
    for address, security in strangers.items():
        with pytest.raises(OSError, match=r"(?i)closed|reset|timed out|tls|ssl"):
            distributed.Client(address, security=security, timeout="3s", set_as_default=False)
    assert len(client.run(os.getpid)) == 2
    # Nor are there pages without TLS.
    known = client.scheduler_info()
    for place in (known, *known["workers"].values()):
        for port in place["services"].values():
            for page in ("info/main/workers.html", "json/counts.json", "metrics", "status"):
                with pytest.raises(HTTPError, match="404"):
                    urlopen(f"http://127.0.0.1:{port}/{page}")


def test_workers_do_not_change_the_result(on_disk, runtime):
    model = double().fit(on_disk, runtime=runtime)
    assert_same_fit(model, double().fit(on_disk))
    assert not list(on_disk.folder.glob("state-*"))


def test_the_loss_of_a_worker_does_not_change_the_result(on_disk, runtime):
    before = set(runtime.client.run(os.getpid).values())
    half_done = "state-*/round-0003/*.state"
    killer = kill_when(lambda: any(on_disk.folder.glob(half_done)), min(before))
    model = double().fit(on_disk, runtime=runtime)
    killer.join(timeout=60)
    runtime.client.wait_for_workers(2, timeout=180)
    assert min(before) not in runtime.client.run(os.getpid).values()
    assert_same_fit(model, double().fit(on_disk))


class Interrupted(Exception):
    """Stands for the loss of the process that leads the fit."""


def test_a_fit_that_has_lost_its_lead_goes_on(on_disk, runtime, tmp_path):
    def report(phase, *told):
        if phase == "personal":
            raise Interrupted

    path = tmp_path / "checkpoint"
    with pytest.raises(Interrupted):
        fit_with_checkpoints(double(), on_disk, path, report=report, runtime=runtime)
    resumed = fit_with_checkpoints(
        double(), on_disk, None, resume=read_checkpoint(path), runtime=runtime
    )
    assert_same_fit(resumed, double().fit(on_disk))


def test_recordings_in_memory_travel_by_disk(cohort, runtime):
    model = double().fit(cohort, runtime=runtime)
    here = double().fit(cohort)
    np.testing.assert_allclose(model.dictionary_, here.dictionary_, atol=1e-9)
    assert model.recordings_ is cohort


def test_an_error_names_the_damaged_shard(on_disk, runtime):
    path = on_disk.shards[1].path
    content = bytearray(path.read_bytes())
    content[-1000] ^= 1
    path.write_bytes(content)
    with pytest.raises(UnreadableFileError, match=r"shard-000001.npy is .*damaged"):
        double().fit(on_disk, runtime=runtime)
    path.unlink()
    with pytest.raises(UnreadableFileError, match=r"shard-000001.npy is missing"):
        double().fit(on_disk, runtime=runtime)
    assert not list(on_disk.folder.glob("state-*"))


def test_malloc_is_told_to_keep_its_memory(runtime):
    from percdl.runtimes.dask import MALLOC

    for environment in runtime.client.run(lambda: dict(os.environ)).values():
        assert {name: environment[name] for name in MALLOC} == {
            name: str(value) for name, value in MALLOC.items()
        }
