"""A person's events during the recording: the batch result, about one cycle later."""

from collections import deque
from typing import Any

import jax
import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.fft import next_fast_len
from sklearn.utils.validation import check_is_fitted

from percdl.algorithm.magnitude import find_spreads
from percdl.algorithm.programs import apply_params, neutral_params
from percdl.estimators.base import BaseCDL
from percdl.estimators.cycles import FEW_CYCLES, N_SINES, p_values
from percdl.estimators.start import make_coder
from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.parameters import in_samples
from percdl.signals import Cohort, Recording
from percdl.signals.preprocessing import find_scaling, scaled_per
from percdl.steps.coders import L0Coder
from percdl.steps.compilation import program
from percdl.steps.csc import encode
from percdl.steps.csc_live import LiveEvent, Survivors, weigh_blocks
from percdl.steps.cycles import cut_cycles, delay_table, fit_cycles, guess_covariance, level_cycles
from percdl.steps.period import NORMAL_MAD
from percdl.steps.types import Signals

# Samples are processed in blocks of at least this many seconds, and up to `ROWS` blocks together.
BLOCK_SECONDS, ROWS = 0.1, 16
# Length of the first stretch, and time after which a decision is forced, in longest events.
LEARN, MOST_LAG = 30, 20
# Number of earlier cycles that a cycle is compared with, and of cycles that are fitted together.
N_REFERENCE, N_TOGETHER = 256, 16

_encode = program(encode, static_argnames=("rules",))


