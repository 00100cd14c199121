"""Sites whose keys are the same on every run of the tests."""

import hashlib

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy.stats import chisquare

from percdl.federated.identities import Identity, Roster, RunKeys, check_announcements
from percdl.federated.messages import Announcement
from percdl.federated.secure_sum import MaskedSum

RUN = "run-1"
SUM = (3, 0, b"context")


def seed(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


def identity(site: str) -> Identity:
    return Identity(site, Ed25519PrivateKey.from_private_bytes(seed("identity", site)))


def run_keys(site: str, run: str = RUN, draw: int = 0) -> RunKeys:
    key = X25519PrivateKey.from_private_bytes(seed("run", site, run, draw))
    return RunKeys(site, run, key)


def names(n_sites: int) -> list[str]:
    return [f"site-{i:02d}" for i in range(n_sites)]


def registered(sites: list[str]) -> dict[str, object]:
    return {site: identity(site).public for site in sites}


def announce(sites: list[str], run: str = RUN, draw: int = 0) -> list[dict[str, str]]:
    return [run_keys(site, run, draw).announce(identity(site)) for site in sites]


def check(announced, known, run: str = RUN, own: RunKeys | None = None) -> Roster:
    return check_announcements([Announcement(**a) for a in announced], known, run, own)


def federation(n_sites: int, run: str = RUN, draw: int = 0) -> tuple[dict[str, RunKeys], Roster]:
    """Return the keys of all sites, unused so far, and their roster."""
    sites = names(n_sites)
    roster = check(announce(sites, run, draw), registered(sites), run)
    return {site: run_keys(site, run, draw) for site in sites}, roster


def mask(encoded, keys, roster, *what) -> np.ndarray:
    return MaskedSum(keys, roster, *what).mask(encoded)


def release(keys, roster, *what) -> str:
    return MaskedSum(keys, roster, *what).release()


def back_up(keys, roster, *what) -> dict[str, str]:
    return MaskedSum(keys, roster, *what).back_up()


def recover(backups, keys, roster, *what) -> dict[str, str]:
    return MaskedSum(keys, roster, *what).recover(backups)


def masked_sum(keys, roster, parts, what=SUM) -> np.ndarray:
    """Add up what all sites of a roster send, veils and all."""
    return sum(mask(parts[site], keys[site], roster, *what) for site in roster.sites)


def seeds_of(keys, roster, what=SUM) -> dict[str, str]:
    return {site: release(keys[site], roster, *what) for site in roster.sites}


def byte_p_value(vector: np.ndarray) -> float:
    """How well the bytes of a vector go with uniform ones, by a chi-square test."""
    return chisquare(np.bincount(vector.view(np.uint8), minlength=256)).pvalue
