"""Write the sheet of dependencies, ``docs/soup.md``: ``python docs/make_soup.py``.

Bounds come from ``pyproject.toml`` and versions from ``requirements/dev.lock``; licences, uses and
tests are declared here. Only the standard library is needed.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE / "soup.md"
# Extras that users install; the others are for development, comparison or exchange.
EXTRAS = ("plot", "data", "stats", "distributed", "federated", "studio", "lsl")
# Licence, use, and where an error of the package would be noticed.
ABOUT = {
    "annotated-doc": ("MIT", "texts of parameters", "tests/estimators/test_declaration.py"),
    "annotated-types": ("MIT", "ranges of parameters", "tests/estimators/test_declaration.py"),
    "jax": ("Apache-2.0", "every computation on samples", "tests/steps/test_csc.py"),
    "filelock": ("MIT", "the ledger of a federation", "tests/federated/test_attacks.py"),
    "jaxtyping": ("MIT", "shapes of arrays, checked in tests", "tests/test_docstrings.py"),
    "numpy": (
        "BSD-3-Clause",
        "arrays, sums in double precision",
        "tests/algorithm/test_server.py",
    ),
    "optax": ("Apache-2.0", "Polyak's solver, on request", "tests/steps/test_ipu.py"),
    "pandas": ("BSD-3-Clause", "tables, CSV files", "tests/signals/test_csv.py"),
    "platformdirs": ("MIT", "folders for caches", "tests/datasets/test_downloads.py"),
    "pydantic": ("MIT", "settings, files, messages", "tests/stress/test_fuzz.py"),
    "rich": ("MIT", "progress bars", "tests/estimators/test_progress.py"),
    "safetensors": ("Apache-2.0", "model files", "tests/estimators/test_persistence.py"),
    "scikit-learn": (
        "BSD-3-Clause",
        "interface, classifiers",
        "tests/estimators/test_contract.py",
    ),
    "scipy": ("BSD-3-Clause", "filters, statistics", "tests/signals/test_preprocessing.py"),
    "threadpoolctl": ("BSD-3-Clause", "number of threads", "tests/analysis/test_deviation.py"),
    "typer": ("MIT", "the command line", "tests/cli/test_help.py"),
    "matplotlib": ("PSF-2.0", "pictures", "tests/plotting/test_every_plot.py"),
    "jinja2": ("BSD-3-Clause", "the page of the report", "tests/report/test_report.py"),
    "plotly": ("MIT", "plots of the report", "tests/report/test_report_in_browser.py"),
    "pooch": ("BSD-3-Clause", "downloads, when asked for", "tests/datasets/test_downloads.py"),
    "wfdb": ("MIT", "WFDB files", "tests/signals/test_binary_files.py"),
    "edfio": ("Apache-2.0", "EDF files", "tests/signals/test_binary_files.py"),
    "pyarrow": ("Apache-2.0", "Parquet files", "tests/signals/test_binary_files.py"),
    "mne": ("BSD-3-Clause", "permutation tests along the cycle", "tests/analysis/test_groups.py"),
    "mne-lsl": ("BSD-3-Clause", "streams of devices", "tests/signals/test_growing.py"),
    "dask": ("BSD-3-Clause", "clusters", "tests/runtimes/test_dask_runtime.py"),
    "distributed": ("BSD-3-Clause", "clusters", "tests/runtimes/test_dask_runtime.py"),
    "cryptography": (
        "Apache-2.0 or BSD-3-Clause",
        "keys, signatures, certificates",
        "tests/federated/test_secure.py",
    ),
    "httpx": ("BSD-3-Clause", "a site asks the relay", "tests/federated/test_relay.py"),
    "starlette": ("BSD-3-Clause", "the relay, the studio", "tests/federated/test_relay.py"),
    "uvicorn": ("BSD-3-Clause", "the relay, the studio", "tests/federated/test_relay.py"),
}
TEXT = """\
# Dependency sheet

Software of unknown provenance (SOUP), as IEC 62304 calls it: the packages that PerCDL needs
directly, the oldest version that is allowed, the version that is tested with, and a test that
would notice if the package failed in what PerCDL uses it for. `make dist` writes all packages of
an installation, indirect ones too, as a CycloneDX bill of materials.
[Supply chain](supply_chain.md) says how versions are locked and audited. PerCDL itself is
[not a medical device](intended_use.md).

| package | needed by | at least | locked | licence | used for | noticed by |
|---|---|---|---|---|---|---|
{rows}

This page is written by `docs/make_soup.py`.
"""


def render() -> str:
    """Return the page."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]
    lock = (HERE.parent / "requirements" / "dev.lock").read_text("utf-8")
    needs = [("core", need) for need in project["dependencies"]]
    extras = project["optional-dependencies"]
    needs += [(extra, need) for extra in EXTRAS for need in extras[extra]]
    needs = [(owner, need) for owner, need in needs if not need.startswith("percdl[")]
    rows = {}
    for owner, need in needs:
        name, _, least = need.partition(">=")
        if name in rows:
            rows[name][1] += f", `{owner}`"
            continue
        locked = sorted({*re.findall(rf"^{re.escape(name)}==([^ ]+)", lock, re.MULTILINE)})
        licence, use, test = ABOUT[name]
        cells = [name, f"`{owner}`", least, ", ".join(locked) or "-", licence, use, f"`{test}`"]
        rows[name] = cells
    return TEXT.format(rows="\n".join(f"| {' | '.join(cells)} |" for cells in rows.values()))


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
