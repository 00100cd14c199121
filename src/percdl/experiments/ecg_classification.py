"""ecg:classification: the diagnosis from personalization parameters, by the paper's protocol."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from percdl.analysis.classification import feature_auc
from percdl.experiments.progress import follow
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.ecg_features import (
    CRUDE,
    FEATURE_SETS,
    FREE,
    RICH,
    SIZED,
    WARPS,
    Features,
)
from percdl.experiments.studies.ecg_fits import (
    COMMON_SETTINGS,
    FILTERED,
    SETTINGS,
    fit,
    load_records,
    n_per_class,
)
from percdl.experiments.studies.ecg_neighbours import CHOSEN_K, PAPER_K, neighbour_auc
from percdl.plotting.style import COLORS, SHARED, label, make_axes

PAPER_AUC, STRODTHOFF = 0.864, 0.874
PAPER_NEIGHBOURS = {"euclidean": 0.728, "dtw": 0.699}
N_SPLITS, N_INNER = 5, 3
PROTOCOL = (
    "atoms learned from all records without their diagnoses; "
    "SVM (C = 1, rbf, gamma = scale), macro one-vs-one, five splits 70/30"
)


def run(study: Study) -> Result:
    """Measure the AUC of all sets of features, and draw them."""
    n_members = n_per_class(study)
    table, near = measure(study, n_members), measure_neighbours(study, n_members)
    return Result(
        lines=[
            *_lines(table, f"{5 * n_members} records, {COMMON_SETTINGS}; {PROTOCOL}"),
            *_neighbour_lines(near, f"{5 * n_members} records, {SETTINGS}; one split 70/30"),
            Line("wavelets and a neural network (Strodthoff et al.)", f"{STRODTHOFF}", "-", "-"),
        ],
        tables={"ecg_classification": table, "ecg_neighbours": near},
        figures={"ecg_classification": draw(table)},
        reading=read(table),
    )


def measure(
    study: Study, n_members: int, names: Sequence[str] = tuple(FEATURE_SETS)
) -> pd.DataFrame:
    """Return AUCs, one row per set of features.

    ``auc`` and ``spread`` are over five random splits; ``inner`` is the mean over splits of the
    official training folds 1 to 8 alone, by which settings are to be chosen; ``official`` is
    trained on these folds and tested on fold 10. The common atom and everyone's parameters are
    learned from all records at once, without their diagnoses: only the classifier is split.
    """
    rows = []
    for name in follow(names, "features"):
        key = {"n_members": n_members, "features": name}
        rows.append(
            study.ledger.row(key, lambda n=name: score(FEATURE_SETS[n](n_members), n_members))
        )
    return pd.DataFrame(rows)


def measure_neighbours(study: Study, n_members: int) -> pd.DataFrame:
    """Return the AUC of the nearest neighbours of personal atoms, one row per metric.

    Columns ``auc_5`` (the paper's number of neighbours) and ``auc_15``.
    """
    keys = [{"n_members": n_members, "metric": metric} for metric in PAPER_NEIGHBOURS]
    rows = [study.ledger.row(key, lambda k=key: _neighbours(**k)) for key in keys]
    return pd.DataFrame(rows)


def _neighbours(n_members: int, metric: str) -> dict[str, float]:
    atoms = fit(n_members, FILTERED).personal_dictionary_[:, 0]
    found = neighbour_auc(atoms, load_records(n_members).superclass, metric)
    return {f"auc_{k}": value for k, value in found.items()}


def score(features: Features, n_members: int) -> dict[str, Any]:
    """Return the AUCs of one set of features."""
    data = load_records(n_members)
    labels, split = data.superclass.to_numpy(), data.split.to_numpy()
    train, test = np.flatnonzero(split == "train"), np.flatnonzero(split == "test")
    outer = feature_auc(features, labels, n_splits=N_SPLITS)
    inner = feature_auc(features[train], labels[train], n_splits=N_INNER)
    official = feature_auc(features, labels, splits=[(train, test)])
    return {
        "n_features": features.shape[1],
        "auc": outer.mean,
        "spread": outer.spread,
        "inner": inner.mean,
        "official": official.mean,
    }


def auc(table: pd.DataFrame, name: str, column: str = "auc") -> float:
    """Return one of the AUCs measured."""
    return float(table.loc[table["features"] == name, column].item())


def _lines(table: pd.DataFrame, settings: str) -> list[Line]:
    lines = []
    for row in table.to_dict("records"):
        name = row["features"]
        paper = f"{PAPER_AUC}" if name.startswith("warps 4 x 7") or name == WARPS else "-"
        found = f"{row['auc']:.3f} +- {row['spread']:.3f}, official folds {row['official']:.3f}"
        lines.append(Line(name, paper, found, f"{row['n_features']} features; {settings}"))
    return lines


def _neighbour_lines(near: pd.DataFrame, settings: str) -> list[Line]:
    kinds = {PAPER_K: "scikit-learn's default, as in the paper", CHOSEN_K: "k chosen here"}
    return [
        Line(
            f"{k} nearest personal atoms, {row['metric']}",
            f"{PAPER_NEIGHBOURS[row['metric']]}" if k == PAPER_K else "-",
            f"{row[f'auc_{k}']:.3f}",
            f"{settings}; {FILTERED}; {kind}",
        )
        for k, kind in kinds.items()
        for row in near.to_dict("records")
    ]


def read(table: pd.DataFrame) -> str:
    """Say what each step from one set of features to the next has brought."""
    names = [name for name in FEATURE_SETS if name != FREE]
    steps = [
        f"{after} ({auc(table, after) - auc(table, before):+.3f})"
        for before, after in pairwise(names)
    ]
    return (
        f"From {CRUDE}, {auc(table, CRUDE):.3f}, each step changes the AUC: "
        + "; then ".join(steps)
        + f". Warps alone reach {auc(table, WARPS):.3f} (paper {PAPER_AUC}); with gains along the "
        f"beat {auc(table, RICH):.3f} where these are relative, {auc(table, SIZED):.3f} where "
        f"they keep the size of beats; whole atoms of IndCDL reach {auc(table, FREE):.3f}. The "
        f"spread between splits is about {table['spread'].mean():.3f}."
    )


def draw(table: pd.DataFrame) -> Figure:
    """Draw the AUC of each set of features, its spread, and the official folds."""
    figure = Figure(figsize=(9.5, 0.45 * len(table) + 1.6), layout="constrained")
    ax = make_axes(figure.add_subplot())
    places = np.arange(len(table))
    ax.axvline(PAPER_AUC, color=SHARED, ls="--", lw=1, label=f"paper, warps: {PAPER_AUC}")
    ax.errorbar(
        table["auc"], places, xerr=table["spread"], fmt="o", color=COLORS[0], capsize=3,
        label="five splits 70/30: mean, standard deviation",
    )  # fmt: skip
    ax.plot(table["official"], places, "s", color=COLORS[1], label="official folds", mfc="none")
    ax.set_yticks(places, table["features"])
    ax.invert_yaxis()
    ax.grid(axis="x", color="0.9")
    label(ax, "AUC, macro one-vs-one", "")
    figure.legend(loc="outside upper center", ncols=3, fontsize="small", frameon=False)
    return figure
