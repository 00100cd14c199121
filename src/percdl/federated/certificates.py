"""Keys and certificates of the connection: how a node and a server prove who they are.

For a pilot, `make_authority` stands in for the certificate authority of an institution.
"""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from percdl.exceptions import FederationError
from percdl.federated.keys import (
    ASYMMETRIC,
    check_key_file,
    primitives,
    read_private,
    write_private,
)
from percdl.signals.files import PRIVATE, replace_file

AUTHORITY, SERVER = "ca", "server"
# Seconds to wait for a server.
_PATIENCE = 10.0
# Days that certificates hold, and hours that clocks may be apart.
_DAYS, _SKEW = 825, 1


def make_node_key(site: str, folder: Path) -> tuple[Path, Path]:
    """Write ``SITE.node``, the key of a site's connection, and ``SITE.nodepub`` for the server.

    They are as ``ssh-keygen -t ecdsa -b 384`` makes them, which is what Flower reads.
    """
    private, public = folder / f"{site}.node", folder / f"{site}.nodepub"
    refuse_existing(private, public)
    parts = primitives("cryptography.hazmat.primitives.serialization")
    key = _new_key()
    secret = key.private_bytes(
        parts.Encoding.PEM, parts.PrivateFormat.OpenSSH, parts.NoEncryption()
    )
    replace_file(private, secret, PRIVATE)
    written = key.public_key().public_bytes(parts.Encoding.OpenSSH, parts.PublicFormat.OpenSSH)
    replace_file(public, written + f" {site}\n".encode())
    return private, public


def make_authority(folder: Path) -> tuple[Path, Path]:
    """Write ``ca.key`` and ``ca.crt``: who has the first can vouch for servers."""
    private, public = folder / f"{AUTHORITY}.key", folder / f"{AUTHORITY}.crt"
    refuse_existing(private, public)
    x509, key = primitives("cryptography.x509"), _new_key()
    name = _name("PerCDL federation")
    built = _builder(name, name, key.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    built = built.add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
    write_private(private, key)
    _write_certificate(public, built.sign(key, primitives(_HASHES).SHA256()))
    return private, public


def make_server_certificate(hosts: Sequence[str], folder: Path) -> tuple[Path, Path]:
    """Write ``server.key`` and ``server.crt`` for some hosts, vouched for by ``ca.key`` there.

    This machine itself (``localhost``) is always among the hosts: the coordinator and a reverse
    proxy reach the server from there.
    """
    private, public = folder / f"{SERVER}.key", folder / f"{SERVER}.crt"
    refuse_existing(private, public)
    x509, key = primitives("cryptography.x509"), _new_key()
    kind = primitives(f"{ASYMMETRIC}.ec").EllipticCurvePrivateKey
    authority = read_private(folder / f"{AUTHORITY}.key", kind)
    issuer = x509.load_pem_x509_certificate((folder / f"{AUTHORITY}.crt").read_bytes())
    names = [*dict.fromkeys([*hosts, "localhost", "127.0.0.1"])]
    built = _builder(_name(names[0]), issuer.subject, key.public_key())
    for extension, critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.SubjectAlternativeName([_host(name) for name in names]), False),
        (_usage(digital_signature=True), True),
        (x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), False),
    ):
        built = built.add_extension(extension, critical=critical)
    write_private(private, key)
    _write_certificate(public, built.sign(authority, primitives(_HASHES).SHA256()))
    return private, public


def check_node_key(path: Path) -> None:
    """Raise where a file is not the private key of a node, or others can read it."""
    check_key_file(path)
    load = primitives("cryptography.hazmat.primitives.serialization").load_ssh_private_key
    kind = primitives(f"{ASYMMETRIC}.ec").EllipticCurvePrivateKey
    try:
        good = isinstance(load(path.read_bytes(), password=None), kind)
    except ValueError:
        good = False
    if not good:
        raise FederationError(
            f"{path} is not the private key of a node. `percdl federate keys` makes one, as does "
            "`ssh-keygen -t ecdsa -b 384`."
        )


def look_at_server(address: str, authority: Path) -> bool:
    """Return whether a server listens at ``host:port``, with a certificate that holds.

    Raises `FederationError` where one listens that the authority does not vouch for.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise FederationError(f"The server {address!r} must be a host and a port: host:8000.")
    try:
        context = ssl.create_default_context(cafile=authority)
    except ssl.SSLError as error:
        raise FederationError(f"{authority} is not a certificate in PEM.") from error
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE) as plain:
            with context.wrap_socket(plain, server_hostname=host.strip("[]")):
                return True
    except ssl.SSLError as error:
        raise FederationError(
            f"The server at {address} does not prove who it is ({error}). Ask for the right "
            "certificate authority, or for a certificate with this name; do not go on without."
        ) from error
    except OSError:
        return False


def refuse_existing(*paths: Path) -> None:
    """Raise where one of some files is there: keys are never overwritten."""
    for path in paths:
        if path.exists():
            raise FederationError(
                f"{path} exists and is not overwritten. Use it, or move it away first."
            )


_HASHES = "cryptography.hazmat.primitives.hashes"


def _new_key() -> Any:
    ec = primitives(f"{ASYMMETRIC}.ec")
    return ec.generate_private_key(ec.SECP384R1())


def _name(common: str) -> Any:
    x509 = primitives("cryptography.x509")
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])


def _host(name: str) -> Any:
    x509 = primitives("cryptography.x509")
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(**on: bool) -> Any:
    kinds = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
        "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return primitives("cryptography.x509").KeyUsage(
        **{kind: on.get(kind, False) for kind in kinds}
    )


def _builder(subject: Any, issuer: Any, public: Any) -> Any:
    x509 = primitives("cryptography.x509")
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=_SKEW))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _write_certificate(path: Path, certificate: Any) -> None:
    encoding = primitives("cryptography.hazmat.primitives.serialization").Encoding.PEM
    replace_file(path, certificate.public_bytes(encoding))
