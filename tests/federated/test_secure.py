"""Secure sums: exact in the total, uniform in each term, one total a round."""

from fractions import Fraction

import numpy as np
import pytest
import slow_masks
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from keyed_sites import (
    RUN,
    SUM,
    byte_p_value,
    federation,
    mask,
    masked_sum,
    names,
    release,
    run_keys,
    seed,
    seeds_of,
)

from percdl.exceptions import FederationError
from percdl.federated.identities import Roster, RunKeys
from percdl.federated.messages import NAME, frame
from percdl.federated.secure_sum import decode, encode, keystream, unveil

KEYS_5, ROSTER_5 = federation(5)
ONES = np.ones(16, np.uint64)
SMALLEST_P = 1e-3


# Fixed point.


def exact_bound(scale, n_sites):
    """What the docstring promises: n 2^(e - f - 1), with 2^e the next power of two."""
    e = next(e for e in range(-1100, 1100) if Fraction(2) ** e >= Fraction(scale))
    return n_sites * Fraction(2) ** (e - (63 - n_sites.bit_length()) - 1)


@given(
    st.integers(1, 64),
    st.floats(1e-300, 1e300),
    st.lists(st.floats(-1, 1), min_size=1, max_size=64),
)
def test_totals_are_as_precise_as_documented(n_sites, scale, shares):
    values = [min(max(share * scale, -scale), scale) for share in shares[:n_sites]]
    scales = np.array([scale])
    total = sum(encode(np.array([value]), scales, n_sites) for value in values)
    found = Fraction(float(decode(total, scales, n_sites)[0]))
    truth = sum(map(Fraction, values))
    rounding = abs(truth) * Fraction(1, 2**52)
    assert abs(found - truth) <= exact_bound(scale, n_sites) + rounding


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("n_sites", [1, 2, 3, 4, 7, 8, 30, 31, 32, 50, 1000])
@pytest.mark.parametrize("scale", [1.0, 0.75, 3.0, 2.0**40, 5e-324, 1e300])
def test_totals_do_not_wrap_at_the_extremes(n_sites, scale, sign):
    scales = np.array([scale])
    part = encode(np.array([sign * scale]), scales, n_sites)
    total = np.array([n_sites * int(part[0]) % 2**64], np.uint64)
    assert decode(total, scales, n_sites)[0] == pytest.approx(sign * n_sites * scale, rel=1e-15)


@pytest.mark.parametrize("n_sites", [1, 3, 4, 30, 32])
def test_no_bit_is_given_away(n_sites):
    unit = int(encode(np.ones(1), np.ones(1), n_sites)[0])
    assert n_sites * unit < 2**63 <= 2 * n_sites * unit


@given(arrays(np.float64, 20, elements=st.floats(-1, 1)))
def test_one_site_gets_back_what_it_wrote(values):
    scales = np.ones(20)
    assert np.abs(decode(encode(values, scales, 30), scales, 30) - values).max() <= 2.0**-59


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 4.0000001, -5.0])
def test_values_that_do_not_fit_are_refused_by_name(bad):
    values = np.array([1.0, -4.0, bad, 0.0])
    with pytest.raises(FederationError, match=r"gram\[2\] is .* at most 4 in size .*1 of 4"):
        encode(values, np.full(4, 4.0), 3, "gram[{}]".format)


# Masks.


@given(st.integers(3, 6), st.data())
def test_masks_cancel_over_the_roster(n_sites, data):
    keys, roster = federation(n_sites)
    numbers = st.integers(0, 2**64 - 1)
    parts = {site: data.draw(arrays(np.uint64, 5, elements=numbers)) for site in roster.sites}
    total = unveil(masked_sum(keys, roster, parts), seeds_of(keys, roster), roster.sites)
    np.testing.assert_array_equal(total, sum(parts.values()))


@given(st.sets(st.sampled_from(names(5)), min_size=1, max_size=4))
def test_masks_cancel_over_the_whole_roster_only(some):
    keys, roster = federation(5)
    parts = {site: mask(ONES, keys[site], roster, *SUM) for site in some}
    part = unveil(sum(parts.values()), seeds_of(keys, roster), sorted(some))
    assert not np.any(part == len(some))


@settings(max_examples=15)
@given(
    st.integers(3, 4),
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=12),
    st.from_regex(NAME, fullmatch=True),
    st.integers(0, 10**6),
    st.integers(0, 9),
    st.binary(max_size=9),
)
def test_masks_are_those_of_the_slow_twin(n_sites, values, run, round, attempt, context):
    keys, roster = federation(n_sites, run)
    site = roster.sites[len(values) % n_sites]
    what = (round, attempt, context)
    fast = mask(np.array(values, np.uint64), keys[site], roster, *what)
    private = seed("run", site, run, 0)
    assert fast.tolist() == slow_masks.mask(values, private, site, roster.publics, run, *what)


