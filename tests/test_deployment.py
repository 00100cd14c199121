"""A federation of real processes: a relay and three sites over TLS."""

from dataclasses import replace

import numpy as np
import pytest
from small_models import OPTIONS, SFREQ, spaced_recordings

from benchmarks.federation import Federation
from percdl import Algorithm, Cohort, PerCDL, TimeWarp, load, load_gait

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'percdl[federated]'")

pytestmark = pytest.mark.slow
# Seconds for the whole of it; most go to compilation, at all sites at once.
PATIENCE = 1800
SMALL = {
    "n-atoms": 2, "atom-length": 16, "penalty": 0.3, "depth": 1, "width": 3, "realign": False,
    "multistart": False, "dtype": "float64", "population-rounds": 1, "personal-rounds": 2,
}  # fmt: skip


def prepare(folder, cohorts, model, options):
    """Return a federation that starts from atoms found in all recordings, and these atoms."""
    start = model.set_params(algorithm__population_rounds=0, algorithm__personal_rounds=0).fit(
        Cohort(r for c in cohorts.values() for r in c)
    )
    folder.mkdir(parents=True, exist_ok=True)
    start.save(folder / "start.percdl")
    return Federation(folder, cohorts, options, {"init": "start.percdl"}), start.dictionary_


def finish(federation, sites, relay):
    for name, site in sites.items():
        assert site.wait(PATIENCE) == 0, federation.said(name)
    assert relay.wait(60) == 0, federation.said("relay")


def same_as_centralized(federation, start, cohorts, model, options):
    """Hold a deployment against one fit of all recordings from the same atoms."""
    everyone = Cohort(recording for name in sorted(cohorts) for recording in cohorts[name])
    rounds = {
        name: options[name.replace("_", "-")] for name in ("population_rounds", "personal_rounds")
    }
    central = model.set_params(init=start, algorithm=replace(model.algorithm, **rounds)).fit(
        everyone
    )
    models = [load(federation.place(name) / "common.percdl") for name in cohorts]
    for found in models:
        np.testing.assert_array_equal(found.dictionary_, models[0].dictionary_)
        np.testing.assert_allclose(found.dictionary_, central.dictionary_, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.objective_, central.objective_, rtol=1e-9)
        assert not len(found.subjects_)
    for name, cohort in cohorts.items():
        own = load(federation.place(name) / "model.percdl")
        assert own.subjects_ == cohort.subjects  # at the site, and only there
        assert (federation.place(name) / "events.csv").stat().st_size > 0


def people():
    names = [f"patient-{number}-of-this-ward" for number in range(4)]
    everyone = Cohort.from_arrays(spaced_recordings(3), sfreq=SFREQ, subjects=names)
    return {"north": everyone[:1], "south": everyone[1:2], "west": everyone[2:]}


def small_model():
    kept = ("n_atoms", "atom_length", "penalty", "init")
    return PerCDL(
        transformation=TimeWarp(1, 3),
        algorithm=Algorithm(multistart=False, realign=False),
        dtype="float64",
        **{name: OPTIONS[name] for name in kept},
    )


def test_three_sites_over_tls_learn_what_one_place_would(tmp_path):
    cohorts, model = people(), small_model()
    federation, start = prepare(tmp_path / "f", cohorts, model, SMALL)
    with federation:
        relay = federation.start_relay()
        sites = {name: federation.start_site(name) for name in cohorts}
        finish(federation, sites, relay)
        same_as_centralized(federation, start, cohorts, model, SMALL)
    files = [path.read_bytes() for path in (tmp_path / "f" / "relay").rglob("*") if path.is_file()]
    assert any(b"north" in content for content in files)  # the server knows its sites,
    assert not any(b"of-this-ward" in content for content in files)  # and nobody's patients


def test_killed_sites_and_relays_go_on(tmp_path):
    """Kill -9 of a site and of the relay in the middle, then the same commands again."""
    cohorts, model = people(), small_model()
    federation, start = prepare(tmp_path / "f", cohorts, model, SMALL)
    with federation:
        relay = federation.start_relay()
        sites = {name: federation.start_site(name) for name in cohorts}
        while len(federation.audit("north")) < 2:
            assert sites["north"].poll() is None, federation.said("north")
        for child in (sites["west"], relay):
            child.kill()
            child.wait()
        relay = federation.start_relay()
        sites["west"] = federation.start_site("west")
        finish(federation, sites, relay)
        same_as_centralized(federation, start, cohorts, model, SMALL)


@pytest.mark.realdata
def test_gait_of_three_hospitals(real_gait, tmp_path):
    walks = load_gait(real_gait, download=False).cohort.zscore()
    groups = sorted(set(walks.groups))
    assert len(groups) == 3  # healthy, orthopedic, neurological: each is a site
    cohorts = {str(name).lower(): walks.select(group=name)[:6] for name in groups}
    model = PerCDL(1, 90, TimeWarp(4, 15), penalty=0.01, dtype="float64", random_state=0)
    options = {
        "n-atoms": 1, "atom-length": 90, "penalty": 0.01, "depth": 4, "width": 15,
        "dtype": "float64", "population-rounds": 1, "personal-rounds": 2,
    }  # fmt: skip
    federation, start = prepare(tmp_path / "f", cohorts, model, options)
    with federation:
        relay = federation.start_relay()
        sites = {name: federation.start_site(name) for name in cohorts}
        finish(federation, sites, relay)
        same_as_centralized(federation, start, cohorts, model, options)
