"""Who hears every message of a run learns what is documented, and nothing of a single site."""

import itertools
import json
import re

import numpy as np
import pytest
from keyed_sites import byte_p_value, check, run_keys
from listening import LENGTHS, ROUNDS, RUN, cohorts, overhear

from percdl.estimators.modelfile import load
from percdl.federated.identities import Identity
from percdl.federated.messages import frame, question_of
from percdl.federated.secure_sum import decode, keystream, veil

# Messages differ between machines, as rounding does: a test of chance must hold on all of them.
SMALLEST_P = 1e-6
HEX = re.compile(r"[0-9a-f]{64}")
K, L, P, R = 2, 16, 1, 0
# Coordinates of a warp of three parameters, and sines of its gauge.
M, N_SINES = 3, L - 2
TERMS = {"terms", "roster", "announcements"}
# All that a coordinator tells: facts, and arrays with their shapes.
ASKED = {
    "join": ({"agreement"}, {}),
    "keys": (set(), {}),
    "first": (TERMS, {"dictionaries": (K, L, P)}),
    "population": (TERMS | {"follows"}, {"dictionary": (K, L, P)}),
    "personal": (TERMS | {"follows"}, {"dictionary": (K, L, P), "gauge": (K, 1, L)}),
    "express": (TERMS | {"follows"}, {"dictionary": (K, L, P)}),
    "release": (TERMS | {"question", "lost"}, {}),
    "finish": (TERMS | {"follows", "objective", "reason", "history"}, {"dictionary": (K, L, P)}),
}
OPTIONAL = {"move": (K,), "misfit": (K,), "precision": (K, 1, M, M)}
# All that a site tells.
TOLD = {
    "join": {"signals", "n_masks", "bounds"},
    "keys": {"announcement"},
    "first": {"afresh", "backups"},
    "population": {"afresh", "backups"},
    "personal": {"afresh", "backups"},
    "express": {"afresh", "backups"},
    "release": {"seeds"},
    "finish": set(),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One run of three sites; what crossed, and what did not."""
    folder = tmp_path_factory.mktemp("sites")
    with pytest.MonkeyPatch.context() as patch:
        options = {"init": "auto", "random_state": 0}
        wire, federation = overhear(folder, patch, cohorts(), options)
    assert federation.secure_
    return wire


@pytest.fixture(scope="module")
def rounds(run):
    return sorted({ask.round for _, ask, _ in run.replies(*ROUNDS)})


@pytest.fixture(scope="module")
def private(run):
    """All numbers of the subjects: samples, parameters, amplitudes, their own atoms."""
    numbers = [recording.values for cohort in cohorts().values() for recording in cohort]
    for site in LENGTHS:
        model = load(run.folder / site / RUN / "model.percdl")
        inner = model.personal_dictionary_[:, :, 1:-1]  # a warp leaves the ends where they are
        numbers += [model.params_, inner, model.events_["amplitude"]]
    flat = np.concatenate([np.ravel(part) for part in numbers]).astype(float)
    return flat[np.isfinite(flat) & (flat != 0) & (np.abs(flat) != 1)]


def numbers_in(facts):
    """All floating-point numbers of a JSON document."""
    if isinstance(facts, dict):
        facts = list(facts.values())
    if isinstance(facts, list):
        return [x for fact in facts for x in numbers_in(fact)]
    return [facts] if isinstance(facts, float) else []


def content_of(message):
    arrays = b"".join(array.tobytes() for array in message.arrays.values())
    return json.dumps(message.facts).encode() + arrays


def test_requests_hold_what_is_documented(run):
    assert {ask.kind for _, ask, _ in run.messages} == set(ASKED)
    for _, ask, _ in run.messages:
        facts, arrays = ASKED[ask.kind]
        assert set(ask.facts) == facts
        for name, array in ask.arrays.items():
            shape = array.shape[1:] if name == "dictionaries" else array.shape
            assert shape == {**OPTIONAL, **arrays}[name], (ask.kind, name)


def test_replies_hold_what_is_documented(run):
    for site, ask, reply in run.messages:
        assert (reply.site, reply.kind, reply.run) == (site, ask.kind, RUN)
        assert set(reply.facts) == TOLD[ask.kind]
        if ask.kind not in ROUNDS:
            assert not reply.arrays
            continue
        assert reply.facts["afresh"] is False
        assert {name: x.dtype for name, x in reply.arrays.items()} == {"sums": np.uint64}
        assert reply.arrays["sums"].shape == (size_of(ask),)


def size_of(ask):
    """How many numbers a site sends: see `percdl.federated.layout`; nothing is searched here."""
    population = 4 + K + K * (L + 2 * R) * (P + 1)
    if ask.kind == "first":
        return population * len(ask.arrays["dictionaries"])
    if ask.kind == "population":
        return population
    gauge = K * N_SINES * (L + 1)
    return 4 + 2 * K + K * L * (L + 1) // 2 + K * L * (P + 3) + gauge + K * M**2


def test_joining_tells_of_signals_and_powers_of_two_only(run):
    for site, _, reply in run.replies("join"):
        cohort = cohorts()[site]
        channels, units, sfreq, processing = reply.facts["signals"]
        assert (tuple(channels), tuple(units)) == (cohort.channels, cohort.units)
        assert (sfreq, processing) == (cohort.sfreq, [])
        energy, n_samples = reply.facts["bounds"]
        total = sum(float(np.sum(recording.values**2)) for recording in cohort)
        assert 2.0 ** (energy - 1) < total <= 2.0**energy
        assert 2.0 ** (n_samples - 1) < sum(LENGTHS[site]) <= 2.0**n_samples
        assert reply.facts["n_masks"] == 0


def test_no_name_crosses(run):
    everything = b"".join(content_of(m) for _, *pair in run.messages for m in pair)
    assert b"overheard" not in everything.replace(b'"overheard"', b"")
    for cohort in cohorts().values():
        for subject in cohort.subjects:
            assert subject.encode() not in everything
    assert b"Patient" not in everything


def test_no_number_of_a_subject_crosses(run, private):
    known = set(private.tolist())
    for _, *pair in run.messages:
        for message in pair:
            for array in message.arrays.values():
                assert known.isdisjoint(array.astype(np.float64).ravel().tolist())
                assert known.isdisjoint(array.view(np.float64).ravel().tolist())
            assert known.isdisjoint(numbers_in(message.facts))


def test_no_bytes_of_a_recording_cross(run):
    seen = set()
    for _, *pair in run.messages:
        for message in pair:
            content = content_of(message)
            seen |= {content[i : i + 8] for i in range(len(content) - 7)}
    for cohort in cohorts().values():
        for recording in cohort:
            x = recording.values.ravel()
            for dtype, step in [(np.float64, 1), (np.float32, 2)]:
                raw = x.astype(dtype).tobytes()
                size = np.dtype(dtype).itemsize
                windows = {raw[i : i + 8] for i in range(0, len(raw) - size * step + 1, size)}
                assert seen.isdisjoint(windows)


def test_sums_of_a_site_do_not_cross(run, rounds):
    for site, ask, reply in run.replies(*ROUNDS):
        own = run.own_sums[site, ask.round, ask.attempt]
        masked = reply.arrays["sums"]
        assert set(masked.tolist()).isdisjoint(own.view(np.uint64).tolist())
        assert largest_correlation(masked.view(np.int64), own) < 0.75


@pytest.mark.parametrize("site", LENGTHS)
def test_what_a_site_sends_does_not_go_with_its_recordings(run, site):
    """Its sums do, which shows that the test would notice."""
    model = load(run.folder / site / RUN / "model.percdl")
    pattern = np.zeros((K, L))
    for event in model.events_.itertuples():
        x = cohorts()[site][event.subject].values.ravel()
        pattern[event.atom] += event.amplitude * x[event.onset_sample :][:L]
    moment = slice(4 + K, 4 + K + K * L)
    for name, ask, reply in run.replies("population"):
        if name == site:
            own, sent = run.own_sums[site, ask.round, ask.attempt], reply.arrays["sums"]
            assert largest_correlation(own[moment], pattern.ravel()) > 0.9
            assert largest_correlation(sent.view(np.int64)[moment], pattern.ravel()) < 0.9


def largest_correlation(vector, pattern):
    """The largest correlation of a pattern with a piece of a vector, wherever it lies."""
    vector = vector.astype(float)
    size = min(len(pattern), len(vector))
    pieces = np.lib.stride_tricks.sliding_window_view(vector, size)
    pieces = pieces - pieces.mean(axis=1, keepdims=True)
    pattern = pattern[:size] - pattern[:size].mean()
    norms = np.linalg.norm(pieces, axis=1) * np.linalg.norm(pattern)
    return float(np.max(np.abs(pieces @ pattern) / np.where(norms > 0, norms, np.inf)))


@pytest.mark.parametrize("site", LENGTHS)
def test_what_a_site_sends_is_uniform(run, site):
    sent = [reply.arrays["sums"] for name, _, reply in run.replies(*ROUNDS) if name == site]
    own = [run.own_sums[site, a.round, a.attempt] for n, a, _ in run.replies(*ROUNDS) if n == site]
    assert byte_p_value(np.concatenate(sent)) > SMALLEST_P
    assert byte_p_value(np.concatenate(own).view(np.uint64)) < 1e-100


def test_the_total_is_seen(run, rounds):
    """What the coordinator is there for: all veils lifted, all masks cancel."""
    for round in rounds:
        bare = unveiled(run, round)
        own = sum(run.own_sums[site, round, 0] for site in LENGTHS)
        unit = np.abs(sum(bare.values()).view(np.int64).astype(float))
        assert np.all(unit[own == 0] == 0)
        large = unit > 2**20  # smaller ones are rounded
        ratio = unit[large] / np.abs(own[large])
        # The scale of each number is a power of two.
        assert np.allclose(np.log2(ratio), np.rint(np.log2(ratio)), atol=2e-6)
        assert large.mean() > 0.5


def unveiled(run, round):
    """What is left of the masked vectors of a round, by site, with the seeds of their veils."""
    seeds = run.seeds(round)
    return {
        site: masked - veil(bytes.fromhex(seeds[site]), masked.size)
        for site, masked in run.masked(round).items()
    }


def test_a_site_stays_masked_when_its_veil_is_lifted(run, rounds):
    for site in LENGTHS:
        left = np.concatenate([unveiled(run, round)[site] for round in rounds])
        assert byte_p_value(left) > SMALLEST_P


def test_the_total_less_all_others_stays_masked(run, rounds):
    """Nothing but one's own masked vector comes of the total and the others' messages."""
    for site in LENGTHS:
        rest = []
        for round in rounds:
            bare = unveiled(run, round)
            total = sum(bare.values())
            others = sum(bare[name] for name in LENGTHS if name != site)
            np.testing.assert_array_equal(total - others, bare[site])
            rest.append(total - others)
        assert byte_p_value(np.concatenate(rest)) > SMALLEST_P


@pytest.mark.parametrize("draw", range(5))
def test_any_other_split_of_the_total_explains_all_that_was_heard(run, rounds, draw):
    """There are masks for it, as many as for the true one: nothing heard speaks against it."""
    rng = np.random.default_rng(draw)
    bare = unveiled(run, rounds[0])
    first, *others = sorted(bare)
    total = sum(bare.values())
    values = {site: rng.integers(0, 2**64, total.size, np.uint64) for site in others}
    values[first] = total - sum(values.values())
    between_others = rng.integers(0, 2**64, total.size, np.uint64)
    # Masks of the pairs (first, second), (first, third) and (second, third).
    second, third = others
    with_second = between_others + values[second] - bare[second]
    with_third = values[third] - bare[third] - between_others
    heard = {
        first: values[first] + with_second + with_third,
        second: values[second] - with_second + between_others,
        third: values[third] - with_third - between_others,
    }
    for site in bare:
        np.testing.assert_array_equal(heard[site], bare[site])


def test_what_is_heard_depends_on_the_total_alone():
    """Modulo 4, all masks and all values of three sites: the theorem behind the test above."""
    heard = {}
    for values in itertools.product(range(4), repeat=3):
        counts = np.zeros((4, 4, 4), int)
        for ab, ac, bc in itertools.product(range(4), repeat=3):
            a, b, c = values[0] + ab + ac, values[1] - ab + bc, values[2] - ac - bc
            counts[a % 4, b % 4, c % 4] += 1
        heard.setdefault(sum(values) % 4, []).append(counts)
    for same_total in heard.values():
        assert len(same_total) == 16
        assert all(np.array_equal(counts, same_total[0]) for counts in same_total)
    assert not np.any(heard[0][0] * heard[1][0])


def test_no_secret_crosses(run, rounds):
    """No mask can be drawn from anything heard, taken as a secret."""
    everything = " ".join(json.dumps(m.facts) for _, *pair in run.messages for m in pair)
    heard = {text for run_ in re.findall(r"[0-9a-f]{64,}", everything) for text in pieces(run_)}
    keys = {site: run_keys(site, RUN) for site in LENGTHS}  # deleted at the sites by now
    _, ask, _ = run.replies("population")[0]
    registered = {s: Identity.read(run.folder / s / f"{s}.key").public for s in LENGTHS}
    roster = check(ask.facts["announcements"], registered, RUN)
    occasion = frame(
        "percdl secure sum, version 1",
        RUN,
        ask.round,
        ask.attempt,
        roster.digest,
        question_of(ask).encode(),
    )
    for first, second in itertools.combinations(sorted(LENGTHS), 2):
        secret = keys[first].shared_with(keys[second].public)
        info = frame("mask", occasion, first, second)
        mask = keystream(secret, info, 4).tolist()
        assert secret.hex() not in everything
        assert all(keystream(bytes.fromhex(text), info, 4).tolist() != mask for text in heard)
    for key in keys.values():
        assert key._key.private_bytes_raw().hex() not in everything
    # With the secrets, the masks come off: the secrets are all there is to it.
    bare = unveiled(run, ask.round)["lyon"]
    for other in ("nice", "paris"):
        shared = keys["lyon"].shared_with(keys[other].public)
        bare = bare - keystream(shared, frame("mask", occasion, "lyon", other), bare.size)
    own = run.own_sums["lyon", ask.round, 0]
    found = decode(bare, np.ones(own.size), 3)
    ratio = np.log2(found[own > 0] / own[own > 0])
    assert np.allclose(ratio, np.rint(ratio), atol=1e-6)


def pieces(text):
    """All 32-byte values in a text of hexadecimal digits, at the ends of halves."""
    return [text[i : i + 64] for i in range(0, len(text) - 63, 64)]
