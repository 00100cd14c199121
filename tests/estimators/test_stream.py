"""A stream gives what coding the whole recording gives, whatever the chunks."""

import pickle
from contextlib import nullcontext
from functools import cache

import jax
import numpy as np
import pandas as pd
import pytest
import small_models
import toy
from hypothesis import given, settings
from hypothesis import strategies as st

from percdl import Cohort, L1Coder, Stream
from percdl.algorithm.settings import Huber
from percdl.estimators.cycles import judge_cycles
from percdl.estimators.stream import N_REFERENCE
from percdl.exceptions import InvalidParameterError, InvalidRecordingError, NoActivationWarning
from percdl.steps.csc import encode
from percdl.steps.types import Signals

N = 400
KINDS = {
    "plain": {},
    "signed": {"signed": True},
    "gap": {"min_gap": "0.1s"},
    "stretch": {"stretch": 1.3},
    "line": {"baseline": "line"},
    "channels": {"n_channels": 2},
    "lengths": {"atom_length": [toy.LENGTH, 10]},
}


@cache
def model_of(kind):
    """Return a model of the two toy patterns, for some kind of coder."""
    options = dict(KINDS[kind])
    n_channels = options.pop("n_channels", 1)
    init = toy.patterns(n_channels)
    model = small_models.make("PopCDL", init=init, dtype="float64", **options)
    arrays = toy.recordings(0, [110, 120], n_channels)
    return model.find(Cohort.from_arrays(arrays, sfreq=small_models.SFREQ))


@cache
def recording(n_channels=1, gaps=False, n=N):
    (x,) = toy.recordings(5, [n], n_channels, noise=0.2)
    if gaps:
        x[60:70], x[200:260], x[300, -1] = np.nan, np.nan, np.nan
    return x


def run(stream, x, cuts=()):
    """Push a recording in pieces and return all events."""
    tables = [stream.push(piece) for piece in np.split(x, list(cuts))]
    return pd.concat([*tables, stream.finish()], ignore_index=True)


def at_once(model, stream, x):
    """Return onsets, atoms, lengths and amplitudes of the exact coder, on the whole recording."""
    missing = np.isnan(x)
    seen = (~missing)[None].astype(float) if missing.any() else None
    signals = Signals(np.nan_to_num(x)[None], np.array([len(x)]), seen)
    rules, atoms = stream._rules, stream.atoms_
    with jax.enable_x64(True):
        events, _ = jax.jit(encode, static_argnames="rules")(
            signals, atoms[None], np.asarray(model.penalty_), rules
        )
    real = np.asarray(events.amplitude[0]) != 0
    lengths = np.array(rules.lengths(atoms.shape[1]))
    which = 0 if events.length is None else np.asarray(events.length[0])[real]
    columns = [np.asarray(each[0])[real] for each in events[:3]]
    return *columns, np.broadcast_to(lengths[which], columns[0].shape)


def assert_as_at_once(model, stream, x, found):
    onset, atom, amplitude, length = at_once(model, stream, x)
    assert len(onset) > 5
    np.testing.assert_array_equal(found["onset_sample"], onset)
    np.testing.assert_array_equal(found["atom"], atom)
    np.testing.assert_allclose(found["amplitude"], amplitude, rtol=1e-9)
    if "duration_samples" in found:
        np.testing.assert_array_equal(found["duration_samples"], length)
    assert found["exact"].all()


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_stream_is_the_code_of_the_whole_recording(kind, gaps):
    model = model_of(kind)
    x, stream = recording(model.n_channels_, gaps), Stream(model_of(kind), "0")
    found = run(stream, x, [30, 31, 250])
    assert_as_at_once(model, stream, x, found)
    expected = [*model.events_, "quality", "lag_seconds", "exact"]
    assert list(found) == expected


@settings(max_examples=10)
@given(st.sets(st.integers(0, N), max_size=12), st.booleans())
def test_chunks_do_not_matter(cuts, gaps):
    model, x = model_of("plain"), recording(gaps=gaps)
    whole, pieces = run(Stream(model, "0"), x), run(Stream(model, "0"), x, sorted(cuts))
    pd.testing.assert_frame_equal(whole, pieces, check_exact=True)


