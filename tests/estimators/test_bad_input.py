"""What cannot be used is refused, by a message that names the subject and says what to do."""

import warnings

import numpy as np
import pytest
import toy
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from small_models import (
    NAMES,
    SFREQ,
    SUBJECTS,
    TABLE,
    assert_same_fit,
    make,
    spaced_cohort,
    spaced_recordings,
)

from percdl import (
    Cohort,
    Compose,
    Free,
    Huber,
    IndCDL,
    L0Coder,
    L1Coder,
    PerCDL,
    PopCDL,
    Recording,
    TimeWarp,
)
from percdl.algorithm.local import Site
from percdl.estimators import Motif
from percdl.exceptions import (
    InvalidParameterError,
    InvalidRecordingError,
    NoActivationWarning,
    NumericalError,
    OffsetWarning,
    PerCDLError,
)


def refuses(error, message):
    """Expect an error of ours, one that says this."""
    assert issubclass(error, PerCDLError)
    return pytest.raises(error, match=message)


def with_record(position, values):
    """Return the arrays of the toy cohort with one of them replaced."""
    arrays = spaced_recordings(0)
    arrays[position] = np.asarray(values)
    return arrays


def cohort_with(position, values):
    return Cohort.from_arrays(with_record(position, values), sfreq=SFREQ, subjects=SUBJECTS)


@pytest.mark.parametrize("empty", [[], (), np.zeros((0, 30)), np.zeros((0, 30, 1))])
def test_empty_cohort(empty):
    with refuses(InvalidRecordingError, r"at least one recording \(n_samples=0 given\)"):
        make("PopCDL").fit(empty)


@pytest.mark.parametrize("name", NAMES)
def test_record_shorter_than_the_atom(name):
    message = rf"`{name}\(atom_length=16\)` is longer than subject Cy \(15 samples\)\. Use shorter"
    with refuses(InvalidRecordingError, message):
        make(name).fit(cohort_with(2, np.arange(15.0)))


def test_record_as_long_as_the_atom_is_enough():
    model = make("PopCDL", population_rounds=1, personal_rounds=0).fit(
        with_record(2, toy.patterns()[0])
    )
    assert model.events_.query("subject == '2'")["onset_sample"].tolist() == [0]


def test_many_short_records_are_counted_rather_than_listed():
    arrays = [np.arange(4.0)] * 8
    with refuses(InvalidRecordingError, r"subjects 0 \(4 samples\), .*4 \(4 samples\) and 3 more"):
        make("PopCDL").fit(arrays)


def cohort_or_array(values):
    """Return recordings of which the second is given, as a cohort and as one 3-D array."""
    array = np.stack(spaced_recordings(0, lengths=(110,) * 4))
    array[1, :, 0] = values
    return {"Bo": cohort_with(1, values), "1": array}


def test_all_missing_record():
    for subject, X in cohort_or_array(np.full(110, np.nan)).items():
        message = rf"Every sample of subject {subject} is missing \(NaN\); leave them out"
        with refuses(InvalidRecordingError, message):
            make("PopCDL").fit(X)


