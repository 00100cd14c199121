"""All errors and warnings of PerCDL, and how messages show the names of others."""

import unicodedata

# Unicode's categories of characters that are not shown, and its changes of direction.
CONTROLS = {"Cc", "Cs", "Co", "Cn"}
TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


class PerCDLError(Exception):
    """Base class of all errors raised by PerCDL.

    Catch it to handle errors of PerCDL, but not those of other libraries.
    """


class InvalidRecordingError(PerCDLError, ValueError):
    """Raised when signals are invalid.

    Examples are a wrong shape or type, an infinite sample, no samples, subjects that differ
    in channels or sampling rate, and a duplicate subject id. The message names the subject.
    """


class UnreadableFileError(PerCDLError, ValueError):
    """Raised when the content of a file of recordings is invalid.

    Examples are a missing column, a row with too few cells, text instead of a number, a gap
    of the clock and a truncated file. The message names the file and the line or record. No
    recording is loaded.
    """


class MissingPackageError(PerCDLError, ImportError):
    """Raised when a file format, a dataset or a metric needs a package that is not installed.

    The message says what to install.
    """


class InvalidParameterError(PerCDLError, ValueError):
    """Raised when an argument has an invalid value.

    The message names the argument, the value passed and the values allowed.
    """


class NumericalError(PerCDLError, ArithmeticError):
    """Raised when numbers in a fit are not finite.

    The message names the half-step. Nothing is returned.
    """


class ModelFileError(PerCDLError, ValueError):
    """Raised when a model file cannot be read.

    It is not a PerCDL model, it was truncated or altered (the checksum differs, or its parts
    are inconsistent), or a newer version of PerCDL wrote it.
    """


class FederationError(PerCDLError, RuntimeError):
    """Raised when a federated run cannot continue, or a site refuses to take part.

    The message names the site, what was asked or answered, and what to do.
    """


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
    """Issued when a column that counts time or samples is not read as a channel.

    It has a name such as ``time`` or ``index`` and increases by equal steps.
    """


class TransposedArrayWarning(UserWarning):
    """Issued when recordings have many channels and fewer samples than channels.

    The arrays may be transposed: time comes first.
    """


class MixedColumnWarning(UserWarning):
    """Issued when a column of metadata that has mostly numbers is read as text.

    A report then sorts its people by text, not by number.
    """


class MissingEventsWarning(UserWarning):
    """Issued when a segmentation is scored on subjects without events.

    Their cycles count as missed.
    """


class NoActivationWarning(UserWarning):
    """Issued when an atom has no activation in a subject's recording.

    The subject's parameters for that atom are then NaN. A lower penalty gives more
    activations.
    """


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
    """Issued when the checkpoint of a fit cannot be written.

    The fit continues, but it can only be resumed from an earlier checkpoint, if any.
    """


class UnclearPeriodWarning(UserWarning):
    """Issued when an atom length is estimated from recordings that are hardly periodic.

    If patterns occur at irregular times, the period does not determine their length.
    """


class ProcessingWarning(UserWarning):
    """Issued when recordings were processed differently from those of the fit.

    For example, a model was fitted on raw recordings and is applied to z-scored ones:
    amplitudes and shapes are not comparable.
    """


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
