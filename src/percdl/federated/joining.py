"""The beginning of a run: who takes part, on which terms, with which keys."""

from __future__ import annotations

from typing import Any

from percdl.exceptions import FederationError
from percdl.federated.agreement import Agreement, Signals, Terms
from percdl.federated.audit import Attempt, Audit
from percdl.federated.coordinator import Coordinator, Patience, ask_all, list_lost
from percdl.federated.packing import Bounds
from percdl.federated.roster import FEWEST_SITES
from percdl.runtimes.messages import Reply, Request, Wire


def convene(
    wire: Wire, run: str, agreement: Agreement, patience: Patience, audit: Audit
) -> Coordinator:
    """Have the sites join and announce their keys; return the coordinator of the run.

    Joining tells the coordinator: that a site has enough recordings; their channels, units,
    sampling rate and processing; whether samples are missing; and the power of two above their
    energy and above their number of samples.
    """
    proposal = Request("join", run, 0, 0, {"agreement": agreement.to_json()}, agreement.arrays)
    joined, lost = _ask(wire, proposal, wire.sites(), patience, audit, _check_told)
    least = max(agreement.min_sites, FEWEST_SITES if agreement.secure is True else 0)
    _check_enough(joined, lost, least, "joined")
    told = {site: joined[site].facts for site in sorted(joined)}
    signals = _common_signals({site: Signals.from_json(x["signals"]) for site, x in told.items()})
    secure = agreement.masks(len(told))
    announcements: list[dict[str, Any]] = []
    if secure:
        question = Request("keys", run, 1, 0)
        announced, lost = _ask(wire, question, tuple(told), patience, audit, _check_announced)
        least = max(FEWEST_SITES, agreement.min_sites)
        _check_enough(announced, lost, least, "announced a key")
        told = {site: told[site] for site in sorted(announced)}
        announcements = [announced[site].facts["announcement"] for site in told]
    terms = Terms(
        agreement,
        signals,
        max(int(facts["n_masks"]) for facts in told.values()),
        Bounds.covering([Bounds(*map(int, facts["bounds"])) for facts in told.values()]),
        tuple(told),
        secure,
    )
    return Coordinator(wire, run, terms, patience, audit, announcements, round=2)


def _ask(
    wire: Wire,
    request: Request,
    sites: tuple[str, ...],
    patience: Patience,
    audit: Audit,
    check: Any,
) -> tuple[dict[str, Reply], dict[str, str]]:
    if not sites:
        return {}, {}
    requests = dict.fromkeys(sites, request)
    good, lost, line = ask_all(wire, requests, patience.round_timeout, check)
    audit.add(Attempt(**line))
    return good, lost


def _check_enough(good: dict[str, Reply], lost: dict[str, str], least: int, did: str) -> None:
    if len(good) < least:
        raise FederationError(
            f"{len(good)} site(s) ({', '.join(sorted(good)) or 'none'}) have {did}, and {least} "
            f"are needed. {list_lost(lost)}"
        )


def _check_told(reply: Reply) -> str | None:
    """Return what is wrong with what a site told of its recordings."""
    try:
        facts = reply.facts
        signals = Signals.from_json(facts["signals"])
        whole = all(isinstance(x, int) for x in (facts["n_masks"], *facts["bounds"]))
        bounds = Bounds(*facts["bounds"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        return f"joined with an answer that cannot be read ({error!r})"
    known = facts["n_masks"] in (0, 1, signals.n_channels)
    if not whole or not known or not bounds.plausible:
        return f"told of {facts['n_masks']!r} masks and bounds {bounds!r}"
    return None


def _check_announced(reply: Reply) -> str | None:
    if isinstance(reply.facts.get("announcement"), dict):
        return None
    return "announced no key"


def _common_signals(told: dict[str, Signals]) -> Signals:
    """Return what all sites have in common, which must be everything."""
    first, *others = told
    for site in others:
        for name, a, b in zip(Signals._fields, told[first], told[site], strict=True):
            if a != b:
                raise FederationError(
                    f"The sites must agree on {name}: site {first} has {a!r}, and site {site} "
                    f"has {b!r}. Process the recordings alike, or leave one of them out."
                )
    return told[first]
