"""A small cohort over sites, and a board on which things go wrong as a test says."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from small_models import SFREQ, assert_same_table, make, spaced_recordings

from percdl import Cohort
from percdl.federated.board import Board
from percdl.federated.messages import read_post
from percdl.federated.server import start_adding

LENGTHS = (97, 110, 118, 128, 101, 125, 99, 120, 104, 127)
NAMES = ("nord", "ouest", "sud")
SIZES = (1, 3, 6)
ROUNDING = {"rtol": 1e-9, "atol": 1e-9}


def double(name="PerCDL", **options):
    """Return an estimator in double precision, not fitted."""
    return make(name, dtype="float64", **options)


def cohort_of(arrays):
    return Cohort.from_arrays(arrays, sfreq=SFREQ)


def make_cohort(seed=3, lengths=LENGTHS, **options):
    """Return recordings of ten people."""
    return cohort_of(spaced_recordings(seed, lengths, **options))


def split(cohort, names=NAMES, sizes=SIZES):
    """Deal the recordings out to sites."""
    ends = np.cumsum(sizes)
    pairs = zip(names, ends - sizes, ends, strict=True)
    return {name: cohort[int(first) : int(last)] for name, first, last in pairs}


def assert_same_as_central(federation, central, **rounding):
    """Compare the common model, and what each site keeps, with the fit in one place."""
    rounding = rounding or ROUNDING
    model = federation.model_
    np.testing.assert_allclose(model.dictionary_, central.dictionary_, **rounding)
    np.testing.assert_allclose(
        model.history_["objective"], central.history_["objective"], **rounding
    )
    assert model.stop_reason_ == central.stop_reason_
    if central.prior_ is not None:
        np.testing.assert_allclose(model.prior_, central.prior_, **rounding)
    rows = {subject: i for i, subject in enumerate(central.subjects_)}
    for local in federation.local_models_.values():
        own = [rows[subject] for subject in local.subjects_]
        np.testing.assert_allclose(local.params_, central.params_[own], **rounding)
        np.testing.assert_array_equal(local.n_activations_, central.n_activations_[own])
        np.testing.assert_array_equal(local.dictionary_, model.dictionary_)
        events = central.events_[central.events_["subject"].isin(local.subjects_)]
        assert_same_table(local.events_, events, **rounding)


def assert_same_bits(first, second):
    """Compare what two runs gave a site."""
    np.testing.assert_array_equal(first.dictionary_, second.dictionary_)
    np.testing.assert_array_equal(first.params_, second.params_)
    assert first.events_.equals(second.events_)
    assert first.stop_reason_ == second.stop_reason_


class Crash(BaseException):
    """Stands for kill -9."""


@dataclass
class Scripted:
    """A way to the board on which things go wrong as a test says.

    ``on_post(site, post)`` and ``on_read(site, slot, posts)`` return what goes on instead.
    """

    board: Board
    site: str
    on_post: Callable
    on_read: Callable

    def post(self, content):
        changed = self.on_post(self.site, content)
        if changed is not None:
            self.board.post(changed)

    def read(self, slot):
        return self.on_read(self.site, slot, self.board.read(slot))


def run_scripted(sites, manifest, on_post=None, on_read=None, folder=None):
    """Let sites of this process take part over a scripted board.

    Returns their models and their errors by site, and the board.
    """
    board = Board(manifest, folder)
    models, errors = {}, {}

    def take_part(site):
        script = on_post or (lambda who, post: post), on_read or (lambda who, slot, posts: posts)
        try:
            with board.turn:
                way = Scripted(board, site.name, *script)
                models[site.name] = site.take_part(manifest, way)
        except BaseException as error:
            errors[site.name] = error
            board.end(f"{site.name} has left")

    threads = [threading.Thread(target=take_part, args=[site]) for site in sites]
    start_adding(board)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return models, errors, board


def posts_of(board, *kinds):
    """Yield site and post of all posts of some kinds."""
    for slot in range(board.latest + 1):
        for site, content in (board.posts(slot) or {}).items():
            post = read_post(content, board.manifest.verify)
            if not kinds or post.head.kind in kinds:
                yield site, post
