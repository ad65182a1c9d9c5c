"""TLS 1.3 over any pair of byte functions, with the Ed25519 identities of both ends.

Each end first sends its certificate, which it has signed itself. The other end compares the key in it with the identity that
it expects, and then demands in the handshake that the peer holds that key.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import struct
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509.oid import NameOID

from controller.signed_log.public import fingerprint
from grid.errors import GridError, GridRefused
from grid.identity.keys import RAW, IdentityKey

Send = Callable[[bytes], Awaitable[None]]
Receive = Callable[[], Awaitable[bytes]]
"""Returns the next bytes; none at the end."""
MAX_CERTIFICATE = 4096
HANDSHAKE_S = 15.0
READ_BYTES = 1 << 18
T = TypeVar("T")
START = datetime(2020, 1, 1, tzinfo=UTC)


def tunnel_certificate(key: IdentityKey) -> bytes:
    """Return a certificate of this identity (DER), signed by itself. Its dates have no meaning: the key is compared."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, key.id[:60])])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(START)
        .not_valid_after(START + timedelta(days=36_500))
        .add_extension(x509.BasicConstraints(True, 0), critical=True)
        .sign(key.private, None)
    )
    return built.public_bytes(serialization.Encoding.DER)


class TlsChannel:
    """An encrypted channel between two identities."""

    def __init__(self, send: Send, receive: Receive) -> None:
        self._send = send
        self._receive = receive
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._sending = asyncio.Lock()
        self._tls: ssl.SSLObject | None = None

    async def open(self, key: IdentityKey, peer: bytes, *, server_side: bool) -> None:
        """Shake hands.

        Args:
            key: This end's identity.
            peer: The public key that the other end has to hold.
            server_side: Whether this end is TLS's server: the laboratory is.

        Raises:
            GridRefused: The other end is not `peer`.
            GridError: The connection ended before.
        """
        own = tunnel_certificate(key)
        await self._send(struct.pack(">H", len(own)) + own)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                certificate = await self._certificate()
                if public_key_of(certificate) != peer:
                    raise GridRefused(
                        f"the other end of the tunnel is not {fingerprint(peer)[:16]}…: its key differs. Likely cause: the"
                        " hub or the network redirects the tunnel. Next: do not use this hub until its operator explains it"
                    )
                context = _context(key, own, certificate, server_side)
                self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
                await self._pump(self._tls.do_handshake)
                await self._flush()
        except (ssl.SSLError, EOFError, TimeoutError) as error:
            raise GridError(f"the tunnel did not open ({type(error).__name__}: {error}). Next: try again") from None

    async def write(self, data: bytes) -> None:
        """Send bytes; returns when they were handed on."""
        tls = self._opened()
        view = memoryview(data)
        while view:
            view = view[tls.write(view) :]
            await self._flush()

    async def read(self, limit: int = READ_BYTES) -> bytes:
        """Return the next bytes, at most `limit`; none when the other end has closed."""
        tls = self._opened()
        try:
            found = [await self._pump(lambda: tls.read(limit))]
        except (EOFError, ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""
        left = limit - len(found[0])
        with contextlib.suppress(ssl.SSLError):  # it has no more records yet, or has ended: the next call finds out
            while left and found[-1]:
                found.append(tls.read(left))
                left -= len(found[-1])
        return b"".join(found)

    async def read_exactly(self, size: int) -> bytes:
        """Return the next `size` bytes. Raises :class:`GridError` when the other end closes before."""
        data = b""
        while len(data) < size:
            more = await self.read(size - len(data))
            if not more:
                raise GridError("the other end has closed the tunnel")
            data += more
        return data

    async def close(self) -> None:
        """Tell the other end that no more comes."""
        if self._tls is not None:
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            await self._flush()

    def _opened(self) -> ssl.SSLObject:
        if self._tls is None:
            raise GridError("the tunnel is not open")
        return self._tls

    async def _pump(self, step: Callable[[], T]) -> T:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._receive()
                if not data:
                    raise EOFError("the other end has closed") from None
                self._incoming.write(data)

    async def _flush(self) -> None:
        async with self._sending:
            data = self._outgoing.read()
            if data:
                await self._send(data)

    async def _certificate(self) -> bytes:
        data = b""
        while len(data) < 2 or len(data) < 2 + struct.unpack(">H", data[:2])[0]:
            more = await self._receive()
            if not more or len(data) > MAX_CERTIFICATE:
                raise EOFError("no certificate came")
            data += more
        end = 2 + struct.unpack(">H", data[:2])[0]
        self._incoming.write(data[end:])
        return data[2:end]


def public_key_of(certificate: bytes) -> bytes:
    """Return the Ed25519 key of a certificate (DER); empty when it has none."""
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
    except ValueError:
        return b""
    return key.public_bytes(RAW, serialization.PublicFormat.Raw) if isinstance(key, Ed25519PublicKey) else b""


def _context(key: IdentityKey, own: bytes, peer: bytes, server_side: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the key is compared, not a name
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(peer))
    with tempfile.TemporaryDirectory() as folder:  # OpenSSL reads keys from files only; this one is private
        path = os.path.join(folder, "pair.pem")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key.pem() + ssl.DER_cert_to_PEM_cert(own).encode())
        context.load_cert_chain(path)
    return context
