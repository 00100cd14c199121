"""``percdl federate site`` and ``keys``: a hospital's part of a federation, and its keys."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from percdl.cli.data_options import read_any_cohort
from percdl.cli.options import optional
from percdl.cli.output import (
    Output,
    fail,
    prepare_folder,
    require_packages,
    terminating_like_ctrl_c,
    writing,
)

if TYPE_CHECKING:
    from percdl.cli.federate_config import SitePlan
    from percdl.federated.site import FederatedSite
    from percdl.runtimes.messages import Answer, Reply, Request

# Seconds that a site stays after the end of a run, so that its last answer arrives.
LINGER = 15.0
# A line for each message that has left the site.
SENT = "sent.jsonl"


def site(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="TOML file of the site.")],
    output: Output,
    check: Annotated[
        bool, typer.Option("--check", help="Check recordings, keys and server, and exit.")
    ] = False,
) -> None:
    """Take part in a federation with a folder of recordings, which stay where they are.

    percdl federate site lyon.toml

    Recordings and keys are checked before anything is sent. Model, events and report of the
    site's own subjects are kept in its folder. The site leaves after a run, or on Ctrl-C; it
    reconnects where the connection is lost.
    """
    from percdl.cli.federate_config import read_site_file

    require_packages(("flwr", "cryptography"), "federated", "a site uses Flower")
    from percdl.federated.certificates import look_at_server
    from percdl.runtimes.flower.processes import logging_to

    plan = read_site_file(config)
    prepare_folder(plan.folder, "folder in [site]", private=True)
    log = logging_to(plan.folder / "site.log")
    with output.showing_warnings(), log, terminating_like_ctrl_c():
        ours = make_site(plan)
        output.say(f"Site {plan.name}: {ours.cohort!r}")
        there = look_at_server(plan.server, plan.authority)
        about = {"subjects": len(ours.cohort), "server": plan.server, "connected": there}
        output.event("start", command="federate site", site=plan.name, **about)
        if not there:
            output.warn(f"no server answers at {plan.server} yet.")
        if check:
            for doubt in _doubts(plan, ours):
                output.warn(f"{doubt}: this site would refuse every run.")
            output.say("Recordings and keys are in order. No data was sent.")
            return
        _take_part(plan, _Door(ours.answer, plan, output), output)
    output.event("done", folder=plan.folder)
    output.say(f"Results: {plan.folder}")


def make_site(plan: SitePlan) -> FederatedSite:
    """Return a site with its recordings, after a check of its keys."""
    from percdl.federated.certificates import check_node_key
    from percdl.federated.consent import Consent
    from percdl.federated.messages import check_name
    from percdl.federated.site import FederatedSite

    check_name("site", plan.name)
    for path in (plan.authority, plan.node):
        if not path.is_file():
            fail(f"there is no file {path}. `percdl federate keys` makes the keys of a site.")
    check_node_key(plan.node)
    consent = Consent(
        min_subjects=plan.min_subjects,
        min_sites=plan.min_sites,
        allow_plain=None if plan.require_secure is None else not plan.require_secure,
        all_members=plan.all_members,
        agreement=plan.agreement,
    )
    cohort = read_any_cohort(plan.data)[:]  # in memory, shards too
    options = {"consent": consent, "write_report": plan.report}
    return FederatedSite(plan.name, cohort, plan.folder, *_identity(plan), **options)


def _doubts(plan: SitePlan, site: FederatedSite) -> Iterator[str]:
    """Yield reasons why a site would refuse every run by its own file."""
    n_subjects, least = len(site.cohort), plan.min_subjects
    if n_subjects < least:
        yield f"there are {n_subjects} recordings, fewer than `min-subjects = {least}`"
    if plan.agreement is not None and not re.fullmatch("[0-9a-f]{64}", plan.agreement):
        yield (
            f"`agreement = {plan.agreement!r}` is not a checksum of 64 digits, as printed by "
            "`percdl federate server --terms`"
        )


def _identity(plan: SitePlan) -> tuple[Any, dict[str, Any]]:
    """Return the identity of the site, and the public keys of all sites."""
    from percdl.federated.identities import Identity, read_registered

    if plan.identity is None and plan.registered is None and not plan.require_secure:
        return None, {}
    if plan.identity is None or plan.registered is None:
        fail(
            "secure sums need `identity` and `registered` in [site]: its key, and all public ones."
        )
    identity = replace(Identity.read(plan.identity), site=plan.name)
    registered = read_registered(plan.registered)
    own = registered.get(plan.name)
    if own is None or own.public_bytes_raw() != identity.public.public_bytes_raw():
        fail(
            f"{plan.registered} must hold {plan.name}.pub, the public half of {plan.identity}: "
            "the other sites check its signature."
        )
    return identity, registered


def _take_part(plan: SitePlan, door: _Door, output: Output) -> None:
    """Answer requests until the run is over; reconnect where the connection is lost."""
    from percdl.runtimes.flower.connection import Joining, running_node
    from percdl.runtimes.flower.processes import EndedError

    joining = Joining(plan.server, plan.authority, plan.node)
    while True:
        try:
            with running_node(joining, plan.folder, plan.port) as node:
                output.say(f"Waiting for {plan.server}. Ctrl-C leaves.")
                node.serve(door.answer, door.is_done)
            return
        except EndedError as error:
            # After a crash, a server notices that a site has left only after a minute.
            output.warn(f"{error} Next try in {plan.retry:g} s.")
            time.sleep(plan.retry)


class _Door:
    """Passes requests to a site, reports them, and notices the end of the run."""

    def __init__(self, answer: Answer, plan: SitePlan, output: Output) -> None:
        self._answer, self._plan, self._output = answer, plan, output
        self._finished: float | None = None

    def answer(self, request: Request) -> Reply:
        from percdl.exceptions import FederationError
        from percdl.runtimes.messages import n_bytes

        kind, run, number = request.kind, request.run, request.round
        began = time.perf_counter()
        try:
            reply = self._answer(request)
        except FederationError as error:
            self._output.warn(f"{kind} of run {run}, refused: {error}")
            raise
        self._note(reply)
        seconds, weight = round(time.perf_counter() - began, 3), n_bytes(reply)
        about = {"round": number, "bytes": weight, "seconds": seconds}
        self._output.event("answer", kind=kind, run=run, **about)
        sent = f"{weight} bytes sent after {seconds:.1f} s"
        self._output.say(f"{run}, round {number} ({kind}): {sent}")
        if kind == "finish":
            self._finished = time.monotonic()
        return reply

    def _note(self, reply: Reply) -> None:
        """Append a readable line about a message that leaves the site."""
        from percdl.signals.files import append_private

        arrays = {
            name: {"dtype": str(x.dtype), "shape": x.shape, "begins": x.ravel()[:3].tolist()}
            for name, x in reply.arrays.items()
        }
        line = {**vars(reply), "arrays": arrays, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        append_private(self._plan.folder / SENT, (json.dumps(line) + "\n").encode())

    def is_done(self) -> bool:
        if self._plan.stay or self._finished is None:
            return False
        return time.monotonic() - self._finished > LINGER


def keys(
    output: Output,
    site: Annotated[
        str | None, typer.Argument(metavar="SITE", help="Name of the site.", show_default=False)
    ] = None,
    authority: Annotated[
        bool, typer.Option("--ca", help="Make a certificate authority, for a pilot.")
    ] = False,
    server: Annotated[
        list[str] | None,
        optional("Make a certificate for a server of this name or address (again for more)."),
    ] = None,
    folder: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("keys"),
) -> None:
    """Make the keys of a site, or the certificate of a server. Existing files are kept.

    percdl federate keys lyon

    writes lyon.key and lyon.pub (identity of the site, for secure sums), lyon.node and
    lyon.nodepub (its connection). The private keys lyon.key and lyon.node stay at the site. For
    a pilot, the server:

    percdl federate keys --ca --server percdl.example.org
    """
    require_packages(("cryptography",), "federated", "keys need a library")
    from percdl.federated import certificates as certs
    from percdl.federated.identities import Identity, refuse_existing

    if site is None and not authority and not server:
        fail("name what to make: a SITE, --ca or --server HOST.")
    prepare_folder(folder, "--folder")
    made = [] if site is None else [f"{site}.{end}" for end in ("key", "pub", "node", "nodepub")]
    made += ["ca.key", "ca.crt"] if authority else []
    made += ["server.key", "server.crt"] if server else []
    refuse_existing(*(folder / name for name in made))
    if server and not authority and not (folder / "ca.key").is_file():
        fail(f"there is no ca.key in {folder} to sign for a server. Make one with --ca.")
    with writing(folder, "--folder"):
        try:
            if site is not None:
                Identity.generate(site).write(folder)
                certs.make_node_key(site, folder)
            if authority:
                certs.make_authority(folder)
            if server:
                certs.make_server_certificate(server, folder)
        except BaseException:  # all files or none
            for name in made:
                (folder / name).unlink(missing_ok=True)
            raise
    if site is not None:
        output.say(
            f"To the server's administrator: {folder / f'{site}.nodepub'}\n"
            f"To every other site, not through the server: {folder / f'{site}.pub'}"
        )
    if authority:
        output.say(f"To every site: {folder / 'ca.crt'}")
    output.event("done", folder=folder, files=made)
    output.say(f"Written to {folder}: {', '.join(made)}")
