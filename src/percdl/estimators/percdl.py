"""PerCDL: what a population shares, and how each person differs."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, final

from percdl.estimators.base import BaseCDL
from percdl.estimators.shared_name import SharedName, argument
from percdl.exceptions import InvalidParameterError
from percdl.steps.coders import L0Coder, L1Coder

if TYPE_CHECKING:
    from percdl.transforms import Transform

# Leads to the arguments of the transform, as scikit-learn writes it.
_NESTED = "transform__"


@final
class PerCDL(BaseCDL):
    """Personalized convolutional dictionary learning (Eq. 3, Algorithm 1).

    Finds repeated patterns in the recordings, learns the common atoms of the population and
    expresses each subject's version as a transformation of them. Cost per round: O(N P log N)
    for coding and O(L M^2) for the parameters, per subject and atom.

    Parameters
    ----------
    **Problem**

    n_atoms : int or "auto"
        K, the number of atoms; "auto" adds atoms while they are worth it.
    atom_length : int or "auto"
        L, in samples; "auto" reads it off the periods, as `suggest_atom_length` does.
    transform : Transform, optional
        The f of the paper; by default ``TimeWarp()``.
    penalty : float or "auto"
        lambda, the price of one activation, in squared signal units, exactly as in Eq. 1;
        nothing is rescaled. "auto" chooses it by BIC (docs/choosing.md).
    penalty_ratio : float, optional
        Instead of ``penalty``: a share of the largest useful one, which is what the best of all
        activations of the first dictionary explains.
    signed : bool
        Allow negative amplitudes.
    min_gap : int
        Least number of samples between two activations of a recording.
    max_activations : int, optional
        Most activations of a recording.
    coder : L0Coder or L1Coder, optional
        How activations are found: by default exactly, at a price for each and without
        overlap, as the three arguments above say; with an `L1Coder` they may overlap and
        ``penalty`` is the price of a unit of amplitude.
    weighting : {"amplitude", "subjects"}
        Segments count by squared amplitude (the exact minimizer), or every subject once.
    loss : {"squared", "huber"}
        How residuals count: squared, as in the paper, or linearly beyond ``huber_delta``, so
        that impulses and artefacts do not bend the atoms.
    huber_delta : float, optional
        In signal units; by default the recordings' median root mean square.

    **Algorithm**

    n_init, n_perso : int
        Rounds of the population phase and of the personalization phase.
    init : "auto", array (K, L, P), Motif or list of Motif
        The first dictionary: chosen from the data, given, or cut from named subjects.
    n_restarts : int
        With ``init="auto"``, how many first dictionaries to try; the lowest objective wins.
    realign : bool
        Move atoms to the window of largest energy and try common shifts of a subject's
        onsets. The paper's plain algorithm
        does not (False).
    multistart : bool
        Start the warp fit from a monotone alignment as well; the plain algorithm does not.
    centering : {"refit", "paper", "off"}
        Centre the atoms on the mean warp and re-fit the parameters; centre and leave them
        stale, as the paper does; or do not centre.
    solver : {"gauss-newton", "polyak"}
        How the parameters are fitted; "polyak" is the paper's projected gradient.
    n_solver_steps : int, optional
        Iterations of the solver in a round; by default 3 for Gauss-Newton, 100 for Polyak.
    update : {"closed-form", "robust"}
        How the common atoms follow from the subjects: by least squares given everyone's
        parameters (Theorem 1), or as the mean of copies that each subject moves along with its
        parameters in a few gradient steps (Appendix B). The second sends less in a federation
        and need not lower the objective; docs/federated/variants.md says when it helps.
    tol : float
        Stop a phase when a round changes the objective by less than this, relative; 0 runs
        all rounds.

    **Technical**

    dtype : {"float32", "float64"}
        Arithmetic on the device.
    chunk_rows : int, optional
        Most recordings processed at once; memory depends on it, results do not.
    random_state : int, RandomState or None
        Decides everything that is drawn.
    progress : "auto" or bool
        Show a progress bar; "auto" only on a terminal.

    Attributes
    ----------
    dictionary_ : array (K, L, P)
        What the population shares, at unit norm.
    params_ : array (S, K, M)
        How each person differs; NaN where a subject has no activation of an atom. These are the
        results of the fit; `personalize` of the same recordings gives other values, see there.
    personal_dictionary_ : array (S, K, L, P)
        Everyone's version of the atoms; NaN where a subject has no activation of an atom.
    warps_ : array (S, K, C, L)
        Everyone's psi at the samples of the atom, in samples; C = 1 warp for all channels, one
        for each, or none where the transform warps no time. Like ``params_``, they differ from
        the warps that `personalize` finds for the same recordings.
    events_ : DataFrame
        Columns subject, atom, onset_sample, onset_seconds, amplitude.
    n_activations_ : array (S, K)
        Activations per subject and atom.
    history_ : DataFrame
        Objective and seconds after each half-step: phase, round, step, objective, seconds.
    n_atoms_, atom_length_, penalty_ : int, int, float
        What was given, or chosen where "auto" was.
    objective_ : float
        Objective at the end.
    stop_reason_ : str
        Why the fit ended, as a sentence.
    processing_ : tuple of str
        What had been done to the recordings, see `Cohort.processing`.
    suspects_ : DataFrame or None
        Whose results are doubtful and why: subject, kind, message. None after `load`.

    Examples
    --------
    >>> from percdl import PerCDL, TimeWarp, make_synthetic
    >>> truth = make_synthetic(8, random_state=0)
    >>> model = PerCDL(2, 50, TimeWarp(3, 10), 1e-2, init=truth.personal_dictionary[0])
    >>> model.fit(truth.cohort).dictionary_.shape
    (2, 50, 1)
    """

    def __init__(
        self,
        n_atoms: int | str = 1,
        atom_length: int | str = 50,
        transform: Transform | None = None,
        penalty: float | str = 0.01,
        *,
        penalty_ratio: float | None = None,
        signed: bool = False,
        min_gap: int = 0,
        max_activations: int | None = None,
        coder: L0Coder | L1Coder | None = None,
        weighting: str = "amplitude",
        loss: str = "squared",
        huber_delta: float | None = None,
        n_init: int = 5,
        n_perso: int = 5,
        init: Any = "auto",
        n_restarts: int = 1,
        realign: bool = True,
        multistart: bool = True,
        centering: str = "refit",
        solver: str = "gauss-newton",
        n_solver_steps: int | None = None,
        update: str = "closed-form",
        tol: float = 0.0,
        dtype: str = "float32",
        chunk_rows: int | None = None,
        random_state: Any = None,
        progress: bool | str = "auto",
    ):
        self.n_atoms = n_atoms
        self.atom_length = atom_length
        self.transform = transform  # pyright: ignore[reportAttributeAccessIssue]
        self.penalty = penalty
        self.penalty_ratio = penalty_ratio
        self.signed = signed
        self.min_gap = min_gap
        self.max_activations = max_activations
        self.coder = coder
        self.weighting = weighting
        self.loss = loss
        self.huber_delta = huber_delta
        self.n_init = n_init
        self.n_perso = n_perso
        self.init = init
        self.n_restarts = n_restarts
        self.realign = realign
        self.multistart = multistart
        self.centering = centering
        self.solver = solver
        self.n_solver_steps = n_solver_steps
        self.update = update
        self.tol = tol
        self.dtype = dtype
        self.chunk_rows = chunk_rows
        self.random_state = random_state
        self.progress = progress

    def _get_transform(self) -> Transform:
        from percdl.transforms import TimeWarp, Transform

        chosen = argument(self, "transform")
        if chosen is None:
            return TimeWarp()
        if not isinstance(chosen, Transform):
            raise InvalidParameterError(
                f"`PerCDL(transform={chosen!r})` must be a Transform, e.g. `TimeWarp()`."
            )
        return chosen

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor; if deep, also those of the transform."""
        chosen = argument(self, "transform")
        own = {**super().get_params(deep), "transform": chosen}
        if not deep or chosen is None:
            return own
        return own | {f"{_NESTED}{name}": getattr(chosen, name) for name in _arguments(chosen)}

    def set_params(self, **params: Any) -> PerCDL:
        """Change arguments; ``transform__depth=3`` and the like make a new transform."""
        own = {name: value for name, value in params.items() if not name.startswith(_NESTED)}
        super().set_params(**own)
        nested = {name.removeprefix(_NESTED): params[name] for name in params.keys() - own.keys()}
        if nested:
            chosen = self._get_transform()
            unknown = sorted(nested.keys() - set(_arguments(chosen)))
            if unknown:
                raise InvalidParameterError(
                    f"`{chosen!r}` has no argument {unknown[0]!r}, only "
                    f"{', '.join(_arguments(chosen)) or 'none at all'}."
                )
            self.transform = replace(chosen, **nested)  # type: ignore[type-var]
        return self


def _arguments(transform: Transform) -> list[str]:
    """Return the names of what a transform is made of."""
    return (
        [field.name for field in fields(transform) if field.init]
        if is_dataclass(transform)
        else []
    )


setattr(PerCDL, "transform", SharedName(BaseCDL.transform, "transform"))  # noqa: B010
