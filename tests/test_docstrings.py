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
# "Cost O(N P)", "Cost per round: O(N P log N)", "Cost: one read of the file".
COST = re.compile(r"\bCost\b(?: \w+)*?(?:: | O\()")
ORDER = re.compile(r"\bO\(((?:[^()]|\([^()]*\))*)\)")
# What docs/api/index.md explains, and functions.
WELL_KNOWN = {"S", "N", "P", "K", "L", "M", "log", "min"}
# Those whose work does not depend on the size of data, or that do next to none.
FREE_OF_COST = {
    "percdl.Algorithm": "holds options",
    "percdl.Huber": "holds an option",
    "percdl.analysis.sensitivity_at": "reads one number off a short table",
    "percdl.estimators.Motif": "names L samples of a recording",
    "percdl.transforms.require": "checks a type",
}
# Of plots, those that compute: the others draw each number they are given once.
COMPUTING_PLOTS = {"percdl.plotting.plot_embedding"}
NOT_RUN = {
    "percdl.DaskRuntime": "starts processes",
    "percdl.datasets.load_ptbxl_balanced": "needs recordings of 1.8 GB",
    "percdl.load_ptbxl": "needs recordings of 1.8 GB",
    "percdl.local_cluster": "starts processes",
}


def public():
    """Return (name, object) of every public name once, and of its public methods."""
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
    """Whether a class is only returned by functions: it lists attributes, not parameters."""
    return dataclasses.is_dataclass(thing) and not written(thing, "Parameters")


def costs_nothing(name, thing):
    """Whether no cost is needed: results and interfaces compute nothing, plots draw."""
    if inspect.isclass(thing):
        holds = is_result(thing) and written(thing, "Attributes")
        return bool(holds) or inspect.isabstract(thing) or name in FREE_OF_COST
    draws = name.startswith("percdl.plotting.") and name not in COMPUTING_PLOTS
    return draws or name in FREE_OF_COST


def prose(thing):
    """Return the docstring in one line."""
    return " ".join((inspect.getdoc(thing) or "").split())


PUBLIC = public()
FUNCTIONS = [(name, thing) for name, thing in PUBLIC if not inspect.isclass(thing)]
CLASSES = [(name, thing) for name, thing in PUBLIC if inspect.isclass(thing)]
COSTLY = [(name, thing) for name, thing in PUBLIC if not costs_nothing(name, thing)]
EVERYTHING = pytest.mark.parametrize(("name", "thing"), PUBLIC, ids=[name for name, _ in PUBLIC])


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


@pytest.mark.parametrize(("name", "thing"), COSTLY, ids=[name for name, _ in COSTLY])
def test_cost_is_told(name, thing):
    assert COST.search(prose(thing)), f'{name}: say what it costs, "Cost O(N P)" or "Cost: ..."'


@EVERYTHING
def test_letters_of_a_cost_are_explained(name, thing):
    """Every letter in O(...) is one of the paper's, or is met outside of it."""
    text = prose(thing)
    orders = ORDER.findall(text)
    assert len(orders) == len(re.findall(r"\bO\(", text)), f"{name}: brackets do not match"
    used = {word for order in orders for word in re.findall(r"[A-Za-z]\w*", order)}
    explained = set(re.findall(r"\w+", ORDER.sub("", text)))
    strange = used - WELL_KNOWN - explained
    assert not strange, f"{name}: what are {', '.join(sorted(strange))}?"


def test_exemptions_are_of_public_names():
    names = {name for name, _ in PUBLIC}
    assert {*FREE_OF_COST, *COMPUTING_PLOTS, *NOT_RUN} <= names


def test_a_cost_is_recognized():
    """What counts as a cost, and what does not."""
    assert COST.search("Cost per round: O(N P log N) for coding.")
    assert COST.search("It is exact. Cost O(n^3) at worst.")
    assert not COST.search("What parameters cost: nothing. Costs are not told.")


@EVERYTHING
def test_examples_run(name, thing):
    """The tests of the documentation run all examples but a few, which say why not."""
    skips = "+SKIP" in (inspect.getdoc(thing) or "")
    assert skips == (name in NOT_RUN), f"{name}: {NOT_RUN.get(name, 'let its example run')}"
