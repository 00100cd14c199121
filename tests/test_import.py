"""Importing the package is cheap: what is heavy is loaded when it is first used."""

import subprocess
import sys

HEAVY = {"jax", "jaxlib", "sklearn", "matplotlib", "pandas", "scipy", "optax", "safetensors"}


def loaded_by(statement):
    """Return the top-level packages that a fresh interpreter has loaded after a statement."""
    code = f"import sys; {statement}; sys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_importing_percdl_loads_nothing_heavy():
    loaded = loaded_by("import percdl; dir(percdl); percdl.__version__")
    assert "percdl" in loaded
    assert not HEAVY & loaded


def test_a_name_is_loaded_when_it_is_used():
    assert "sklearn" in loaded_by("import percdl; percdl.PerCDL")
    assert "jax" in loaded_by("import percdl; percdl.TimeWarp")


def test_a_model_needs_no_engine_before_it_is_fitted():
    made = "percdl.PerCDL(), percdl.PopCDL(), percdl.IndCDL(), percdl.L0Coder(), percdl.L1Coder()"
    assert "jax" not in loaded_by(f"import percdl; {made}")


def test_data_need_no_engine():
    names = "percdl.Cohort, percdl.Recording, percdl.make_synthetic"
    assert not {"jax", "jaxlib", "matplotlib"} & loaded_by(f"import percdl; {names}")


def test_plots_are_not_needed_to_fit():
    loaded = loaded_by("from percdl import PerCDL, PopCDL, IndCDL, load")
    assert not {"matplotlib", "jinja2", "plotly", "dask", "httpx"} & loaded
