"""Veils: lifted for one roster a round; a late reply tells nothing, a lost site stops nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyed_sites import (
    RUN,
    SUM,
    back_up,
    byte_p_value,
    federation,
    masked_sum,
    names,
    recover,
    release,
    seeds_of,
)

from percdl.exceptions import FederationError
from percdl.federated.identities import Roster, RunKeys
from percdl.federated.messages import frame
from percdl.federated.secure_sum import keystream, unveil

KEYS_5, ROSTER_5 = federation(5)
ONES = np.ones(16, np.uint64)
SMALLEST_P = 1e-3


def test_a_veil_is_lifted_for_one_roster_a_round(tmp_path):
    path = tmp_path / "run.key"
    keys = RunKeys.generate("site-00", RUN, path)
    roster = Roster(RUN, {**ROSTER_5.publics, "site-00": keys.public})
    few = roster.only(roster.sites[:4])
    release(keys, few, 3, 1, b"context")
    release(keys, few, 3, 2, b"context")
    again = RunKeys.read("site-00", RUN, path)
    for holder in (keys, again):
        with pytest.raises(FederationError, match="site-00 has released its seed in round 3"):
            release(holder, roster, 3, 0, b"context")
    release(again, roster, 4, 0, b"context")


def test_a_late_reply_completes_nothing():
    """All masked replies of an attempt that was given up, and all seeds of the next one."""
    keys, roster = federation(4)
    size, late = 100_000, "site-03"
    parts = {site: np.full(size, i, np.uint64) for i, site in enumerate(roster.sites)}
    given_up = masked_sum(keys, roster, parts)
    survivors, again = roster.only(roster.sites[:3]), (3, 1, b"context")
    seeds = seeds_of(keys, survivors, again)
    total = unveil(masked_sum(keys, survivors, parts, again), seeds, survivors.sites)
    np.testing.assert_array_equal(total, np.full(size, 0 + 1 + 2, np.uint64))
    assert byte_p_value(given_up - total) > SMALLEST_P
    # Without veils, the difference is what the late site has.
    bare = given_up
    for site in roster.sites:
        occasion = frame("percdl secure sum, version 1", RUN, 3, 0, roster.digest, b"context")
        bare = bare - keystream(keys[site].derive(occasion), frame("veil"), size)
    np.testing.assert_array_equal(bare - total, parts[late])
    # No site helps to get there, were it asked.
    for site in survivors.sites:
        with pytest.raises(FederationError, match="released its seed"):
            release(keys[site], roster, *SUM)


@given(st.sets(st.sampled_from(names(5)), min_size=1, max_size=4), st.data())
def test_any_other_site_stands_in_for_lost_ones(lost, data):
    keys, roster = federation(5)
    parts = {site: i * ONES for i, site in enumerate(roster.sites)}
    total = masked_sum(keys, roster, parts)
    backups = {site: back_up(keys[site], roster, *SUM) for site in roster.sites}
    seeds = {s: release(keys[s], roster, *SUM) for s in roster.sites if s not in lost}
    helper = data.draw(st.sampled_from(sorted(seeds)))
    for_it = {site: backups[site][helper] for site in lost}
    seeds |= recover(for_it, keys[helper], roster, *SUM)
    np.testing.assert_array_equal(unveil(total, seeds, roster.sites), 10 * ONES)


def test_a_backup_can_be_read_by_the_site_it_is_for_only():
    keys, roster = federation(4)
    seed = release(keys["site-00"], roster, *SUM)
    backups = back_up(keys["site-00"], roster, *SUM)
    assert sorted(backups) == names(4)[1:]
    assert len({seed, *backups.values()}) == 4
    for reader, addressee in [("site-01", "site-02"), ("site-02", "site-01")]:
        sent = recover({"site-00": backups[addressee]}, keys[reader], roster, *SUM)
        assert sent["site-00"] != seed
    sent = recover({"site-00": backups["site-01"]}, keys["site-01"], roster, *SUM)
    assert sent["site-00"] == seed


def test_backups_of_two_sums_have_nothing_in_common():
    keys, roster = federation(3)
    seeds, hidden = [], []
    for round in range(2):
        what = (round, 0, b"context")
        seeds.append(int(release(keys["site-00"], roster, *what), 16))
        hidden.append(int(back_up(keys["site-00"], roster, *what)["site-01"], 16))
    assert seeds[0] ^ seeds[1] != hidden[0] ^ hidden[1]


def test_a_site_stands_in_for_the_roster_it_lifted_its_veil_for_only():
    keys, roster = federation(4)
    backups = back_up(keys["site-03"], roster, *SUM)
    few = roster.only(names(3))
    release(keys["site-00"], few, 3, 1, b"context")
    with pytest.raises(
        FederationError, match=r"released its seed in round 3 .* for another roster"
    ):
        recover({"site-03": backups["site-00"]}, keys["site-00"], roster, *SUM)
    # The other way round, too.
    recover({"site-03": backups["site-01"]}, keys["site-01"], roster, *SUM)
    with pytest.raises(
        FederationError, match=r"released its seed in round 3 .* for another roster"
    ):
        release(keys["site-01"], few, 3, 1, b"context")


@pytest.mark.parametrize("lost", ["site-09", "site-00"])
def test_a_site_stands_in_for_others_of_the_roster_only(lost):
    keys, roster = federation(3)
    with pytest.raises(FederationError, match=f"asked for the seed of site {lost}"):
        recover({lost: "0" * 64}, keys["site-00"], roster, *SUM)
