"""Checkpoints of the journal: a past that was rewritten with a sound chain is found, by the owner and by an outsider."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from pathlib import Path

import pytest

from choroid.audit.audit import export, renew, verifier_key, verify, witness
from choroid.audit.store import CHECKPOINTS, keep, kept_key
from choroid.audit.verification import end_of
from choroid.cli import main
from choroid.common.failure import UserError
from choroid.running.notary import Notary
from controller.alarms.definitions import DEFINITIONS
from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.journal.reader import JournalReader
from controller.journal.terms import GENESIS, chained, encode
from controller.memory.identity import kept_identity
from controller.rig.audit import AuditSpec
from controller.signed_log import merkle
from controller.signed_log.errors import SignedLogError
from controller.signed_log.notes import COSIGNATURE, NoteKey
from tests.front.test_packaging import without_the_grid

BY_ONE = 43


class Lab:
    """A data folder with a journal, the place of its key and a witness's folder."""

    def __init__(self, folder: Path) -> None:
        self.data, self.elsewhere, self.archive = folder / "data", folder / "keys", folder / "archive"
        for each in (self.data, self.elsewhere, self.archive):
            each.mkdir()
        self.rig_id = kept_identity(self.data)
        self.key = self.elsewhere / "bench.key"

    def write(self, rows: int) -> None:
        journal = Journal(self.data / "journal.db", Clock(follow_system=True), durable=True)
        for number in range(rows):
            user = "ada" if number < BY_ONE else "grace"
            journal.append("ledger.level", {"vessel": "loop", "ul": 0.1 * number, "user": user}, run=f"r{number % 3}")
        journal.close()

    def witnessed(self) -> dict[str, object]:
        return witness(self.data, rig="bench", key=self.key, folders=[self.archive])

    def attack(self, *, remove: int = 0) -> None:
        """Give the rows of one person to another and chain them again, as the owner of the file can."""
        db = sqlite3.connect(self.data / "journal.db")
        db.executescript(
            "DROP TRIGGER IF EXISTS entries_are_not_edited; DROP TRIGGER IF EXISTS entries_are_not_removed;"
        )
        rows = db.execute("SELECT seq, at_s, utc, kind, run, body FROM entries ORDER BY seq").fetchall()
        db.execute("DELETE FROM entries")
        head = GENESIS
        for seq, at_s, utc, kind, run, text in rows[: len(rows) - remove]:
            body = json.loads(text)
            if body["user"] == "ada":
                body["user"] = "grace"
            row = chained(head, seq, at_s, utc, kind, run, encode(body))
            db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            head = row.hash
        db.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'entries'", (len(rows) - remove,))
        db.commit()
        db.close()
        for name in (f"journal.db{suffix}" for suffix in (".head",)):
            (self.data / name).unlink(missing_ok=True)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


async def test_P2_43_rows_moved_to_another_person_with_a_sound_chain_are_found_by_owner_and_outsider(
    lab: Lab, tmp_path: Path
) -> None:
    lab.write(100)
    first = lab.witnessed()
    assert (first["rows"], first["signed_rows"], first["faults"], first["troubles"]) == (100, 100, [], [])
    lab.write(20)
    assert lab.witnessed()["signed_rows"] == 120
    key = str(first["key"])
    export(lab.data, tmp_path / "sound")
    assert verify(tmp_path / "sound", key=key)["signed_rows"] == 120
    assert verify(lab.data, key=verifier_key(lab.data))["checkpoints"] == 2

    lab.attack()
    reader = JournalReader(lab.data / "journal.db")
    assert reader.verify() == 120, "the chain alone does not show it"
    assert not [row for row in reader.entries() if row.body["user"] == "ada"]
    reader.close()
    with pytest.raises(UserError, match="not as it was signed"):
        verify(lab.data, key=verifier_key(lab.data))
    export(lab.data, tmp_path / "forged")
    with pytest.raises(UserError, match="at least one was changed"):
        verify(tmp_path / "forged", key=key)
    assert main(["audit", "verify", str(tmp_path / "forged"), "--key", key]) == 1
    after = lab.witnessed()
    assert after["faults"]
    assert after["signed_rows"] != 120, "a contradicted journal is not signed again"


async def test_P2_checkpoints_that_were_removed_with_the_rewriting_are_still_at_the_witness_and_next_to_the_key(
    lab: Lab, tmp_path: Path
) -> None:
    lab.write(100)
    key = str(lab.witnessed()["key"])
    (lab.data / CHECKPOINTS).unlink()
    lab.attack()
    export(lab.data, tmp_path / "forged", stores=[lab.archive / f"{lab.rig_id}.checkpoints"])
    with pytest.raises(UserError, match="not as it was signed"):
        verify(tmp_path / "forged", key=key)
    assert lab.witnessed()["faults"]


async def test_P2_rows_cut_off_and_a_checkpoint_of_another_key_are_found(lab: Lab, tmp_path: Path) -> None:
    lab.write(100)
    key = str(lab.witnessed()["key"])
    with pytest.raises(UserError, match="cannot be used"):
        witness(lab.data, rig="bench", key=tmp_path / "other" / "k.key", folders=[])  # another key is not made
    lab.attack(remove=10)
    with pytest.raises(UserError, match="rows were removed"):
        verify(lab.data, key=key)