@pytest.mark.parametrize("gap", [0, 1, 7])
@pytest.mark.parametrize("level", [0.0, -3.5])
def test_flat_record(level, gap):
    values = np.full(110, level)
    values[gap] = np.nan
    for subject, X in cohort_or_array(values).items():
        message = f"Every channel of subject {subject} is constant.*no pattern"
        with refuses(InvalidRecordingError, message):
            make("PopCDL").fit(X)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_values(value):
    array = np.stack(spaced_recordings(0, lengths=(110,) * 4))
    array[1, 42] = value
    for X in (array, list(array), array[:, :, 0]):
        message = "Subject '1': .*infinite.*sample 42 of channel 0.*NaN"
        with refuses(InvalidRecordingError, message):
            make("PopCDL").fit(X)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            np.arange(110) + 1j,
            "Subject '1': values has dtype complex128.*pass real and imaginary parts",
        ),
        (np.array(["a"] * 110), "Subject '1': values has dtype <U1, but real numbers"),
        (np.array([1.0, None] * 55), "Subject '1': values has dtype object, but real numbers"),
        (np.arange(110).astype("M8[s]"), "Subject '1': values has dtype datetime64.*numbers"),
        (np.zeros((110, 1, 1)), r"Subject '1': values has 3 dimension\(s\).*n_times, n_channels"),
        (np.zeros((0, 1)), r"Subject '1': values has 2 .*at least one sample"),
        (np.arange(220.0).reshape(110, 2), r"subject '1' has 'ch0', 'ch1'\. All.*same"),
    ],
    ids=["complex", "text", "object", "dates", "three axes", "no samples", "two channels"],
)
def test_record_that_is_no_array_of_numbers(values, message):
    with refuses(InvalidRecordingError, message):
        make("PopCDL").fit(with_record(1, values))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.arange(110.0), r"Got 1 dimension\(s\) \(shape \(110,\)\).*Reshape"),
        (np.zeros((2, 3, 4, 5)), r"Got 4 dimension\(s\)"),
        ([1.0, 2.0, 3.0], r"Got 1 dimension\(s\) \(shape \(3,\)\)"),
        ("walks.csv", "Got a (builtins.)?str where signals are needed"),
        (None, "Got a .*NoneType where signals are needed"),
    ],
    ids=["1-D", "4-D", "numbers", "text", "none"],
)
def test_input_of_another_form(X, message):
    with refuses(InvalidRecordingError, message):
        make("PopCDL").fit(X)


def test_mixed_sampling_rates():
    arrays = spaced_recordings(0)
    mixed = Cohort.from_arrays(arrays, sfreq=[50, 50, 100, 50], subjects=SUBJECTS)
    message = "Subject 'Ada' was sampled at 50 Hz and subject 'Cy' at 100 Hz.*Resample"
    with refuses(InvalidRecordingError, message):
        make("PopCDL").fit(mixed)


def test_other_sampling_rate_than_in_training(fitted):
    message = rf"`{type(fitted).__name__}` was fitted at 50 Hz, but X is sampled at 100 Hz\. Res"
    for method in (fitted.transform, fitted.reconstruct, fitted.score, fitted.personalize):
        with refuses(InvalidParameterError, message):
            method(Cohort([Recording(np.arange(110.0), sfreq=100, subject="Eve")]))


def test_other_units_than_in_training():
    made = {
        unit: Cohort.from_arrays(spaced_recordings(0), sfreq=SFREQ, units=unit)
        for unit in ("mV", "uV", None)
    }
    model = make("PopCDL").fit(made["mV"])
    assert len(model.personalize(made[None]).events) == len(model.events_)
    with refuses(InvalidParameterError, "fitted on channel ch0 in mV, but X has it in uV"):
        model.personalize(made["uV"])


def test_other_channels_than_in_training(fitted):
    message = r"was fitted on 1 channel\(s\) \(ch0\), but X has 2 \(ch0, ch1\)\. Select the same"
    for method in (fitted.transform, fitted.reconstruct, fitted.score, fitted.personalize):
        with refuses(InvalidParameterError, message):
            method(np.zeros((3, 110, 2)))


def test_new_record_shorter_than_the_atom(fitted):
    with refuses(InvalidRecordingError, r"longer than subject Cy \(15 samples\)"):
        fitted.transform(cohort_with(2, np.arange(15.0)))


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (np.full(110, np.nan), InvalidRecordingError, r"Every sample of subject Bo is missing"),
        (np.full(110, 2.0), InvalidRecordingError, "Every channel of subject Bo is constant"),
        (
            1e30 * np.sin(np.arange(110)),
            NumericalError,
            "squares of subject Bo overflow in float32",
        ),
    ],
    ids=["missing", "flat", "huge"],
)
def test_new_record_is_held_to_what_fit_asks_for(fitted, values, error, message):
    for method in (fitted.personalize, fitted.transform, fitted.reconstruct, fitted.score):
        with refuses(error, message):
            method(cohort_with(1, values))
    with pytest.raises(error):
        make(type(fitted).__name__).fit(cohort_with(1, values))


