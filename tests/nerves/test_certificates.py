"""Agents on other machines: certificates made by the commands, and handshakes with the server of the engine (S1)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import grpc
import grpc.aio
import pytest

from choroid.cli import main
from choroid.client.nerves_terms import tls_credentials
from choroid.client.wire import nerves_pb2 as pb
from choroid.client.wire import nerves_pb2_grpc as pb_grpc
from choroid.common.failure import UserError
from choroid.running.certificates import MAX_DAYS, RigAuthority
from choroid.running.tls_folder import tls_files
from nerves.gateway import Gateway
from nerves.server import GatewayServer, RemoteAddress
from nerves.tokens import Grant, Keyring, TokenScope

AGENT, TOKEN = "agent", "token"


class Answers(pb_grpc.NervesServicer):
    """An engine that only says what it is; listening, tokens and TLS are the real ones."""

    async def Info(self, request: pb.InfoRequest, context: object) -> pb.InfoReply:
        return pb.InfoReply(electrodes=4)


@dataclass
class Entry:
    """A server that listens with mutual TLS."""

    address: str
    data: Path

    async def info(self, credentials: grpc.ChannelCredentials) -> pb.InfoReply:
        """Make one call."""
        async with grpc.aio.secure_channel(self.address, credentials) as channel:
            stub: pb_grpc.NervesAsyncStub = pb_grpc.NervesStub(channel)
            return await stub.Info(pb.InfoRequest(), metadata=(("authorization", f"Bearer {TOKEN}"),), timeout=30.0)


@asynccontextmanager
async def opened(data: Path) -> AsyncIterator[Entry]:
    """Open the server on loopback, with a certificate of the rig in `data`."""
    assert main(["agent", "certify-engine", "--host", "127.0.0.1", "--data", str(data), "--json"]) == 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    keyring = Keyring({TOKEN: Grant(AGENT, frozenset(TokenScope))})
    server = GatewayServer(cast(Gateway, Answers()), keyring)  # type: ignore[abstract]
    await server.open("127.0.0.1", 0, RemoteAddress("127.0.0.1", port, tls_files(data)))
    try:
        yield Entry(f"127.0.0.1:{port}", data)
    finally:
        await server.close()


def certified(data: Path, name: str, folder: Path, days: int = 30, now: datetime | None = None) -> Path:
    RigAuthority(data, now or datetime.now(UTC)).certify_agent(name, folder, days)
    return folder


def credentials(folder: Path, name: str = AGENT, authority: Path | None = None) -> grpc.ChannelCredentials:
    return tls_credentials((authority or folder) / "authority.pem", folder / f"{name}.pem", folder / f"{name}.key")


async def refused(entry: Entry, given: grpc.ChannelCredentials) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await entry.info(given)
    code: grpc.StatusCode = error.value.code()
    return code


async def test_S1_an_agent_with_a_certificate_of_the_rig_connects(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as entry:
        command = ["agent", "certify", AGENT, "--out", str(tmp_path / "out"), "--data", str(entry.data), "--json"]
        assert main(command) == 0
        assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["agent.key", "agent.pem", "authority.pem"]
        assert (tmp_path / "out" / "agent.key").stat().st_mode & 0o077 == 0
        assert (await entry.info(credentials(tmp_path / "out"))).electrodes == 4


async def test_S1_no_certificate_one_of_another_rig_and_an_expired_one_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as entry:
        own = certified(entry.data, AGENT, tmp_path / "own")
        none = grpc.ssl_channel_credentials((own / "authority.pem").read_bytes())
        assert await refused(entry, none) is grpc.StatusCode.UNAVAILABLE
        foreign = certified(tmp_path / "other rig", AGENT, tmp_path / "foreign")
        assert await refused(entry, credentials(foreign, authority=own)) is grpc.StatusCode.UNAVAILABLE
        year_ago = datetime.now(UTC) - timedelta(days=365)
        expired = certified(entry.data, AGENT, tmp_path / "expired", 30, year_ago)
        assert await refused(entry, credentials(expired)) is grpc.StatusCode.UNAVAILABLE
        assert (await entry.info(credentials(own))).electrodes == 4


async def test_S1_an_agent_does_not_trust_an_engine_of_another_rig(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as entry:
        own = certified(entry.data, AGENT, tmp_path / "own")
        foreign = certified(tmp_path / "other rig", AGENT, tmp_path / "foreign")
        assert await refused(entry, credentials(own, authority=foreign)) is grpc.StatusCode.UNAVAILABLE


async def test_S2_the_certificate_and_the_token_must_be_of_one_agent(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as entry:
        eve = certified(entry.data, "eve", tmp_path / "eve")
        assert await refused(entry, credentials(eve, "eve")) is grpc.StatusCode.PERMISSION_DENIED


async def test_S1_a_renewed_certificate_of_the_engine_is_in_use_without_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as entry:
        own = certified(entry.data, AGENT, tmp_path / "own")
        before = await asyncio.to_thread(served, entry)
        assert main(["agent", "certify-engine", "--host", "127.0.0.1", "--data", str(entry.data), "--json"]) == 0
        assert (await entry.info(credentials(own))).electrodes == 4
        assert await asyncio.to_thread(served, entry) != before


def served(entry: Entry) -> str:
    """Return the certificate that the engine shows."""
    host, _, port = entry.address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain) as secured:
        shown = secured.getpeercert(binary_form=True)
    assert shown is not None
    return ssl.DER_cert_to_PEM_cert(shown)


def test_certificates_that_cannot_be_are_refused_with_the_next_step(tmp_path: Path) -> None:
    authority = RigAuthority(tmp_path, datetime.now(UTC))
    with pytest.raises(UserError, match="--host"):
        authority.certify_engine([], 30)
    for days in (0, MAX_DAYS + 1):
        with pytest.raises(UserError, match="--days"):
            authority.certify_agent(AGENT, tmp_path / "out", days)
    with pytest.raises(UserError, match="names no agent"):
        authority.certify_agent("../eve", tmp_path / "out", 30)
    (tmp_path / "nerves-tls" / "authority.key").write_text("damaged")
    with pytest.raises(UserError, match="restore"):
        RigAuthority(tmp_path, datetime.now(UTC))
