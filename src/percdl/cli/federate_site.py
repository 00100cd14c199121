"""``percdl federate join``, ``keys`` and ``renew``: the commands of a site, and its keys."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.request import getproxies

import typer

from percdl.cli.data_options import read_any_cohort, read_metadata
from percdl.cli.options import InvitationFile, LogFile, argument, option
from percdl.cli.output import (
    Output,
    fail,
    interruptible,
    logging_to,
    prepare_folder,
    require_packages,
    terminating_like_ctrl_c,
    writing,
)

if TYPE_CHECKING:
    from percdl.cli.federate_config import SitePlan
    from percdl.federated.manifest import Invitation
    from percdl.federated.site import FederatedSite

# Seconds by which clocks may differ, and bytes that a run may take on the disk of a site.
MOST_SKEW, LEAST_FREE = 60.0, 5 * 10**8


def join(
    invitation: InvitationFile,
    output: Output,
    config: Annotated[
        Path, option("TOML file of the site; questions make it if it is new.", "--site")
    ] = Path("site.toml"),
    check: Annotated[
        bool, option("Check recordings, key, disk, server and clock, and exit.", "--check")
    ] = False,
    log: LogFile = None,
) -> None:
    """Take part in a run with a folder of recordings, which stay where they are.

    percdl federate join invitation.toml

    Recordings, key, disk, server and clock are checked before anything is sent. Model, events
    and report of the site's own subjects are kept in its folder, and the model without subjects,
    which may be passed on. After a crash or Ctrl-C, the same command continues the run.
    """
    packages = ("httpx", "starlette", "uvicorn", "cryptography")
    require_packages(packages, "federated", "a site connects by HTTPS")
    from percdl.cli.federate_config import read_invitation_file, read_site_file
    from percdl.estimators.fitting import rounds_per_run
    from percdl.federated.consent import check_manifest
    from percdl.federated.relay import Relayed

    invited = read_invitation_file(invitation)
    if not config.exists():
        _ask(config, invited.manifest.dataset)
    plan, manifest = read_site_file(config), invited.manifest
    prepare_folder(plan.folder, "folder in [site]", private=True)
    with logging_to(log), terminating_like_ctrl_c():
        site = _make_site(plan)
        output.say(f"Site {site.name}: {site.cohort!r}")
        check_manifest(site.name, site.identity.public, site.cohort, site.consent, manifest)
        _check_disk(plan.folder, output)
        there = _check_server(invited, output)
        about = {"subjects": len(site.cohort), "server": invited.server, "connected": there}
        output.event("start", command="federate join", site=site.name, run=manifest.run, **about)
        _show(invited, output)
        if check:
            output.say("Recordings, key and disk are in order. No data was sent.")
            return
        if plan.manifest is None and not typer.confirm("Do all sites read the same fingerprint?"):
            fail("compare the fingerprint with the other sites before you take part.")
        again = "Stopped. The same command continues the run."
        n_rounds = rounds_per_run(manifest.make_model())
        relayed = Relayed(invited, site.identity, plan.patience)
        with relayed, interruptible(output, n_rounds, lambda: again) as report:
            site.take_part(manifest, relayed, report)
    place = plan.folder / manifest.run
    output.done(f"Results: {place}", folder=place)


def _check_disk(folder: Path, output: Output) -> None:
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE:
        fail(
            f"{folder} has {free / 1e6:.0f} MB left, and a run may take {LEAST_FREE / 1e6:.0f} "
            "MB. Free some space, or choose another `folder` in [site]."
        )
    output.say(f"Disk: {free / 1e9:.1f} GB free in {folder}.")


def _check_server(invited: Invitation, output: Output) -> bool:
    """Print how the server is reached and how clocks differ; return whether it answers."""
    from percdl.federated.relay import look_at_server

    proxy = getproxies().get("https", "none")
    ahead = look_at_server(invited.server, invited.authority)
    if ahead is None:
        output.warn(f"no server answers at {invited.server} yet (proxy: {proxy}).")
        return False
    output.say(f"Server: {invited.server} proves its identity (proxy: {proxy}).")
    if abs(ahead) > MOST_SKEW:
        output.warn(
            f"the clock of the server is {ahead:+.0f} s from this one. Certificates and logs "
            "depend on clocks: synchronize them (NTP)."
        )
    return True


def _make_site(plan: SitePlan) -> FederatedSite:
    """Return a site with its recordings, after a check of its key."""
    from percdl.federated.consent import Consent
    from percdl.federated.identities import Identity
    from percdl.federated.site import FederatedSite

    consent = Consent(**{field.name: getattr(plan, field.name) for field in fields(Consent)})
    identity = Identity.read(plan.identity)
    cohort = read_any_cohort(plan.data)[:]  # in memory, shards too
    if plan.person is not None:
        table: Any = read_metadata(plan.data, cohort)
        if table is None or plan.person not in table or table[plan.person].isna().any():
            fail(f"`person` needs a column {plan.person!r} of the metadata, with every person.")
        cohort = cohort.with_visits(table[plan.person].astype(str).tolist())
    return FederatedSite(identity, cohort, plan.folder, consent, plan.report)


def _show(invited: Invitation, output: Output) -> None:
    """Print what a site is about to sign."""
    manifest = invited.manifest
    model = json.dumps(manifest.parameters, default=str)
    output.say(f"Run {manifest.run} at {invited.server}: {manifest.model} {model}")
    if manifest.dataset:
        output.say(f"Data set: {manifest.dataset}")
    for name, key in manifest.members.items():
        output.say(f"  {name}: key {key[:16]}")
    privacy = "exact sums" if manifest.privacy is None else f"noise {manifest.privacy}"
    masked = "masked" if manifest.secure else "NOT masked"
    output.say(f"Sums are {masked}, over {manifest.min_subjects} people or more; {privacy}.")
    adds = "THE SERVER" if manifest.aggregate == "server" else "every site itself"
    output.say(f"The next dictionary is computed by {adds}.")
    output.say(f"Fingerprint, to compare by telephone: {manifest.fingerprint}")


def _ask(path: Path, dataset: str) -> None:
    """Write the file of a site from answers to a few questions; paths as in the shell."""
    identity, data = (
        os.path.abspath(os.path.expanduser(typer.prompt(question)))
        for question in (
            "Private key of this site (SITE.key, made by `percdl federate keys`)",
            f"Folder of the recordings{dataset and f' of data set {dataset}'}",
        )
    )
    sfreq = typer.prompt("Samples per second (0 if the files contain it)", type=float)
    least = typer.prompt("Smallest number of people behind every number", type=int, default=5)
    path.write_text(
        f"[site]\nidentity = {json.dumps(identity)}\nfolder = {json.dumps(Path(identity).stem)}\n"
        f"min-subjects = {least}\ndataset = {json.dumps(dataset)}\n\n"
        f"[data]\ndata = {json.dumps(data)}\n" + (f"sfreq = {sfreq}\n" if sfreq else "")
    )


def keys(
    output: Output,
    site: Annotated[str | None, argument("SITE", "Name of the site.")] = None,
    authority: Annotated[bool, option("Make an authority, for a pilot.", "--ca")] = False,
    server: Annotated[
        list[str] | None,
        option("Make a certificate for a server of this name or address (again for more)."),
    ] = None,
    folder: Annotated[Path, option("Folder to write to.")] = Path("keys"),
) -> None:
    """Make the keys of a site, or the certificate of a server. Existing keys are kept.

    percdl federate keys lyon

    writes lyon.key and lyon.pub. The private key lyon.key stays at the site; lyon.pub goes to the
    person who invites. For a pilot, the server:

    percdl federate keys --ca --server percdl.example.org
    """
    require_packages(("cryptography",), "federated", "keys need a library")
    from percdl.federated import certificates as certs
    from percdl.federated.identities import Identity, refuse_existing

    if site is None and not authority and not server:
        fail("name what to make: a SITE, --ca or --server HOST.")
    prepare_folder(folder, "--folder")
    made = [] if site is None else [f"{site}.key", f"{site}.pub"]
    made += ["ca.key", "ca.crt"] if authority else []
    made += ["server.key", "server.crt"] if server else []
    refuse_existing(*(folder / name for name in made))
    if server and not authority and not (folder / "ca.key").is_file():
        fail(f"there is no ca.key in {folder} to sign for a server. Make one with --ca.")
    with writing(folder, "--folder"):
        try:
            if site is not None:
                Identity.generate(site).write(folder)
            if authority:
                certs.make_authority(folder)
            if server:
                certs.make_server_certificate(server, folder)
        except BaseException:  # all files or none
            for name in made:
                (folder / name).unlink(missing_ok=True)
            raise
    if site is not None:
        output.say(f"To the person who invites: {folder / f'{site}.pub'}")
    if authority:
        output.say(f"For the invitation: {folder / 'ca.crt'}")
    output.done(f"Written to {folder}: {', '.join(made)}", folder=folder, files=made)


def renew(
    output: Output, folder: Annotated[Path, option("Folder of the keys.")] = Path("keys")
) -> None:
    """Make a new certificate of the server, for the same key and names.

    percdl federate renew

    It is signed by ca.key in the folder. Sites need nothing new; restart the relay.
    """
    require_packages(("cryptography",), "federated", "keys need a library")
    from percdl.federated import certificates as certs

    for name in ("ca.key", "ca.crt", "server.key", "server.crt"):
        if not (folder / name).is_file():
            fail(f"there is no {name} in {folder}: only what was made here can be renewed.")
    with writing(folder, "--folder"):
        certs.renew_server_certificate(folder)
    end = certs.read_end(folder / "server.crt")
    text = f"{folder / 'server.crt'} is valid until {end:%Y-%m-%d}. Restart the relay."
    output.done(text, folder=folder, files=["server.crt"], valid_until=f"{end:%Y-%m-%d}")
