"""The private keys of a federated rank: of its node (Flower wants ECDSA), and of its TLS."""

from __future__ import annotations

import datetime
import ipaddress
import json
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from grid.clock import utc_s
from grid.errors import GridError
from grid.identity.keys import IdentityKey, write_private
from grid.jobs.node_statement import CONTEXT, read_statement

KEYS = "keys"
NODE, TLS, CERTIFICATE, AGGREGATOR = "node.key", "tls.key", "tls.pem", "aggregator.pem"
DAYS = 400
LOOPBACK = "127.0.0.1"
"""Where the SuperLink has its other interfaces."""


def node_keys(rank: Path, addresses: Sequence[str]) -> tuple[str, str]:
    """Return the public key of a node and its certificate (both PEM). They are made once: a restarted node has the same.

    Args:
        rank: Folder of the rank.
        addresses: At which it serves; with others, there is a new certificate.

    Raises:
        GridError: The folder cannot be written, or holds something else.
    """
    folder, names = rank / KEYS, sorted(addresses)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        node = _kept(folder / NODE)
        try:
            certificate = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
        except (OSError, ValueError):
            certificate = None
        if certificate is None or _addresses(certificate) != names:
            certificate = _certificate(_kept(folder / TLS), names)
            write_private(folder / CERTIFICATE, certificate.public_bytes(Encoding.PEM))
    except (OSError, ValueError) as error:
        raise GridError(f"{folder} cannot be used ({error}). Next: free space, or remove the folder") from None
    public = node.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return public.decode(), certificate.public_bytes(Encoding.PEM).decode()


def statement(key: IdentityKey, lease: str, node: str, certificate: str) -> bytes:
    """Return keys of a rank with the signature of its identity.

    Args:
        key: Of the identity.
        lease: The only one for which they are.
        node: Public key of the node (PEM).
        certificate: Of its TLS (PEM).
    """
    body = json.dumps({"lease": lease, "node": node, "certificate": certificate})
    return json.dumps({"body": body, "signature": key.sign(CONTEXT + body.encode()).hex()}).encode()


def keys_of_ranks(ranks: Sequence[tuple[bytes, bytes]], lease: str, rank: Path) -> list[str]:
    """Return the public keys of the nodes by rank, and keep the certificate of rank 0.

    Args:
        ranks: Ed25519 key and statement of each.
        lease: The lease at hand.
        rank: Folder of the own rank.

    Raises:
        GridRefused: A statement is not its rank's.
        GridError: The folder cannot be written.
    """
    found = [read_statement(said, lease, public) for public, said in ranks]
    write_aggregator(rank, found[0][1])
    return [node for node, _ in found]


def write_aggregator(rank: Path, certificate: str) -> None:
    """Keep the certificate of rank 0 with the keys of a rank. Raises :class:`GridError`."""
    try:
        write_private(rank / KEYS / AGGREGATOR, certificate.encode())
    except OSError as error:
        raise GridError(f"{rank} cannot be written ({error.strerror or error}). Next: free space") from None


def _kept(path: Path) -> ec.EllipticCurvePrivateKey:
    """Return a key from its file, which is made if it is not there."""
    if path.exists():
        found = load_pem_private_key(path.read_bytes(), None)
        if not isinstance(found, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{path.name} is another kind of key")
        return found
    key = ec.generate_private_key(ec.SECP256R1())
    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key


def _addresses(certificate: x509.Certificate) -> list[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return sorted(str(each) for each in names.get_values_for_type(x509.IPAddress))


def _certificate(key: ec.EllipticCurvePrivateKey, addresses: Sequence[str]) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "choroid federated rank")])
    now = datetime.datetime.fromtimestamp(utc_s(), datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(each)) for each in addresses])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
