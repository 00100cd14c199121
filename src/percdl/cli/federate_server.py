"""``percdl federate server`` and ``simulate``: a coordinator, a trial in one process."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from percdl.cli.data_options import DataOptions, read_cohort
from percdl.cli.model_options import ModelOptions, read_dictionary
from percdl.cli.options import optional
from percdl.cli.output import (
    NOTHING_FOUND,
    Output,
    fail,
    interruptible,
    prepare_folder,
    require_packages,
    terminating_like_ctrl_c,
    writing,
)
from percdl.exceptions import PerCDLError

if TYPE_CHECKING:
    from percdl.cli.federate_config import ServerPlan
    from percdl.federated.estimator import FederatedPerCDL
    from percdl.runtimes.messages import Wire
    from percdl.signals import Cohort

MODEL, CHECKPOINT, AUDIT = "model.percdl", "checkpoint.percdl", "audit.jsonl"


def server(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="TOML file of the server.")],
    output: Output,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was interrupted.")
    ] = False,
    terms: Annotated[
        bool, typer.Option("--terms", help="Print the terms for sites to agree to, and exit.")
    ] = False,
) -> None:
    """Coordinate a federation: wait for its sites, fit the model over them, write it.

    percdl federate server federation.toml

    Only sums over the subjects of a site arrive here. Model, log of all rounds and checkpoint
    are written to FOLDER/RUN; after a crash or Ctrl-C, --resume continues from there.

    Exit codes are those of `percdl --help`.
    """
    from percdl.cli.federate_config import read_server_file
    from percdl.estimators.fitting import rounds_per_run

    require_packages(("flwr", "cryptography"), "federated", "a server uses Flower")
    plan = read_server_file(config)
    try:
        federation = make_federation(plan)
    except PerCDLError as error:
        fail(f"{config} is not possible in a federation: {error}")
    if terms:
        agreement = federation.propose_terms()
        output.event("terms", terms=agreement.model_dump(), checksum=agreement.digest)
        output.say(json.dumps(agreement.model_dump(), indent=2))
        output.say(f"Checksum, for `agreement` in the files of sites: {agreement.digest}")
        return
    keys = _read_files(plan)
    place = _prepare(plan, resume)
    again = f"percdl federate server {shlex.quote(str(config))} --resume"
    advice = f"Stopped. Continue with:\n{again}"
    with output.showing_warnings(), _connected(plan, keys, output) as wire:
        _gather(wire, plan, output)
        n_rounds = rounds_per_run(plan.model.build())
        output.event("start", command="federate server", run=plan.run, rounds=n_rounds)
        start: dict[str, Any] = {"resume": place / CHECKPOINT} if resume else {"run": plan.run}
        with interruptible(output, n_rounds, lambda: advice) as report:
            federation.fit_over(wire, report=report, **start)
    with writing(place / MODEL, "folder in [server]"):
        federation.model_.save(place / MODEL)
    (place / CHECKPOINT).unlink(missing_ok=True)
    conclude(federation, place, output)
    if str(federation.model_.stop_reason_).startswith("Every activation is zero"):
        raise typer.Exit(NOTHING_FOUND)


def make_federation(plan: ServerPlan) -> FederatedPerCDL:
    """Return the fit that a file describes, with valid terms."""
    from percdl.federated.estimator import FederatedPerCDL

    for name in ("atom_length", "min_gap"):
        if isinstance(plan.model.values[name], str):
            fail(
                f"{name.replace('_', '-')} in [model] must be a number of samples: the server "
                "does not know the sampling rate."
            )
    model = plan.model.build()
    if plan.init is not None:
        model.set_params(init=read_dictionary(str(plan.init)))
    place = plan.folder / plan.run
    federation = FederatedPerCDL(
        model,
        secure=plan.secure,
        min_sites=plan.min_sites,
        min_subjects_per_site=plan.min_subjects,
        round_timeout=plan.timeout,
        checkpoint=place / CHECKPOINT,
        audit=place / AUDIT,
    )
    federation.propose_terms()
    return federation


def _read_files(plan: ServerPlan) -> dict[str, bytes]:
    """Check that all files exist; return the public keys of the sites."""
    from percdl.federated.identities import check_key_file
    from percdl.federated.messages import check_name

    for path in (plan.authority, plan.certificate, *plan.sites.values()):
        if not path.is_file():
            fail(f"there is no file {path}. `percdl federate keys` makes keys and certificates.")
    check_key_file(plan.key)
    for site in plan.sites:
        check_name("site", site)
    if len(plan.sites) < plan.min_sites:
        fail(f"[sites] lists {len(plan.sites)}, and min-sites is {plan.min_sites}.")
    return {site: path.read_bytes() for site, path in plan.sites.items()}


def _prepare(plan: ServerPlan, resume: bool) -> Path:
    """Return the folder of the run; one of an earlier run is refused."""
    from percdl.federated.messages import check_name

    place = plan.folder / check_name("run", plan.run)
    if resume and not (place / CHECKPOINT).is_file():
        fail(f"there is no run to resume: no file {place / CHECKPOINT}.")
    if not resume and place.exists() and any(place.iterdir()):
        hint = " --resume continues it." if (place / CHECKPOINT).is_file() else ""
        fail(f"{place} holds an earlier run. Choose another `run` in [server].{hint}")
    prepare_folder(place, "folder in [server]", private=True)
    return place


@contextmanager
def _connected(plan: ServerPlan, keys: dict[str, bytes], output: Output) -> Iterator[Wire]:
    """Yield the wire to the sites of a SuperLink that runs during the block."""
    from percdl.runtimes.flower.connection import Listening, running_link
    from percdl.runtimes.flower.processes import logging_to
    from percdl.runtimes.flower.wire import FlowerWire

    listening = Listening(plan.host, plan.port, plan.authority, plan.certificate, plan.key)
    with logging_to(plan.folder / "server.log"), terminating_like_ctrl_c():
        with running_link(listening, plan.folder) as link:
            nodes = link.admit(keys)
            output.say(f"Listening on {plan.host}:{plan.port}.")
            with link.open_run() as grid:
                yield FlowerWire(grid, nodes)


def _gather(wire: Wire, plan: ServerPlan, output: Output) -> None:
    """Wait until all sites are connected, or enough of them when the time is up."""
    end, known = time.monotonic() + plan.wait, None
    while True:
        present = wire.sites()
        if present != known:
            known = present
            output.event("sites", connected=present)
            output.say(f"{len(present)} of {len(plan.sites)} sites: {', '.join(present) or '-'}")
        if len(present) == len(plan.sites):
            return
        if time.monotonic() > end:
            break
        time.sleep(0.5)
    if len(present) < plan.min_sites:
        fail(
            f"{len(present)} site(s) came within {plan.wait:g} s, and {plan.min_sites} are "
            "needed. Check their logs; `wait` in [server] is the time to wait."
        )


def conclude(federation: FederatedPerCDL, place: Path, output: Output) -> None:
    """Print a table of the sites: requests answered and missed, bytes sent and received."""
    import pandas as pd

    model: Any = federation.model_
    lines = federation.audit_.to_dict("records")
    rows = [
        {
            "site": site,
            "answered": sum(site in line["bytes_up"] for line in lines),
            "dropped": sum(site in line["dropped"] for line in lines),
            "bytes_up": sum(line["bytes_up"].get(site, 0) for line in lines),
            "bytes_down": sum(line["bytes_down"].get(site, 0) for line in lines),
        }
        for site in federation.sites_
    ]
    headings = ("site", "answered", "dropped", "sent by it", "sent to it (bytes)")
    output.say(pd.DataFrame(rows).to_string(index=False, header=list(headings)))
    masked = "masked sums" if federation.secure_ else "plain sums"
    output.say(f"Objective {model.objective_:.6g}, {masked}, {len(rows)} sites.")
    about = {"sites": federation.sites_, "secure": federation.secure_, "summary": rows}
    about |= {"objective": model.objective_, "stop_reason": model.stop_reason_}
    output.event("done", out=place / MODEL, audit=place / AUDIT, **about)
    output.say(f"Model: {place / MODEL}\nLog: {place / AUDIT}")


def simulate(
    source: DataOptions,
    options: ModelOptions,
    output: Output,
    by: Annotated[
        str | None,
        optional(
            "Column of groups, of --metadata if given; each group is a site. "
            "(default: each folder of DATA is one)"
        ),
    ] = None,
    secure: Annotated[
        bool | None, optional("Mask the sums. (default: from three sites)", "--secure/--plain")
    ] = None,
    min_sites: Annotated[int, typer.Option(help="Smallest number of sites in a sum.", min=2)] = 2,
    min_subjects: Annotated[
        int, typer.Option(help="Smallest number of recordings at a site.", min=1)
    ] = 1,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("federation"),
) -> None:
    """Run a federation in this process: its result, and what each site would send.

    percdl federate simulate lyon/ nice/ paris/ --sfreq 100 --atom-length 1s --penalty 1

    Each folder is a site, or each group of one cohort: --by diagnosis. The numbers are those of
    a real federation. The model, the log of all rounds and the results of each site are written
    to OUT.
    """
    require_packages(("cryptography",), "federated", "the sites need keys")
    from percdl.federated.estimator import FederatedPerCDL

    with output.showing_warnings():
        sites = _read_folders(source) if by is None else _read_groups(source, by)
        for name, cohort in sites.items():
            output.say(f"{name}: {cohort!r}")
        prepare_folder(out, "--out")
        if any(out.iterdir()):
            fail(f"{out} is not empty. Choose another folder with --out.")
        federation = FederatedPerCDL(
            options.build(),
            secure="auto" if secure is None else secure,
            min_sites=min_sites,
            min_subjects_per_site=min_subjects,
            audit=out / AUDIT,
        )
        output.event("start", command="federate simulate", sites=list(sites))
        federation.fit(sites, folder=out / "sites")
    with writing(out / MODEL, "--out"):
        federation.model_.save(out / MODEL)
    conclude(federation, out, output)
    output.say(f"Results of each site: {out / 'sites'}")


def _read_groups(source: DataOptions, by: str) -> dict[str, Cohort]:
    cohort = read_cohort(replace(source, group=by))
    if set(cohort.groups) == {None} and source.metadata is None:
        fail(
            f"--by {by} names a column of the table of subjects, and none is given. Pass it with "
            "--metadata."
        )
    if None in cohort.groups:
        who = cohort.subjects[cohort.groups.index(None)]
        fail(f"--by {by} has no value for {who!r}, which would be at no site.")
    return {name: cohort.select(group=name) for name in sorted(set(map(str, cohort.groups)))}


def _read_folders(source: DataOptions) -> dict[str, Cohort]:
    folders = {Path(name).resolve().name: name for name in source.data or []}
    for name in source.data or []:
        if not Path(name).is_dir():
            fail(f"{name} is not a folder. Without --by, each site is a folder.")
    if len(source.data or []) < 2:
        fail("name a folder for each site, two or more of them, or the groups with --by.")
    if len(folders) < len(source.data or []):
        fail(f"sites are named after folders, and two are named alike: {', '.join(folders)}.")
    return {site: read_cohort(replace(source, data=[name])) for site, name in folders.items()}
