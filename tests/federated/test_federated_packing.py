"""Sums cross as a vector whose shape and scale both ends know beforehand."""

import numpy as np
import pytest
import toy
from federation import LENGTHS, cohort_of, double

from percdl import IndCDL, L1Coder, Rotation, TimeWarp
from percdl.algorithm.exchange import Broadcast, Sums
from percdl.estimators.start import Choices, choose
from percdl.exceptions import FederationError
from percdl.federated.layout import UNITS, cover, layout_of
from percdl.federated.manifest import propose
from percdl.federated.messages import Bounds
from percdl.federated.site import describe
from percdl.runtimes.in_process import InProcess
from percdl.transforms import Free, Identity

CASES = {
    "warp": ({}, 1, 0),
    "searches": ({"realign": True}, 1, 0),
    "kept": ({"centering": "off", "multistart": False, "realign": False}, 1, 0),
    "robust": ({"update": "robust", "realign": False, "multistart": False}, 1, 0),
    "subjects": ({"weighting": "subjects", "realign": False, "multistart": False}, 1, 0),
    "overlap": ({"coder": L1Coder(n_steps=20)}, 1, 0),
    "huber": ({"delta": 0.5}, 2, 0),
    "gap": ({"transform": Identity()}, 1, 1),
    "gap, overlap": ({"coder": L1Coder(n_steps=20), "transform": Identity()}, 1, 1),
    "gap in a channel": ({"transform": Rotation()}, 2, 2),
    "free": ({"transform": Free()}, 1, 0),
}


def run(options, n_channels, n_masks):
    """Return settings, and the sums of a round of each kind by an ordinary runtime."""
    arrays = toy.recordings(0, LENGTHS[:4], n_channels)
    cohort = cohort_of(arrays)
    chosen = toy.settings(**{"transform": TimeWarp(1, 3), "n_channels": n_channels, **options})
    runtime = InProcess(cohort, chosen, n_masks=n_masks)
    broadcast = Broadcast(toy.first_guess(0, n_channels), move=np.zeros(2, int))
    sums = {"population": runtime.population_round(broadcast)}
    if chosen.n_params:
        sums["personal"] = runtime.personal_round(broadcast)
        sums["express"] = runtime.express(broadcast)
    manifest = propose(double("PopCDL"), "run", {"a": "0" * 64, "b": "1" * 64})
    return chosen, describe(cohort, manifest).bounds, sums


@pytest.mark.parametrize("case", CASES)
def test_a_layout_is_known_without_the_sums(case):
    options, n_channels, n_masks = CASES[case]
    chosen, bounds, found = run(options, n_channels, n_masks)
    for kind, sums in found.items():
        layout = layout_of(kind, chosen, n_masks)
        sent = {name for name, value in vars(sums).items() if np.size(value)}
        assert {name for name, _ in layout} == sent
        vector = layout.pack(sums)
        assert vector.shape == (layout.size,)
        again = layout.unpack(vector)
        for name in sent:
            np.testing.assert_allclose(
                getattr(again, name), getattr(sums, name), rtol=1e-12, atol=1e-12, err_msg=name
            )
        # Sums are refused beyond their scale, and masked ones lose digits far below it.
        scales = layout.scales(bounds, chosen)
        layout.check(vector, scales)
        assert (np.abs(vector).max() > 2.0**-30 * scales.max()).all()
        for position, name in ((0, "objective"), (-1, layout[-1][0])):
            wrong = vector.copy()
            wrong[position] = np.nan
            with pytest.raises(FederationError, match=f"`{name}` is not finite"):
                layout.check(wrong, scales)


def test_every_field_has_a_unit():
    assert set(UNITS) == set(Sums.__dataclass_fields__)


def test_the_number_of_bytes_is_the_formula():
    chosen = toy.settings(realign=True)
    n_atoms, length, margin = chosen.n_atoms, chosen.atom_length, chosen.margin
    first = 4 + n_atoms + n_atoms * (length + 2 * margin) * (1 + 1)
    assert layout_of("population", chosen, 0).size == first
    second = 4 + 4 * n_atoms + n_atoms * length * (length + 1) // 2 + n_atoms * length * (1 + 3)
    second += n_atoms * (length + 2 * margin) * (1 + 1)
    n_sines, n_coordinates = length - 2, toy.WARP.n_params(length, 1)
    second += n_atoms * (n_sines * (length + 1) + n_coordinates**2)
    assert layout_of("personal", chosen, 0).size == second


def test_packing_commutes_with_adding():
    chosen, _, found = run({"realign": True}, 1, 0)
    layout = layout_of("personal", chosen, 0)
    twice = layout.pack(found["personal"] + found["personal"])
    np.testing.assert_array_equal(twice, 2 * layout.pack(found["personal"]))


def test_bounds_cover_the_sum_of_all_sites():
    assert cover({"a": Bounds(3, 5), "b": Bounds(3, 2), "c": Bounds(-4, 5)}) == Bounds(5, 7)


def test_a_model_of_numbers_needs_no_choice():
    cohort = cohort_of(toy.recordings(0, LENGTHS[:2]))
    assert choose(IndCDL(2, 16, 0.3), cohort) == Choices(2, 16, 0.3)
