"""Sites whose keys are the same on every run of the tests."""

import hashlib

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy.stats import chisquare

from percdl.federated.identities import Identity, RunKeys


def seed(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


def identity(site: str) -> Identity:
    return Identity(site, Ed25519PrivateKey.from_private_bytes(seed("identity", site)))


def private_key(site: str) -> bytes:
    return seed("run", site)


def run_keys(site: str) -> RunKeys:
    return RunKeys(X25519PrivateKey.from_private_bytes(private_key(site)))


def names(n_sites: int) -> list[str]:
    return [f"site-{i:02d}" for i in range(n_sites)]


def publics(n_sites: int) -> dict[str, str]:
    return {site: run_keys(site).public for site in names(n_sites)}


def byte_p_value(vector: np.ndarray) -> float:
    """How well the bytes of a vector go with uniform ones, by a chi-square test."""
    return chisquare(np.bincount(vector.view(np.uint8), minlength=256)).pvalue
