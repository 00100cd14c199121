"""Every public name says what it takes, what it returns, and shows a line that runs."""

import dataclasses
import importlib
import inspect
import re

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("numpydoc")

from numpydoc.docscrape import ClassDoc
from numpydoc.validate import validate

MODULES = [
    "percdl",
    "percdl.estimators",
    "percdl.transforms",
    "percdl.analysis",
    "percdl.plotting",
    "percdl.datasets",
]
HEADING = re.compile(r"['\"]\*\*[\w ]+\*\*['\"](, | )?")
ALWAYS = {
    "GL08": "it has no docstring",
    "SS01": "it has no summary",
    "SS03": "its summary does not end with a period",
    "PR02": "it describes parameters that it does not have",
}
# A function: what goes in, what comes out, and a line that runs.
OF_FUNCTIONS = {
    "PR01": "parameters are not described",
    "PR07": "a parameter has a type but no description",
    "RT01": "what it returns is not described",
    "EX01": "it has no example",
}
OF_CLASSES = {name: OF_FUNCTIONS[name] for name in ("PR01", "PR07", "EX01")}


def public():
    """Return (name, thing) of every public name once, and of its own public methods."""
    seen, found = set(), []
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            if name == "__version__" or id(thing) in seen:
                continue
            seen.add(id(thing))
            found.append((f"{module.__name__}.{name}", thing))
    return found


def methods(thing):
    """Return the names of public methods that were written here."""
    return [
        name
        for name in dir(thing)
        if not name.startswith("_")
        and inspect.isroutine(getattr(thing, name))
        and (getattr(getattr(thing, name), "__module__", None) or "").startswith("percdl")
    ]


def complaints(name, checks):
    """Return what numpydoc finds wrong; headings among parameters (`**Problem**`) are ours."""
    found = [(code, HEADING.sub("", text)) for code, text in validate(name)["errors"]]
    nothing = ("Unknown parameters {}", "Parameter has no description")
    return [
        f"{checks[code]} ({text})"
        for code, text in found
        if code in checks and text not in nothing
    ]


def written(thing, section):
    """Return the entries of a section as it stands in the docstring."""
    return ClassDoc(thing, config={"show_class_members": False})[section]


def is_result(thing):
    """Whether a class is what a function returns: it lists attributes, and nobody makes one."""
    return dataclasses.is_dataclass(thing) and not written(thing, "Parameters")


FUNCTIONS = [(name, thing) for name, thing in public() if not inspect.isclass(thing)]
CLASSES = [(name, thing) for name, thing in public() if inspect.isclass(thing)]


@pytest.mark.parametrize("name", [name for name, _ in FUNCTIONS])
def test_function(name):
    wrong = complaints(name, ALWAYS | OF_FUNCTIONS)
    assert not wrong, f"{name}: " + "; ".join(wrong)


@pytest.mark.parametrize(("name", "thing"), CLASSES, ids=[name for name, _ in CLASSES])
def test_class(name, thing):
    checks = ALWAYS if is_result(thing) or inspect.isabstract(thing) else ALWAYS | OF_CLASSES
    wrong = complaints(name, checks)
    assert not wrong, f"{name}: " + "; ".join(wrong)


@pytest.mark.parametrize(("name", "thing"), CLASSES, ids=[name for name, _ in CLASSES])
def test_result_lists_what_it_holds(name, thing):
    if not is_result(thing):
        return
    listed = {
        part.strip() for entry in written(thing, "Attributes") for part in entry.name.split(",")
    }
    fields = {field.name for field in dataclasses.fields(thing) if not field.name.startswith("_")}
    assert fields <= listed, f"{name}: attributes not described: {sorted(fields - listed)}"


@pytest.mark.parametrize(("name", "thing"), CLASSES, ids=[name for name, _ in CLASSES])
def test_methods(name, thing):
    """A sentence may say it all; where parameters are listed, they are those of the signature."""
    wrong = {
        method: found
        for method in methods(thing)
        if (found := complaints(f"{name}.{method}", ALWAYS))
    }
    assert not wrong, f"{name}: {wrong}"
