"""Rounds under differential privacy: no vector depends on other subjects, nothing else is sent."""

from dataclasses import fields, replace

import numpy as np
import pytest
import toy
from double import in_double

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.loop import run_percdl
from percdl.algorithm.state import History
from percdl.exceptions import FederationError, InvalidParameterError
from percdl.federated.privacy import Privacy
from percdl.federated.private_rounds import (
    ROWS,
    Denoised,
    PrivateRounds,
    contributions,
    reach_of,
)
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort
from percdl.steps.csc_l1 import L1Coder
from percdl.steps.dictionary import normalize, update_personal
from percdl.transforms import TimeWarp

# Two sizes of chunks, neither of them full.
LENGTHS = (64, 97, 64, 110, 60, 128, 62, 97, 64)
TRUSTED = Privacy(noise_multiplier=0.0, clip=np.inf)
NOISY = Privacy(noise_multiplier=1.0)
PLAIN = {"centering": "off", "realign": False, "multistart": False}
START = normalize(toy.first_guess(0))


def make_cohort(keep=slice(None)):
    arrays = toy.recordings(3, LENGTHS)
    names = [f"subject {i}" for i in range(len(arrays))]
    return Cohort.from_arrays(arrays[keep], subjects=names[keep])


def make_settings(**options):
    return toy.settings(weighting="subjects", **options)


def make_private(cohort, settings, privacy, **options):
    return PrivateRounds(cohort, settings, privacy, **options)


def run_rounds(cohort, settings):
    """Yield what each subject, by name, adds to a round of each phase."""
    runtime = InProcess(cohort, settings, chunk_rows=ROWS)
    site, broadcast = runtime.site, Broadcast(START)
    for kind in ("population", "personal"):
        getattr(runtime, f"{kind}_round")(broadcast)
        rows = contributions(site, START, kind)
        yield {name: dict(zip(cohort.subjects, rows[name], strict=True)) for name in rows}


def test_a_contribution_is_the_same_bit_for_bit_whoever_else_is_there():
    settings = make_settings()
    all_rounds = list(run_rounds(make_cohort(), settings))
    for keep in (slice(1, None), slice(3, 4)):
        for everyone, some in zip(
            all_rounds, run_rounds(make_cohort(keep), settings), strict=True
        ):
            for name, by_subject in some.items():
                for subject, vector in by_subject.items():
                    np.testing.assert_array_equal(vector, everyone[name][subject])


def test_without_clip_and_noise_the_sums_are_the_ordinary_ones():
    settings = make_settings()
    exact = InProcess(make_cohort(), settings, chunk_rows=ROWS)
    private = make_private(make_cohort(), settings, TRUSTED)
    broadcast = Broadcast(START)
    for kind, names in (
        ("population_round", ["moment", "weight"]),
        ("personal_round", ["gram", "transported", "n_warps"]),
    ):
        a, b = (getattr(runtime, kind)(broadcast) for runtime in (exact, private))
        for name in names:
            np.testing.assert_allclose(getattr(b, name), getattr(a, name), atol=1e-12)


def test_without_clip_and_noise_a_fit_is_the_ordinary_one():
    # Moments of warps are not released, so there is no prior.
    settings = make_settings(transform=replace(toy.WARP, prior=None), **PLAIN)
    ordinary, _ = toy.fit(toy.recordings(3, LENGTHS), settings, START, chunk_rows=ROWS)
    private = Denoised(make_private(make_cohort(), settings, TRUSTED), settings, TRUSTED)
    found = run_percdl(private, settings, START, History(), lambda *_: None)
    np.testing.assert_allclose(found.dictionary, ordinary.dictionary, atol=1e-12)


@pytest.mark.parametrize("n_recordings", [1, 3])
def test_one_subject_changes_a_release_by_at_most_the_bound(n_recordings, monkeypatch):
    settings = make_settings()
    tight = Privacy(noise_multiplier=0.0, clip=0.4)
    released = []
    add = PrivateRounds._add
    monkeypatch.setattr(
        PrivateRounds, "_add", lambda self, rows: released.append(add(self, rows)) or released[-1]
    )
    persons = ["first"] * n_recordings + [f"other {i}" for i in range(9 - n_recordings)]
    everyone = make_cohort().with_visits(persons)
    for cohort in (everyone, everyone[n_recordings:]):
        private = make_private(cohort, settings, tight)
        private.population_round(Broadcast(START))
        private.personal_round(Broadcast(START))
    for with_all, without in zip(released[:2], released[2:], strict=True):
        assert 0 < np.linalg.norm(with_all - without) <= tight.bound(2) * (1 + 1e-12)