def test_stream_with_the_parameters_of_a_recording_has_its_events():
    cohort = small_models.spaced_cohort(0)
    model = small_models.make("PerCDL", dtype="float64").fit(cohort)
    found = model.personalize(cohort)
    for i, record in enumerate(cohort):
        own = found.events[found.events["subject"] == record.subject].reset_index(drop=True)
        live = run(Stream(model, record.subject, found.params[i]), record.values, [40])
        pd.testing.assert_frame_equal(live[[*own]], own)


def test_a_subject_of_the_fit_has_its_own_parameters(fitted):
    stream = Stream(fitted, "Bo")
    own = fitted.personal_dictionary_[1]
    known = np.isfinite(own)
    np.testing.assert_allclose(stream.atoms_[known], own[known], atol=1e-6)


def test_person_is_learned_from_the_first_stretch_and_kept(fitted_models):
    model, x = fitted_models["PerCDL"], np.tile(small_models.spaced_recordings(7)[0], (4, 1))
    stream = Stream(model, "new", learn=97)
    assert stream.push(x[:90]).empty
    assert stream.is_learning
    found = pd.concat([stream.push(x[90:]), stream.finish()], ignore_index=True)
    first = Cohort.from_arrays([x[:97]], sfreq=small_models.SFREQ, subjects=["new"])
    np.testing.assert_array_equal(stream.params_, model.personalize(first).params[0])
    assert_as_at_once(model, stream, x, found)


@pytest.mark.parametrize("per", ["channel", "recording"])
def test_scaling_is_that_of_the_first_stretch(per):
    cohort = small_models.spaced_cohort(0)
    options = {"penalty": 3.0, "dtype": "float64", "init": toy.patterns()}
    model = small_models.make("PopCDL", **options).find(cohort.zscore(per))
    x = 7 + 3 * recording()
    learned, given_ = Stream(model, "Ada", learn=120), (x[:120].mean(0), x[:120].std(0))
    found = run(learned, x)
    np.testing.assert_allclose(learned.scaling_, given_)
    same = run(Stream(model, "Ada", scaling=given_), x)
    pd.testing.assert_frame_equal(found, same)
    scaled = run(Stream(model, "Ada", scaling=None), (x - given_[0]) / given_[1])
    pd.testing.assert_frame_equal(found, scaled)
    assert len(found) > 5


def test_polarity_of_the_person_is_learned():
    model = small_models.make("PopCDL", init=toy.patterns(), polarity="person", dtype="float64")
    model.find(Cohort.from_arrays(toy.recordings(0, [110, 120]), sfreq=small_models.SFREQ))
    x = -recording()
    found = run(stream := Stream(model, "0", learn=100), x)
    assert (found["amplitude"] < 0).all()
    assert_as_at_once(model, stream, x, found)


def test_relative_loss_counts_in_deviations_of_the_first_stretch():
    model = small_models.make("PopCDL", init=toy.patterns(), loss="relative", dtype="float64")
    model.find(Cohort.from_arrays(toy.recordings(0, [110, 120]), sfreq=small_models.SFREQ))
    x = recording()
    once, thousand = (run(Stream(model, "0", learn=100), size * x) for size in (1, 1000))
    pd.testing.assert_series_equal(once["onset_sample"], thousand["onset_sample"])
    np.testing.assert_allclose(1000 * once["amplitude"], thousand["amplitude"])


def test_quality_is_that_of_the_cycles_so_far():
    """The last cycle is judged as `PerCDL.cycles` judges it, by the same residuals."""
    model = model_of("plain")
    stream, x = Stream(model, "0"), recording()
    found = run(stream, x)
    for atom, levels in enumerate(stream._levels):
        own = found[found["atom"] == atom]
        table = pd.DataFrame({"subject": "0", "atom": atom, "missing": 0.0}, own.index)
        judged = judge_cycles(table, np.exp(levels))
        assert own["quality"].isna().to_numpy().nonzero()[0].tolist() == [0, 1, 2, 3, 4]
        assert own["quality"].iloc[-1] == pytest.approx(judged[-1])


