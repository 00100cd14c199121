"""IndCDL: a dictionary for each person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from percdl.estimators.base import BaseCDL
from percdl.steps.coders import L0Coder, L1Coder

if TYPE_CHECKING:
    from percdl.transforms import Transform


@final
class IndCDL(BaseCDL):
    """Convolutional dictionary learning run for each subject alone (Section 2.1).

    The same as ``PerCDL(transform=Free())``. ``dictionary_`` is the barycenter of the
    individual atoms; it plays no part in the fit. Cost per round: O(N P log N) for coding and
    O(L P) for the atom itself, per subject and atom.

    Parameters
    ----------
    **Problem**

    n_atoms : int or "auto"
        K, the number of atoms; "auto" adds atoms while they are worth it.
    atom_length : int or "auto"
        L, in samples; "auto" reads it off the periods, as `suggest_atom_length` does.
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
        Their sum is the number of rounds (two names, so that the models swap).
    init : "auto", array (K, L, P), Motif or list of Motif
        The first dictionary: chosen from the data, given, or cut from named subjects.
    n_restarts : int
        With ``init="auto"``, how many first dictionaries to try; the lowest objective wins.
    realign : bool
        Move atoms to the window of largest energy. The paper's plain algorithm
        does not (False).
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
        The barycenter of the individual atoms, at unit norm.
    params_ : array (S, K, M)
        The individual atoms, flattened (M = L P).
    personal_dictionary_ : array (S, K, L, P)
        Everyone's version of the atoms; NaN where a subject has no activation of an atom.
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
    >>> from percdl import IndCDL, make_synthetic
    >>> truth = make_synthetic(8, random_state=0)
    >>> model = IndCDL(2, 50, 1e-2, init=truth.personal_dictionary[0]).fit(truth.cohort)
    >>> model.personal_dictionary_.shape
    (8, 2, 50, 1)
    """

    def __init__(
        self,
        n_atoms: int | str = 1,
        atom_length: int | str = 50,
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
        tol: float = 0.0,
        dtype: str = "float32",
        chunk_rows: int | None = None,
        random_state: Any = None,
        progress: bool | str = "auto",
    ):
        self.n_atoms = n_atoms
        self.atom_length = atom_length
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
        self.tol = tol
        self.dtype = dtype
        self.chunk_rows = chunk_rows
        self.random_state = random_state
        self.progress = progress

    def _get_transform(self) -> Transform:
        from percdl.transforms import Free

        return Free()
