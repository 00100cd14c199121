"""What a checkpoint holds, and how it hangs together; what depends on recordings comes later."""

from __future__ import annotations

from typing import Any

import numpy as np

from percdl.algorithm.history import StopReason
from percdl.algorithm.shapes import broadcast_shapes
from percdl.estimators.base import BaseCDL
from percdl.estimators.model_contents import (
    MODEL_NAMES,
    PARAMETERS,
    are_counted,
    arrays_of,
    check_atoms,
)
from percdl.estimators.restarts import count_rounds, count_runs
from percdl.signals import AnyCohort
from percdl.signals.contents import (
    Array,
    ByName,
    Choice,
    FreeForm,
    Kind,
    Many,
    Number,
    Record,
    Row,
    Text,
    Whole,
    check_arrays,
    check_names,
    maybe,
)

_PHASE = Choice(("population", "personal", "final"))
_STEP = Choice(("CSC", "CDU", "IPU", "PerCDU", "centering"))
HISTORY = Many(Row((_PHASE, Whole(), _STEP, Number(), Number(0))), least=1)
REASON = Choice(tuple(reason.value for reason in StopReason))
END = Record({"objective": Number(), "reason": REASON, "history": HISTORY})
STANDING: dict[str, Kind] = {
    "population": Whole(),
    "personal": Whole(),
    "reason": REASON,
    "history": HISTORY,
}
SHA256 = Text("[0-9a-f]{64}")
CONTENT = Record(
    {
        **STANDING,
        "restart": Whole(),
        "draws": Row((Whole(0, 624), Whole(0, 1), Number())),
        "best": maybe(END),
        "version": Text(),
        "model": MODEL_NAMES,
        "parameters": PARAMETERS,
        "chosen": Row((Whole(1), Whole(3), Number(0), maybe(Number(0)))),
        "cohort": SHA256,
        "settings": maybe(ByName(FreeForm())),
    }
)
_REAL, _INTEGER = "float64 float32", "int64 int32"
BROADCAST = {"broadcast/dictionary": Array(_REAL, "K L P")}
MORE_BROADCAST = {
    "broadcast/move": Array(_INTEGER, "K"),
    "broadcast/gauge": Array(_REAL, "K C L"),
    "broadcast/mixing_gauge": Array(_REAL, "K G"),
    "broadcast/misfit": Array(_REAL, "K", least=0),
}
_DRAWS = {"draws": Array("uint32", "624")}
_BEST = {
    "best/dictionary": Array(_REAL, "K L P"),
    "best/results/params": Array("float64", "S K M"),
    "best/results/counts": Array(_INTEGER, "S K", least=0),
    "best/results/subject": Array(_INTEGER, "E", least=0),
    "best/results/onset": Array(_INTEGER, "E", least=0),
    "best/results/atom": Array(_INTEGER, "E", least=0),
    "best/results/amplitude": Array("float64", "E"),
}
# Early checkpoints come without it.
_MORE_BEST = {"best/results/error": Array("float64", "S", least=0, gaps=True)}
SITE = "site/"
#: Where the state of subjects is on disk, see `percdl.runtimes.states`.
_ON_DISK = {"site/folder": Array("uint8", "n"), "site/round": Array("int64", "1", least=1)}


def check_checkpoint(
    content: dict[str, Any], arrays: dict[str, np.ndarray], model: BaseCDL
) -> None:
    """Raise `ValueError` where a fit could not have been like this between two rounds.

    ``content`` has been checked by `CONTENT`, and ``model`` made of its arguments. The arrays of
    subjects in memory are checked when they meet the recordings, see `restore_site`.
    """
    required = BROADCAST | _DRAWS | arrays_of(content["parameters"])
    required |= {} if content["best"] is None else _BEST
    more = MORE_BROADCAST | ({} if content["best"] is None else _MORE_BEST)
    of_site = {name: x for name, x in arrays.items() if name.startswith(SITE)}
    if of_site.keys() & _ON_DISK.keys():
        check_arrays(of_site, _ON_DISK)
    rest = {name: x for name, x in arrays.items() if name not in of_site}
    check_names(rest, required, more, "")
    sizes = dict(zip("KL", content["chosen"], strict=False))
    Array(_REAL, "K L P").check(arrays["broadcast/dictionary"], "broadcast/dictionary", sizes)
    sizes |= broadcast_sizes(model, sizes["L"], sizes["P"])
    check_arrays(rest, required, more, sizes)
    check_atoms("broadcast/dictionary", arrays["broadcast/dictionary"])
    _check_at_most("population", content["population"], count_rounds(model))
    _check_at_most("personal", content["personal"], count_rounds(model))
    _check_at_most("restart", content["restart"], count_runs(model) - 1)
    if content["best"] is not None:
        check_atoms("best/dictionary", arrays["best/dictionary"])
        _check_results(arrays, sizes)


def check_against(cohort: AnyCohort, arrays: dict[str, np.ndarray]) -> None:
    """Raise where the atoms, or the best run so far, are of other recordings."""
    if arrays["broadcast/dictionary"].shape[2] != cohort.n_channels:
        raise ValueError("`broadcast/dictionary` is of other channels")
    if "best/results/counts" not in arrays:
        return
    lengths = cohort.lengths
    subject, onset = arrays["best/results/subject"], arrays["best/results/onset"]
    if len(arrays["best/results/counts"]) != len(lengths) or (onset >= lengths[subject]).any():
        raise ValueError("`best/results` is of other recordings")


def broadcast_sizes(model: BaseCDL, atom_length: int, n_channels: int) -> dict[str, int]:
    """Return M, the warps C of an atom and the parameters G that mix its channels; 0: none."""
    transform = model.resolve("transformation")
    shapes = broadcast_shapes(transform, 1, atom_length, n_channels)
    _, n_warps, *_ = shapes.get("gauge", (1, 0))
    _, n_mixing = shapes.get("mixing_gauge", (1, 0))
    return {"M": transform.n_params(atom_length, n_channels), "C": n_warps, "G": n_mixing}


def _check_results(arrays: dict[str, np.ndarray], sizes: dict[str, int]) -> None:
    counts = arrays["best/results/counts"]
    subject, atom = arrays["best/results/subject"], arrays["best/results/atom"]
    if (subject >= sizes["S"]).any() or (atom >= sizes["K"]).any():
        raise ValueError("`best/results` has events of nobody")
    if not are_counted(subject, atom, counts):
        raise ValueError("`best/results` has not as many events as were counted")


def _check_at_most(name: str, value: int, most: int) -> None:
    if value > most:
        raise ValueError(f"`{name}` is {value}, of at most {most}")
