"""The options of the algorithm, and all settings of a fit, as frozen values."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np

from percdl.parameters import Amount, Count, Doc, Nonnegative, Positive, documented
from percdl.steps.coders import L0Coder, L1Coder, SizedCoder

if TYPE_CHECKING:
    from percdl.transforms.base import ChannelTransform, Transform, WarpTransform

# Shifts of the onsets that are tried, for atoms of 50 samples (chosen on the paper's synthetic
# cohorts); they grow with the length of the atom.
SHIFTS = tuple(range(-5, 6))
# Distance of a shift from a whole number of samples of the recording that is too small to matter.
MOST_BETWEEN = 0.1
# Every subject is searched in the first round. Later rounds search subjects with a worse fit than
# the population, or with a window that cuts the pattern, until this many searches changed nothing.
PATIENCE, PATIENCE_MISPLACED = 1, 5
REFERENCE_LENGTH = 50
# Gauss-Newton iterations of one try of the search, and of the fit that follows it.
N_TRY_STEPS, N_FIT_STEPS, N_POLYAK_STEPS = 6, 3, 100
# Personal rounds with a fixed dictionary, at the end of a fit and for new subjects.
N_EXPRESS_ROUNDS = 3
# Steps of the joint descent on parameters and copies: the fewest in which each responds to the
# other. With more, copies fit the noise of their subject.
N_COPY_STEPS = 2


class FitOptions(NamedTuple):
    """The part of the settings that the IPU program depends on."""

    solver: str
    n_steps: int


class SumOptions(NamedTuple):
    """The part of the settings that the sums over subjects depend on.

    Whether every subject counts once, whether the sums are for centering and for searching as
    well, and the number of steps of joint descent on copies (0: closed form).
    """

    by_subject: bool
    centres: bool
    searches: bool
    copy_steps: int


@documented
@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """How a model is fitted: rounds, searches and solvers.

    Algorithm 1 of the paper with three additions, all of them on by default: windows that move
    (``realign``), warps that start from an alignment (``multistart``) and parameters that follow
    the centered atoms (``centering="refit"``). `Algorithm.as_printed` switches them off.

    Examples
    --------
    >>> Algorithm(population_rounds=3, personal_rounds=10).personal_rounds
    10
    """

    population_rounds: Annotated[
        Amount,
        Doc(
            "Rounds of the first phase, with atoms common to all subjects. Models with one phase "
            "run the rounds of both.",
            "Algorithm",
        ),
    ] = 5
    personal_rounds: Annotated[
        Amount, Doc("Rounds of the second phase, with personal atoms.", "Algorithm")
    ] = 5
    realign: Annotated[
        bool,
        Doc(
            "Move atoms to the window of largest energy, and try common shifts of a subject's "
            "onsets.",
            "Algorithm",
        ),
    ] = True
    personal_windows: Annotated[
        bool,
        Doc(
            "Let the realignment shift the window of each subject, for a better fit. False: the "
            "strongest part of the pattern lies at about the same time of everyone's window, so "
            "that personal atoms can be compared sample by sample.",
            "Algorithm",
        ),
    ] = True
    multistart: Annotated[
        bool, Doc("Start the warp fit from a monotone alignment as well.", "Algorithm")
    ] = True
    centering: Annotated[
        Literal["refit", "paper", "off"],
        Doc(
            'Center the atoms on the mean warp and re-fit the parameters ("refit"), center and '
            'leave the parameters as they are ("paper"), or do not center ("off").',
            "Algorithm",
        ),
    ] = "refit"
    solver: Annotated[
        Literal["gauss-newton", "polyak"],
        Doc(
            'Solver of the personalization parameters; "polyak" is the projected gradient of the '
            "paper.",
            "Algorithm",
        ),
    ] = "gauss-newton"
    solver_steps: Annotated[
        Count | None,
        Doc(
            "Iterations of the solver per round; by default 3 for Gauss-Newton, 100 for Polyak.",
            "Algorithm",
        ),
    ] = None
    update: Annotated[
        Literal["closed-form", "robust"],
        Doc(
            "How the common atoms follow from the subjects: by least squares given their "
            'parameters (Theorem 1, "closed-form"), or as the mean of copies that each subject '
            'moves along with its parameters in a few gradient steps (Appendix B, "robust"). The '
            "second sends less in a federation and need not lower the objective, see "
            "docs/federated/variants.md.",
            "Algorithm",
        ),
    ] = "closed-form"
    tol: Annotated[
        Nonnegative,
        Doc(
            "Stop a phase when a round changes the objective by less than this, relative; 0 runs "
            "all rounds.",
            "Algorithm",
        ),
    ] = 0.0
    weighting: Annotated[
        Literal["amplitude", "subjects"],
        Doc(
            "Weight segments by squared amplitude (the exact minimizer of Eq. 3), or count every "
            "subject once (as phase 1 of Algorithm 2).",
            "Algorithm",
        ),
    ] = "amplitude"
    chunk_rows: Annotated[
        Count | None,
        Doc(
            "Largest number of recordings processed together; changes memory, not results.",
            "Technical",
        ),
    ] = None

    @classmethod
    def as_printed(cls, **changes: Any) -> "Algorithm":
        """Return the algorithm as printed in the paper, without the three additions.

        The prior on warps is an argument of the warp: ``TimeWarp(prior=None)`` is the paper's.

        Parameters
        ----------
        **changes
            Other arguments, e.g. ``solver="polyak"`` for the solver of the paper as well.

        Returns
        -------
        Algorithm

        Examples
        --------
        >>> Algorithm.as_printed(personal_rounds=10).centering
        'paper'
        """
        return cls(**{"realign": False, "multistart": False, "centering": "paper", **changes})


@documented
@dataclass(frozen=True)
class Huber:
    """Huber's loss: residuals count squared up to ``delta`` and linearly beyond it.

    Impulses and artefacts then do not bend the atoms.

    Examples
    --------
    >>> Huber(0.5)
    Huber(delta=0.5)
    """

    delta: Annotated[
        Positive | None,
        Doc("In signal units; by default the median root mean square of the recordings."),
    ] = None


@dataclass(frozen=True)
class Settings(Algorithm):
    """The problem as numbers, and the algorithm; hashable, so that programs can be keyed by it.

    Attributes
    ----------
    transform : Transform
        The f of the paper.
    atom_length, n_atoms, n_channels : int
        L, K and P.
    penalty : float
        lambda, in squared signal units (decision 14).
    delta : float or None
        Residuals beyond it count linearly (Huber's loss); None: all count squared.
    relative : bool
        Recordings are counted in their own standard deviations.
    coder : L0Coder or L1Coder
        What a code may look like: exact without overlap, or with an l1 penalty.
    dtype : {"float32", "float64"}
        Arithmetic on the device.
    """

    transform: "Transform"
    atom_length: int
    n_atoms: int
    n_channels: int
    penalty: float
    delta: float | None = None
    relative: bool = False
    coder: L0Coder | L1Coder = field(default_factory=L0Coder)
    dtype: str = "float32"

    @cached_property
    def schedule(self) -> tuple[int, int]:
        """Rounds of the two phases.

        Without parameters there is no personal phase, and without shared structure no population
        phase. All rounds then belong to the other phase, so that the three models can be compared
        at equal cost.
        """
        total = self.population_rounds + self.personal_rounds
        if self.n_params == 0:
            return total, 0
        if not self.transform.shares_structure:
            return 0, total
        return self.population_rounds, self.personal_rounds

    def in_unit(self, unit: float) -> "Settings":
        """Return the same settings for signals and prices expressed in ``unit``.

        The l0 price and the price of the transform are in squared units; the l1 price is in the
        unit of amplitudes. Prices that overflow become the largest number, with the same effect.
        A delta that underflows becomes the smallest number, since residuals are divided by it.
        """
        least, most = float(np.finfo(self.dtype).tiny), float(np.finfo(self.dtype).max)
        per_amplitude = self.penalty / unit
        return replace(
            self,
            penalty=min(per_amplitude if self.overlaps else per_amplitude / unit, most),
            delta=None if self.delta is None else min(max(self.delta / unit, least), most**0.5),
            transform=self.transform if unit == 1 else self.transform.reprice(1 / unit),
        )

    @property
    def by_subject(self) -> bool:
        """Whether every subject counts once, so that sums have no unit."""
        return self.weighting == "subjects"

    @cached_property
    def refits(self) -> bool:
        """Whether parameters are adapted when the dictionary is centred."""
        return self.centering == "refit"

    @cached_property
    def overlaps(self) -> bool:
        """Whether activations may overlap; then nothing is searched."""
        return isinstance(self.coder, L1Coder)

    @property
    def disjoint_coder(self) -> L0Coder:
        """The rules of a code without overlap, for steps that always need one."""
        if isinstance(self.coder, L1Coder):
            return L0Coder(signed=self.coder.signed)
        return self.coder

    @property
    def atom_lengths(self) -> tuple[int, ...]:
        """The lengths of atoms if they differ, else an empty tuple."""
        return self.coder.sizes if isinstance(self.coder, SizedCoder) else ()

    @property
    def has_lengths(self) -> bool:
        """Whether activations may be longer or shorter than the atom."""
        return len(self.disjoint_coder.lengths(self.atom_length)) > 1 and not self.overlaps

    @property
    def warps(self) -> bool:
        """Whether the transform moves samples in time."""
        return self.warp_part is not None

    @cached_property
    def warp_part(self) -> "tuple[WarpTransform, slice] | None":
        """The part of the transform that warps time, if any."""
        return self.transform.warp_part(self.atom_length, self.n_channels)

    @cached_property
    def channel_part(self) -> "tuple[ChannelTransform, slice] | None":
        """The part of the transform that mixes channels and is centred, if any."""
        return self.transform.channel_part(self.atom_length, self.n_channels)

    @property
    def ends_centred(self) -> bool:
        """Whether a fit ends by centering the dictionary and recomputing codes and parameters."""
        has_gauge = self.warps or self.channel_part is not None
        return has_gauge and self.refits and self.schedule[1] > 0

    @cached_property
    def express_rounds(self) -> int:
        """Personal rounds of recordings with a fixed dictionary."""
        return N_EXPRESS_ROUNDS if self.ends_centred else self.schedule[1]

    @cached_property
    def has_prior(self) -> bool:
        """Whether the population of warps is estimated and used as a prior."""
        if self.warp_part is None or self.overlaps or self.solver != "gauss-newton":
            return False
        return self.warp_part[0].prior is not None and self.update == "closed-form"

    @property
    def n_params(self) -> int:
        """M, the number of parameters per subject and atom."""
        return self.transform.n_params(self.atom_length, self.n_channels)

    @property
    def margin(self) -> int:
        """R, how far the statistics reach beyond the atom on either side."""
        if not self.realign or self.overlaps:
            return 0
        return max(1, round(8 * self.atom_length / REFERENCE_LENGTH))

    @cached_property
    def fit_options(self) -> FitOptions:
        """The settings that IPU is compiled for."""
        default = N_POLYAK_STEPS if self.solver == "polyak" else N_FIT_STEPS
        return FitOptions(self.solver, self.solver_steps or default)

    @cached_property
    def sum_options(self) -> SumOptions:
        """The settings that the sums over subjects are compiled for."""
        copy_steps = N_COPY_STEPS if self.update == "robust" else 0
        return SumOptions(self.by_subject, self.refits, bool(self.shifts), copy_steps)

    @cached_property
    def shifts(self) -> tuple[tuple[int, ...], ...]:
        """The onset shifts to try in a search for each atom, in samples of the dictionary.

        Onsets move by whole samples of the recording. Where the samples of a shorter atom meet
        these, a shift can be tried, unless it is beyond the margin; others become 0.
        """
        if not self.warps or self.overlaps or self.solver != "gauss-newton":
            return ()
        if not (self.realign and self.personal_windows):
            return ((0,),) * self.n_atoms if self.multistart else ()
        stride = max(1, round(self.atom_length / REFERENCE_LENGTH))
        whole = np.array(SHIFTS) * stride
        lengths = np.array(self.atom_lengths or (self.atom_length,) * self.n_atoms)[:, None]
        steps = (self.atom_length - 1) / (lengths - 1)
        moves = np.rint(whole * steps).astype(int)
        is_possible = abs(moves / steps - whole) <= MOST_BETWEEN
        is_possible &= (abs(moves) <= self.margin) | (steps == 1)
        return tuple(map(tuple, np.where(is_possible, moves, 0).tolist()))
