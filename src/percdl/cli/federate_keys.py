"""``percdl federate keys``: keys of a site, certificates of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from percdl.cli.errors import fail, prepare_folder, require_packages, writing
from percdl.cli.options import optional
from percdl.cli.output import Output


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
        fail("nothing to make. Pass a SITE, --ca or --server HOST.")
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