@pytest.mark.parametrize("method", ["transform", "personalize", "reconstruct", "score", "save"])
@pytest.mark.parametrize("name", NAMES)
def test_unfitted_model(name, method):
    with pytest.raises(NotFittedError, match=f"This {name} instance is not fitted yet"):
        getattr(make(name), method)(spaced_recordings(0))


WRONG_INIT = {
    "shape": (toy.first_guess(0)[:1], r"`init` has shape \(1, 16, 1\), but .* is \(2, 16, 1\)"),
    "zero": (np.stack([toy.patterns()[0], np.zeros((16, 1))]), r"zero or not finite \(atom 1\)"),
    "NaN": (np.where(np.arange(16)[:, None] == 3, np.nan, 1.0) + np.zeros((2, 1, 1)), "atom 0"),
    "infinite": (np.full((2, 16, 1), np.inf), r"zero or not finite \(atom 0\)"),
    "word": ("best", "`init='best'` must be 'auto', an array"),
    "none": (None, "`init=NoneType` must be .auto., an array"),
    "ragged": ([[1.0], [1.0, 2.0]], "`init=list` must be .auto., an array"),
    "complex": (toy.first_guess(0) + 1j, "`init=ndarray` must be .auto., an array"),
    "stranger": (
        [Motif("Ada", 3), Motif("Eve", 3)],
        r"`init=Motif\(subject='Eve', onset=3\)`: No subject 'Eve' among 4",
    ),
    "beyond": ([Motif("Ada", 3), Motif("Bo", 100)], "subject 'Bo' has 110 samples. Choose"),
    "before": ([Motif("Ada", -20), Motif("Bo", 1)], "needs 16 observed samples from -20 on"),
    "one motif": (Motif("Ada", 3), r"`init` has shape \(1, 16, 1\)"),
    "motif and array": ([Motif("Ada", 3), toy.patterns()[0]], "`init=list` must be"),
}


@pytest.mark.parametrize("case", WRONG_INIT)
def test_first_dictionary_that_cannot_be_used(case):
    init, message = WRONG_INIT[case]
    with refuses(InvalidParameterError, message):
        make("PopCDL", init=init).fit(spaced_cohort(0))


@pytest.mark.parametrize("init", [None, 3, np.zeros(4), [], [[1.0], [1.0, 2.0]], {"a": 1}, "best"])
@pytest.mark.parametrize("auto", [("n_atoms",), ("atom_length",), ("n_atoms", "atom_length")])
def test_first_dictionary_that_says_neither_number_nor_length(init, auto):
    model = make("PopCDL", init=init, **dict.fromkeys(auto, "auto"))
    with refuses(InvalidParameterError, r"`init.* must be 'auto', an array"):
        model.fit(spaced_cohort(0))


def test_motif_in_a_gap():
    values = spaced_recordings(0)[0]
    values[10] = np.nan
    with refuses(InvalidParameterError, "subject 'Ada' has 97 samples with missing values there"):
        make("PopCDL", init=[Motif("Ada", 3), Motif("Bo", 3)]).fit(cohort_with(0, values))


