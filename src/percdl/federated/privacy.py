"""Differential privacy: budget, accounting, clipping and noise (docs/federated/privacy.md).

The last bits of a noisy floating-point sum could reveal the value. Here values and noise are
multiples of one step, so every outcome is possible for every value. Contributions are rounded
towards zero after clipping, and added as integers; noise is a normal number, rounded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64
from pydantic import ConfigDict
from scipy.optimize import root_scalar
from scipy.special import log_ndtr, ndtr, ndtri

from percdl.algorithm.settings import Settings
from percdl.exceptions import InvalidParameterError

# Steps per standard deviation, as a power of two: fine compared to the noise, and coarse enough
# that rounding of the normal numbers themselves does not show.
FINENESS = 20
RandomBytes = Callable[[int], bytes]
Steps = Int64[np.ndarray, " n"]  # values on the grid, as numbers of steps


@dataclass(frozen=True)
class Privacy:
    """Limit on what can be learned about one person; see docs/federated/privacy.md.

    Parameters
    ----------
    epsilon, delta : float
        Budget of a whole run, which sets the noise (or give ``noise_multiplier``), and the
        probability that the guarantee fails, well below one over the number of subjects.
    clip : float
        Largest contribution of a person per atom. An ordinary contribution is about 1 in the
        first phase and between 1 and 2 in the second, in any units. A public number:
        `suggest_clip` finds it from recordings that need no protection.
    noise_multiplier : float, optional
        Standard deviation of the noise over the clip, instead of ``epsilon``. 0 means no noise
        and no privacy, for comparison.
    shared_by : int
        Number of honest sites that share the noise, at most all but one. More than 1 needs
        secure sums.

    Examples
    --------
    >>> privacy = Privacy(epsilon=8.0)
    >>> round(privacy.noise(n_releases=7), 2), round(privacy.epsilon_spent(n_releases=7), 2)
    (1.6, 8.0)
    """

    # Part of manifests: no conversions, no other arguments.
    __pydantic_config__ = ConfigDict(strict=True, extra="forbid", allow_inf_nan=True)

    epsilon: float | None = None
    delta: float = 1e-5
    clip: float = 1.5
    noise_multiplier: float | None = None
    shared_by: int = 1

    def __post_init__(self) -> None:
        either = (self.epsilon is None) != (self.noise_multiplier is None)
        for name, good, needed in (
            ("epsilon", either, "given, or `noise_multiplier`, not both"),
            ("epsilon", self.epsilon is None or self.epsilon > 0, "positive"),
            ("delta", 0 < self.delta < 1, "positive and below 1"),
            ("clip", self.clip > 0, "positive"),
            ("clip", self.clip < math.inf or self.noise_multiplier == 0, "finite"),
            ("noise_multiplier", 0 <= (self.noise_multiplier or 0) < math.inf, "finite, >= 0"),
            ("shared_by", type(self.shared_by) is int and self.shared_by >= 1, "an integer >= 1"),
        ):
            if not good:
                value = getattr(self, name)
                raise InvalidParameterError(f"`Privacy({name}={value!r})` must be {needed}.")

    def noise(self, n_releases: int) -> float:
        """Return the noise multiplier: the given one, or the one that epsilon needs."""
        if self.epsilon is None:
            return self.noise_multiplier or 0.0
        budget, most = self.epsilon, 1.0
        while epsilon_of(most, self.delta) < budget:
            most *= 2
        solution = root_scalar(lambda mu: epsilon_of(mu, self.delta) - budget, bracket=(0.0, most))
        return math.sqrt(n_releases) / solution.root

    def epsilon_spent(self, n_releases: int) -> float:
        """Return the epsilon of a number of releases, at the delta given."""
        return epsilon_of(self.spent(n_releases), self.delta)

    def spent(self, n_releases: int) -> float:
        """Return mu of a number of noisy sums: the distance of the two normal distributions.

        Composition is exact, also if later questions depend on earlier answers: the squares of mu
        add up, over runs too (Dong, Roth and Su 2022, corollary 3.3).
        """
        noise = self.noise(n_releases)
        return math.sqrt(n_releases) / noise if noise else math.inf

    def bound(self, n_atoms: int) -> float:
        """Return C, the largest norm of a subject's contribution."""
        return self.clip * math.sqrt(n_atoms)

    def deviation(self, n_atoms: int, n_releases: int) -> float:
        """Return the standard deviation of the noise that one site adds to every number."""
        noise = self.noise(n_releases) / math.sqrt(self.shared_by)
        return noise * self.bound(n_atoms) if noise else 0.0  # the bound may be infinite


