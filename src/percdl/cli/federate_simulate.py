"""``percdl federate simulate``: a federation in one process, for trials and teaching."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from percdl.cli.data_options import DataOptions, read_cohort
from percdl.cli.errors import fail, prepare_folder, require_packages, writing
from percdl.cli.federate_server import AUDIT, MODEL, conclude
from percdl.cli.model_options import ModelOptions
from percdl.cli.options import optional
from percdl.cli.output import Output

if TYPE_CHECKING:
    from percdl.signals import Cohort


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
