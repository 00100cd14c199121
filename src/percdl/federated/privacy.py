"""Differential privacy: what anybody can learn of one subject from all that leaves the sites.

**What is promised.** Let two federations differ in one subject: in one of them the recording of
that subject is there, in the other it adds nothing. Whatever the rest, and whatever is done with
all messages of a run, the probabilities of any conclusion differ by a factor of ``exp(epsilon)``
at most, apart from a probability ``delta``. The unit is a subject of a cohort with all of its
recording. The number of subjects, the agreed settings and the first dictionary are public. To
exchange a subject for another is twice as much: double the clip, or halve the noise multiplier,
to account for it. A person with recordings under two ids counts as two subjects.

**Mechanism.** In a round each subject adds one vector (`contributions`): moments and weights in
the first phase; transported segments, the band of the Gram matrix, the number of subjects and the
first sines of the warps in the second. Every subject counts once (``weighting="subjects"``), so
that the vector has no units. It is clipped to a norm of at most C, ``clip * sqrt(n_atoms)``; the
vectors of a site are added; normal noise of standard deviation ``noise_multiplier * C`` is added
to every number (`noise`). Nothing else is told: objective, energies, counts, votes and misfits are
withheld, and the sums of the last recentering, which nobody needs, are zero.

**Why a vector has no part of anybody else.** What a site does for a subject depends on its
recording and on what was broadcast, and all broadcasts follow from noisy sums. Chunks have a fixed
shape, so that one program serves whoever is there, and a test compares bit by bit.

**Whom the noise protects from.** By default each site adds all of the noise to its own sums: the
promise holds against the coordinator, all other sites, and everybody who sees the messages, with
or without secure sums. With ``shared_by=h`` each adds a share, of variance ``1 / h``; the total
suffices if sums are secure and h sites add their share as they should. That is less noise, and
more trust.

**Accounting.** A run releases `count_releases` sums: each round of both phases, and the closing
one. They compose by Rényi differential privacy (`dp_accounting`); nothing is gained by sampling,
because everybody takes part in every round. A round that is repeated after a dropout gives the
same noisy sums again. A site keeps a ledger, and refuses to release more than was agreed on.

**What is outside.** Hyper-parameters, among them the penalty, the clip and the first dictionary,
must not be chosen on the recordings: use public ones, or those of people who agreed. Rounds do
not stop early. Results that stay at a site are not noisy: do not publish them as if they were.
Time and the size of messages tell how much there is to compute, thus about how many samples a
site has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from percdl.algorithm.settings import Settings
from percdl.exceptions import InvalidParameterError, MissingPackageError
from percdl.federated.ledger import count_rounds
from percdl.federated.packing import Bounds, exponent

# Room for so many subjects, as a power of two, and for noise of the same size.
MOST_SUBJECTS = 24


@dataclass(frozen=True)
class Privacy:
    """How much may be learned of one subject; docs/federated/privacy.md says what it means.

    Parameters
    ----------
    epsilon : float, optional
        The most that a whole run may spend; the noise follows. Or give ``noise_multiplier``.
    delta : float
        Probability with which the promise may fail; well below one over the number of subjects.
    clip : float
        Largest contribution of a subject, for one atom. An ordinary subject's is about 1 in the
        first phase and between 1 and 2 in the second, whatever the units. A public number:
        `suggest_clip` looks at recordings that need no protection.
    noise_multiplier : float, optional
        Standard deviation of the noise over the clip, instead of ``epsilon``. 0: no noise, thus no
        privacy, for comparison.
    shared_by : int
        How many honest sites make up the noise together. More than 1 takes secure sums.

    Examples
    --------
    >>> privacy = Privacy(epsilon=8.0).calibrated(n_releases=7)
    >>> round(privacy.noise_multiplier, 2), round(privacy.epsilon_spent(7), 2)
    (1.69, 8.0)
    """

    epsilon: float | None = None
    delta: float = 1e-5
    clip: float = 1.5
    noise_multiplier: float | None = None
    shared_by: int = 1

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise InvalidParameterError(
                f"`Privacy(epsilon={self.epsilon}, noise_multiplier={self.noise_multiplier})`: "
                "give one of them, the other follows."
            )
        given = {"epsilon": self.epsilon, "delta": self.delta, "clip": self.clip}
        for name, value in given.items():
            if value is not None and not value > 0:
                raise InvalidParameterError(f"`Privacy({name}={value!r})` must be positive.")
        if not self.delta < 1:
            raise InvalidParameterError(f"`Privacy(delta={self.delta!r})` must be below 1.")
        if self.noise_multiplier is not None and not 0 <= self.noise_multiplier < math.inf:
            raise InvalidParameterError(
                f"`Privacy(noise_multiplier={self.noise_multiplier!r})` must be finite and not "
                "negative."
            )
        if self.clip == math.inf and self.noise_multiplier != 0:
            raise InvalidParameterError("`Privacy(clip=inf)` would take infinite noise.")
        if not isinstance(self.shared_by, int) or self.shared_by < 1:
            raise InvalidParameterError(
                f"`Privacy(shared_by={self.shared_by!r})` must be an integer of at least 1."
            )

    def calibrated(self, n_releases: int) -> Privacy:
        """Return the same with the noise multiplier that its epsilon takes."""
        if self.epsilon is None:
            return self
        noise = calibrate(self.epsilon, self.delta, n_releases)
        return replace(self, epsilon=None, noise_multiplier=noise)

    def epsilon_spent(self, n_releases: int) -> float:
        """Return what so many releases spend, at the delta given."""
        noise = self.calibrated(n_releases).noise_multiplier
        assert noise is not None
        return epsilon_spent(noise, self.delta, n_releases)

    def bound(self, n_atoms: int) -> float:
        """Return C, the largest norm of what a subject adds."""
        return self.clip * math.sqrt(n_atoms)

    def deviation(self, n_atoms: int) -> float:
        """Return the standard deviation of the noise that one site adds to every number."""
        if self.noise_multiplier is None:
            raise InvalidParameterError(
                "The noise of this `Privacy` is not known yet: `calibrated(n_releases)` finds it."
            )
        if self.noise_multiplier == 0:
            return 0.0
        return self.noise_multiplier * self.bound(n_atoms) / math.sqrt(self.shared_by)


def count_releases(settings: Settings) -> int:
    """Return how many noisy sums a fit releases: its rounds, the closing one included.

    >>> from percdl.transforms import TimeWarp
    >>> rounds = {"population_rounds": 2, "personal_rounds": 4}
    >>> settings = Settings(TimeWarp(), 50, 1, 1, 0.1, **rounds)
    >>> count_releases(settings)
    7
    """
    rounds = count_rounds(settings)
    return rounds["population"] + rounds["personal"]


def epsilon_spent(noise_multiplier: float, delta: float, n_releases: int) -> float:
    """Return the epsilon of so many noisy sums, by Rényi differential privacy.

    >>> round(epsilon_spent(5.0, 1e-5, 8), 3)
    2.484
    """
    if noise_multiplier == 0:
        return math.inf
    accounting = _accounting()
    accountant = _accountant()
    accountant.compose(accounting.GaussianDpEvent(noise_multiplier), n_releases)
    return float(accountant.get_epsilon(delta))


def calibrate(epsilon: float, delta: float, n_releases: int) -> float:
    """Return the noise multiplier with which so many noisy sums spend an epsilon.

    >>> round(calibrate(2.0, 1e-5, 8), 2)
    6.08
    """
    accounting = _accounting()

    def event(noise_multiplier: float) -> Any:
        gaussian = accounting.GaussianDpEvent(noise_multiplier)
        return accounting.SelfComposedDpEvent(gaussian, n_releases)

    return float(accounting.calibrate_dp_mechanism(_accountant, event, epsilon, delta))


def public_bounds(atom_length: int) -> Bounds:
    """Return what takes the place of the bounds that sites tell of their signals: constants."""
    return Bounds(0, MOST_SUBJECTS + exponent(atom_length))


def check_private(settings: Settings) -> None:
    """Raise where a fit would tell more than noisy sums, or sums with units."""
    for name, found, needed, why in (
        ("weighting", settings.weighting, "subjects", "only then have contributions no units"),
        ("tol", settings.tol, 0.0, "when a fit stops would tell of the recordings"),
        ("coder", "l1" if settings.overlaps else "l0", "l0", "an l1 code stops for all at once"),
        ("update", settings.update, "closed-form", "copies of atoms have not been looked at"),
        ("huber_delta", settings.delta, None, "robust codes have not been looked at"),
    ):
        if found != needed:
            raise InvalidParameterError(
                f"Differential privacy needs `{name}={needed!r}`, not {found!r}: {why}."
            )


def _accountant() -> Any:
    accounting = _accounting()
    relation = accounting.NeighboringRelation.REPLACE_SPECIAL
    return accounting.rdp.RdpAccountant(neighboring_relation=relation)


def _accounting() -> Any:
    try:
        import dp_accounting
    except ImportError as error:
        raise MissingPackageError(
            "Differential privacy is accounted for by dp-accounting: "
            "`pip install percdl[privacy]`."
        ) from error
    return dp_accounting
