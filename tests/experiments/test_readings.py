"""Readings follow the numbers: opposite tables are read in opposite words."""

from itertools import product

import pytest

pytest.importorskip("matplotlib")

import numpy as np
import pandas as pd

from percdl.analysis import Segmentation
from percdl.datasets.gait import GROUPS
from percdl.experiments import (
    fig_ecg_atoms,
    fig_ecg_recon,
    fig_gait,
    fig_gait_personalization,
    fig_gaussian_noise,
    fig_transfo_illustration,
    gait_errors,
    tab_gait_segmentation,
    tab_group_popcdl,
    tab_personalization,
)
from percdl.experiments.studies.gait_cycles import COHORT, PERSONAL, Placed
from percdl.experiments.studies.gait_groups import NOWHERE


@pytest.mark.parametrize(
    ("to_group", "words"), [(0.5, "3 of 3 groups: H"), (0.2, "0 of 3 groups.")]
)
def test_own_atoms_are_nearer_where_they_are(to_group, words):
    placed = Placed(0.3, np.zeros(2, int), np.ones((2, 4)))
    examples = [
        fig_gait_personalization.Example("1", g, placed, np.ones(4), np.zeros(4), to_group)
        for g in GROUPS
    ]
    assert words in fig_gait_personalization._read(examples)


def distances(own, others):
    columns = {kind: own if kind == PERSONAL else others for kind in tab_personalization.PAPER}
    return pd.DataFrame({"subject": range(6), "group": [*GROUPS, *GROUPS], **columns})


def read_distances(people):
    table = tab_personalization.summarize(people)
    return tab_personalization._read(people, table, table)


def test_the_nearest_atom_is_named():
    assert "nearest on average in 3 of 3" in read_distances(distances(0.1, 0.2))
    assert "nearest on average in 0 of 3" in read_distances(distances(0.2, 0.1))


def test_who_has_no_atom_counts_nowhere():
    people = distances(0.2, 0.1)
    people.loc[0, PERSONAL] = np.nan
    people.loc[0, COHORT] = 100.0
    assert set(tab_personalization.share_nearest(people).values()) == {0.0}
    assert tab_personalization.summarize(people).loc[COHORT, GROUPS[0]] == pytest.approx(0.1)
    assert "1 of 6 participants" in read_distances(people)
    assert "left out" not in read_distances(distances(0.2, 0.1))


@pytest.mark.parametrize(
    ("where", "agrees", "words"),
    [
        (
            NOWHERE,
            False,
            "G varies nowhere more than Healthy; where the paper sees it: toe off, no.",
        ),
        ("at toe off", True, "G varies more than Healthy, highest first, at toe off; where"),
    ],
)
def test_a_group_may_vary_nowhere(where, agrees, words):
    ours = "yes" if agrees else "no"
    row = {"group": "G", "paper": "toe off", "ours": ours, "ours_varies": where, "agrees": agrees}
    reading = fig_gait._read(pd.DataFrame([row]), 0.1)
    assert words in reading
    assert f"Of the 1 places that the paper names, {int(agrees)} have" in reading


def noisy_table(per, pop, ind, auto):
    """Return a table of errors (at 30 dB, at 0 dB) for each method; ``auto`` at all levels."""
    rows = [
        {
            "penalty": p,
            "snr_db": level,
            "method": m,
            "quantity": q,
            "mean": auto if p == "auto" else v,
        }
        for p, q in product(fig_gaussian_noise.PENALTIES, fig_gaussian_noise.QUANTITIES)
        for m, pair in zip(fig_gaussian_noise.METHODS, (per, pop, ind), strict=True)
        for level, v in zip((30, 0), pair, strict=True)
    ]
    return pd.DataFrame(rows)


def test_differences_and_ratios_of_noise_are_told_apart():
    table = noisy_table(per=(0.01, 0.3), pop=(0.4, 0.8), ind=(0.1, 0.6), auto=0.1)
    assert fig_gaussian_noise.rise(table, "error_given", "PopCDL") == pytest.approx((0.4, 2))
    reading = fig_gaussian_noise._read(table)
    assert "rises from 30 to 0 dB by less than IndCDL's for PerCDL and PopCDL" in reading
    assert "by a smaller factor for PopCDL (PerCDL +0.29, 30 times; PopCDL +0.4, 2 t" in reading
    assert 'penalty="auto" lowers' in reading
    assert "fit noise" in reading
    table = noisy_table(per=(0.01, 0.9), pop=(0.1, 0.9), ind=(0.2, 0.6), auto=1.0)
    reading = fig_gaussian_noise._read(table)
    neither = "neither PerCDL nor PopCDL"
    assert f"less than IndCDL's for {neither}, and by a smaller factor for {neither}" in reading
    assert 'penalty="auto" does not lower' in reading
    assert "fit noise" not in reading


CYCLES = {"A": 120 * np.array([1, 2, 3, 6, 7, 8])}


def onsets(kept):
    return pd.DataFrame({"subject": "A", "onset_sample": CYCLES["A"][kept], "amplitude": 1.0})


@pytest.mark.parametrize(("lost", "share"), [([0, 2], "100%"), ([1, 4], "0%")])
def test_missed_cycles_are_located(lost, share):
    kept = np.delete(np.arange(6), lost)
    cycles = tab_gait_segmentation.find_missed(onsets(kept), CYCLES)
    assert len(cycles) == 6
    assert cycles["at_edge"].tolist() == [True, False, True, True, False, True]
    words = tab_gait_segmentation._read_missed(cycles)
    assert f"Of the missed cycles {share} are" in words
    assert "67% of all cycles" in words