class Stream:
    """Find a model's patterns in a recording while it grows.

    Samples are pushed in chunks of any size. An event is returned once no future sample can
    change it: about one event's length after its end, or two if patterns are ambiguous. The
    events equal those of coding the whole recording at once, with the same personal atoms and in
    double precision, for any chunks. Cost O(K P log L) per sample, in constant memory.

    Parameters
    ----------
    model : PerCDL, PopCDL or IndCDL
        A fitted model, with an exact coder.
    subject : str, default="live"
        The person. Parameters of a subject of the fit are taken from the model.
    params : array (K, M), optional
        Parameters of the person, such as ``model.personalize(earlier).params[0]``. By default
        they are learned from the first stretch and kept.
    sfreq : float, optional
        Samples per second of the chunks; must be that of the model.
    learn : int or str, optional
        The first stretch, in samples or as a duration ("30s"), by default 30 times the longest
        event. Its events are returned at its end. Parameters and scaling are learned from it; if
        both are given or not needed, there is no first stretch.
    scaling : "auto", None or pair of arrays (P,)
        Mean and scale of each channel: ``(x - mean) / scale`` is coded. "auto" learns them from
        the first stretch if the model was fitted on z-scored recordings. Otherwise, and with
        None, samples are not scaled. Apply any other processing before `push`.
    max_lag : int or str, optional
        Time after which a decision is forced, by default 20 times the longest event. Such
        events may differ from those of the whole recording, and are not ``exact``.

    Attributes
    ----------
    n_times : int
        Samples pushed so far.
    params_, atoms_ : array (K, M), array (K, L, P)
        Parameters and atoms of the person; None during the first stretch.
    scaling_ : pair of arrays (P,), or None
        Mean and scale in use.

    Examples
    --------
    >>> from percdl import PopCDL, make_synthetic
    >>> truth = make_synthetic(2, random_state=0)
    >>> model = PopCDL(2, 50, 1.0, init=truth.dictionary, progress=False).fit(truth.cohort)
    >>> stream = Stream(model, "new", model.params_[0])
    >>> found = [stream.push(chunk) for chunk in np.split(truth.cohort[0].values, 5)]
    >>> found = pd.concat([*found, stream.finish()])
    >>> len(found) == int(model.n_activations_[0].sum()), bool(found["exact"].all())
    (True, True)
    """

    def __init__(
        self,
        model: BaseCDL,
        subject: str = "live",
        params: Any = None,
        *,
        sfreq: float | None = None,
        learn: int | str | None = None,
        scaling: Any = "auto",
        max_lag: int | str | None = None,
    ):
        check_is_fitted(model)
        self.model, self.subject = model, str(subject)
        self._rules = _check_coder(model)
        if sfreq is not None and sfreq != model.sfreq_:
            raise InvalidParameterError(
                f"`Stream(sfreq={sfreq:g})`: the model was fitted at {model.sfreq_:g} Hz. "
                "Resample the samples before they are pushed."
            )
        lengths = self._rules.lengths(model.atom_length_)
        self._longest = lengths[-1] + self._rules.gap
        self._most_lag = _as_samples("max_lag", max_lag, model.sfreq_, MOST_LAG * self._longest)
        self._n_learn = _as_samples("learn", learn, model.sfreq_, LEARN * self._longest)
        self.n_times, self._is_over = 0, False
        self.params_: Any = None
        self.atoms_: Any = None
        self.scaling_ = self._check_scaling(scaling)
        if params is None and self.subject in model.subjects_:
            params = model.params_[model.subjects_.index(self.subject)]
        self._given = None if params is None else self._check_params(params)
        self._unit, self._sign = 1.0, 1
        self._first: list[np.ndarray] | None = []
        self._empty = self._tabulate([], np.empty(0))
        learns = self._given is None or self.scaling_ is None or model.loss == "relative"
        if not (learns or self._rules.polarity == "person"):
            self._begin(self._given)

    @property
    def is_learning(self) -> bool:
        """Whether the first stretch is still being recorded."""
        return self._first is not None

    @property
    def pending(self) -> pd.DataFrame:
        """The current estimate of the events that are not settled yet, without quality."""
        if self.is_learning:
            return self._empty
        found = self._survivors.pending
        return self._tabulate(found, np.full(len(found), np.nan))

    def push(self, chunk: Any) -> pd.DataFrame:
        """Take the next samples; return the events that became certain.

        Parameters
        ----------
        chunk : array (n, P), or (n,) if there is one channel
            Any number of samples; NaN marks missing ones.

        Returns
        -------
        DataFrame
            The columns of ``model.events_``, and ``quality`` (p-value of the residual among the
            last 256 cycles up to this one, as in `PerCDL.cycles`; NaN for the first five),
            ``lag_seconds`` (from the end of the event until it was settled, in seconds of
            signal) and ``exact`` (not forced by ``max_lag``).
        """
        values = self._check_chunk(chunk)
        self.n_times += len(values)
        if self._first is None:
            return self._feed(values)
        self._first.append(values)
        if self.n_times < self._n_learn:
            return self._empty
        return self._learn()

    def finish(self) -> pd.DataFrame:
        """End the recording; return all further events, as `push` does."""
        if self._is_over:
            return self._empty
        tables = []
        if self._first is not None:
            if self.n_times < self.model.atom_length_:
                self._is_over = True
                return self._empty
            tables.append(self._learn())
        n_left, block = len(self._rest), self._block
        self._is_over = True
        found = self._advance(np.pad(self._rest, ((0, block - n_left), (0, 0))), n_left)
        found += self._survivors.finish()
        tables.append(self._describe(found))
        tables = [table for table in tables if len(table)]
        return pd.concat(tables, ignore_index=True) if tables else self._empty

    def _learn(self) -> pd.DataFrame:
        """Learn the person and the scaling from the first stretch, then code it."""
        assert self._first is not None
        values, model = np.concatenate(self._first), self.model
        first = values[: self._n_learn]
        about: Any = {"sfreq": model.sfreq_, "channels": model.channels_, "subject": self.subject}
        record, steps = Recording(first, **about), model.processing_ or ()
        if self.scaling_ is None:
            self.scaling_ = find_scaling(record, scaled_per(steps) or "channel")
        record = Recording(self._scale(first), **about, processing=steps)
        if model.loss == "relative":
            self._unit = float(find_spreads(Cohort([record]))[0])
        params = self._given
        if params is None:
            params = model.personalize(Cohort([record])).params[0]
        self._begin(params)
        if self._rules.polarity == "person":
            self._sign = self._find_sign(record.values / self._unit)
        self._first = None
        return self._feed(values)

    def _begin(self, params: Any) -> None:
        """Prepare for samples of a person with known parameters."""
        model, rules, n_channels = self.model, self._rules, self.model.n_channels_
        transform, common = model.resolve("transformation"), np.asarray(model.dictionary_, float)
        with jax.enable_x64(True):
            neutral = np.asarray(neutral_params(transform, 1, common))[0]
            absent = np.isnan(params).all(1, keepdims=True)
            self.params_ = np.where(absent, neutral, np.nan_to_num(params))
            self.atoms_ = np.asarray(apply_params(transform, self.params_[None], common))[0]
        lengths = rules.lengths(model.atom_length_)
        self._n_before = lengths[-1] - 1
        size: Any = next_fast_len(self._n_before + int(np.ceil(BLOCK_SECONDS * model.sfreq_)))
        self._block = size - self._n_before
        self._survivors = Survivors(lengths, rules.gap, self._most_lag, self._block)
        n_kept = self._most_lag + self._longest + (ROWS + 1) * self._block
        self._kept, self._rest = np.zeros((n_kept, n_channels)), np.zeros((0, n_channels))
        self._n_coded = 0
        part = transform.warp_part(model.atom_length_, n_channels)
        self._delays = delay_table(model.atom_length_, 0 if part is None else N_SINES)
        self._price = np.linalg.inv(guess_covariance(*self._delays.shape))
        self._levels = [deque(maxlen=N_REFERENCE) for _ in range(model.n_atoms_)]
        self._first = None

    def _find_sign(self, values: np.ndarray) -> int:
        """Return the sign that explains more of the first stretch."""
        signals = _as_signals(values[None], bool(np.isnan(values).any()))
        with jax.enable_x64(True):
            price = np.asarray(self.model.penalty_)
            events, _ = _encode(signals, self.atoms_[None], price, self._rules)
        return -1 if np.asarray(events.amplitude).sum() < 0 else 1

    def _scale(self, values: np.ndarray) -> np.ndarray:
        assert self.scaling_ is not None
        location, scale = self.scaling_
        return (values - location) / scale

    def _feed(self, values: np.ndarray) -> pd.DataFrame:
        """Code all complete blocks; keep the rest until more samples arrive."""
        waiting = np.concatenate([self._rest, self._scale(values) / self._unit])
        n_ready, step = len(waiting) // self._block * self._block, ROWS * self._block
        self._rest = waiting[n_ready:]
        tables = []
        for start in range(0, n_ready, step):
            found = self._advance(waiting[start : min(start + step, n_ready)])
            if found:
                tables.append(self._describe(found))
        return pd.concat(tables, ignore_index=True) if tables else self._empty

    def _advance(self, values: np.ndarray, n_last: int | None = None) -> list[LiveEvent]:
        """Code whole blocks, of the last one ``n_last`` samples; return what is settled."""
        n_blocks, block = len(values) // self._block, self._block
        self._kept = np.concatenate([self._kept, values])[len(values) :]
        self._n_coded += len(values)
        recent = self._kept[-(len(values) + self._n_before) :]
        size = self._n_before + block
        windows = np.zeros((ROWS, size, values.shape[1]))
        for row in range(n_blocks):
            windows[row] = recent[row * block : row * block + size]
        found = []
        columns = self._weigh(windows)
        for row in range(n_blocks):
            stop = n_last if n_last is not None and row == n_blocks - 1 else block
            self._survivors.advance(*(column[row, :, :stop] for column in columns))
            found += self._survivors.settle()
        return found

    def _weigh(self, windows: np.ndarray) -> list[np.ndarray]:
        """Return the candidates of windows; those with missing samples have their own program."""
        gaps = np.isnan(windows).any((1, 2), keepdims=True)
        price = np.asarray(self.model.penalty_, float)
        results: Any = []
        with jax.enable_x64(True):
            for masked in (False, True)[: 1 + int(gaps.any())]:
                signals, atoms = _as_signals(windows, masked), self.atoms_[None]
                results.append(weigh_blocks(signals, atoms, price, self._rules, self._sign))
        whole, *rest = [[np.asarray(x) for x in result] for result in results]
        return [np.where(gaps, b, a) for a, b in zip(whole, *rest, strict=True)] if rest else whole

    def _describe(self, found: list[LiveEvent]) -> pd.DataFrame:
        """Return events as a table, with their quality."""
        quality = []
        for start in range(0, len(found), N_TOGETHER):
            some = found[start : start + N_TOGETHER]
            quality += map(self._judge, some, self._levels_of(some))
        return self._tabulate(found, np.array(quality))

    def _levels_of(self, found: list[LiveEvent]) -> np.ndarray:
        """Return the logarithm of the energy that each cycle leaves per sample."""
        n = len(found)
        first = self._n_coded - len(self._kept)
        fill = np.zeros(N_TOGETHER - n)
        columns = [np.append(column, fill) for column in zip(*found, strict=True)]
        onset, length, atom, amplitude = columns[:4]
        signals = _as_signals(self._kept[None], True)
        with jax.enable_x64(True):
            whole = [x.astype(np.int32) for x in (0 * atom, atom, onset - first)]
            length = np.where(amplitude == 0, self.model.atom_length_, length)
            cut = cut_cycles(signals, self.atoms_[None], *whole, length, amplitude)
            if self._rules.n_terms:
                cut = level_cycles(cut, self._rules.n_terms)
            start = np.zeros((N_TOGETHER, len(self._price)))
            fitted = fit_cycles(cut, self._delays, self._price, start)
        n_seen = np.asarray(cut.seen).mean((1, 2)) * cut.segment[0].size
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(np.asarray(fitted.left) / n_seen)[:n]

    def _judge(self, event: LiveEvent, level: float) -> float:
        """Return the quality of a cycle, and remember its residual."""
        past = self._levels[event.atom]
        if not np.isfinite(level):
            return np.nan
        past.append(float(level))
        n, levels = len(past), np.array(past)
        if n <= FEW_CYCLES:
            return np.nan
        away = levels - np.median(levels)
        usual = np.median(np.abs(away)) / NORMAL_MAD
        return float(p_values(away[-1], n, usual * n / (n - 0.8), usual))

    def _tabulate(self, found: list[LiveEvent], quality: np.ndarray) -> pd.DataFrame:
        """Return events as rows of ``model.events_``, and how they were decided."""
        second = self.model.sfreq_
        rows = np.array([event[:5] for event in found], float).reshape(-1, 5)
        onset, length, atom, amplitude, seen = rows.T
        columns: dict[str, Any] = {
            "subject": pd.array([self.subject] * len(found), dtype="str"),
            "atom": atom.astype(int),
            "onset_sample": onset.astype(int),
            "onset_seconds": onset / second,
            "amplitude": amplitude * self._unit,
        }
        if len(self._rules.lengths(self.model.atom_length_)) > 1:
            columns["duration_samples"] = length.astype(int)
            columns["duration_seconds"] = length / second
        columns["quality"] = quality
        columns["lag_seconds"] = (seen - onset - length) / second
        columns["exact"] = np.array([not event.forced for event in found], bool)
        return pd.DataFrame(columns)

    def _check_chunk(self, chunk: Any) -> np.ndarray:
        if self._is_over:
            raise InvalidParameterError(
                f"The stream of {self.subject!r} has finished. Make a new `Stream` to continue."
            )
        values, n_channels = np.asarray(chunk, float), self.model.n_channels_
        if values.ndim == 1 and n_channels == 1:
            values = values[:, None]
        if values.ndim != 2 or values.shape[1] != n_channels:
            raise InvalidRecordingError(
                f"The stream of {self.subject!r}: a chunk has shape {values.shape}, but the model "
                f"has {n_channels} channel(s) ({', '.join(self.model.channels_)}). Push arrays "
                f"(n_samples, {n_channels})."
            )
        if np.isinf(values).any():
            at = self.n_times + int(np.isinf(values).any(1).argmax())
            raise InvalidRecordingError(
                f"The stream of {self.subject!r}: sample {at} is infinite. Push NaN if missing."
            )
        return values

    def _check_params(self, params: Any) -> np.ndarray:
        values, shape = np.asarray(params, float), self.model.params_.shape[1:]
        if values.shape != shape:
            raise InvalidParameterError(
                f"`Stream(params=...)` has shape {values.shape}, but the model has {shape[0]} "
                f"atom(s) with {shape[1]} parameter(s) each. Pass one person's, such as "
                "`model.personalize(earlier).params[0]`."
            )
        return values

    def _check_scaling(self, scaling: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """Return means and scales; None if they must be learned."""
        n_channels = self.model.n_channels_
        if isinstance(scaling, str) and scaling == "auto":
            if scaled_per(self.model.processing_ or ()) is not None:
                return None
            scaling = None
        if scaling is None:
            return np.zeros(n_channels), np.ones(n_channels)
        try:
            location, scale = (np.broadcast_to(np.asarray(x, float), n_channels) for x in scaling)
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(
                f'`Stream(scaling={scaling!r})` must be "auto", None, or a mean and a scale for '
                f"each of {n_channels} channel(s)."
            ) from error
        if not (np.isfinite(location).all() and (scale > 0).all()):
            raise InvalidParameterError(
                f"`Stream(scaling={scaling!r})`: means must be finite and scales above 0."
            )
        return location, scale


def _as_signals(values: Float[np.ndarray, "S N P"], masked: bool) -> Signals:
    """Return windows as signals, with a mask of missing samples or without."""
    missing = np.isnan(values)
    seen = (~missing).astype(float) if masked else None
    parts: Any = (np.where(missing, 0, values), np.full(len(values), values.shape[1]), seen)
    return Signals(*parts)


def _as_samples(name: str, value: int | str | None, sfreq: float, default: int) -> int:
    found = default if value is None else in_samples(value, sfreq)
    if found < 1:
        raise InvalidParameterError(f"`Stream({name}={value!r})` must be at least one sample.")
    return found


def _check_coder(model: BaseCDL) -> L0Coder:
    """Return the coder of a model; raise if its decisions depend on the whole recording."""
    coder = make_coder(model.resolve("coder"), model.sfreq_, tuple(model.atom_lengths_))
    if not isinstance(coder, L0Coder):
        raise InvalidParameterError(
            "A stream needs events that do not overlap, but the model has an L1Coder. Fit it with "
            "an L0Coder."
        )
    if model.huber_delta_ is not None:
        raise InvalidParameterError(
            "A stream needs a loss that is squared or relative: Huber's weights come from several "
            "codings of the whole recording."
        )
    if coder.max_activations is not None:
        raise InvalidParameterError(
            f"`L0Coder(max_activations={coder.max_activations})` counts the events of the whole "
            "recording, which a stream does not know. Fit without it."
        )
    return coder
