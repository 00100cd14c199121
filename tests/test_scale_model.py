"""The simulation of large fits obeys the laws of queues, and its page has its tables."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.queues import Plan, Pool, Slots
from benchmarks.scale_model import (
    BRANCHES,
    Cluster,
    DaskCosts,
    FederationCosts,
    Measured,
    Network,
    Round,
    Slot,
    federate,
    fit_on_dask,
    render,
)

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scale.md"
WORK = st.floats(0.01, 10)
DASK = DaskCosts(
    rounds=[Round(0.5, 0.01, 0.2), Round(0.3, 0.04, 0.1)],
    add=0.05,
    submit=0.0,
    opening=(0.1, 0.001),
    closing=(0.2, 0.002),
    told_bytes=10.0,
    answer_bytes=20.0,
    record_bytes=100.0,
)
# The answer of the server is as long as the posts of three sites.
FEDERATION = FederationCosts(
    slots=[Slot(0.5, 0.5, 0.0, 100.0, 300.0), Slot(1.0, 1.0, 0.0, 100.0, 300.0)],
    records=10,
    mask=0.01,
    check=0.0,
    take=0.02,
    send=0.03,
    send_byte=1e-4,
    receive=0.01,
    receive_byte=1e-4,
    look=0.05,
)


@st.composite
def plans(draw):
    """Draw the works of jobs, and the earlier jobs that each comes after."""
    works = draw(st.lists(WORK, min_size=1, max_size=12))
    afters = [
        draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set() for i in range(len(works))
    ]
    return works, afters


def run(works, afters, pool, slots=None):
    plan = Plan()
    for work, after in zip(works, afters, strict=True):
        plan.add((pool, work), slots=slots, after=sorted(after))
    return plan.run()


def chains(works, afters):
    """Return when each job ends if nothing is shared: the longest chain up to it."""
    ends = []
    for work, after in zip(works, afters, strict=True):
        ends.append(work + max((ends[i] for i in after), default=0.0))
    return ends


@given(plans())
def test_one_core_is_never_idle(plan):
    assert max(run(*plan, Pool(1))) == pytest.approx(sum(plan[0]))


@given(plans())
def test_without_sharing_the_longest_chain_decides(plan):
    assert run(*plan, Pool()) == pytest.approx(chains(*plan))


@given(plans(), st.floats(0.5, 5), st.booleans())
def test_seconds_lie_between_grahams_bounds(plan, size, in_line):
    works, afters = plan
    slots = Slots(math.ceil(size)) if in_line else None
    pool = Pool(size)
    end, chain = max(run(works, afters, pool, slots)), max(chains(works, afters))
    assert pool.work == pytest.approx(sum(works))
    slowest = min(1.0, size)  # of a job that runs alone
    least = max(chain / slowest, sum(works) / size)
    assert least * (1 - 1e-9) <= end <= (sum(works) / size + chain / slowest) * (1 + 1e-9)


@given(st.lists(WORK, min_size=1, max_size=8), st.integers(1, 4))
def test_equal_jobs_in_line_take_whole_turns(works, n_slots):
    ends = run([works[0]] * len(works), [()] * len(works), Pool(), Slots(n_slots))
    assert max(ends) == pytest.approx(works[0] * math.ceil(len(works) / n_slots))


@given(st.lists(WORK, min_size=2, max_size=8))
def test_a_shared_pool_ends_jobs_in_the_order_of_their_work(works):
    ends = run(works, [()] * len(works), Pool(1))
    for i, work in enumerate(works):  # each of the k left runs at rate 1 / k
        assert ends[i] == pytest.approx(sum(min(work, other) for other in works))


def local_seconds(shards):
    """Return the seconds of the tasks of each round, in the order of the shards."""
    return [[one.task + one.record * n for n in shards] for one in DASK.rounds]


def other_seconds(shards):
    """Return the seconds of the lead."""
    fixed, each = (a + b for a, b in zip(DASK.opening, DASK.closing, strict=True))
    return fixed + each * sum(shards) + sum(one.lead for one in DASK.rounds)


@given(st.lists(st.integers(1, 50), min_size=2, max_size=BRANCHES))
def test_one_worker_takes_the_sum_of_all_tasks_and_many_the_longest(shards):
    tasks, others = local_seconds(shards), other_seconds(shards) + len(DASK.rounds) * DASK.add
    alone = fit_on_dask(DASK, Cluster(1, 1), shards).seconds
    assert alone == pytest.approx(sum(map(sum, tasks)) + others)
    many = fit_on_dask(DASK, Cluster(len(shards), len(shards)), shards).seconds
    assert many == pytest.approx(sum(map(max, tasks)) + others)


@pytest.mark.parametrize("n_workers", [2, 4, 16])
def test_a_file_server_bounds_a_round_from_below(n_workers):
    shards, disk = [20] * 32, 500.0
    on = Cluster(n_workers, n_workers, disk=disk, stream=disk)
    slow, fast = (fit_on_dask(DASK, one, shards) for one in (on, replace(on, disk=4 * disk)))
    assert slow.busy["disks"] == pytest.approx(4 * fast.busy["disks"])
    assert fast.seconds <= slow.seconds
    assert slow.seconds >= slow.busy["disks"]


def test_a_server_that_answers_like_a_relay_takes_as_long():
    over = Network(None, 1e3, 2e3, 0.02)
    took = [federate(FEDERATION, over, 3, server_adds, [0, 0]).seconds for server_adds in (0, 1)]
    assert took[0] == pytest.approx(took[1])


@pytest.mark.parametrize("server_adds", [False, True])
def test_seconds_fall_with_the_rate_and_rise_with_the_sites(server_adds):
    def took(n_sites, rate):
        over = Network(None, 1e3, rate, 0.02)
        return federate(FEDERATION, over, n_sites, server_adds, [0, 0])

    by_rate = [took(12, rate).seconds for rate in (1e3, 2e3, 5e3, 1e5)]
    assert by_rate == sorted(by_rate, reverse=True)
    by_sites = [took(n_sites, 2e3).seconds for n_sites in (1, 3, 12, 40)]
    assert by_sites == sorted(by_sites)
    # What leaves the server passes its link, whatever else happens.
    out = 12 * sum(s.answer_bytes if server_adds else 12 * s.post_bytes for s in FEDERATION.slots)
    assert took(12, 1e3).seconds >= out / 1e3


def test_the_page_has_the_tables_of_the_measured_parameters():
    assert render(Measured.read()) in PAGE.read_text(encoding="utf-8")