async def test_P2_a_key_in_the_data_folder_or_readable_by_others_or_lost_is_refused(lab: Lab) -> None:
    lab.write(100)
    with pytest.raises(UserError, match="in the data folder"):
        witness(lab.data, rig="bench", key=lab.data / "x.key", folders=[])
    lab.witnessed()
    lab.key.chmod(0o644)
    with pytest.raises(UserError, match="other users"):
        lab.witnessed()
    lab.key.unlink()
    with pytest.raises(UserError, match="cannot be used"):
        lab.witnessed()
    assert not lab.key.exists(), "a lost key is not replaced in silence"


async def test_P2_a_running_controller_raises_an_alarm_and_goes_on_whatever_the_child_finds(
    lab: Lab, tmp_path: Path
) -> None:
    lab.write(100)

    async def causes(key: Path) -> dict[tuple[str, str], str]:
        notary = Notary(lab.data, "bench", AuditSpec(key=str(key), witnesses=(str(lab.archive),)))
        running = asyncio.create_task(notary.run(lambda: None))
        while not notary.rounds:
            await asyncio.sleep(0.05)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert all(kind in DEFINITIONS for kind, _ in notary.causes)
        return dict(notary.causes)

    assert await causes(lab.key) == {}
    (tmp_path / "file").write_text("in the place of a folder")
    lost = await causes(tmp_path / "file" / "k.key")
    assert "cannot be used" in lost["checkpoint_failed", "journal"]
    lab.attack()
    assert "at least one was changed" in (await causes(lab.key))["journal_contradicted", "journal"]


async def test_P2_without_the_distribution_of_the_grid_checkpoints_are_kept_all_the_same(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.write(100)
    monkeypatch.setattr(os, "nice", lambda by: 0)
    without_the_grid(monkeypatch)
    hub = str(NoteKey("hub.example/log", COSIGNATURE, bytes(32)))
    words = ["--data", str(lab.data), "--rig-name", "bench", "--key", str(lab.key), "--to", str(lab.archive)]
    assert main(["audit", "witness", "--hub", hub, "127.0.0.1:1#x", *words]) == 1
    told = capsys.readouterr().out
    assert "100 of 100 rows signed" in told
    assert "a hub as witness needs the distribution choroid-grid" in told
    assert list(lab.archive.iterdir()), "the folder has the checkpoint"


async def test_P2_a_repaired_journal_gets_another_log_and_the_former_one_is_named(lab: Lab, tmp_path: Path) -> None:
    lab.write(100)
    words = ["--data", str(lab.data), "--rig-name", "bench", "--key", str(lab.key), "--to", str(lab.archive)]
    lab.witnessed()
    assert main(["audit", "renew", "--reason", "no need", *words]) == 1, "it is as it was signed"
    lab.attack(remove=10)
    assert lab.witnessed()["faults"]
    with pytest.raises(UserError, match="one line"):
        renew(lab.data, rig="bench", key=lab.key, reason="two\nlines")
    assert main(["audit", "renew", "--reason", "disk failed, restored by ada", *words]) == 0
    lab.write(5)
    after = lab.witnessed()
    assert (after["signed_rows"], after["faults"], after["troubles"]) == (95, [], [])
    assert f"bench/{lab.rig_id}/2+" in str(after["key"])
    export(lab.data, tmp_path / "bundle")
    for key in (str(after["key"]), verifier_key(lab.data)):
        found = verify(tmp_path / "bundle", key=key)
        assert found["ended"] == [{"log": f"bench/{lab.rig_id}", "reason": "disk failed, restored by ada"}]
        assert found["signed_rows"] == 95
    lab.attack(remove=3)
    assert lab.witnessed()["faults"], "the next log is guarded as the first was"


async def test_P2_an_end_of_the_log_that_its_key_has_not_signed_ends_nothing(lab: Lab, tmp_path: Path) -> None:
    lab.write(100)
    lab.witnessed()
    lab.attack()
    other = kept_key(tmp_path / "other.key", f"bench/{lab.rig_id}", new=True)
    keep(lab.data / CHECKPOINTS, end_of(other, f"bench/{lab.rig_id}", "nothing happened"))
    with pytest.raises((UserError, SignedLogError)):
        verify(lab.data, key=verifier_key(lab.data))
    with pytest.raises((UserError, SignedLogError)):
        lab.witnessed()


async def test_P2_a_rig_that_was_renamed_goes_on_with_its_log(lab: Lab) -> None:
    lab.write(100)
    lab.witnessed()
    lab.write(1)
    after = witness(lab.data, rig="other name", key=lab.key, folders=[lab.archive])
    assert (after["signed_rows"], after["faults"]) == (101, [])


def test_the_root_of_a_growing_tree_is_that_of_the_whole_tree() -> None:
    nodes: dict[tuple[int, int], bytes] = {}
    growing = merkle.Growing()
    assert growing.root == merkle.root(0, lambda *_: b"")
    for number in range(70):
        leaf = merkle.leaf_hash(str(number).encode())
        for level, index, found in merkle.completed(number, leaf, lambda *at: nodes[at]):
            nodes[level, index] = found
        growing.add(leaf)
        assert growing.root == merkle.root(number + 1, lambda *at: nodes[at])
