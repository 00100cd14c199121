"""Secure sums: exact in the total, uniform in each term."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import slow_masks
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from keyed_sites import byte_p_value, names, private_key, publics, run_keys

from percdl.exceptions import FederationError
from percdl.federated.layout import Layout, decode, encode, keystream, mask
from percdl.federated.messages import frame

ONES = np.ones(16, np.uint64)
SUM = b"occasion"
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
    layout = Layout([("energy", ()), ("counts", (2,)), ("n_warps", (1,))])
    with pytest.raises(FederationError, match=r"`counts` is not finite or exceeds 4, .*1 of 4"):
        layout.check(np.array([1.0, -4.0, bad, 0.0]), np.full(4, 4.0))
    layout.check(np.array([1.0, -4.0, 4.0, 0.0]), np.full(4, 4.0))


# Masks.


def masked(parts, occasion=SUM):
    keys = publics(len(parts))
    return {site: mask(x, site, run_keys(site), keys, occasion) for site, x in parts.items()}


@given(st.integers(2, 6), st.data())
def test_masks_cancel_over_all_members(n_sites, data):
    numbers = arrays(np.uint64, 5, elements=st.integers(0, 2**64 - 1))
    parts = {site: data.draw(numbers) for site in names(n_sites)}
    np.testing.assert_array_equal(sum(masked(parts).values()), sum(parts.values()))


@given(st.sets(st.sampled_from(names(5)), min_size=1, max_size=4))
def test_masks_cancel_over_all_members_only(some):
    sent = masked(dict.fromkeys(names(5), ONES))
    assert not np.any(sum(sent[site] for site in some) == len(some))


@settings(max_examples=15)
@given(
    st.integers(3, 4),
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=12),
    st.binary(max_size=9),
)
def test_masks_are_those_of_the_slow_twin(n_sites, values, occasion):
    site = names(n_sites)[len(values) % n_sites]
    keys = publics(n_sites)
    fast = mask(np.array(values, np.uint64), site, run_keys(site), keys, occasion)
    raw = {name: bytes.fromhex(public) for name, public in keys.items()}
    assert fast.tolist() == slow_masks.mask(values, private_key(site), site, raw, occasion)


def test_masks_of_two_sums_have_nothing_in_common():
    first, second = (masked(dict.fromkeys(names(3), ONES), occasion) for occasion in (b"a", b"b"))
    assert not any(np.any(first[site] == second[site]) for site in first)


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_frames_tell_where_parts_end(first, second):
    assert (frame(*first) == frame(*second)) == (first == second)


@pytest.mark.parametrize("value", [0, 1, 2**64 - 1])
def test_a_masked_vector_is_uniform(value):
    constant = np.full(100_000, value, np.uint64)
    assert byte_p_value(constant) < 1e-300
    for vector in masked(dict.fromkeys(names(3), constant)).values():
        assert byte_p_value(vector) > SMALLEST_P


@pytest.mark.parametrize("n_known", [1, 2, 3])
def test_a_site_stays_hidden_from_all_but_one_of_the_others(n_known):
    """The keys of others take off their masks with a site; one mask that is left is enough."""
    constant = np.full(100_000, 7, np.uint64)
    left = masked(dict.fromkeys(names(5), constant))["site-00"]
    for other in names(5)[1 : 1 + n_known]:
        left = left - pair_mask("site-00", other, left.size)
    assert byte_p_value(left) > SMALLEST_P
    for other in names(5)[1 + n_known :]:
        left = left - pair_mask("site-00", other, left.size)
    np.testing.assert_array_equal(left, constant)


def pair_mask(first, second, size):
    """What the second of two sites takes away, and so knows of the first."""
    shared = run_keys(second).shared_with(run_keys(first).public)
    return keystream(shared, frame("percdl secure sum, version 2", SUM, first, second), size)


def test_what_is_heard_depends_on_the_total_alone():
    """Modulo 4, all masks and all values of three sites: any split explains what was heard."""
    heard = {}
    for values in itertools.product(range(4), repeat=3):
        counts = np.zeros((4, 4, 4), int)
        for ab, ac, bc in itertools.product(range(4), repeat=3):
            a, b, c = values[0] + ab + ac, values[1] - ab + bc, values[2] - ac - bc
            counts[a % 4, b % 4, c % 4] += 1
        heard.setdefault(sum(values) % 4, []).append(counts)
    for same_total in heard.values():
        assert len(same_total) == 16
        assert all(np.array_equal(counts, same_total[0]) for counts in same_total)
    assert not np.any(heard[0][0] * heard[1][0])
