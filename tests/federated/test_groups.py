"""At least k people behind every number, jointly over the rounds of a run."""

import itertools

import numpy as np
import pytest
import toy
from federation import Crash, cohort_of, double, make_cohort, run_scripted, split
from hypothesis import given, settings
from hypothesis import strategies as st

from percdl import L1Coder
from percdl.algorithm.exchange import Broadcast
from percdl.federated.consent import Consent
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.manifest import settings_of
from percdl.federated.rounds import Groups, OwnRounds
from percdl.runtimes.in_process import InProcess

CAREFUL = Consent(min_subjects=3, allow_plain=True)


@settings(max_examples=200, deadline=None)
@given(least=st.integers(1, 4), draws=st.data())
def test_nobody_is_told_apart_by_any_rounds(least, draws):
    """People who are counted in the same rounds are ``least`` or more, or were never counted."""
    rounds = draws.draw(
        st.lists(st.lists(st.integers(0, 2), min_size=9, max_size=9), min_size=1, max_size=6)
    )
    groups, seen = Groups(range(9), 1, least), []
    for counts in np.array(rounds)[..., None]:
        admitted = groups.admit(counts)
        assert not (admitted & (counts == 0)).any()  # only those who have the atom
        seen.append(admitted[:, 0])
    together = {}
    for person, when in enumerate(map(tuple, np.array(seen).T)):
        together.setdefault(when, []).append(person)
    for when, people in together.items():
        assert not any(when) or len(people) >= least


@settings(max_examples=100, deadline=None)
@given(
    least=st.integers(1, 4),
    persons=st.lists(st.integers(0, 5), min_size=1, max_size=12),
    seed=st.integers(0, 2**32 - 1),
)
def test_several_recordings_of_a_person_are_one(least, persons, seed):
    """The groups are those of people whose recordings are counted together."""
    each = np.random.default_rng(seed).integers(0, 3, (4, len(persons), 2))
    names, owners = np.unique(persons, return_inverse=True)
    groups, twins = Groups(persons, 2, least), Groups(names, 2, least)
    for counts in each:
        together = np.array([counts[owners == i].sum(0) for i in range(len(names))])
        expected = twins.admit(together)[owners] & (counts > 0)
        np.testing.assert_array_equal(groups.admit(counts), expected)


def test_everyone_counts_if_one_is_enough():
    rng = np.random.default_rng(0)
    groups = Groups(range(7), 3, 1)
    for _ in range(5):
        counts = rng.integers(0, 3, (7, 3))
        np.testing.assert_array_equal(groups.admit(counts), counts > 0)


def test_those_who_wait_form_a_group_and_those_who_leave_take_theirs_along():
    groups = Groups(range(6), 1, 2)
    have = lambda *people: np.isin(np.arange(6), people).astype(int)[:, None]  # noqa: E731
    assert list(np.flatnonzero(groups.admit(have(0)))) == []
    assert list(np.flatnonzero(groups.admit(have(0, 1)))) == [0, 1]
    assert list(np.flatnonzero(groups.admit(have(0, 1, 2)))) == [0, 1]
    assert list(np.flatnonzero(groups.admit(have(0, 1, 2, 3)))) == [0, 1, 2, 3]
    assert list(np.flatnonzero(groups.admit(have(0, 2, 3, 4)))) == [2, 3]


COUNTED = np.array([[1, 1], [0, 1], [1, 0], [1, 1], [0, 0], [1, 1]], bool)


