"""The host handles recordings in bulk: the number of Python calls hardly grows with a cohort."""

import json
import subprocess
import sys

import host_calls


def test_few_python_calls_per_recording():
    """Counted in a separate process, in which types are not checked at run time."""
    counted = subprocess.run(
        [sys.executable, host_calls.__file__], capture_output=True, check=True
    )
    for method, (python, _) in json.loads(counted.stdout).items():
        assert python <= host_calls.MOST_CALLS, method
