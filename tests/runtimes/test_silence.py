"""The programs of Flower tell nobody that they are used."""

import subprocess
import sys

from percdl.runtimes.flower import processes


class Overheard(subprocess.Popen):
    """A program that ends at once; what it was told is kept."""

    environments = ()

    def __init__(self, command, **how):
        Overheard.environments += (how["env"],)
        super().__init__([sys.executable, "-c", ""], **how)


def test_telemetry_and_update_checks_are_off_whatever_the_user_has_set(tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "1")
    monkeypatch.setattr(subprocess, "Popen", Overheard)
    for program in ("superlink", "supernode"):
        with processes.running(program, [], tmp_path):
            pass
    told = Overheard.environments
    assert [one["FLWR_TELEMETRY_ENABLED"] for one in told] == ["0", "0"]
    assert [one["FLWR_DISABLE_UPDATE_CHECK"] for one in told] == ["1", "1"]