@pytest.mark.parametrize("kind", ["population", "personal", "express"])
@pytest.mark.parametrize("coder", [None, L1Coder()])
def test_sums_over_some_people_are_sums_of_each(kind, coder):
    """Adding a round up again over some people equals adding the people one by one."""
    cohort = make_cohort()[:6]
    model = double(**({} if coder is None else {"coder": coder}))
    fit = settings_of(model, cohort)
    broadcast = Broadcast(
        toy.patterns() / np.linalg.norm(toy.patterns(), axis=(1, 2))[:, None, None]
    )

    def run(people):
        runtime = InProcess(people, fit)
        runtime.run_round("population", broadcast)
        return runtime, runtime.run_round(kind, broadcast)

    runtime, sums = run(cohort)
    found = runtime.add_some(sums, kind, broadcast, COUNTED)
    assert (found.objective, found.energy, found.signal) == (
        sums.objective, sums.energy, sums.signal,
    )  # fmt: skip
    alone = [vars(run(cohort[i : i + 1])[1]) for i in range(6)]
    for name, value in vars(found).items():
        if not np.size(value) or not np.ndim(value):
            continue
        if name == "ztz":
            weights = COUNTED[:, :, None, None] & COUNTED[:, None, :, None]
        else:
            weights = COUNTED.reshape(6, 2, *np.ones(np.ndim(value) - 1, int))
        truth = sum(w * part[name] for w, part in zip(weights, alone, strict=True))
        np.testing.assert_allclose(value, truth, rtol=1e-7, atol=1e-9, err_msg=name)
    again = runtime.add_some(sums, kind, broadcast, runtime.results().counts > 0)
    for name, value in vars(again).items():
        np.testing.assert_array_equal(value, getattr(sums, name), err_msg=name)


def gaining_an_atom(first, penalty):
    """Return people with both atoms; a better dictionary than the first shows one more person."""
    rng = np.random.default_rng(1)
    arrays = [0.002 * rng.standard_normal((120, 1)) for _ in range(6)]
    atom = toy.patterns()[1]
    fit = np.vdot(first[1], atom) ** 2 / np.sum(first[1] ** 2)
    barely = np.sqrt(penalty * (1 / fit + 1 / np.sum(atom**2)) / 2)
    for i, x in enumerate(arrays):
        x[10:26] += toy.patterns()[0]
        x[50:66] += toy.patterns()[0]
        x[80:96] += (barely if i == 0 else 1.0) * atom
    return cohort_of(arrays)


def test_a_person_who_gains_an_atom_does_not_show(tmp_path, monkeypatch):
    """Between two rounds the number of people behind an atom changes by 0, or by 3 and more."""
    seen = {}
    admit = Groups.admit

    def listen(self, counts):
        admitted = admit(self, counts)
        seen.setdefault(id(self), []).append((counts > 0, admitted))
        return admitted

    monkeypatch.setattr(Groups, "admit", listen)
    first = toy.patterns() + 0.15 * np.random.default_rng(0).standard_normal((2, 16, 1))
    cohorts = dict.fromkeys("abc", gaining_an_atom(first, 0.35))
    sites = make_sites(cohorts, tmp_path, CAREFUL)
    model = double(init=first, penalty=0.35)
    _, errors, _ = run_scripted(sites, FederatedPerCDL(model).propose("run", sites))
    assert not errors
    changes, hidden = [], []
    for rounds in seen.values():
        for (had, before), (has, after) in itertools.pairwise(rounds):
            changes += list((before ^ after).sum(axis=0))
            hidden += list((had ^ has).sum(axis=0))
    assert all(change == 0 or change >= 3 for change in changes)
    assert any(0 < change < 3 for change in hidden)  # else the test shows nothing


def test_groups_survive_a_crash(tmp_path):
    """A site that was killed counts the people that it would have counted."""
    cohort = make_cohort()

    def fit(folder, on_read=None):
        sites = make_sites(split(cohort), folder, Consent(1, allow_plain=True))
        manifest = FederatedPerCDL(double(population_rounds=1, personal_rounds=1)).propose(
            "r", sites
        )
        return run_scripted(sites, manifest, on_read=on_read, folder=folder / "board")

    def on_read(site, slot, posts):
        if slot == 2:
            raise Crash
        return posts

    fit(tmp_path / "a", on_read)
    groups = {}
    restore = OwnRounds.restore

    def listen(self, arrays):
        restore(self, arrays)
        groups[len(self._cohort)] = self.groups.of.copy()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OwnRounds, "restore", listen)
        _, errors, _ = fit(tmp_path / "a")
    assert not errors
    assert groups[6].shape == (6, 2)
    assert (groups[6] > 0).any()