def test_nothing_is_said_of_cycles_that_were_all_found():
    cycles = tab_gait_segmentation.find_missed(onsets(range(6)), CYCLES)
    assert not cycles["missed"].any()
    assert tab_gait_segmentation._read_missed(cycles) == ""
    assert tab_gait_segmentation.find_missed(onsets([]), CYCLES)["missed"].all()


def test_both_lengths_of_the_atom_are_read_from_their_curves():
    looks = list(tab_gait_segmentation.LOOKS)
    curves = pd.DataFrame(looks, columns=["atom_length", "certainty"]).assign(
        false_positives=0.001, sensitivity=[0.91, 0.92, 0.93, 0.94]
    )
    counts = pd.DataFrame({"n_found": [6], "n_cycles": [6], "n_detections": [6]})
    halves = pd.DataFrame({f"{x}_of_setting": [0.5] for x in ("sensitivity", "false_positives")})
    cycles = tab_gait_segmentation.find_missed(onsets(range(6)), CYCLES)
    score = Segmentation(np.zeros(6), 6, 6)
    reading = tab_gait_segmentation._read(curves, score, counts, halves, cycles)
    assert "is 0.9100, by amplitude alone 0.9200" in reading
    assert "100 samples instead of 90 it is 0.9300" in reading


def test_the_order_of_groups_is_compared():
    same, reversed_order = (
        tab_group_popcdl._read(pd.DataFrame({"dtw": d}))
        for d in ([0.5, 0.6, 0.4], [0.5, 0.4, 0.9])
    )
    assert "; the same order as the paper" in same
    assert "0.400 to 0.600" in same
    assert "; not the order of the paper" in reversed_order
    assert "0.400 to 0.900" in reversed_order


@pytest.mark.parametrize(
    ("ours", "peak", "verdict", "higher"),
    [
        (0.1, 2.0, "atoms hold together more", "2 of 2"),
        (0.9, 0.5, "do not hold together", "0 of 2"),
    ],
)
def test_atoms_hold_together_where_they_do(ours, peak, verdict, higher):
    methods = fig_ecg_atoms.METHODS
    spreads = pd.DataFrame({"method": methods, "superclass": "MI", "spread": [0.5, ours]})
    heights = {fig_ecg_atoms.EUCLIDEAN: 1.0, fig_ecg_atoms.DTW: -peak}
    curves = pd.DataFrame(
        {"method": m, "superclass": "MI", "kind": k, "value": v * x}
        for m, (k, v), x in product(methods, heights.items(), (0.0, 1.0))
    )
    reading = fig_ecg_atoms._read(spreads, curves)
    assert verdict in reading
    assert f"{higher} panels ({peak:.2f} to {peak:.2f} times as high)" in reading


@pytest.mark.parametrize(("barycenter", "verdict"), [(0.4, "no better"), (0.1, "better")])
def test_the_barycenter_is_held_against_the_common_atom(barycenter, verdict):
    errors = {"IndCDL": 0.1, "PerCDL": 0.15, "PopCDL": 0.2, gait_errors.BARYCENTER: barycenter}
    rows = [
        {"start": start, "algorithm": kind, "model": m, "error": e}
        for (start, kind), (m, e) in product(gait_errors.CASES, errors.items())
    ]
    reading = gait_errors._read(pd.DataFrame(rows))
    assert f"1.00 times as much, and {verdict} than PopCDL's atom there, 0.2000" in reading


def rebuilt(scales, rough):
    """Return records whose reconstructions are scaled; one method's has jumps added."""
    record = np.sin(np.linspace(0, 6, 50))
    jumps = 0.05 * (-1.0) ** np.arange(50)
    frames = [
        pd.DataFrame(
            {
                "method": m,
                "subject": s,
                "recording": record,
                "reconstruction": scale * record + (jumps if m == rough else 0),
            }
        )
        for (m, scale), s in product(zip(fig_ecg_recon.METHODS, scales, strict=True), "ab")
    ]
    return pd.concat(frames, ignore_index=True)


def test_reconstructions_are_ranked_by_error_and_roughness():
    reading = fig_ecg_recon._read(rebuilt((0.9, 0.3, 0.6), "IndCDL"))
    assert "IndCDL < PerCDL < PopCDL" in reading
    assert "PerCDL is between" in reading
    assert "are smoother than IndCDL's" in reading
    reading = fig_ecg_recon._read(rebuilt((0.6, 0.3, 0.9), "PerCDL"))
    assert "PerCDL < IndCDL < PopCDL" in reading
    assert "PerCDL is not between" in reading
    assert "are no smoother than IndCDL's" in reading


def test_slopes_of_warps_are_measured():
    time = np.linspace(0, 1, fig_transfo_illustration.LENGTH)
    draws = range(fig_transfo_illustration.N_DRAWS)
    numbers = pd.concat(
        pd.DataFrame({"depth": depth, "width": width, "warp": time**depth})
        for (depth, width), _ in product(fig_transfo_illustration.SHAPES, draws)
    )
    reading = fig_transfo_illustration._read(numbers)
    assert reading.startswith("Every warp increases")
    assert "1 with D = 1 and 2.9 with D = 3 at W = 3" in reading
    backwards = fig_transfo_illustration._read(numbers.assign(warp=-numbers["warp"]))
    assert backwards.startswith("Not every warp increases (least slope -2.9)")