def test_releases_are_noise_or_zero():
    """Of recordings of different people, with the same noise: what differs has been noisy."""
    settings = make_settings()
    sent = []
    for seed, privacy in ((1, NOISY), (2, NOISY), (1, replace(NOISY, noise_multiplier=1e6))):
        random_bytes = np.random.default_rng(seed).bytes
        private = make_private(make_cohort(), settings, privacy, random_bytes=random_bytes)
        sent.append([private.population_round(Broadcast(START))])
        sent[-1].append(private.personal_round(Broadcast(START)))
    phases = {"moment", "weight"}, {"gram", "transported", "warp", "n_warps"}
    for released, one, other, drowned in zip(phases, *sent, strict=True):
        for name in (f.name for f in fields(Sums)):
            a, b, c = (np.asarray(getattr(sums, name)) for sums in (one, other, drowned))
            if name not in released:
                assert not a.any(), name
            else:
                # Noise is in every number that is not zero by construction, and scales with sigma.
                assert ((a == b) == (a == 0)).all() or name == "warp"
                assert np.abs(c).max() > 1e4 * np.abs(a).max()


def test_the_gram_matrix_is_zero_beyond_its_reach_whatever_the_data():
    rng = np.random.default_rng(0)
    for interpolation in ("linear", "cubic"):
        transform = TimeWarp(2, 5, interpolation)
        settings = make_settings(transform=transform)
        params = in_double(transform.project, rng.uniform(-1, 1, (50, 10)))
        weight = rng.uniform(0, 1, (50, toy.LENGTH, 1))
        gram, _ = in_double(transform.normal_equations, params, START[0], weight, weight)
        rows, columns = np.indices(gram.shape[-2:])
        far = np.abs(rows - columns) > reach_of(settings)
        assert not gram[0][far].any()
        assert gram[0][~far].any()


def test_the_last_expression_tells_nothing():
    settings = make_settings()
    private = make_private(make_cohort(), settings, NOISY)
    private.population_round(Broadcast(START))
    private.personal_round(Broadcast(START))
    sent = private.express(Broadcast(START))
    assert not any(np.any(value) for value in vars(sent).values())


def test_no_more_sums_are_released_than_the_budget_is_for():
    settings = make_settings(population_rounds=1, personal_rounds=0)
    private = make_private(make_cohort(), settings, NOISY)
    for _ in range(2):
        private.population_round(Broadcast(START))
    with pytest.raises(FederationError, match="All agreed releases are spent"):
        private.population_round(Broadcast(START))


@pytest.mark.parametrize(
    "options",
    [
        {"weighting": "amplitude"},
        {"tol": 1e-3},
        {"coder": L1Coder()},
        {"delta": 1.0},
        {"update": "robust"},
    ],
)
def test_fits_that_would_tell_more_are_refused(options):
    settings = toy.settings(**{"weighting": "subjects"} | options)
    with pytest.raises(InvalidParameterError, match="Differential privacy needs"):
        make_private(make_cohort(), settings, NOISY)


def test_no_update_is_taken_that_has_more_noise_than_the_atom():
    """Sums are seen above the noise, and in some of many draws noise looks like an update."""
    settings = make_settings(personal_rounds=60, **PLAIN)
    quiet = Privacy(noise_multiplier=0.7)
    random_bytes = np.random.default_rng(0).bytes
    private = make_private(make_cohort(), settings, quiet, random_bytes=random_bytes)
    rounds = Denoised(private, settings, quiet)
    rounds.population_round(Broadcast(START))
    seen = 0
    for _ in range(60):
        sums = rounds.personal_round(Broadcast(START))
        seen += np.count_nonzero(sums.n_warps)
        found = update_personal(sums.gram, sums.transported, START)
        np.testing.assert_allclose(found, START, atol=1e-12)
    assert seen > 60


@pytest.mark.parametrize("options", [{}, PLAIN])
def test_a_fit_that_drowns_in_noise_keeps_the_first_dictionary(options):
    settings = make_settings(**options)
    loud = Privacy(noise_multiplier=1e4)
    random_bytes = np.random.default_rng(2).bytes
    private = make_private(make_cohort(), settings, loud, random_bytes=random_bytes)
    found = run_percdl(
        Denoised(private, settings, loud), settings, START, History(), lambda *_: None
    )
    assert np.isfinite(found.dictionary).all()
    assert np.abs(found.dictionary - START).max() < 0.2