# Set after construction: types of constructors are checked in tests.
WRONG_ARGUMENTS = [
    *(("n_atoms", value, "an integer of at least 1") for value in (0, -1, 2.0, True, "2", None)),
    *(("atom_length", value, "an integer of at least 3") for value in (0, -5, 2, 16.0, True)),
    *(("atom_length", text, "a duration such as '0.6s'") for text in ("0.6", "1 min", "-1s")),
    *(("penalty", value, "finite number of at least 0") for value in (-1.0, np.nan, np.inf, "1")),
    ("n_restarts", 0, "an integer of at least 1"),
    ("n_atoms", 2**70, r"below 2\*\*31"),
    *(("random_state", value, "an integer from 0 to 4294967295") for value in (-1, 2**32, "a")),
    ("dtype", "float16", "one of 'float32', 'float64'"),
    ("dtype", np.float32, "one of 'float32', 'float64'"),
    ("progress", "yes", "True or False or 'auto'"),
    ("loss", "huber", r"'relative' or `Huber\(\.\.\.\)`"),
    ("coder", "l1", r"`L0Coder\(\.\.\.\)`, `L1Coder\(\.\.\.\)` or None"),
    ("algorithm", {"tol": 1.0}, r"`Algorithm\(\.\.\.\)` or None"),
]
WRONG_TRANSFORMATIONS = [
    ("transformation", "warp", r"a Transform, e\.g\. `TimeWarp\(\)`"),
    ("transformation", TimeWarp, r"a Transform, e\.g\. `TimeWarp\(\)`"),
]
WRONG_PARTS = [
    *(("algorithm", "tol", value, "a finite number of at least 0") for value in (-1e-9, np.nan)),
    ("algorithm", "population_rounds", -1, "an integer of at least 0"),
    ("algorithm", "personal_rounds", 1.0, "an integer of at least 0"),
    ("algorithm", "chunk_rows", 0, "an integer of at least 1"),
    ("algorithm", "solver_steps", 0, "an integer of at least 1"),
    ("algorithm", "weighting", "none", "one of 'amplitude', 'subjects'"),
    ("algorithm", "realign", None, "True or False"),
    ("algorithm", "multistart", "yes", "True or False"),
    ("algorithm", "centering", "mean", "one of 'refit', 'paper', 'off'"),
    ("algorithm", "centering", ["off"], "one of 'refit', 'paper', 'off'"),
    ("algorithm", "solver", "newton", "one of 'gauss-newton', 'polyak'"),
    ("algorithm", "update", "mean", "one of 'closed-form', 'robust'"),
    ("coder", "min_gap", -1, "an integer of at least 0"),
    ("coder", "min_gap", 2**70, r"below 2\*\*31"),
    ("coder", "max_activations", 0, "an integer of at least 1"),
    ("coder", "signed", "no", "True or False"),
]


@pytest.mark.parametrize(
    ("model", "name", "value", "message"),
    [(m, *wrong) for m in (PerCDL, PopCDL, IndCDL) for wrong in WRONG_ARGUMENTS]
    + [(PerCDL, *wrong) for wrong in WRONG_TRANSFORMATIONS],
)
def test_argument_out_of_range(model, name, value, message):
    estimator = model(1, 50, penalty=0.01).set_params(**{name: value})
    with pytest.raises(InvalidParameterError) as caught:
        estimator.fit(np.zeros((2, 60)))
    assert str(caught.value).startswith(f"`{model.__name__}({name}={value!r})` must be ")
    assert caught.match(message)


@pytest.mark.parametrize(("argument", "name", "value", "message"), WRONG_PARTS)
def test_argument_of_a_nested_object_out_of_range(any_types, argument, name, value, message):
    estimator = PopCDL(1, 50, penalty=0.01).set_params(**{f"{argument}__{name}": value})
    owner = {"algorithm": "Algorithm", "coder": "L0Coder"}[argument]
    with pytest.raises(InvalidParameterError) as caught:
        estimator.fit(np.zeros((2, 60)))
    assert str(caught.value).startswith(f"`{owner}({name}={value!r})` must be ")
    assert caught.match(message)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("transform", "`transformation`"),
        ("n_init", r"`algorithm=Algorithm\(population_rounds=\.\.\.\)`"),
        ("tol", r"`algorithm=Algorithm\(tol=\.\.\.\)`"),
        ("min_gap", r"`coder=L0Coder\(min_gap=\.\.\.\)`"),
        ("penalty_ratio", r'`penalty="10%"`'),
        ("huber_delta", r"`loss=Huber\(delta\)`"),
    ],
)
@pytest.mark.parametrize("model", [PerCDL, PopCDL, IndCDL])
def test_names_of_version_0_1_are_refused_with_the_new_ones(model, old, new):
    message = rf"`{model.__name__}` has no argument `{old}` since version 0\.2\. Use .*{new}"
    with pytest.raises(TypeError, match=message):
        model(**{old: 1})
    with pytest.raises(TypeError, match=message):
        model().set_params(**{old: 1})