def test_a_spoilt_cycle_has_the_lowest_quality():
    model, x = model_of("plain"), recording(n=900).copy()
    clean = run(Stream(model, "0"), x)
    onset = clean["onset_sample"].iloc[30]
    x[onset + 4 : onset + 9] += 3.0 * np.array([[1], [-1], [1], [-1], [1]])
    found = run(Stream(model, "0"), x)
    worst = found.loc[found["quality"].idxmin()]
    assert abs(worst["onset_sample"] - onset) < toy.LENGTH
    assert worst["quality"] < 0.01


def test_pending_events_are_the_rest_of_the_best_code():
    model, x = model_of("plain"), recording()
    stream = Stream(model, "0")
    n = len(x) // stream._block * stream._block
    settled = stream.push(x[:n])
    both = pd.concat([settled, stream.pending], ignore_index=True)
    assert len(stream.pending)
    pd.testing.assert_frame_equal(
        both[[*model.events_]], run(Stream(model, "0"), x[:n])[[*model.events_]]
    )


def test_memory_does_not_grow():
    arrays = toy.recordings(0, [110, 120])
    model = small_models.make("PopCDL", init=toy.patterns(), dtype="float64")
    model.find(Cohort.from_arrays(arrays, sfreq=1000.0))
    stream, x, sizes, n_events = Stream(model, "0"), np.zeros((20_000, 1)), [], 0
    x[1000:1110] = arrays[0]
    for _ in range(51):
        n_events += len(stream.push(x))
        state = {name: value for name, value in vars(stream).items() if name != "model"}
        sizes.append(len(pickle.dumps(state)))
    assert stream.n_times > 1_000_000
    assert n_events > 200
    # Samples that wait for a block to fill, residuals of earlier cycles, digits of counters.
    growth = 8 * stream._block + 10 * N_REFERENCE * model.n_atoms_ + 100
    assert max(sizes) - min(sizes) <= growth


def test_chunks_compile_nothing_new():
    from compilations import COMPILED, count_events

    model, x = model_of("plain"), recording()
    run(Stream(model, "0"), x)
    with count_events() as seen:
        run(Stream(model, "0"), x, range(0, N, 7))
    assert seen[COMPILED] == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"max_activations": 3}, "max_activations=3"),
        ({"loss": Huber(0.5)}, "Huber"),
        ({"coder": L1Coder(), "penalty": 0.1}, "L1Coder"),
    ],
)
def test_a_coder_that_needs_the_whole_recording_is_refused(options, reason):
    cohort = small_models.spaced_cohort(0)
    model = small_models.make("PopCDL", **options).find(cohort)
    with pytest.raises(InvalidParameterError, match=reason):
        Stream(model)


def test_wrong_arguments_are_refused():
    model = model_of("plain")
    for options, words in (
        ({"sfreq": 100.0}, "fitted at 50 Hz"),
        ({"params": np.zeros((3, 0))}, "2 atom"),
        ({"learn": 0}, "at least one"),
        ({"scaling": (0, 0)}, "above 0"),
        ({"scaling": "robust"}, "mean and a scale"),
    ):
        with pytest.raises(InvalidParameterError, match=words):
            Stream(model, **options)
    stream = Stream(model, "0")
    with pytest.raises(InvalidRecordingError, match=r"1 channel.*\(n_samples, 1\)"):
        stream.push(np.zeros((5, 2)))
    stream.push(np.zeros(5))
    with pytest.raises(InvalidRecordingError, match="sample 7 is infinite"):
        stream.push([0, 0, np.inf])
    stream.finish()
    with pytest.raises(InvalidParameterError, match="has finished"):
        stream.push(np.zeros(5))


@pytest.mark.parametrize("n", [0, 5, toy.LENGTH])
def test_a_short_recording_has_no_event_and_no_error(n, fitted_models):
    stream = Stream(fitted_models["PopCDL"], "new")
    assert stream.push(1e-3 * np.arange(n)).empty
    with pytest.warns(NoActivationWarning) if n == toy.LENGTH else nullcontext():
        assert stream.finish().empty


def test_a_first_stretch_without_signal_is_an_error_that_names_the_person(fitted_models):
    with pytest.raises(InvalidRecordingError, match="new is constant"):
        Stream(fitted_models["PopCDL"], "new", learn=100).push(np.zeros(100))