CHANGES = {
    "run": ("run-2", 3, 0, b"context"),
    "round": (RUN, 4, 0, b"context"),
    "attempt": (RUN, 3, 1, b"context"),
    "context": (RUN, 3, 0, b"contexu"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_masks_of_two_sums_have_nothing_in_common(change):
    run, *what = CHANGES[change]
    keys, roster = federation(3)
    site = roster.sites[1]
    # The same keys in another run: what is announced differs, the secrets do not.
    other = RunKeys(site, run, keys[site]._key)
    there = Roster(run, roster.publics)
    before, after = mask(ONES, keys[site], roster, *SUM), mask(ONES, other, there, *what)
    assert not np.any(before == after)
    assert release(keys[site], roster, *SUM) != release(other, there, *what)


def test_masks_of_two_rosters_have_nothing_in_common():
    keys, roster = federation(5)
    few = roster.only(roster.sites[:3])
    before, after = (mask(ONES, keys["site-00"], r, *SUM) for r in (roster, few))
    assert not np.any(before == after)


@given(st.permutations(names(5)))
def test_the_order_of_the_roster_does_not_matter(order):
    shuffled = Roster(RUN, {site: ROSTER_5.publics[site] for site in order})
    for site in order:
        before, after = (mask(ONES, KEYS_5[site], r, *SUM) for r in (ROSTER_5, shuffled))
        np.testing.assert_array_equal(before, after)


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_frames_tell_where_parts_end(first, second):
    assert (frame(*first) == frame(*second)) == (first == second)


@pytest.mark.parametrize("value", [0, 1, 2**64 - 1])
def test_a_masked_vector_is_uniform(value):
    keys, roster = federation(3)
    constant = np.full(100_000, value, np.uint64)
    assert byte_p_value(constant) < 1e-300
    for site in roster.sites:
        assert byte_p_value(mask(constant, keys[site], roster, *SUM)) > SMALLEST_P


@pytest.mark.parametrize("n_known", [1, 2, 3])
def test_a_site_stays_hidden_from_all_but_one_of_the_others(n_known):
    """The keys of others take off their masks with a site; one mask that is left is enough."""
    keys, roster = federation(5)
    constant = np.full(100_000, 7, np.uint64)
    left = unveil(
        mask(constant, keys["site-00"], roster, *SUM), seeds_of(keys, roster), ["site-00"]
    )
    for other in roster.sites[1 : 1 + n_known]:
        left = left - pair_mask(keys[other], "site-00", roster, left.size)
    assert byte_p_value(left) > SMALLEST_P
    for other in roster.sites[1 + n_known :]:
        left = left - pair_mask(keys[other], "site-00", roster, left.size)
    np.testing.assert_array_equal(left, constant)


def pair_mask(keys, first, roster, size, what=SUM):
    """What the second of two sites takes away, and so knows of the first."""
    round, attempt, context = what
    occasion = frame("percdl secure sum, version 1", RUN, round, attempt, roster.digest, context)
    shared = keys.shared_with(roster.publics[first])
    return keystream(shared, frame("mask", occasion, first, keys.site), size)


# What a site refuses.


def test_the_same_values_may_be_sent_again():
    keys, roster = federation(3)
    first, second = (mask(ONES, keys["site-00"], roster, *SUM) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_mask_is_not_used_for_other_values(on_disk, tmp_path):
    keys = run_keys("site-00")
    if on_disk:
        keys = RunKeys.generate("site-00", RUN, tmp_path / "run.key")
    publics = {**ROSTER_5.publics, "site-00": keys.public}
    roster = Roster(RUN, publics)
    mask(ONES, keys, roster, *SUM)
    if on_disk:  # a new process reads it back
        keys = RunKeys.read("site-00", RUN, tmp_path / "run.key")
    with pytest.raises(FederationError, match="Site site-00 has masked other values"):
        mask(ONES + ONES, keys, roster, *SUM)
    mask(ONES + ONES, keys, roster, 3, 1, b"context")


def test_a_site_masks_on_rosters_it_is_on_only():
    keys, roster = federation(4)
    without = roster.only(roster.sites[1:])
    with pytest.raises(FederationError, match="does not hold the key of site site-00"):
        mask(ONES, keys["site-00"], without, *SUM)
    exchanged = Roster(RUN, {**roster.publics, "site-00": bytes(range(32))})
    with pytest.raises(FederationError, match="does not hold the key of site site-00"):
        release(keys["site-00"], exchanged, *SUM)


def test_fewer_than_three_sites_have_no_secure_sum():
    _, roster = federation(3)
    with pytest.raises(FederationError, match=r"3 sites or more, and there are 2 \(site-00, "):
        roster.only(roster.sites[:2])
    with pytest.raises(FederationError, match="has not announced a key"):
        roster.only([*roster.sites, "site-09"])
    with pytest.raises(FederationError, match="names a site twice"):
        roster.only([*roster.sites, "site-00"])
