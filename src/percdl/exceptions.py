"""All errors and warnings of PerCDL, and how messages show the names of others."""

import unicodedata

# Unicode's categories of characters that are not shown, and its changes of direction.
CONTROLS = {"Cc", "Cs", "Co", "Cn"}
TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


class PerCDLError(Exception):
    """Base class of all errors raised by PerCDL, to tell them from those of other libraries."""


class InvalidRecordingError(PerCDLError, ValueError):
    """Raised when signals are invalid.

    Examples are a wrong shape or type, an infinite sample, no samples, subjects that differ
    in channels or sampling rate, and a duplicate subject id. The message names the subject.
    """


class UnreadableFileError(PerCDLError, ValueError):
    """Raised when the content of a file of recordings is invalid; names the file and the line."""


class MissingPackageError(PerCDLError, ImportError):
    """Raised when an optional package is needed and not installed; says what to install."""


class InvalidParameterError(PerCDLError, ValueError):
    """Raised when an argument has an invalid value; names it, the value and the values allowed."""


class NumericalError(PerCDLError, ArithmeticError):
    """Raised when numbers in a fit are not finite; names the half-step. Nothing is returned."""


class ModelFileError(PerCDLError, ValueError):
    """Raised when a model file cannot be read.

    It is not a PerCDL model, it was truncated or altered (the checksum differs, or its parts
    are inconsistent), or a newer version of PerCDL wrote it.
    """


class FederationError(PerCDLError, RuntimeError):
    """Raised when a federated run cannot continue, or a site refuses; says why and what to do."""


class DatasetError(PerCDLError, OSError):
    """Raised when a public dataset cannot be found or read.

    It is in none of the searched folders, a file is missing or damaged, or a download has the
    wrong checksum. The message names the file and says what to do.
    """


class DatasetLicenceWarning(UserWarning):
    """Issued before a public dataset is downloaded: its size, licence and reference to cite."""


class ClockUnitWarning(UserWarning):
    """Issued when a column of times, taken as seconds, gives less than one sample per second.

    Its times may be milliseconds: a rate of 100 Hz then reads as 0.1 Hz.
    """


class ClockColumnWarning(UserWarning):
    """Issued when a column that counts time or samples, by its name, is not read as a channel."""


class TransposedArrayWarning(UserWarning):
    """Issued when recordings have fewer samples than channels: arrays may be transposed."""


class MixedColumnWarning(UserWarning):
    """Issued when a column of metadata that has mostly numbers is read as text."""


class MissingEventsWarning(UserWarning):
    """Issued when subjects without events are scored: their cycles count as missed."""


class NoActivationWarning(UserWarning):
    """Issued when an atom has no activation in a recording: its parameters are NaN there."""


class AlikeAtomsWarning(UserWarning):
    """Issued when atoms of a fit are copies of each other, shifted or bent in time.

    There are then fewer kinds of pattern than atoms, and the kind of an event is arbitrary.
    """


class SuspectRecordingWarning(UserWarning):
    """Issued when the results of a recording are doubtful.

    Its activations miss cycles or are too many, it is many times larger than the others, the model
    explains it far worse than the others, it drifts, or a channel is constant. The message names
    the subjects and says what to do; ``model.suspects_`` lists them all.
    """


class SingleSubjectWarning(UserWarning):
    """Issued when a model with personal parameters is fitted to one recording.

    The common atom is then that person's own atom, with no one to compare with.
    """


class CheckpointWarning(UserWarning):
    """Issued when a checkpoint cannot be written: the fit goes on, but cannot be resumed there."""


class UnclearPeriodWarning(UserWarning):
    """Issued when an atom length is estimated from recordings that are hardly periodic."""


class ProcessingWarning(UserWarning):
    """Issued when recordings were not processed like those of the fit, e.g. not z-scored."""


class OffsetWarning(UserWarning):
    """Issued when an offset hides the pattern.

    Activations without a baseline follow the level of a recording. A very large one takes the
    digits of single precision: the arithmetic uses squares of samples, with about seven digits.
    """


def visible(text: str) -> str:
    """Return text in which control characters are escaped: names of others may contain them.

    So are those that change the direction of writing: a name could look like another with them.
    """
    return "".join(ascii(c)[1:-1] if _is_control(c) else c for c in text)


def _is_control(character: str) -> bool:
    kind, direction = unicodedata.category(character), unicodedata.bidirectional(character)
    return (kind in CONTROLS and character not in "\n\t") or direction in TURNS