def test_durations_are_those_of_the_sampling_rate(cohort):
    rules = {"coder": L0Coder(min_gap="0.1s"), "atom_length": "320ms"}
    model, same = make("PopCDL", **rules), make("PopCDL", coder=L0Coder(min_gap=5))
    assert_same_fit(model.fit(cohort), same.fit(cohort))
    assert model.atom_length_ == 16
    with refuses(
        InvalidParameterError, "`atom_length='20ms'` is 1 sample.* at 50 Hz, but an atom"
    ):
        make("PopCDL", atom_length="20ms").fit(cohort)


def test_a_penalty_that_no_number_can_hold():
    with pytest.raises(InvalidParameterError, match="finite number of at least 0"):
        PerCDL(1, 50, penalty=10**400).fit(np.zeros((2, 60)))


def test_robust_update_needs_a_common_atom():
    model = make("PerCDL", transformation=Free(), update="robust")
    with refuses(InvalidParameterError, r"moves copies .* `Free\(\)` .* Leave out"):
        model.fit(spaced_recordings(0))


def test_transform_out_of_range():
    with refuses(InvalidParameterError, r"`TimeWarp\(depth=0\)` must be an integer of at least 1"):
        make("PerCDL", transformation=TimeWarp(0, 3)).fit(spaced_recordings(0))
    too_many = r"`TimeWarp\(depth \* width=90000\)` must be an integer .* at most 65536"
    with refuses(InvalidParameterError, too_many):
        make("PerCDL", transformation=TimeWarp(300, 300)).fit(spaced_recordings(0))


@pytest.mark.parametrize("population_rounds", [2, 0])
@pytest.mark.parametrize("name", NAMES)
def test_penalty_above_everything(name, population_rounds, cohort):
    model = make(name, penalty=1e6, population_rounds=population_rounds)
    with pytest.warns(NoActivationWarning, match="Every activation is zero.*Lower `penalty`"):
        model.fit(cohort)
    assert model.stop_reason_.startswith("Every activation is zero: the penalty exceeds")
    assert model.n_activations_.sum() == len(model.events_) == 0
    assert list(model.events_.columns) == TABLE
    assert np.isnan(model.params_).all()
    assert np.isnan(model.personal_dictionary_).all()
    assert np.isfinite(model.dictionary_).all()
    assert model.objective_ == pytest.approx(sum((r.values**2).sum() for r in cohort))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        features, rebuilt, score = (
            getattr(model, method)(cohort) for method in ("transform", "reconstruct", "score")
        )
    assert {warning.category for warning in caught} == {NoActivationWarning}
    assert np.all(features == 0) if name == "PopCDL" else np.isnan(features).all()
    assert score == 0
    assert not any(x.any() for x in rebuilt)


@pytest.mark.parametrize("name", NAMES)
def test_one_silent_subject_among_others(name, fitted_models):
    quiet = cohort_with(2, 1e-3 * np.random.default_rng(0).standard_normal(118))
    with pytest.warns(NoActivationWarning, match=r"No activation in 1 recording\(s\) \(Cy\).*NaN"):
        model = make(name).fit(quiet)
    others = [0, 1, 3]
    assert_array_equal(model.n_activations_[2], 0)
    assert (model.n_activations_[others] > 0).all()
    assert np.isnan(model.params_[2]).all()
    assert np.isnan(model.personal_dictionary_[2]).all()
    assert np.isfinite(model.params_[others]).all()
    assert np.isfinite(model.dictionary_).all()
    assert "Cy" not in set(model.events_["subject"])
    with pytest.warns(NoActivationWarning, match=r"\(Cy\)"):
        assert not fitted_models[name].reconstruct(quiet)[2].any()


