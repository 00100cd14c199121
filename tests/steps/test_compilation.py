"""Programs give the same bits every time, whatever threads are free."""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.stress.determinism import busy_machine
from percdl.steps.compilation import program
from percdl.steps.csc import encode
from percdl.steps.types import Signals


def test_a_busy_machine_does_not_change_a_bit():
    """Few long recordings: how many threads share their Fourier transforms once decided it."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 12_288, 3)).astype(np.float32)
    signals = Signals(jnp.asarray(x), jnp.full(4, 12_288, jnp.int32), None)
    atoms = jnp.asarray(rng.standard_normal((1, 1, 100, 3)), jnp.float32)
    code = program(encode)
    with busy_machine():
        codes = [
            jax.tree.map(np.asarray, code(signals, atoms, jnp.float32(0.5))) for _ in range(60)
        ]
    assert len({b"".join(part.tobytes() for part in jax.tree.leaves(one)) for one in codes}) == 1
