"""The hub's certificate authority. It signs certificates of 24 h for TLS keys (P-256) of approved identities.

gRPC's TLS does not offer Ed25519 certificates, so TLS has a P-256 key of its own, renewed with each certificate. The
certificate names the identity (SHA-256 of the Ed25519 key) as its common name.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from grid.clock import UtcSeconds, as_datetime, as_text, utc_s
from grid.errors import GridError
from grid.identity.keys import write_private

CERTIFICATE_S = 24 * 3600.0
"""Life of a certificate of a member, a laboratory or the hub itself."""
AUTHORITY_S = 10 * 365.25 * 24 * 3600.0
BACKDATED_S = 24 * 3600.0
"""A certificate is valid from this long before it was signed: a machine with a slow clock then gets a clear refusal of its
request instead of a failed handshake.
"""
TLS_NAME = "choroid-grid-hub"
"""The name in the hub's certificate: its address may change, its authority is pinned."""
AUTHORITY_FILE = "authority.pem"
AUTHORITY_KEY_FILE = "authority.key"


def new_tls_key() -> ec.EllipticCurvePrivateKey:
    """Return a new P-256 key for TLS."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a TLS key in PEM form."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def signing_request(key: ec.EllipticCurvePrivateKey, identity: str) -> bytes:
    """Return a signing request (PKCS #10, PEM) for `key` that names `identity`."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, identity)])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM)


def identity_of(certificate_pem: bytes) -> str:
    """Return the identity that a certificate names; empty when it names none."""
    found = x509.load_pem_x509_certificate(certificate_pem).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def expires_utc_s(certificate_pem: bytes) -> float:
    """Return when a certificate expires."""
    return x509.load_pem_x509_certificate(certificate_pem).not_valid_after_utc.timestamp()


class Authority:
    """The authority of one hub.

    Attributes:
        certificate_pem: Its own certificate, which members pin.
    """

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, utc: UtcSeconds = utc_s) -> None:
        self._certificate = certificate
        self._key = key
        self._utc = utc
        self.certificate_pem = certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the authority's certificate, which is part of the address that people pass on."""
        return self._certificate.fingerprint(hashes.SHA256()).hex()

    @classmethod
    def in_folder(cls, folder: Path, utc: UtcSeconds = utc_s) -> Authority:
        """Return the authority in `folder`; make one if there is none.

        Raises:
            GridError: Its files cannot be read or written.
        """
        certificate, key = folder / AUTHORITY_FILE, folder / AUTHORITY_KEY_FILE
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not certificate.exists():
                _make(certificate, key, utc)
            signer = serialization.load_pem_private_key(key.read_bytes(), None)
            found = x509.load_pem_x509_certificate(certificate.read_bytes())
        except (OSError, ValueError, TypeError) as error:
            raise GridError(
                f"the authority in {folder} cannot be used ({error}). Likely cause: a file is damaged. Next: restore"
                " authority.pem and authority.key from a backup; with new ones every member must join again"
            ) from None
        begins_s = found.not_valid_before_utc.timestamp()
        if begins_s > utc():
            raise GridError(
                f"the clock of this machine says {as_text(utc())}, and the hub's authority begins at {as_text(begins_s)}: no"
                " one could connect. Likely cause: the clock is wrong, or was when the hub was made. Next: set it"
                " (timedatectl set-ntp true), and start the hub again"
            )
        if not isinstance(signer, ec.EllipticCurvePrivateKey):
            raise GridError(f"{key} is no P-256 key. Next: restore it from a backup")
        return cls(found, signer, utc)

    def own_pair(self) -> tuple[bytes, bytes]:
        """Return key and certificate of the authority itself, for the enrolment port: its fingerprint is known beforehand."""
        return key_pem(self._key), self.certificate_pem

    def server_pair(self) -> tuple[bytes, bytes]:
        """Return a key and a chain for the hub's own servers, as PEM."""
        key = new_tls_key()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, TLS_NAME)])
        signed = self._signed(subject, key.public_key(), ExtendedKeyUsageOID.SERVER_AUTH)
        return key_pem(key), signed + self.certificate_pem

    def certificate_for(self, request_pem: bytes, identity: str) -> bytes:
        """Sign the certificate of an approved identity.

        Args:
            request_pem: Its signing request.
            identity: The identity whose signature came with the request.

        Returns:
            The certificate, PEM.

        Raises:
            GridError: The request is malformed, not signed with its own key, or not of P-256.
        """
        try:
            request = x509.load_pem_x509_csr(request_pem)
            sound = request.is_signature_valid
        except ValueError as error:
            raise GridError(f"the signing request cannot be read ({error}). Next: send PKCS #10 in PEM form") from None
        key = request.public_key()
        if not sound or not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
            raise GridError("the signing request is not signed with its own P-256 key. Next: make a new one")
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, identity)])
        return self._signed(subject, key, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, usage: x509.ObjectIdentifier) -> bytes:
        now = self._utc()
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._certificate.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(as_datetime(now - BACKDATED_S))
            .not_valid_after(as_datetime(now + CERTIFICATE_S))
            .add_extension(x509.BasicConstraints(False, None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if usage == ExtendedKeyUsageOID.SERVER_AUTH:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(TLS_NAME)]), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _make(certificate: Path, key_file: Path, utc: UtcSeconds) -> None:
    key = new_tls_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Choroid grid authority")])
    start = as_datetime(utc() - BACKDATED_S)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(seconds=AUTHORITY_S))
        .add_extension(x509.BasicConstraints(True, 0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(TLS_NAME)]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_private(key_file, key_pem(key))
    write_private(certificate, built.public_bytes(serialization.Encoding.PEM))
