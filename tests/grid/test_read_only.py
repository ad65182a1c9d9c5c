"""A hub whose folder cannot be written: at its start, and from some moment on. Named, nothing lost, leases end."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.signed_log.notes import ED25519, NoteKey
from grid.errors import GridError
from grid.grading.sealing import SecretSeal
from grid.grading.store import BoardStore
from grid.hub.hub import HubSettings, running_hub
from grid.hub.members import Members
from grid.hub.owner import owned
from grid.hub.sessions import MemberSession
from grid.hub.store import storage_error
from grid.identity.keys import IdentityKey
from grid.log.verification import verify_log
from grid.wire import grid_pb2 as pb
from tests.disks import Ext4, ext4
from tests.grid.filled_hub import MODEL, fill
from tests.grid.test_clock_jumps import a_client, a_stand_in_lab, reading
from tests.grid.world import a_hub, membership, until

TTL_S = 2.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Ext4]:
    with ext4(tmp_path) as found:
        yield found


async def test_X5_a_disk_that_becomes_read_only_is_named_and_leases_end(
    disk: Ext4, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        a_hub(disk.folder, rules={"leases": {"ttl_s": TTL_S}}) as hub,
        a_stand_in_lab(tmp_path, hub) as lab,
        a_client(tmp_path, hub, "alpha") as alpha,
    ):
        hub.store.database.execute("PRAGMA synchronous = FULL")  # as it is outside of tests
        async with reading(alpha) as held:
            assert lab.leases.names() == [held.info.lease]
            disk.fail()
            await until(lambda: not lab.leases.names())
            assert {each.name for each in await alpha.members()} == {"lab", "alpha"}
            with pytest.raises(GridError, match=r"cannot be written.*read-only by the system"):
                await membership(tmp_path, hub, "beta").enrol()
            await asyncio.sleep(1.5)
            said = [
                each.message for each in caplog.records if each.name == "grid.hub.hub" and "written" in each.message
            ]
            assert len(said) == 1, "the hub repeats itself four times a second"
            assert hub.book.find(held.info.lease)["state"] == "active"
    disk.repair()
    async with a_hub(disk.folder, rules={"leases": {"ttl_s": TTL_S}}) as again:
        await until(lambda: again.book.find(held.info.lease)["state"] == "ended")
        rows = [body for _, body in again.store.log.rows(0, 1000)]
        key = NoteKey(again.store.name, ED25519, again.store.public_key)
        assert verify_log(rows, again.store.log.checkpoint(), key).faults == ()
        assert {row["name"] for row in again.members.every()} == {"lab", "alpha"}


async def test_X5_a_hub_whose_disk_could_not_be_read_for_a_while_keeps_its_promises_afterwards(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        a_hub(tmp_path, rules={"leases": {"ttl_s": TTL_S}}, confirm_every_s=0.05) as hub,
        a_stand_in_lab(tmp_path, hub),
        a_client(tmp_path, hub, "alpha") as alpha,
        a_client(tmp_path, hub, "beta") as beta,
    ):
        request = pb.LeaseRequest(key="k", lab="lab", organoid="o1", electrodes=[1], mode="read", purpose="test")
        lease = (await alpha.stub.RequestLease(request)).lease
        session = MemberSession(beta.membership.key.id, "beta", "member")
        hub.sessions.opened(session)
        hub.store.database.set_progress_handler(lambda: 1, 1)  # SQLite fails whatever it is asked
        await until(lambda: "the witnesses of the log: the hub's database cannot be read" in caplog.text)
        await until(lambda: [each for each in caplog.records if each.name == "grid.hub.hub"])
        with pytest.raises(GridError, match=r"UNAVAILABLE: the hub's database cannot be read"):
            await alpha.members()
        hub.store.database.set_progress_handler(None, 1)
        await until(lambda: hub.book.find(lease)["state"] == "ended")
        with contextlib.closing(owned(tmp_path / "hub")) as other:
            Members(other).decide("beta", "revoke", "operator", "stolen")
        await until(lambda: session.ended == "this identity was revoked")
        assert "a defect of this software" not in caplog.text


async def test_X5_a_hub_on_a_read_only_disk_does_not_start_and_names_it(disk: Ext4) -> None:
    fill(disk.folder / "hub")
    disk.unmount()
    disk.mount("ro")
    with pytest.raises(GridError, match=r"Read-only file system.*Next: check --data"):
        async with running_hub(HubSettings(disk.folder / "hub")):
            pytest.fail("it started")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("SQLITE_FULL", "the disk is full"),
        ("SQLITE_BUSY", "another program holds the file"),
        ("SQLITE_READONLY_DBMOVED", "read-only"),
        ("SQLITE_CANTOPEN", "read-only"),
        ("SQLITE_IOERR_WRITE", "read-only by the system"),
        ("SQLITE_ERROR", "another program"),
    ],
)
def test_each_error_of_the_database_has_its_cause_and_what_to_do(name: str, said: str) -> None:
    error = sqlite3.OperationalError("words of SQLite")
    error.sqlite_errorname = name
    text = str(storage_error(error))
    assert said in text
    assert "words of SQLite" in text
    assert "Next: " in text


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    store = owned(tmp_path)
    (page_bytes,), (root,) = (
        store.database.execute(text).fetchone()
        for text in ("PRAGMA page_size", "SELECT rootpage FROM sqlite_master WHERE name = 'leases'")
    )
    store.close()
    with (tmp_path / "hub.sqlite").open("r+b") as file:
        file.seek((root - 1) * page_bytes)
        file.write(b"\xff" * page_bytes)
    store = owned(tmp_path)
    with pytest.raises(GridError, match=r"cannot be read.*malformed.*damaged the file.*backup"):
        store.query("SELECT * FROM leases")
    with (
        pytest.raises(GridError, match=r"cannot be written.*malformed.*damaged the file.*backup"),
        store.transaction() as database,
    ):
        database.execute("UPDATE leases SET shown = ''")
    store.close()


def test_a_change_of_a_read_only_database_names_that(tmp_path: Path) -> None:
    fill(tmp_path)
    store = owned(tmp_path)
    store.database.execute("PRAGMA query_only = 1")
    with pytest.raises(GridError, match="read-only"):
        Members(store).decide("member-0", "revoke", "operator", "")
    store.close()


def test_a_model_that_cannot_be_kept_is_named_and_changes_nothing(tmp_path: Path) -> None:
    fill(tmp_path)
    store = BoardStore(tmp_path, SecretSeal(IdentityKey.in_folder(tmp_path)))
    (row,) = store.rows("decode-stimulus@3", 1)
    manifest = store.manifest_of(row.submission)
    shutil.rmtree(store.models)
    store.models.write_text("no folder")
    with pytest.raises(GridError, match=r"the model cannot be kept.*read-only"), store.writing():
        store.add(manifest, MODEL, member=row.member, now_s=0.0, rotation=1)
    assert [each.submission for each in store.rows("decode-stimulus@3", 1)] == [row.submission]
    store.close()
