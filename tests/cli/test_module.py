"""``python -m percdl`` is the command line."""

import subprocess
import sys

from percdl import __version__


def test_the_package_runs_as_a_module():
    result = subprocess.run(
        [sys.executable, "-m", "percdl", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == f"percdl {__version__}"