def count_rounds(settings: Settings) -> Counter[str]:
    """Return the largest number of rounds of each kind in a fit, with the closing ones."""
    n_init, n_perso = settings.schedule
    population = max(n_init, 1) + (n_perso == 0)
    return Counter(population=population, personal=n_perso + 2 * (n_perso > 0), express=2)


def count_releases(settings: Settings) -> int:
    """Return the number of noisy sums that a fit releases; the express round releases none."""
    return max(settings.schedule[0], 1) + settings.schedule[1] + 1


def epsilon_of(mu: float, delta: float) -> float:
    """Return the least epsilon of noisy sums at a distance mu (Balle and Wang 2018, theorem 8)."""
    if not math.isfinite(mu):
        return math.inf

    def excess(epsilon: float) -> float:
        first, second = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return ndtr(first) - math.exp(epsilon + log_ndtr(second)) - delta

    if mu == 0 or excess(0.0) <= 0:
        return 0.0
    most = mu * (mu / 2 - ndtri(delta))  # the first term alone is delta there
    return root_scalar(excess, bracket=(0.0, most), xtol=1e-12).root


def check_private(settings: Settings) -> None:
    """Raise if a fit would reveal more than noisy sums, or sums with units."""
    for name, found, needed, why in (
        ("weighting", settings.weighting, "subjects", "contributions must not have units"),
        ("tol", settings.tol, 0.0, "the round in which a fit stops depends on recordings"),
        ("coder", "l1" if settings.overlaps else "l0", "l0", "an l1 code stops for all at once"),
        ("update", settings.update, "closed-form", "copies of atoms were not analyzed"),
        ("huber_delta", settings.delta, None, "robust codes were not analyzed"),
    ):
        if found != needed:
            what = f"`{name}={needed!r}`, not {found!r}: {why}"
            raise InvalidParameterError(f"Differential privacy needs {what}.")


def step_of(deviation: float) -> float:
    """Return the step of the grid for noise of a standard deviation, a power of two."""
    return 2.0 ** (math.floor(math.log2(deviation)) - FINENESS)


def clip_rows(rows: Float[np.ndarray, "S n"], bound: float) -> Float[np.ndarray, "S n"]:
    """Return rows scaled down to a norm of at most ``bound``."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1, bound / np.maximum(norms, np.finfo(float).tiny))


def add_on_grid(rows: Float[np.ndarray, "S n"], bound: float, step: float) -> Steps:
    """Clip rows, round them towards zero, and add them up, in steps (n,)."""
    # Norms are computed with rounding; this factor keeps the exact norm within the bound.
    safe = bound * (1 - 1e-12)
    return np.trunc(clip_rows(rows, safe) / step).astype(np.int64).sum(0)


def draw_noise(size: int, deviation: float, step: float, random_bytes: RandomBytes) -> Steps:
    """Draw normal numbers, rounded to steps.

    Of eight bytes, one bit is the sign and the others give the size by the inverse distribution
    function, at full precision far out in the tail. It is cut at 9 standard deviations, which
    has a probability of 1e-19.
    """
    bits = np.frombuffer(random_bytes(8 * size), "<u8")
    sign = 1 - 2 * (bits & np.uint64(1)).astype(np.int64)
    tail = ((bits >> np.uint64(1)).astype(float) + 0.5) * 2.0**-64
    return sign * np.rint(-ndtri(tail) * (deviation / step)).astype(np.int64)
