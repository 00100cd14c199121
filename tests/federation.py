"""A small cohort over sites, and a wire on which things go wrong as a test says."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from small_models import SFREQ, make, spaced_recordings

from percdl import Cohort
from percdl.runtimes.messages import InProcessWire, Reply

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
    rows = {subject: i for i, subject in enumerate(central.subjects_)}
    for local in federation.local_models_.values():
        own = [rows[subject] for subject in local.subjects_]
        np.testing.assert_allclose(local.params_, central.params_[own], **rounding)
        np.testing.assert_array_equal(local.n_activations_, central.n_activations_[own])
        np.testing.assert_array_equal(local.dictionary_, model.dictionary_)


@dataclass
class FaultyWire:
    """Sites of this process, whose answers go through a script.

    ``script(request, reply)`` is called for each good answer and returns what arrives instead: a
    reply, a `Failure`, or None for silence. ``away(site, n_asked)`` says who cannot be reached.
    """

    sites_: list
    script: Callable = lambda request, reply: reply
    away: Callable = lambda site, n_asked: False
    asked: list = field(default_factory=list)
    carried: list = field(default_factory=list)

    def sites(self):
        return tuple(sorted(s.name for s in self.sites_ if not self.away(s.name, len(self.asked))))

    def ask(self, requests, timeout):
        self.asked.append(next(iter(requests.values())))
        answers = InProcessWire({s.name: s.answer for s in self.sites_}).ask(requests, timeout)
        arrived = {}
        for site, answer in answers.items():
            if isinstance(answer, Reply):
                answer = self.script(requests[site], answer)
            if answer is not None:
                arrived[site] = answer
        self.carried += [*requests.values(), *arrived.values()]
        return arrived
