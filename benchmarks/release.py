"""Try a wheel as a new user would: ``python -m benchmarks.release WHEEL CYCLONEDX``.

The wheel goes into an empty environment in an empty folder, with the extra of the README. The
commands of the README's five minutes run there. The packages of the environment are then
written beside the wheel, as a bill of materials (CycloneDX). Nothing but the standard library
is needed here.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
# Written by the commands of the README, in this order.
RESULTS = ("walks.percdl", "walks.html", "params.csv", "events.csv")
WHERE = "import percdl, pathlib; print(pathlib.Path(percdl.__file__).resolve())"


def commands() -> list[str]:
    """Return the lines for the shell under the README's heading "Five minutes"."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^## Five minutes.*?```sh\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    if block is None:
        raise SystemExit('README.md has no commands under "Five minutes".')
    return [shlex.join(shlex.split(line, comments=True)) for line in block[1].splitlines()]


def run(line: str, folder: Path) -> str:
    """Run a line in a folder, with the environment's programs first, and print both."""
    programs = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    # No clone: neither its folder nor its sources can be imported.
    environment = {**os.environ, "PATH": path, "COLUMNS": "100"}
    environment.pop("PYTHONPATH", None)
    print(f"$ {line}", flush=True)
    answer = subprocess.run(
        line, shell=True, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE
    )
    print(answer.stdout, end="", flush=True)
    if answer.returncode:
        raise SystemExit(f"{line}: exit status {answer.returncode}")
    return answer.stdout


def main(wheel: str, cyclonedx: str) -> None:
    """Install, run, check, and write the bill of materials."""
    file = Path(wheel).resolve()
    with TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        run(f"{shlex.quote(sys.executable)} -m venv env", folder)
        run(f"pip install --quiet '{file}[plot]'", folder)
        if folder not in Path(run(f'python -c "{WHERE}"', folder).strip()).parents:
            raise SystemExit("percdl was not imported from the wheel.")
        run(f"python {shlex.quote(str(ROOT / 'tests' / 'walks.py'))} .", folder)
        for line in commands():
            run(line, folder)
        if missing := [name for name in RESULTS if not (folder / name).is_file()]:
            raise SystemExit(f"The commands of the README did not write {missing}.")
        bill = file.with_name(f"{'-'.join(file.name.split('-')[:2])}.cdx.json")
        subprocess.run(
            [cyclonedx, "environment", folder / "env", "--output-file", bill], check=True
        )
        print(f"{bill.name}: {bill.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(*sys.argv[1:])
