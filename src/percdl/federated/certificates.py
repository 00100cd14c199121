"""Keys and certificates of the connection between a site and a server.

For a pilot, `make_authority` replaces the certificate authority of an institution.
"""

from __future__ import annotations

import datetime
import ipaddress
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

# Validity of a certificate, and the difference that clocks may have.
_VALID, _SKEW = datetime.timedelta(days=825), datetime.timedelta(hours=1)


def make_authority(folder: Path) -> None:
    """Write ``ca.key`` and ``ca.crt``, a certificate authority that can certify servers."""
    refuse_existing(folder / "ca.key", folder / "ca.crt")
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    usage = _usage(key_cert_sign=True, crl_sign=True)
    _certify(folder, "ca", "PerCDL federation", constraints, usage)


def make_server_certificate(hosts: Sequence[str], folder: Path) -> None:
    """Write ``server.key`` and ``server.crt`` for hosts and localhost, signed by ``ca.key``."""
    refuse_existing(folder / "server.key", folder / "server.crt")
    names = [_host(name) for name in dict.fromkeys([*hosts, "localhost", "127.0.0.1"])]
    _certify_server(folder, x509.SubjectAlternativeName(names))


def renew_server_certificate(folder: Path) -> None:
    """Write a new ``server.crt`` for the same key and hosts, signed by ``ca.key`` there."""
    old = x509.load_pem_x509_certificate((folder / "server.crt").read_bytes())
    hosts = old.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    _certify_server(folder, hosts.value)


def read_end(certificate: Path) -> datetime.datetime:
    """Return until when a certificate is valid."""
    try:
        return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    except ValueError as error:
        raise FederationError(f"{certificate} is not a certificate in PEM ({error}).") from error


def _certify_server(folder: Path, hosts: x509.SubjectAlternativeName) -> None:
    issuer = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes()).subject
    constraints = x509.BasicConstraints(ca=False, path_length=None)
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    extensions = constraints, _usage(digital_signature=True), hosts, purpose
    _certify(folder, "server", str(hosts[0].value), *extensions, issuer=issuer)


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


def _certify(folder: Path, name: str, owner: str, *extensions: Any, issuer: Any = None) -> None:
    """Write a certificate, signed by ``ca.key``, and its key if there is none yet."""
    path = folder / f"{name}.key"
    if not path.exists():
        write_private(path, ec.generate_private_key(ec.SECP384R1()))
    key, signer = (read_private(p, ec.EllipticCurvePrivateKey) for p in (path, folder / "ca.key"))
    now = datetime.datetime.now(datetime.UTC)
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
    for extension in (
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
        *extensions,
    ):
        builder = builder.add_extension(extension, critical=isinstance(extension, critical))
    certificate = builder.sign(signer, SHA256())
    replace_file(folder / f"{name}.crt", certificate.public_bytes(Encoding.PEM))