def test_an_atom_without_subjects_is_named_and_left_as_it_was(cohort):
    init = np.stack([toy.patterns()[0], 1e-3 * np.where(np.arange(16) % 2, 1, -1)[:, None]])
    with pytest.warns(NoActivationWarning, match="Atom 1 is never activated.*`n_atoms`"):
        model = make("PopCDL", init=init).fit(cohort)
    np.testing.assert_allclose(model.dictionary_[1], init[1] / 4e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": Huber(-1.0)}, r"`Huber\(delta=-1.0\)` must be a finite number above 0"),
        ({"loss": Huber(np.inf)}, r"`Huber\(delta=inf\)` must be a finite number above 0"),
        ({"loss": Huber(), "coder": L1Coder()}, "needs the exact coder. Leave out"),
        ({"penalty": "auto", "coder": L1Coder()}, "chosen for the exact coder only. Give `penal"),
        ({"transformation": Free(), "update": "robust"}, "`Free.*` no personal atom depends on"),
    ],
)
def test_options_that_contradict_one_another(options, message):
    with refuses(InvalidParameterError, message):
        make("PerCDL", **options).fit(spaced_cohort(0))


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ((), r"`Compose\(\)` needs at least one transform"),
        ((Free(),), r"`Compose` cannot hold Free\(.*\): it takes single transforms that depend"),
    ],
)
def test_stages_that_cannot_be_composed(stages, message):
    with refuses(InvalidParameterError, message):
        make("PerCDL", transformation=Compose(*stages)).fit(spaced_cohort(0))


class FirstRoundError(Exception):
    """A fit has come as far as its first round."""


@pytest.fixture
def no_rounds(monkeypatch):
    """Let every round fail, and the search for a first dictionary; compile nothing."""

    def fail(*_):
        raise FirstRoundError

    for name in ("population_round", "personal_round", "express"):
        monkeypatch.setattr(Site, name, fail)
    monkeypatch.setattr("percdl.estimators.start.first_dictionary", fail)
    monkeypatch.setattr(Site, "_prepare_programs", lambda *_: None)


@pytest.mark.parametrize("loss", ["squared", Huber()])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.full(110, np.nan), "subject Bo is missing"),
        (np.full(110, 2.0), "subject Bo is constant"),
        (np.arange(15.0), "longer than subject Bo"),
    ],
    ids=["missing", "flat", "short"],
)
def test_complaints_come_before_the_first_round(fitted, no_rounds, loss, values, message):
    X = cohort_with(1, values)
    for method in (make(type(fitted).__name__, loss=loss).fit, fitted.personalize):
        with refuses(InvalidRecordingError, message):
            method(X)


@pytest.mark.parametrize("offset", [1e3, -1e5])
def test_an_offset_that_drowns_the_signal_warns_before_the_first_round(fitted, no_rounds, offset):
    name = type(fitted).__name__
    arrays = [np.sin(np.arange(110.0) / 3) for _ in range(2)]
    arrays[1][7] = np.nan
    X, tolerable = (
        Cohort.from_arrays([x + level for x in arrays], sfreq=SFREQ, subjects=["Ada", "Bo"])
        for level in (offset, 2)
    )
    for method in (make(name).fit, fitted.personalize):
        with (
            pytest.raises(FirstRoundError),
            pytest.warns(OffsetWarning, match="mean of subjects Ada, Bo is .* Subtract it"),
        ):
            method(X)
        # A level below three standard deviations gives no warning.
        with pytest.raises(FirstRoundError):
            method(tolerable)
    with (
        pytest.raises(FirstRoundError),
        pytest.warns(OffsetWarning, match="activations follow this level.*--baseline offset"),
    ):
        make(name, dtype="float64").fit(X)
    with pytest.raises(FirstRoundError):
        make(name, dtype="float64", coder=L0Coder(baseline="offset")).fit(X)
