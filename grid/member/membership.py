"""The data folder of a member or laboratory: its identity, the hub it belongs to, its present certificate."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio

from grid.clock import UtcSeconds, as_text, utc_s
from grid.errors import GridError, GridRefused
from grid.identity.authority import CERTIFICATE_S, TLS_NAME, expires_utc_s, key_pem, new_tls_key, signing_request
from grid.identity.keys import IdentityKey, write_private
from grid.identity.requests import MAX_CLOCK_ERROR_S, clock_problem, signed_request
from grid.wire import grid_pb2 as pb
from grid.wire import grid_pb2_grpc as pb_grpc

logger = logging.getLogger(__name__)

HUB_FILE = "hub.json"
CERTIFICATE_FILE = "certificate.pem"
TLS_KEY_FILE = "tls.key"
MIN_FINGERPRINT = 32
"""Hexadecimal digits of the authority's fingerprint in an address: 128 bits."""
CALL_S = 15.0
MAX_MESSAGE_BYTES = 40_000_000
OPTIONS = (
    ("grpc.ssl_target_name_override", TLS_NAME),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.enable_http_proxy", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
)


@dataclass(frozen=True, slots=True)
class HubAddress:
    """Where a hub's enrolment listens, and the beginning of its authority's SHA-256."""

    host: str
    port: int
    fingerprint: str

    @classmethod
    def parse(cls, text: str) -> HubAddress:
        """Read host:port#fingerprint. Raises :class:`GridError` when it is malformed."""
        place, _, fingerprint = text.strip().partition("#")
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise GridError(
                f"“{text[:100]}” is no address of a hub. Next: copy host:port#fingerprint as the hub prints it"
            )
        fingerprint = fingerprint.lower()
        if len(fingerprint) < MIN_FINGERPRINT or set(fingerprint) - set("0123456789abcdef"):
            raise GridError(
                f"“{text[:100]}” has no fingerprint of the hub's authority ({MIN_FINGERPRINT} hexadecimal digits, after #)."
                " Next: copy the whole address as the hub prints it"
            )
        return cls(host.strip("[]"), int(port), fingerprint)

    def __str__(self) -> str:
        """Return the address as people pass it on."""
        return f"{self.at(self.port)}#{self.fingerprint}"

    def at(self, port: int) -> str:
        """Return host and port for gRPC."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"


class Membership:
    """The membership in `folder`.

    Attributes:
        key: The identity.
        hub: Address of the hub.
        name: Name of this member or laboratory.
        kind: member or lab.
        utc: Source of UTC.
    """

    def __init__(self, folder: Path, hub: HubAddress, name: str, kind: str, utc: UtcSeconds = utc_s) -> None:
        self.folder = folder
        self.key = IdentityKey.in_folder(folder)
        self.hub = hub
        self.name = name
        self.kind = kind
        self.utc = utc

    @classmethod
    def load(cls, folder: Path, utc: UtcSeconds = utc_s) -> Membership:
        """Read the membership of a folder. Raises :class:`GridError` when there is none."""
        try:
            found = json.loads((folder / HUB_FILE).read_text(encoding="utf-8"))
            return cls(folder, HubAddress.parse(found["hub"]), found["name"], found["kind"], utc)
        except FileNotFoundError:
            raise GridError(f"{folder} has joined no grid. Next: choroid grid join HUB --data {folder}") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise GridError(
                f"{folder / HUB_FILE} cannot be read ({error}). Likely cause: it was edited, or the disk was full. Next: join"
                " again with the address of the hub; the identity stays"
            ) from None

    def save(self) -> None:
        """Keep the hub's address. Raises :class:`GridError` when the disk is full."""
        body = {"hub": str(self.hub), "name": self.name, "kind": self.kind}
        self._write(HUB_FILE, json.dumps(body).encode())

    async def enrol(self) -> pb.EnrolReply:
        """Ask to be a member, or for the next certificate; keep the certificate.

        Raises:
            GridError: The hub cannot be reached, is not the one of the address, or refuses.
        """
        authority = await asyncio.to_thread(authority_of, self.hub)
        async with enrolment_channel(self.hub, authority) as channel:
            stub: pb_grpc.EnrolmentAsyncStub = pb_grpc.EnrolmentStub(channel)
            tls_key = new_tls_key()
            with explained(f"the hub at {self.hub.at(self.hub.port)}"):
                told = await stub.Describe(pb.DescribeRequest(), timeout=CALL_S)
                problem = clock_problem(self.utc(), told.utc_s)
                if problem:  # passes when the clock is set; a refusal would be final
                    raise GridError(problem)
                request = signed_request(
                    self.key, self.name, self.kind, signing_request(tls_key, self.key.id), told.nonce, self.utc()
                )
                reply = await stub.Enrol(request, timeout=CALL_S)
        if reply.state == pb.EnrolReply.APPROVED:
            self._write(TLS_KEY_FILE, key_pem(tls_key))
            self._write(CERTIFICATE_FILE, f"{told.member_port}\n{reply.certificate_pem}".encode() + authority)
        return reply

    def certificate_left_s(self) -> float:
        """Return how long the certificate is valid (s); 0 without one."""
        try:
            return max(expires_utc_s(self._certificate()[1]) - self.utc(), 0.0)
        except (OSError, ValueError):
            return 0.0

    async def require_certificate(self, min_left_s: float = CERTIFICATE_S / 3) -> None:
        """Renew the certificate when less than `min_left_s` of its life is left.

        Raises:
            GridRefused: The hub refuses this identity.
            GridError: The hub cannot be reached, and the certificate has expired.
        """
        left_s = self.certificate_left_s()
        if left_s > min_left_s:
            return
        try:
            reply = await self.enrol()
        except GridRefused:
            raise
        except GridError as error:
            if left_s > 0:
                logger.warning("the certificate of %s is not renewed yet: %s", self.name, error)
                return
            raise
        if reply.state != pb.EnrolReply.APPROVED:
            state = pb.EnrolReply.State.Name(reply.state).lower()
            raise GridRefused(f"{self.name} is {state} at the hub: {reply.reason or 'no reason was given'}")

    def channel(self) -> grpc.aio.Channel:
        """Return a channel to the hub's service for members. Raises :class:`GridError` without a certificate."""
        try:
            port, certificate, authority = self._certificate()
            key = (self.folder / TLS_KEY_FILE).read_bytes()
        except (OSError, ValueError) as error:
            raise GridError(f"{self.folder} has no certificate ({error}). Next: choroid grid join {self.hub}") from None
        left_s = self.certificate_left_s()
        if left_s <= 0:
            ended = as_text(expires_utc_s(certificate))
            raise GridError(
                f"the certificate of {self.name} expired at {ended}. Next: start `choroid grid join`, which renews it"
            )
        credentials = grpc.ssl_channel_credentials(authority, key, certificate)
        return grpc.aio.secure_channel(self.hub.at(port), credentials, options=OPTIONS)

    def _certificate(self) -> tuple[int, bytes, bytes]:
        text = (self.folder / CERTIFICATE_FILE).read_bytes()
        port, _, rest = text.partition(b"\n")
        end = rest.index(b"-----END CERTIFICATE-----") + len(b"-----END CERTIFICATE-----\n")
        return int(port), rest[:end], rest[end:]

    def _write(self, name: str, content: bytes) -> None:
        try:
            write_private(self.folder / name, content)
        except OSError as error:
            raise GridError(
                f"{self.folder / name} cannot be written ({error.strerror or error}). Likely cause: the disk is full."
                " Next: free space, try again"
            ) from None


