"""S1: joining, certificates, revocation, and a hub that is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from controller.signed_log.notes import ED25519, NoteKey
from grid.boards.loading import load_boards
from grid.clock import utc_s
from grid.errors import GridError, GridRefused
from grid.hub.hub import TICK_S, Hub
from grid.hub.members import Members
from grid.hub.owner import owned
from grid.hub.sessions import MemberSession
from grid.identity.authority import Authority, key_pem, new_tls_key, signing_request
from grid.identity.keys import IdentityKey
from grid.identity.requests import signed_request
from grid.log.verification import verify_log
from grid.member.daemon import MemberDaemon
from grid.member.membership import HubAddress, Membership
from grid.member.tissue import GridClient
from grid.wire import grid_pb2 as pb
from grid.wire import grid_pb2_grpc as pb_grpc
from tests.grid.world import a_hub, a_member, approved, membership, running, until


async def test_a_member_joins_is_approved_measured_and_listed(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        alpha = membership(tmp_path, hub, "alpha")
        first = await alpha.enrol()
        assert first.state == pb.EnrolReply.PENDING
        assert "approve" in first.reason
        with pytest.raises(GridRefused, match="pending"):
            await alpha.require_certificate()
        async with a_member(tmp_path, hub, "alpha") as daemon:
            roles = {role.role: role.granted for role in daemon.standing.roles}
            assert roles == {"compute": True, "gpu": False, "storage": True, "relay": True, "agent_host": True}
            assert {"cores", "gemm_flop_s", "uplink_bit_s", "round_trip_s"} <= set(daemon.standing.figures)
            async with GridClient(tmp_path / "alpha") as client:
                (row,) = await client.members()
            assert (row.name, row.connected, row.state) == ("alpha", True, "approved")
        kinds = [json.loads(body)["kind"] for _, body in hub.store.log.rows(0, 100)]
        boards = len(load_boards())
        assert kinds[:boards] == ["board.rotation"] * boards
        assert kinds[boards:] == ["member.approved", "member.standing"]


async def test_a_wrong_fingerprint_and_a_foreign_certificate_are_refused(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "a") as hub, a_hub(tmp_path / "b") as other:
        place = hub.address.partition("#")[0]
        wrong = Membership(tmp_path / "m", HubAddress.parse(f"{place}#{'0' * 32}"), "m", "member")
        with pytest.raises(GridRefused, match="not the hub of this address"):
            await wrong.enrol()
        await approved(tmp_path, hub, "alpha")
        foreign = await approved(tmp_path / "a", other, "alpha")
        text = (foreign.folder / "certificate.pem").read_bytes().partition(b"\n")[2]
        own = (tmp_path / "alpha" / "certificate.pem").read_bytes()
        authority = own[own.rindex(b"-----BEGIN") :]
        mixed = text[: text.rindex(b"-----BEGIN")] + authority
        (foreign.folder / "certificate.pem").write_bytes(f"{hub.member_port}\n".encode() + mixed)
        foreign.hub = HubAddress.parse(hub.address)
        foreign.save()
        async with GridClient(foreign.folder) as client:
            with pytest.raises(GridError, match="did not answer"):
                await client.members()


@pytest.mark.parametrize("text", ["", "host", "host:1", "host:99999#" + "a" * 32, "host:1#zz", "host:1#" + "a" * 31])
def test_a_malformed_address_is_named(text: str) -> None:
    with pytest.raises(GridError, match="Next: copy"):
        HubAddress.parse(text)


async def test_S1_a_stolen_certificate_is_worthless_seconds_after_revocation(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        stolen = await approved(tmp_path, hub, "alpha")
        async with GridClient(stolen.folder) as thief, a_member(tmp_path, hub, "beta"):
            assert len(await thief.members()) == 2
            daemon = MemberDaemon(stolen)
            async with running(daemon.run()) as session:
                await until(daemon.link.connected.is_set)
                hub.members.decide("alpha", "revoke", "operator", "stolen")
                with pytest.raises(GridRefused, match="revoked"):
                    await thief.members()
                with pytest.raises(GridRefused, match="stolen"):
                    async with asyncio.timeout(10):
                        await session
        with pytest.raises(GridRefused, match="revoked"):
            await stolen.require_certificate(1e9)


async def test_S1_connections_are_checked_when_any_process_has_changed_the_database_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grid.hub.hub.SEEN_S", 3600.0)  # marks of connected members change the database as well
    async with a_hub(tmp_path) as hub:
        sessions = [MemberSession(identity * 64, name, "member") for identity, name in (("a", "alpha"), ("b", "beta"))]
        with contextlib.closing(owned(tmp_path / "hub")) as other, other.transaction() as database:
            for each in sessions:
                database.execute(
                    "INSERT INTO members (id, name, public_key, state, kind, requested_s) VALUES (?, ?, ?, ?, ?, 0)",
                    (each.identity, each.name, b"", "approved", each.kind),
                )
        for each in sessions:
            hub.sessions.opened(each)
        asked: list[str] = []
        hub.store.database.set_trace_callback(asked.append)
        await until(lambda: any("data_version" in each for each in asked))
        await asyncio.sleep(2 * TICK_S)
        asked.clear()
        await until(lambda: sum("data_version" in each for each in asked) >= 4)
        assert not [each for each in asked if "members" in each and "UPDATE" not in each]
        with contextlib.closing(owned(tmp_path / "hub")) as other:
            Members(other).decide("alpha", "revoke", "operator", "stolen")
        await until(lambda: sessions[0].ended)
        assert sessions[0].ended == "this identity was revoked"
        assert not sessions[1].ended


async def test_S1_a_replayed_request_is_refused(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        credentials = grpc.ssl_channel_credentials(hub.authority.certificate_pem)
        options = (("grpc.ssl_target_name_override", "choroid-grid-hub"),)
        async with grpc.aio.secure_channel(hub.address.partition("#")[0], credentials, options=options) as channel:
            stub: pb_grpc.EnrolmentAsyncStub = pb_grpc.EnrolmentStub(channel)
            nonce = (await stub.Describe(pb.DescribeRequest())).nonce
            key = IdentityKey.generate()
            csr = signing_request(new_tls_key(), key.id)
            request = signed_request(key, "alpha", "member", csr, nonce, utc_s())
            await stub.Enrol(request)
            with pytest.raises(grpc.aio.AioRpcError, match="replay"):
                await stub.Enrol(request)
            for broken in (pb.EnrolRequest(), pb.EnrolRequest(name="x", kind="member", public_key=b"1" * 32)):
                with pytest.raises(grpc.aio.AioRpcError, match="Next"):
                    await stub.Enrol(broken)


@pytest.mark.parametrize("off_s", [3600.0, -3600.0])
async def test_a_clock_off_by_an_hour_is_named_at_both_ends(off_s: float, tmp_path: Path) -> None:
    async with a_hub(tmp_path, utc=lambda: utc_s() + off_s) as hub:
        member = membership(tmp_path, hub, "alpha")
        with pytest.raises(GridError, match=r"clocks differ.*timedatectl"):
            await member.enrol()
        assert hub.members.every() == []


async def test_an_expired_certificate_is_named_and_renewed(tmp_path: Path) -> None:
    late = [0.0]
    async with a_hub(tmp_path) as hub:
        member = await approved(tmp_path, hub, "alpha")
        member.utc = lambda: utc_s() + late[0]
        late[0] = 25 * 3600
        with pytest.raises(GridError, match=r"expired at .*choroid grid join"):
            member.channel()
        assert member.certificate_left_s() == 0
        late[0] = 0
        before = (member.folder / "certificate.pem").read_bytes()
        await member.require_certificate(1e9)
        assert (member.folder / "certificate.pem").read_bytes() != before


async def test_the_hub_refuses_an_expired_certificate_and_ends_its_connection(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        member = await approved(tmp_path, hub, "alpha")
        utc = hub.store.utc
        ends_s = utc() + member.certificate_left_s()
        async with GridClient(member.folder) as client:
            hub.store.utc = lambda: ends_s - 0.3
            session: grpc.aio.StreamStreamCall[pb.MemberMessage, pb.HubMessage]
            session = client.stub.Session()  # type: ignore[call-arg]
            assert isinstance(await session.read(), pb.HubMessage)
            with pytest.raises(grpc.aio.AioRpcError, match="its certificate has expired"):
                await session.read()
            hub.store.utc = lambda: ends_s + 1
            with pytest.raises(GridRefused, match=r"has expired.*renew"):
                await client.members()
        hub.store.utc = utc
        real = Authority.in_folder(tmp_path / "hub")
        real._utc = lambda: utc_s() - 25 * 3600
        key = new_tls_key()
        old = real.certificate_for(signing_request(key, member.key.id), member.key.id)
        (member.folder / "tls.key").write_bytes(key_pem(key))
        (member.folder / "certificate.pem").write_bytes(f"{hub.member_port}\n".encode() + old + real.certificate_pem)
        member.utc = lambda: utc_s() - 24.5 * 3600  # a member that does not know, or pretends so
        async with member.channel() as channel:
            stub: pb_grpc.HubAsyncStub = pb_grpc.HubStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Members(pb.MembersRequest(), timeout=20)
            assert refused.value.code() == grpc.StatusCode.UNAVAILABLE  # TLS has refused it


async def test_two_identities_cannot_have_one_name(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        await approved(tmp_path, hub, "alpha")
        with pytest.raises(GridRefused, match="choose another name"):
            await membership(tmp_path / "other", hub, "alpha").enrol()


async def enrol_many(hub: Hub, folder: Path) -> None:
    for number in range(200):
        await membership(folder, hub, f"other{number}").enrol()
        hub.members.decide(f"other{number}", "approve", "test")


async def test_X5_a_full_disk_at_the_hub_is_named_and_loses_nothing(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        await approved(tmp_path, hub, "alpha")
        size = hub.store.log.size
        pages = hub.store.query("PRAGMA page_count")[0][0]
        hub.store.database.execute(f"PRAGMA max_page_count = {pages}")  # what SQLite says on a full disk
        with pytest.raises(GridError, match="disk is full"):
            await enrol_many(hub, tmp_path)
        hub.store.database.execute("PRAGMA max_page_count = 1000000")
        rows = [body for _, body in hub.store.log.rows(0, 10_000)]
        key = NoteKey(hub.store.name, ED25519, hub.store.public_key)
        assert verify_log(rows, hub.store.log.checkpoint(), key).faults == ()
        assert len(hub.members.approved_ones()) == len(rows) - size + 1
        await membership(tmp_path, hub, "after").enrol()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    if os.geteuid() != 0 and os.environ.get("CI") != "true":
        pytest.skip("mounting a disk needs root (CAP_SYS_ADMIN)")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


async def test_X5_a_disk_that_is_really_full_stops_changes_and_nothing_else(tmp_path: Path, small_disk: Path) -> None:
    async with a_hub(small_disk) as hub:
        member = await approved(tmp_path, hub, "alpha")
        async with GridClient(member.folder) as client:
            assert len(await client.members()) == 1
            with contextlib.suppress(OSError):
                (small_disk / "rubbish").write_bytes(bytes(4 << 20))
            with pytest.raises(GridError, match="disk is full"):
                await enrol_many(hub, tmp_path)
            found = len(hub.members.every())
            assert len(await client.members()) == found
            (small_disk / "rubbish").unlink()
            await membership(tmp_path, hub, "after").enrol()
            assert len(await client.members()) == found + 1
        rows = [body for _, body in hub.store.log.rows(0, 10_000)]
        key = NoteKey(hub.store.name, ED25519, hub.store.public_key)
        assert verify_log(rows, hub.store.log.checkpoint(), key).faults == ()
    again = owned(small_disk / "hub")
    assert len(Members(again).every()) == found + 1
    again.close()


def test_a_damaged_database_is_named(tmp_path: Path) -> None:
    owned(tmp_path).close()
    (tmp_path / "hub.sqlite").write_bytes(b"rubbish" * 1000)
    with pytest.raises((GridError, sqlite3.DatabaseError)):
        owned(tmp_path)
