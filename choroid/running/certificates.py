"""Certificates for agents on other machines: an authority of the rig, one for its electrode engine, one for each agent.

They are in the folder `nerves-tls` of the data folder. A new certificate of the engine is in use at the next connection,
without a restart, which would end every lease. The private key of the authority stays in the folder.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from choroid.common.failure import UserError
from choroid.running.tls_folder import FOLDER
from nerves.credentials import NAME

AUTHORITY_DAYS = 3652
MAX_DAYS = 825
"""Longest life of a certificate that is signed; longer ones are refused by some TLS libraries."""

BACKDATED = timedelta(days=1)
"""A machine with a slow clock accepts a new certificate."""


@dataclass(frozen=True, slots=True)
class Issued:
    """What was written: the files, for whom, and when the certificate expires."""

    name: str
    files: tuple[Path, ...]
    expires_utc: str
    new_authority: bool


class RigAuthority:
    """The authority of a rig, made when it is first needed."""

    def __init__(self, data_dir: Path, now: datetime) -> None:
        """Read or make it.

        Args:
            data_dir: The data folder of the rig.
            now: Present time, UTC.

        Raises:
            UserError: Its files cannot be read or written.
        """
        self._folder = data_dir / FOLDER
        self._now = now
        certificate, key = self._folder / "authority.pem", self._folder / "authority.key"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.new = not certificate.exists()
            if self.new:
                self._make(certificate, key)
            signer = serialization.load_pem_private_key(key.read_bytes(), None)
            self._certificate = x509.load_pem_x509_certificate(certificate.read_bytes())
        except (OSError, ValueError, TypeError) as error:
            raise UserError(
                f"the authority in {self._folder} cannot be used ({error}). Likely cause: a file is missing or damaged. Next:"
                " restore authority.pem and authority.key from a backup; or move the folder away and certify the engine and"
                " every agent again"
            ) from None
        if not isinstance(signer, ec.EllipticCurvePrivateKey):
            raise UserError(f"{key} is no key of an elliptic curve. Next: restore it from a backup")
        self._key = signer

    def certify_engine(self, hosts: list[str], days: int) -> Issued:
        """Make key and certificate of the engine for the names and addresses by which agents reach it.

        Raises:
            UserError: No host is given, the life is out of range, or a file cannot be written.
        """
        if not hosts:
            raise UserError(
                "no host is given. Next: add --host with each name or address by which agents reach this machine"
            )
        names = [_general_name(host) for host in dict.fromkeys((*hosts, "localhost", "127.0.0.1"))]
        extensions = [(x509.SubjectAlternativeName(names), False)]
        files = (self._folder / "server.key", self._folder / "server.pem")
        return self._issue(hosts[0], files, ExtendedKeyUsageOID.SERVER_AUTH, days, extensions)

    def certify_agent(self, name: str, folder: Path, days: int) -> Issued:
        """Make key and certificate of an agent, and copy the authority's certificate, into a folder that goes to the agent.

        Raises:
            UserError: The name or the life cannot be, or a file cannot be written.
        """
        if not NAME.fullmatch(name):
            raise UserError(f"“{name}” names no agent. Next: give the name that `choroid agent list` shows")
        files = (folder / f"{name}.key", folder / f"{name}.pem")
        issued = self._issue(name, files, ExtendedKeyUsageOID.CLIENT_AUTH, days, [])
        authority = folder / "authority.pem"
        _write(authority, self._certificate.public_bytes(serialization.Encoding.PEM))
        return Issued(name, (*issued.files, authority), issued.expires_utc, self.new)

    def _issue(
        self,
        name: str,
        files: tuple[Path, Path],
        usage: x509.ObjectIdentifier,
        days: int,
        extensions: Sequence[tuple[x509.ExtensionType, bool]],
    ) -> Issued:
        """Write a new key and, after it, its certificate: the engine looks at the certificate for news."""
        if not 1 <= days <= MAX_DAYS:
            raise UserError(f"a certificate cannot be valid for {days} days. Next: give --days from 1 to {MAX_DAYS}")
        key = ec.generate_private_key(ec.SECP256R1())
        expires = self._now + timedelta(days=days)
        builder = _builder(name, self._certificate.subject, key, self._now, expires)
        own: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(False, None), True),
            (x509.ExtendedKeyUsage([usage]), False),
        ]
        for extension, critical in (*own, *extensions):
            builder = builder.add_extension(extension, critical=critical)
        signed = builder.sign(self._key, hashes.SHA256())
        try:
            files[0].parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(files[0], _pem(key))
            _write(files[1], signed.public_bytes(serialization.Encoding.PEM))
        except OSError as error:
            raise UserError(
                f"{error.filename} cannot be written ({error.strerror}). Next: choose another folder"
            ) from None
        return Issued(name, files, expires.isoformat(timespec="seconds"), self.new)

    def _make(self, certificate: Path, key_file: Path) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject("Choroid rig authority")
        expires = self._now + timedelta(days=AUTHORITY_DAYS)
        built = (
            _builder("Choroid rig authority", subject, key, self._now, expires)
            .add_extension(x509.BasicConstraints(True, 0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        _write(key_file, _pem(key))
        _write(certificate, built.public_bytes(serialization.Encoding.PEM))


def _builder(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, expires: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, expires) - BACKDATED)
        .not_valid_after(expires)
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> None:
    """Replace a file that its owner alone can read, whole or not at all."""
    partial = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