def authority_of(hub: HubAddress) -> bytes:
    """Fetch the authority (PEM) of the hub at an address and compare its fingerprint.

    Raises:
        GridError: The hub cannot be reached, or is not the one of the address.
    """
    where = hub.at(hub.port)
    try:
        pem = ssl.get_server_certificate((hub.host, hub.port), timeout=CALL_S)
    except (OSError, ValueError) as error:
        raise GridError(
            f"the hub at {where} cannot be reached ({error}). Likely cause: it does not run, or a firewall is in the"
            " way. Next: check the address; this side only dials out"
        ) from None
    found = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
    if not found.startswith(hub.fingerprint):
        raise GridRefused(
            f"the server at {where} is not the hub of this address: its fingerprint is {found[:MIN_FINGERPRINT]}. Likely"
            " cause: the address is old, or the network redirects the connection. Next: ask the hub's operator"
        )
    return pem.encode()


@contextlib.asynccontextmanager
async def enrolment_channel(hub: HubAddress, authority: bytes) -> AsyncIterator[grpc.aio.Channel]:
    """Open a channel to the port that needs no certificate, for the block."""
    channel = grpc.aio.secure_channel(hub.at(hub.port), grpc.ssl_channel_credentials(authority), options=OPTIONS)
    try:
        yield channel
    finally:
        await channel.close(None)


@contextlib.contextmanager
def explained(where: str) -> Iterator[None]:
    """Turn errors of a call into errors of the grid."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise call_error(error, where) from None


def call_error(error: grpc.aio.AioRpcError, where: str) -> GridError:
    """Return the error of a call in words."""
    details = str(error.details() or "")
    refusals = (
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
    )
    if error.code() in refusals:
        return GridRefused(details)
    return GridError(
        f"{where} did not answer ({error.code().name}: {details[:300]}). Likely cause: it was stopped, the network is"
        f" down, or the clocks differ by more than {MAX_CLOCK_ERROR_S:g} s. Next: try again in some seconds"
    )
