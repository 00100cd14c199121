"""``percdl federate invite``, ``relay`` and ``simulate``: a manifest, a board, a trial."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import percdl
from percdl.cli.data_options import DataOptions, prepare_files, read_cohort
from percdl.cli.model_options import ModelOptions, read_dictionary
from percdl.cli.options import InvitationFile, LogFile, argument, as_flag, option
from percdl.cli.output import (
    CommandError,
    Output,
    fail,
    logging_to,
    prepare_folder,
    require_packages,
    terminating_like_ctrl_c,
    writing,
)
from percdl.exceptions import PerCDLError

if TYPE_CHECKING:
    from percdl.cli.federate_config import FederationPlan
    from percdl.federated.manifest import Manifest
    from percdl.federated.privacy import Privacy

MODEL, AUDIT = "model.percdl", "audit.csv"
# Days before its end from which a certificate should be renewed.
SOON = 30


def invite(
    config: Annotated[Path, argument("CONFIG", "TOML file of the run.")],
    output: Output,
    out: Annotated[Path, option("File to write to.")] = Path("invitation.toml"),
) -> None:
    """Write the invitation to a run: members, model, schedule and privacy in one file.

    percdl federate invite federation.toml

    Send it to all sites and to the server. Every site checks and signs its content, and refuses
    anything that is not in it.
    """
    require_packages(("cryptography",), "federated", "the members have keys")
    from percdl.cli.federate_config import read_federation_file
    from percdl.federated.manifest import Invitation

    plan = read_federation_file(config)
    for path in (plan.authority, *plan.members.values()):
        if not path.is_file():
            fail(f"there is no file {path}. `percdl federate keys` makes keys and certificates.")
    inputs = [config, plan.authority, *plan.members.values(), plan.init]
    prepare_files({"--out": out}, others=inputs)
    try:
        manifest = _make_manifest(plan)
    except CommandError:
        raise
    except PerCDLError as error:
        fail(f"{config} is not possible in a federation: {error}")
    with writing(out, "--out"):
        Invitation(plan.server, plan.authority.read_text(), manifest).write(out)
    text = f"Written: {out}\nFingerprint, to compare by telephone: {manifest.fingerprint}"
    output.done(text, out=out, checksum=manifest.digest, fingerprint=manifest.fingerprint)


def _make_manifest(plan: FederationPlan) -> Manifest:
    """Return the manifest that a file describes."""
    from percdl.federated.identities import read_public
    from percdl.federated.manifest import propose
    from percdl.federated.messages import check_name

    for name in ("atom_length", "min_gap"):
        if isinstance(plan.model.values[name], str):
            fail(f"{as_flag(name)[2:]} in [model] must be a number of samples, not a duration.")
    model = plan.model.build()
    if plan.init is not None:
        model.set_params(init=read_dictionary(str(plan.init)))
    members = {check_name("site", name): read_public(path) for name, path in plan.members.items()}
    privacy = _make_privacy(plan.epsilon, plan.delta, plan.clip)
    names = "dataset", "secure", "min_subjects", "aggregate"
    options = {name: getattr(plan, name) for name in names}
    return propose(model, check_name("run", plan.run), members, privacy=privacy, **options)


def _make_privacy(epsilon: float | None, delta: float, clip: float) -> Privacy | None:
    from percdl.federated.privacy import Privacy

    return None if epsilon is None else Privacy(epsilon=epsilon, delta=delta, clip=clip)


def relay(
    invitation: InvitationFile,
    output: Output,
    certificate: Annotated[Path, option("Certificate of the server (PEM).")],
    key: Annotated[Path, option("Its private key (PEM).")],
    host: Annotated[str, option("Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, option("Port to listen on.", min=0, max=65535)] = 8000,
    folder: Annotated[Path, option("Folder of the posts.")] = Path("relay"),
    log: LogFile = None,
) -> None:
    """Pass the posts of a run on between its sites.

    Nothing is computed or decided here, unless the manifest lets the server add the sums.

    percdl federate relay invitation.toml --certificate server.crt --key server.key

    Posts are kept in FOLDER/RUN, so that a stopped relay can continue. It ends with the run,
    or on Ctrl-C. GET /health says how far the run is.
    """
    packages = ("httpx", "starlette", "uvicorn", "cryptography")
    require_packages(packages, "federated", "a relay uses HTTPS")
    from percdl.cli.federate_config import read_invitation_file
    from percdl.federated.board import Board
    from percdl.federated.certificates import read_end
    from percdl.federated.identities import check_key_file
    from percdl.federated.relay import make_app, make_server, serve

    manifest = read_invitation_file(invitation).manifest
    if not certificate.is_file():
        fail(
            f"there is no file {certificate}. `percdl federate keys --ca --server HOST` makes it."
        )
    check_key_file(key)
    days = (read_end(certificate) - datetime.now(UTC)).days
    if days < SOON:
        output.warn(f"{certificate} ends in {days} days. `percdl federate renew` renews it.")
    place = folder / manifest.run
    prepare_folder(place, "--folder", private=True)
    board = Board(manifest, place)
    output.event("start", command="federate relay", run=manifest.run, members=manifest.sites)
    output.say(f"Run {manifest.run} of {', '.join(manifest.sites)}, {manifest.fingerprint}")
    output.say(f"Listening on {host}:{port}.")
    with logging_to(log), terminating_like_ctrl_c():
        serve(board, make_server(make_app(board), host, port, certificate, key))
    n_posts = board.latest + 1
    output.done(
        f"The run is over after {n_posts} posts of each site.", folder=place, slots=n_posts
    )


def simulate(
    source: DataOptions,
    options: ModelOptions,
    output: Output,
    by: Annotated[
        str | None,
        option(
            "Column of groups, of --metadata if given; each group is a site. "
            "(default: each folder of DATA is one)"
        ),
    ] = None,
    secure: Annotated[
        bool | None, option("Mask the sums. (default: from three sites)", "--secure/--plain")
    ] = None,
    min_subjects: Annotated[int, option("Fewest people of a site behind a number.", min=1)] = 1,
    epsilon: Annotated[
        float | None, option("Differential privacy: epsilon of the run. Needs --init FILE.")
    ] = None,
    delta: Annotated[float, option("Differential privacy: delta.")] = 1e-5,
    clip: Annotated[float, option("Largest contribution of a person.")] = 1.5,
    out: Annotated[Path, option("Folder to write to.")] = Path("federation"),
) -> None:
    """Run a federation in this process: its result, and what each site would send.

    percdl federate simulate lyon/ nice/ paris/ --sfreq 100 --atom-length 1s --penalty 1

    Each folder is a site, or each group of one cohort: --by diagnosis. The numbers are those of
    a real federation. The model, the log of all rounds and the results of each site are written
    to OUT.
    """
    require_packages(("cryptography",), "federated", "the sites need keys")
    sites = _read_folders(source) if by is None else _read_groups(source, by)
    for name, cohort in sites.items():
        output.say(f"{name}: {cohort!r}")
    prepare_folder(out, "--out")
    if any(out.iterdir()):
        fail(f"{out} is not empty. Choose another folder with --out.")
    federation = percdl.FederatedPerCDL(
        options.build(),
        secure="auto" if secure is None else secure,
        min_subjects=min_subjects,
        privacy=_make_privacy(epsilon, delta, clip),
    )
    output.event("start", command="federate simulate", sites=list(sites))
    federation.fit(sites, folder=out / "sites")
    model: Any = federation.model_
    with writing(out / MODEL, "--out"):
        model.save(out / MODEL)
    federation.audit_.to_csv(out / AUDIT, index=False)
    table = federation.audit_.groupby("site").agg(
        posts=("asked", "count"), sent=("sent", "sum"), received=("received", "sum")
    )
    masked = "masked sums" if federation.secure_ else "plain sums"
    output.done(
        f"{table.to_string()}\n"
        f"Objective {model.objective_:.6g}, {masked}, {len(table)} sites.\n"
        f"Model: {out / MODEL}\nLog: {out / AUDIT}\nResults of each site: {out / 'sites'}",
        out=out / MODEL,
        audit=out / AUDIT,
        summary=table.reset_index().to_dict("records"),
        sites=federation.sites_,
        secure=federation.secure_,
        objective=model.objective_,
        stop_reason=model.stop_reason_,
    )


def _read_groups(source: DataOptions, by: str) -> dict[str, percdl.Cohort]:
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


def _read_folders(source: DataOptions) -> dict[str, percdl.Cohort]:
    names = source.data or []
    folders = {Path(name).resolve().name: name for name in names}
    for name in names:
        if not Path(name).is_dir():
            fail(f"{name} is not a folder. Without --by, each site is a folder.")
    if len(names) < 2:
        fail("name a folder for each site, two or more of them, or the groups with --by.")
    if len(folders) < len(names):
        fail(f"sites are named after folders, and two are named alike: {', '.join(folders)}.")
    return {site: read_cohort(replace(source, data=[name])) for site, name in folders.items()}
