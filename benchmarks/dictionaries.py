"""Other convolutional dictionary learning, on gait: ``dictionaries.py NAME IN.npz OUT.npz``.

This file runs in the environment that ``PERCDL_DETECTORS`` names, and imports nothing of PerCDL.
The input holds the recordings, all of one length; the output holds the atom and the seconds that
learning took. Settings are those of the packages' own examples.
"""

from __future__ import annotations

import sys
import time

import numpy as np

LENGTH = 100


def alphacsc(x: np.ndarray) -> np.ndarray:
    """BatchCDL, as in its examples: reg 0.1 of the largest, l-bfgs, 10 times each step."""
    from alphacsc import BatchCDL

    model = BatchCDL(1, LENGTH, rank1=False, n_iter=60, random_state=0, verbose=0)
    model.fit(x[:, None])
    return model.D_hat_[0, 0]


def sporco(x: np.ndarray) -> np.ndarray:
    """ConvBPDNDictLearn, consensus, as in its example: lambda 0.2, 200 iterations."""
    from sporco.dictlrn import cbpdndl

    start = np.random.default_rng(0).standard_normal((LENGTH, 1))
    price = 0.2
    options = cbpdndl.ConvBPDNDictLearn.Options(
        {
            "MaxMainIter": 200,
            "CBPDN": {"rho": 50.0 * price + 0.5},
            "CCMOD": {"rho": 1e1, "ZeroMean": False},
        },
        dmethod="cns",
    )
    learned = cbpdndl.ConvBPDNDictLearn(start, x.T, price, options, dmethod="cns", dimN=1)
    return learned.solve().reshape(LENGTH, -1)[:, 0]


def dicodile(x: np.ndarray) -> np.ndarray:
    """Run dicodile, as in its example: reg 0.1, nonnegative codes, 100 iterations."""
    from dicodile import dicodile as learn
    from dicodile.utils.dictionary import init_dictionary

    # It takes one signal: the recordings one after the other, apart by an atom.
    joined = np.pad(x, ((0, 0), (0, LENGTH))).reshape(1, -1)
    start = init_dictionary(joined, n_atoms=1, atom_support=(LENGTH,), random_state=0)
    options = {"reg": 0.1, "z_positive": True, "n_iter": 100, "n_workers": 1, "tol": 1e-3}
    return learn(joined, start, **options, random_state=0)[0][0, 0]


def main(name: str, source: str, target: str) -> None:
    """Learn an atom."""
    with np.load(source) as data:
        x = data["x"]
    began = time.perf_counter()
    atom = {"alphacsc": alphacsc, "sporco": sporco, "dicodile": dicodile}[name](x)
    np.savez(target, atom=np.asarray(atom, float), seconds=time.perf_counter() - began)


if __name__ == "__main__":
    main(*sys.argv[1:])
