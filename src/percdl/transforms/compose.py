"""Composition of transforms: ``f = f_n o ... o f_1``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from percdl.exceptions import InvalidParameterError
from percdl.transforms.base import Atom, Atoms, ChannelTransform, Params, Transform, WarpTransform
from percdl.transforms.channels import Gain, Rotation
from percdl.transforms.extremes import Identity
from percdl.transforms.shift import Shift

#: Structure of ``M^T M``, with M the mixture of all channel transforms.
Coupling = Literal["none", "gains", "full"]


@final
@dataclass(frozen=True, init=False)
class Compose(Transform):
    """Apply transforms in the order given, the first to the common atom.

    ``Compose(TimeWarp(), Rotation(), Gain())`` warps the atom in time, rotates it, and scales
    its channels. ``params`` hold the parameters of the first transform, then those of the next.

    With a time warp and transforms of the channels, PerCDU has a closed form: L x L systems if
    rotations come after gains (or there is only one kind), one L P x L P system otherwise.
    Other transforms use the derivative of ``f`` in the atom. IPU solves rotations and gains in
    closed form given the warp, then fits everything together. Cost of the sums of PerCDU
    with a time warp: O(S L P (L + P)) for the L x L systems, O(S L^2 (L + P^2)) for the single
    one, O(S (L P)^3) through the derivative.

    Parameters
    ----------
    *stages : Transform
        At least one; at most one of them may warp time.

    Examples
    --------
    >>> from percdl.transforms import TimeWarp
    >>> both = Compose(TimeWarp(3, 10), Rotation())
    >>> both.n_params(50, 3)
    39
    """

    stages: tuple[Transform, ...]

    def __init__(self, *stages: Transform):
        vars(self).update(stages=stages)  # the instance is frozen

    def __repr__(self) -> str:
        """Return the call that creates it."""
        return f"Compose({', '.join(map(repr, self.stages))})"

    @property
    def linear(self) -> bool:
        """Whether every stage is linear."""
        return all(stage.linear for stage in self.stages)

    def validate(self) -> None:
        """Raise if the stages cannot be composed."""
        if not self.stages:
            raise InvalidParameterError("`Compose()` needs at least one transform.")
        for stage in self.stages:
            if not isinstance(stage, Transform):
                raise InvalidParameterError(
                    f"`Compose` takes transforms, such as `TimeWarp()`, but got {stage!r}."
                )
            if isinstance(stage, Compose) or not stage.shares_structure:
                raise InvalidParameterError(
                    f"`Compose` cannot hold {stage!r}: it takes single transforms that depend "
                    "on the common atom."
                )
            stage.validate()
        warps = [i for i, stage in enumerate(self.stages) if isinstance(stage, WarpTransform)]
        if len(warps) > 1:
            raise InvalidParameterError(
                f"`Compose` holds {len(warps)} time warps; give one of them more `depth` instead."
            )
        for at in warps:
            turned = any(isinstance(stage, Rotation) for stage in self.stages[:at])
            if turned and getattr(self.stages[at], "per_channel", False):
                raise InvalidParameterError(
                    "`Compose` turns the channels before each of them is warped by itself; put "
                    "the warp first."
                )

    @property
    def in_words(self) -> str:
        """How a person's version of an atom differs from the common one."""
        return ", then ".join(stage.in_words for stage in self.stages)

    def param_names(self, atom_length: int, channels: Sequence[str]) -> list[str]:
        """Return the names of every stage."""
        parts = [stage.param_names(atom_length, channels) for stage in self.stages]
        return list(_tell_apart([dict.fromkeys(names) for names in parts]))

    def describe(self, params, atom_length, channels, sfreq):
        """Return the descriptions of the parameters of every stage."""
        sizes = [stage.n_params(atom_length, len(channels)) for stage in self.stages]
        own = np.split(params, list(accumulate(sizes))[:-1], axis=-1)
        pairs = zip(self.stages, own, strict=True)
        return _tell_apart([x.describe(a, atom_length, channels, sfreq) for x, a in pairs])

    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return the sum over the stages."""
        return sum(stage.n_params(atom_length, n_channels) for stage in self.stages)

    def neutral(self, atom: Atom) -> Float[Array, " M"]:
        """Return the neutral parameters of every stage."""
        return jnp.concatenate([stage.neutral(atom) for stage in self.stages])

    def project(self, params: Params) -> Params:
        """Project the parameters of every stage."""
        return self._by_stage(params, lambda stage, own: stage.project(own))

    def apply(self, params: Params, atom: Atom) -> Atoms:
        """Return the atoms after the last stage, array (..., L, P)."""
        return self._apply_stages(range(len(self.stages)), self._split(params), atom)

    def n_moves(self, atom_length: int, n_channels: int) -> int:
        """Return the sum over the stages."""
        return sum(stage.n_moves(atom_length, n_channels) for stage in self.stages)

    def move(self, params: Params, step: Float[Array, "*batch m"]) -> Params:
        """Move the parameters of every stage."""
        sizes = [stage.n_moves(0, self._n_channels(params)) for stage in self.stages]
        steps = iter(jnp.split(step, list(accumulate(sizes))[:-1], axis=-1))
        return self._by_stage(params, lambda stage, own: stage.move(own, next(steps)))

    def price(self, params: Params) -> Float[Array, "*batch"] | None:
        """Return the sum over the stages that have a price."""
        prices = [stage.price(own) for stage, own in self._pairs(params)]
        prices = [price for price in prices if price is not None]
        return reduce(jnp.add, prices) if prices else None

    def reprice(self, factor: float) -> Compose:
        """Return the same stages with their prices for signals times ``factor``."""
        return Compose(*(stage.reprice(factor) for stage in self.stages))

    def normal_equations(self, params, atom: Atom, moment, weight, variance=None):
        """Return the sums of PerCDU, with the channels unmixed if the algebra allows it."""
        coupling = self._coupling(weight.shape[-1])
        if coupling is None:
            return super().normal_equations(params, atom, moment, weight)
        mixing = self._mixing(params, atom.shape[1])
        met = jnp.einsum("slp,spn->sln", moment, mixing)
        part: Any = self.warp_part(*atom.shape)
        warp, at = part or (Identity(), slice(0))
        own = params[:, at]
        extra = () if variance is None else (variance,)
        if coupling == "none":
            return warp.normal_equations(own, atom, met, weight, *extra)
        coupled = jnp.einsum("srp,srq->spq", mixing, mixing)
        if coupling == "gains":
            strength = jnp.diagonal(coupled, axis1=1, axis2=2)[:, None]
            return warp.normal_equations(own, atom, met, weight * strength, *extra)
        operators = jnp.squeeze(warp.operator(own, *atom.shape), 1)
        grams = jnp.einsum("stl,st,stm->slm", operators, jnp.squeeze(weight, -1), operators)
        whole = jnp.einsum("spq,slm->lpmq", coupled, grams)
        right = jnp.einsum("stl,stp->lp", operators, met)
        return whole.reshape(1, atom.size, atom.size), right

    def warp_part(self, atom_length: int, n_channels: int):
        """Return the stage that warps time and the slice of its parameters."""
        return self._find(WarpTransform, atom_length, n_channels)

    def channel_part(self, atom_length: int, n_channels: int):
        """Return the first transform of the channels; later ones do not affect the gauge.

        None if an earlier stage does not commute with it.
        """
        for stage in self.stages:
            if isinstance(stage, ChannelTransform):
                return self._find(type(stage), atom_length, n_channels)
            own_warps = getattr(stage, "per_channel", False)
            commutes = isinstance(stage, (WarpTransform, Shift, Identity))
            if not commutes or (own_warps and self._turns):
                return None
        return None

    def unmix(self, params: Params, moment):
        """Undo the transforms of the channels, last one first."""
        for stage, own in reversed(self._pairs(params)):
            moment = stage.unmix(own, moment)
        return moment

    def solve_parts(self, params: Params, atom: Atom, moment, weight) -> Params:
        """Solve the transforms of the channels one by one, with the warp fixed."""
        parts = self._split(params)
        mixes = [isinstance(stage, ChannelTransform) for stage in self.stages]
        for index, stage in enumerate(self.stages):
            if not isinstance(stage, ChannelTransform):
                continue
            # Warps and mixtures commute, so all warping can come first.
            before = [i for i in range(len(mixes)) if i < index or not mixes[i]]
            after = [i for i in reversed(range(index + 1, len(mixes))) if mixes[i]]
            inner = self._apply_stages(before, parts, atom)
            met = reduce(lambda m, i: self.stages[i].unmix(parts[i], m), after, moment)
            parts[index] = stage.solve(inner, met, weight)
        return jnp.concatenate(parts, axis=-1)

    def _apply_stages(self, indices: Sequence[int], parts: list[Array], atom: Atom) -> Atoms:
        """Return the atoms after some of the stages, array (..., L, P)."""
        batch = parts[0].shape[:-1]
        n_rows = math.prod(batch)
        personal = jnp.broadcast_to(atom, (n_rows, *atom.shape))
        for index in indices:
            own = parts[index].reshape(n_rows, parts[index].shape[-1])
            personal = jax.vmap(self.stages[index].apply)(own, personal)
        return personal.reshape(*batch, *atom.shape)

    def _coupling(self, n_weights: int) -> Coupling | None:
        """Return the structure of ``M^T M``, or None if unknown."""
        known = (WarpTransform, ChannelTransform, Identity)
        if not all(isinstance(stage, known) for stage in self.stages):
            return None
        if n_weights > 1 and self._turns:
            return None
        coupling: Coupling = "none"
        for stage in reversed(self.stages):
            if isinstance(stage, Gain) and coupling == "none":
                coupling = "gains"
            elif isinstance(stage, ChannelTransform) and not isinstance(stage, Gain):
                keeps = isinstance(stage, Rotation) and coupling == "none"
                coupling = "none" if keeps else "full"
        own_warps = any(getattr(stage, "per_channel", False) for stage in self.stages)
        return None if coupling == "full" and own_warps else coupling

    @property
    def _turns(self) -> bool:
        """Whether any stage mixes channels."""
        return any(
            isinstance(stage, ChannelTransform) and not isinstance(stage, Gain)
            for stage in self.stages
        )

    def _mixing(self, params: Params, n_channels: int) -> Float[Array, "*batch P P"]:
        """Return the product of all channel transforms."""
        mixing = jnp.eye(n_channels, dtype=params.dtype)
        for stage, own in self._pairs(params):
            if isinstance(stage, ChannelTransform):
                mixing = stage.mixing(own, n_channels) @ mixing
        return mixing

    def _find(self, kind: type, atom_length: int, n_channels: int):
        """Return the first stage of a type and the slice of its parameters, or None."""
        start = 0
        for stage in self.stages:
            size = stage.n_params(atom_length, n_channels)
            if isinstance(stage, kind):
                return stage, slice(start, start + size)
            start += size
        return None

    def _n_channels(self, params: Params) -> int:
        """Return P, derived from the number of parameters."""
        total = params.shape[-1]
        return next(p for p in range(1, total + 2) if self.n_params(0, p) >= total)

    def _split(self, params: Params) -> list[Array]:
        """Return the parameters of each stage."""
        sizes = [stage.n_params(0, self._n_channels(params)) for stage in self.stages]
        return jnp.split(params, list(accumulate(sizes))[:-1], axis=-1)

    def _pairs(self, params: Params) -> list[tuple[Transform, Array]]:
        """Return the stages, each with its parameters."""
        return list(zip(self.stages, self._split(params), strict=True))

    def _by_stage(self, params: Params, change: Callable[[Transform, Array], Array]) -> Params:
        """Apply a function to the parameters of each stage."""
        changed = [change(stage, own) for stage, own in self._pairs(params)]
        return jnp.concatenate(changed, axis=-1)


def _tell_apart(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Join the values of all stages, named after their stage as well if two share a name."""
    joined = {name: x for part in parts for name, x in part.items()}
    if len(joined) == sum(map(len, parts)):
        return joined
    return {f"stage{i}_{name}": x for i, part in enumerate(parts, 1) for name, x in part.items()}
