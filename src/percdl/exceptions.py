"""The errors and warnings a user of PerCDL can meet, in one place."""


class PerCDLError(Exception):
    """Raised by PerCDL itself, in one of the more precise forms below.

    Catch it to tell a refusal of this library from a failure of another one.
    """


class InvalidRecordingError(PerCDLError, ValueError):
    """Raised when signals cannot be used as they are.

    A wrong shape or type, an infinite sample, no sample at all, subjects that do not
    share channels or sampling rate, a subject id used twice. The message names the
    subject.
    """


class UnreadableFileError(PerCDLError, ValueError):
    """Raised when a file of recordings does not hold what it should.

    A missing column, a row with too few cells, text where a number belongs, a gap of the
    clock, a file cut short. The message names the file and the line or record. Nothing is
    loaded: recordings come all or none.
    """


class MissingPackageError(PerCDLError, ImportError):
    """Raised when a file format, a dataset or a metric needs a package that is not installed.

    The message says what to install.
    """


class InvalidParameterError(PerCDLError, ValueError):
    """Raised when an argument has a value the method cannot work with.

    The message names the argument, the value passed and the values allowed.
    """


class NumericalError(PerCDLError, ArithmeticError):
    """Raised when a fit would go on with numbers that are not finite.

    The message says in which half-step it happened. Nothing is returned.
    """


class ModelFileError(PerCDLError, ValueError):
    """Raised when a model file cannot be read back.

    It is not a PerCDL model, it was cut short or altered (the checksum differs, or what it
    holds does not fit together), or a newer version of PerCDL wrote it.
    """


class FederationError(PerCDLError, RuntimeError):
    """A federated run cannot go on, or a site refuses to take part.

    The message names the site, what was asked or answered, and what to do.
    """


class DatasetError(PerCDLError, OSError):
    """Raised when a public dataset cannot be used as it lies on the disk.

    It is in none of the folders looked at, a file is missing or damaged, or a download does
    not have the checksum it should. The message names the file and says what to do.
    """


class DatasetLicenceWarning(UserWarning):
    """Issued before a public dataset is downloaded: its size, its licence, whom to cite."""


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


class MissingEventsWarning(UserWarning):
    """Issued when a segmentation is scored on cycles of subjects that have no event at all.

    Their cycles count as missed, as if they had been looked for.
    """


class NoActivationWarning(UserWarning):
    """Issued when an atom is found nowhere in a subject's recording.

    The subject's parameters for that atom are then NaN: there is nothing to learn them
    from. A lower penalty brings activations back.
    """


class AlikeAtomsWarning(UserWarning):
    """Issued when atoms of a fit are copies of each other, shifted or bent in time.

    There are then fewer kinds of pattern than atoms, and the kind of an event means little.
    """


class SuspectRecordingWarning(UserWarning):
    """Issued when a recording stands out in a way that makes its results doubtful.

    Its activations miss cycles or are too many, it is many times larger than the others, the model
    explains it far worse than the others, it drifts, or a channel is constant. The message names
    the subjects and says what to do; ``model.suspects_`` lists them all.
    """


class SingleSubjectWarning(UserWarning):
    """Issued when a model with personal parameters is fitted to one recording.

    The common atom is then that person's own, and there is nobody to compare with.
    """


class CheckpointWarning(UserWarning):
    """Issued when the checkpoint of a fit cannot be written.

    The fit goes on; interrupted, it could only be resumed from an earlier checkpoint, if any.
    """


class UnclearPeriodWarning(UserWarning):
    """Issued when an atom length is read off recordings that hardly repeat themselves.

    The patterns may come at irregular times; their period is then no guide to their length.
    """


class ProcessingWarning(UserWarning):
    """Issued when a model meets recordings that were processed otherwise than those it learned.

    A z-scored cohort, say, and a model fitted on raw ones: amplitudes and shapes do not compare.
    """


class OffsetWarning(UserWarning):
    """Issued when a constant offset is so large that single precision loses the signal beside it.

    Squares of samples are compared, and hold about seven digits.
    """
