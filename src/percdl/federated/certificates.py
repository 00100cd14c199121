"""Keys and certificates of the connection between a site and a server.

For a pilot, `make_authority` replaces the certificate authority of an institution.
"""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from percdl.exceptions import FederationError
from percdl.federated.identities import read_private, refuse_existing, write_private
from percdl.signals.files import replace_file

# Seconds to wait for a server.
_PATIENCE = 10.0
# Validity of a certificate, and the difference that clocks may have.
_VALID, _SKEW = datetime.timedelta(days=825), datetime.timedelta(hours=1)


def make_authority(folder: Path) -> None:
    """Write ``ca.key`` and ``ca.crt``, a certificate authority that can certify servers."""
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    usage = _usage(key_cert_sign=True, crl_sign=True)
    _certify(folder, "ca", "PerCDL federation", constraints, usage)


def make_server_certificate(hosts: Sequence[str], folder: Path) -> None:
    """Write ``server.key`` and ``server.crt`` for some hosts, signed by ``ca.key`` there.

    ``localhost`` is always included: the coordinator and a reverse proxy use it.
    """
    authority = read_private(folder / "ca.key", ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes()).subject
    names = [*dict.fromkeys([*hosts, "localhost", "127.0.0.1"])]
    extensions = (
        x509.BasicConstraints(ca=False, path_length=None),
        _usage(digital_signature=True),
        x509.SubjectAlternativeName([_host(name) for name in names]),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),
    )
    _certify(folder, "server", names[0], *extensions, issuer=issuer, signer=authority)


def look_at_server(address: str, authority: str) -> bool:
    """Return whether a server with a valid certificate listens at ``host:port``.

    ``authority`` is the certificate of its authority (PEM text).

    Raises `FederationError` if the authority has not signed its certificate.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise FederationError(f"The server {address!r} must be a host and a port: host:8000.")
    try:
        context = ssl.create_default_context(cadata=authority)
    except ssl.SSLError as error:
        raise FederationError("The authority is not a certificate in PEM.") from error
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE) as plain:
            with context.wrap_socket(plain, server_hostname=host.strip("[]")):
                return True
    except ssl.SSLError as error:
        raise FederationError(
            f"The server at {address} does not prove its identity ({error}). Ask for the right "
            "certificate authority, or for a certificate with this name; do not go on without."
        ) from error
    except OSError:
        return False


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def _host(name: str) -> Any:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(**allowed: bool) -> Any:
    kinds = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
        "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**(dict.fromkeys(kinds, False) | allowed))


def _certify(
    folder: Path, name: str, owner: str, *extensions: Any, issuer: Any = None, signer: Any = None
) -> None:
    """Write a new key and its certificate, which by default it signs itself."""
    private, public = folder / f"{name}.key", folder / f"{name}.crt"
    refuse_existing(private, public)
    now, key = datetime.datetime.now(datetime.UTC), _new_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, owner)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _VALID)
    )
    critical = x509.BasicConstraints, x509.KeyUsage
    for extension in (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), *extensions):
        builder = builder.add_extension(extension, critical=isinstance(extension, critical))
    write_private(private, key)
    certificate = builder.sign(signer or key, SHA256())
    replace_file(public, certificate.public_bytes(Encoding.PEM))
