"""A federation of real processes: a relay and three sites over TLS."""

from dataclasses import replace

import numpy as np
import pytest
import toy
from small_models import OPTIONS, SFREQ, spaced_recordings

from benchmarks.federation import Federation
from percdl import Algorithm, Cohort, PerCDL, TimeWarp, load, load_gait
from percdl.cli.federate_config import read_invitation_file
from percdl.federated.manifest import agree
from percdl.federated.messages import read_post
from percdl.federated.rounds import add_posts

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'percdl[federated]'")

pytestmark = pytest.mark.slow
# Seconds for the whole of it; most go to compilation, at all sites at once.
PATIENCE = 1800
SMALL = {
    "n-atoms": 2, "atom-length": 16, "penalty": 0.3, "depth": 1, "width": 3, "realign": False,
    "multistart": False, "dtype": "float64", "population-rounds": 1, "personal-rounds": 2,
}  # fmt: skip


def prepare(folder, cohorts, model, options, federation=None, site=None):
    """Return a federation that starts from atoms found in all recordings, and these atoms."""
    start = model.set_params(algorithm__population_rounds=0, algorithm__personal_rounds=0).fit(
        Cohort(r for c in cohorts.values() for r in c)
    )
    folder.mkdir(parents=True, exist_ok=True)
    start.save(folder / "start.percdl")
    more = {"init": "start.percdl", **(federation or {})}
    return Federation(folder, cohorts, options, more, site), start.dictionary_


def finish(federation, sites, relay):
    for name, site in sites.items():
        assert site.wait(PATIENCE) == 0, federation.said(name)
    assert relay.wait(60) == 0, federation.said("relay")


def same_as_centralized(federation, start, cohorts, model, options, objective=True):
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
        if objective:
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
    assert not any(b"of-this-ward" in content for content in files)  # and no patients


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


def totals(federation):
    """Return the totals of the first round, as anyone who has the server's posts computes them."""
    manifest = read_invitation_file(federation.folder / "invitation.toml").manifest
    folder = federation.folder / "relay" / manifest.run

    def posts(slot):
        files = folder.glob(f"{slot:06d}-*.post")
        found = [read_post(path.read_bytes(), manifest.verify) for path in files]
        return {post.head.site: post for post in found}

    terms = agree(manifest, posts(0))
    [total] = add_posts(terms, "population", posts(1))
    return total


@pytest.mark.parametrize("least", [1, 3])
def test_a_dictionary_that_one_window_matches_shows_nothing(tmp_path, least):
    """Attack 1 against real processes: a tone in the first atoms leaves one window to code."""
    rng = np.random.default_rng(1)
    arrays = [0.02 * rng.standard_normal((120, 1)) for _ in range(9)]
    for i, x in enumerate(arrays):
        x[10:26] += (3 if i == 0 else 1) * toy.patterns()[0]
    everyone = Cohort.from_arrays(arrays, sfreq=SFREQ)
    cohorts = {name: everyone[3 * i : 3 * i + 3] for i, name in enumerate(("a", "b", "c"))}
    folder = tmp_path / "f"
    folder.mkdir()
    np.save(folder / "tone.npy", toy.patterns() + 0.3 * (-1.0) ** np.arange(16)[:, None])
    options = {**SMALL, "penalty": 8.0, "population-rounds": 1, "personal-rounds": 1}
    people = {"min-subjects": least}
    with Federation(
        folder, cohorts, options, {"init": "tone.npy", **people}, people
    ) as federation:
        relay = federation.start_relay()
        sites = {name: federation.start_site(name) for name in cohorts}
        finish(federation, sites, relay)
        total = totals(federation)
    assert total.signal > 0
    assert total.counts.sum() == (1 if least == 1 else 0)
    assert total.moment.any() == (least == 1)  # with 1, the window of one person


def test_a_second_run_without_a_site_is_refused(tmp_path):
    """Attack 2 against real processes: the difference of two totals would be one site's sums."""
    cohorts, model = people(), small_model()
    federation, _ = prepare(tmp_path / "f", cohorts, model, SMALL)
    with federation:
        relay = federation.start_relay()
        sites = {name: federation.start_site(name) for name in cohorts}
        finish(federation, sites, relay)
        folder = federation.folder
        text = (folder / "federation.toml").read_text()
        text = text.replace('west = "keys/west.pub"\n', "").replace(
            'run = "trial"', 'run = "again"'
        )
        (folder / "second.toml").write_text(text)
        federation.command("federate", "invite", "second.toml", "--out", "second-invitation.toml")
        new = read_invitation_file(folder / "second-invitation.toml").manifest.fingerprint
        old = read_invitation_file(folder / "invitation.toml").manifest.fingerprint
        for name in ("north", "south"):
            site = (folder / f"{name}.toml").read_text().replace(old, new)
            (folder / f"{name}.toml").write_text(
                site.replace("[data]", "allow-plain = true\n[data]")
            )
            again = federation.start(
                "federate", "join", "second-invitation.toml", "--site", f"{name}.toml",
                log=f"{name}-again.log",
            )  # fmt: skip
            assert again.wait(PATIENCE) == 2
            assert "would show the sums of west" in federation.said(f"{name}-again")
            assert not list(folder.glob(f"{name}.own/again/*.post"))  # nothing was sent


def test_a_server_that_adds_learns_what_sites_would(tmp_path):
    """The same bits from real processes, and no post of another site at any site."""
    cohorts, model = people(), small_model()
    federation, start = prepare(
        tmp_path / "f", cohorts, model, SMALL, {"aggregate": "server"}, {"trust-server": True}
    )
    with federation:
        relay = federation.start_relay()
        sites = {name: federation.start_site(name) for name in cohorts}
        while len(federation.audit("north")) < 2:
            assert sites["north"].poll() is None, federation.said("north")
        relay.kill()
        relay.wait()
        relay = federation.start_relay()  # it computes all answers again
        finish(federation, sites, relay)
        same_as_centralized(federation, start, cohorts, model, SMALL, objective=False)


@pytest.mark.realdata
@pytest.mark.filterwarnings("ignore::percdl.exceptions.SuspectRecordingWarning")
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
