"""The shape of the code base: layers, lazy imports, file sizes."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
FILES = sorted(SOURCE.rglob("*.py"))
# The façade names every layer and imports them on first use; all other files belong to one.
FACADE = SOURCE / "percdl" / "__init__.py"

# A layer may import the ones before it, never the ones after.
LAYERS = [
    "exceptions",
    "parameters",
    "signals",
    "transforms",
    "steps",
    "algorithm",
    "runtimes",
    "estimators",
    "analysis",
    "datasets",
    "plotting",
    "report",
    "federated",
    "experiments",
    "cli",
    "__main__",
]
# Data are there before anything is learned from them.
ALLOWED_ONLY = {"datasets": {"exceptions", "parameters", "signals", "transforms"}}
# The names of `percdl` itself that any layer may read; the rest are doors for users.
FACADE_NAMES = {"__version__"}

MAX_LINES = 500
HEAVY = ["jax", "sklearn", "matplotlib", "pandas", "scipy", "dask", "flwr"]


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """Resolve ``from .x import y`` in a module to the name it stands for."""
    if node.level == 0:
        return node.module or ""
    package = module.split(".")
    package = package[: len(package) - node.level + is_package]
    return ".".join([*package, *filter(None, [node.module])])


def imported(tree: ast.AST, module: str, is_package: bool) -> list[tuple[int, str]]:
    """List (line, full name) of all imports, those inside functions included."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, module, is_package)
            found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    return found


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    """List the imports of a module that point up the layers."""
    own = module.split(".")[1]
    below = set(LAYERS[: LAYERS.index(own)]) if own in LAYERS else set()
    allowed = {own} | ALLOWED_ONLY.get(own, below)
    wrong = []
    for line, name in imported(ast.parse(source), module, is_package):
        parts = name.split(".")
        if parts[0] != "percdl":
            continue
        target = parts[1] if len(parts) > 1 else ""
        if target not in allowed | FACADE_NAMES:
            wrong.append(f"{module}, line {line}: imports {name}")
    return wrong


def relative(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", [path for path in FILES if path != FACADE], ids=relative)
def test_imports_point_down(path):
    module = module_name(path)
    assert module.split(".")[1] in LAYERS, f"{module} belongs to no layer: add it to LAYERS"
    wrong = violations(path.read_text(), module, path.name == "__init__.py")
    assert not wrong, "a layer may import earlier layers only:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("percdl.signals.cohort", "from percdl.steps.csc import encode"),
        ("percdl.signals.cohort", "import percdl.cli"),
        ("percdl.steps.csc", "def late():\n    from percdl.estimators import PerCDL"),
        ("percdl.steps.csc", "from ..algorithm import loop"),
        ("percdl.steps.csc", "from .. import runtimes"),
        ("percdl.steps.csc", "from percdl import PerCDL"),
        ("percdl.steps.csc", "import percdl"),
        ("percdl.datasets.gait", "from percdl.estimators import PerCDL"),
    ],
)
def test_upward_arrows_are_seen(module, source):
    assert violations(source, module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("percdl.cli.demo", "from percdl.signals import Cohort"),
        ("percdl.steps.csc", "from .statistics import moments"),
        ("percdl.steps.csc", "from percdl.exceptions import PerCDLError"),
        ("percdl.estimators.persistence", "from percdl import __version__"),
        ("percdl.datasets.synthetic", "from percdl.transforms import TimeWarp"),
        ("percdl.signals.cohort", "import numpy as np"),
    ],
)
def test_downward_arrows_are_allowed(module, source):
    assert not violations(source, module)


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_file_is_one_idea(path):
    n_lines = len(path.read_text().splitlines())
    assert n_lines <= MAX_LINES, f"{n_lines} lines: split before {MAX_LINES}"


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_nothing_is_printed(path):
    lines = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not lines, f"print() on line(s) {lines}: use logging"


def loaded_after(statement: str) -> set[str]:
    """Return the heavy packages a fresh interpreter has loaded after a statement."""
    code = f"import sys\n{statement}\nsys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=SOURCE,
    )
    return set(HEAVY) & set(done.stdout.split())


def test_importing_percdl_is_light():
    assert not loaded_after("import percdl")


def test_signals_do_not_need_the_engine():
    loaded = loaded_after("import percdl; percdl.Cohort, percdl.Recording")
    assert not loaded & {"jax", "sklearn", "matplotlib", "dask", "flwr"}


def test_public_names_are_listed_before_they_are_imported():
    import percdl

    assert set(percdl.__all__) <= set(dir(percdl))


def test_unknown_name_is_an_attribute_error():
    import percdl

    with pytest.raises(AttributeError, match="no attribute 'PerCdl'"):
        _ = percdl.PerCdl
