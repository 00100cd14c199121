"""A federation of real processes: superlink and supernodes over TLS, nodes authenticated."""

from dataclasses import replace

import numpy as np
import pytest
from small_models import OPTIONS, SFREQ, spaced_recordings

from benchmarks.federation import Federation
from percdl import Algorithm, Cohort, PerCDL, TimeWarp, load, load_gait

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'percdl[federated]'")

pytestmark = pytest.mark.slow
# Seconds for the whole of it; most go to compilation, at all sites at once.
PATIENCE = 1800


def federate(folder, cohorts, model, options, **more):
    """Run a federation to its end; return the server's model, its log and the folder."""
    start = model.set_params(algorithm__population_rounds=0, algorithm__personal_rounds=0).fit(
        Cohort(r for c in cohorts.values() for r in c)
    )
    folder.mkdir(parents=True, exist_ok=True)
    start.save(folder / "start.percdl")
    server = {"init": "start.percdl", "min-sites": len(cohorts), "timeout": PATIENCE}
    with Federation(folder, cohorts, options, server, {"require-secure": True, **more}) as all_:
        sites = {name: all_.start_site(name) for name in all_.sites}
        done = all_.start_server()
        assert done.wait(PATIENCE) == 0, all_.said("server")
        for name, site in sites.items():
            assert site.wait(60) == 0, all_.said(name)
        return load(all_.results / "model.percdl"), all_.audit(), start.dictionary_


def same_as_centralized(folder, cohorts, model, options):
    """Hold a deployment against one fit of all recordings from the same atoms."""
    population_rounds, personal_rounds = options["population-rounds"], options["personal-rounds"]
    federated, audit, start = federate(folder, cohorts, model, options)
    everyone = Cohort(recording for name in sorted(cohorts) for recording in cohorts[name])
    rounds = {"population_rounds": population_rounds, "personal_rounds": personal_rounds}
    model.set_params(init=start, algorithm=replace(model.algorithm, **rounds))
    central = model.fit(everyone)
    np.testing.assert_allclose(federated.dictionary_, central.dictionary_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(federated.objective_, central.objective_, rtol=1e-9)
    assert not any(line["dropped"] for line in audit)
    for name, cohort in cohorts.items():
        own = load(folder / f"{name}.own" / "trial" / "model.percdl")
        assert own.subjects_ == cohort.subjects  # at the site, and only there
        assert (folder / f"{name}.own" / "trial" / "events.csv").stat().st_size > 0
    assert not len(federated.subjects_)


def test_three_sites_over_tls_learn_what_one_place_would(tmp_path):
    names = [f"patient-{number}-of-this-ward" for number in range(4)]
    people = Cohort.from_arrays(spaced_recordings(3), sfreq=SFREQ, subjects=names)
    cohorts = {"north": people[:1], "south": people[1:2], "west": people[2:]}
    kept = ("n_atoms", "atom_length", "penalty", "init")
    model = PerCDL(
        transformation=TimeWarp(1, 3),
        algorithm=Algorithm(multistart=False, realign=False),
        dtype="float64",
        **{name: OPTIONS[name] for name in kept},
    )
    options = {
        "n-atoms": 2, "atom-length": 16, "penalty": 0.3, "depth": 1, "width": 3,
        "realign": False, "multistart": False, "dtype": "float64",
        "population-rounds": 1, "personal-rounds": 2,
    }  # fmt: skip
    same_as_centralized(tmp_path / "f", cohorts, model, options)
    files = [
        path.read_bytes() for path in (tmp_path / "f" / "server").rglob("*") if path.is_file()
    ]
    assert any(b"north" in content for content in files)  # the server knows its sites,
    assert not any(b"of-this-ward" in content for content in files)  # and nobody's patients


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
    same_as_centralized(tmp_path / "f", cohorts, model, options)
