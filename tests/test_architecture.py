"""The shape of the code base: layers, lazy imports, file sizes."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

SOURCE = Path(__file__).resolve().parents[1] / "src"
FILES = sorted(SOURCE.rglob("*.py"))
# The façade names every layer and imports them on first use; all other files belong to one.
FACADE = SOURCE / "percdl" / "__init__.py"

# A layer may import the ones before it, never the ones after.
LAYERS = [
    "registry",
    "exceptions",
    "parameters",
    "seeds",
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
    "studio",
    "federated",
    "experiments",
    "cli",
    "__main__",
]
# Data are there before anything is learned from them.
ALLOWED_ONLY = {"datasets": {"exceptions", "parameters", "seeds", "signals", "transforms"}}
# The names of `percdl` itself that any layer may read; the rest are doors for users. The command
# line is a user.
FACADE_NAMES = {"__version__"}
USERS = {"cli"}

MAX_LINES = 500
HEAVY = ["jax", "sklearn", "matplotlib", "pandas", "scipy", "dask", "httpx"]


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
        if target not in allowed | FACADE_NAMES and not (own in USERS and name == "percdl"):
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
        ("percdl.cli.demo", "import percdl"),
        ("percdl.steps.csc", "from .statistics import moments"),
        ("percdl.steps.csc", "from percdl.exceptions import PerCDLError"),
        ("percdl.estimators.modelfile", "from percdl import __version__"),
        ("percdl.datasets.synthetic", "from percdl.transforms import TimeWarp"),
        ("percdl.signals.cohort", "import numpy as np"),
    ],
)
def test_downward_arrows_are_allowed(module, source):
    assert not violations(source, module)


def run_time_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes, except imports that only a type checker sees."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from run_time_nodes(child)


def run_time_imports(source: str, module: str, is_package: bool, modules: set[str]) -> set[str]:
    """Return the modules imported anywhere: in functions and by strings too.

    For ``import_module(f"percdl.x.{name}")``: the modules of ``percdl.x`` that the file names.
    """
    found, texts, starts = set(), set(), set()
    for node in run_time_nodes(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, module, is_package)
            names = (f"{base}.{alias.name}" for alias in node.names)
            found |= {name if name in modules else base for name in names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found |= {value.value for value in node.args if isinstance(value, ast.Constant)}
            starts |= {v.values[0].value for v in node.args if isinstance(v, ast.JoinedStr)}
    found |= {start + text for start in starts for text in texts}
    return (found & modules) - {module}


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or not."""
    names = sorted(imports)
    linked = np.array([[other in imports[name] for other in names] for name in names])
    _, group = connected_components(csr_array(linked), connection="strong")
    members = [[names[i] for i in np.flatnonzero(group == g)] for g in np.unique(group)]
    return [found for found in members if len(found) > 1]


def all_imports() -> dict[str, set[str]]:
    """Return what each module imports at run time; the façade is above all and left out."""
    paths = {module_name(path): path for path in FILES if path != FACADE}
    return {
        name: run_time_imports(path.read_text(), name, path.name == "__init__.py", set(paths))
        for name, path in paths.items()
    }


def test_no_modules_import_each_other():
    assert list(circles(all_imports())) == []


def test_run_time_imports_point_down():
    """Strings too: `import_module("percdl.report.cohort")` is an import."""
    rank = {layer: index for index, layer in enumerate(LAYERS)}
    upward = [
        f"{name} imports {other}"
        for name, others in all_imports().items()
        for other in others
        if rank[other.split(".")[1]] > rank[name.split(".")[1]]
    ]
    assert upward == []


@pytest.mark.parametrize(
    "source",
    [
        "from percdl.b import x",
        "from . import b",
        "def late():\n    import percdl.b",
        "def late():\n    return import_module('percdl.b').x",
        "NAMES = ['b']\ndef late(name):\n    return import_module(f'percdl.{name}')",
    ],
)
def test_circles_are_seen(source):
    modules = {"percdl.a", "percdl.b"}
    back = run_time_imports("from percdl import a", "percdl.b", False, modules)
    there = run_time_imports(source, "percdl.a", False, modules)
    assert circles({"percdl.a": there, "percdl.b": back}) == [["percdl.a", "percdl.b"]]


def test_imports_of_type_checkers_make_no_circle():
    source = "if TYPE_CHECKING:\n    from percdl.b import x"
    assert not run_time_imports(source, "percdl.a", False, {"percdl.a", "percdl.b"})


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
    assert not loaded & {"jax", "sklearn", "matplotlib", "dask", "httpx"}


def test_public_names_are_listed_before_they_are_imported():
    import percdl

    assert set(percdl.__all__) <= set(dir(percdl))


def test_unknown_name_is_an_attribute_error():
    import percdl

    with pytest.raises(AttributeError, match="no attribute 'PerCdl'"):
        _ = percdl.PerCdl
