"""X6: two hubs that are witnesses of each other's logs; a hub with two histories is found at both ends."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choroid.cli import main
from controller.signed_log import merkle
from controller.signed_log.notes import COSIGNATURE, ED25519, NoteKey
from grid.errors import GridError
from grid.hub.hub import Hub
from grid.identity.keys import IdentityKey
from grid.log.witness import SIGNED, Conflict, Contradiction, Witness, request_body
from grid.page.models import HeadModel
from grid.page.reading import HubReader
from tests.grid.test_log import a_log, key_of, log_in
from tests.grid.world import a_hub, until

FAST_S = 0.1


def command(*words: str, fails: bool = False) -> None:
    assert main(["grid", "log", *words]) == int(fails)


def log_key(hub: Hub, algorithm: int = ED25519) -> str:
    return str(NoteKey(hub.store.name, algorithm, hub.store.public_key))


def grow(hub: Hub, rows: int, text: str = "") -> None:
    for number in range(rows):
        with hub.store.transaction():
            hub.store.note("test", {"n": number, "text": text})


def head(hub: Hub) -> HeadModel:
    reader = HubReader(hub.store.folder)
    try:
        return reader.read().log
    finally:
        reader.close()


async def introduce(log: Hub, witness: Hub) -> None:
    """What the two operators do."""
    await asyncio.to_thread(command, "watch", log_key(log), "--data", str(witness.store.folder))
    words = ("witness", log_key(witness, COSIGNATURE), "--at", witness.address, "--data", str(log.store.folder))
    await asyncio.to_thread(command, *words)


@contextlib.asynccontextmanager
async def two_hubs(folder: Path) -> AsyncIterator[tuple[Hub, Hub]]:
    async with (
        a_hub(folder / "a", name="a.example/log", confirm_every_s=FAST_S) as a,
        a_hub(folder / "b", name="b.example/log", confirm_every_s=FAST_S) as b,
    ):
        await introduce(a, b)
        await introduce(b, a)
        yield a, b


def confirmed(hub: Hub) -> bool:
    return hub.store.log.cosigned_size() == hub.store.log.size > 0


async def test_X6_two_hubs_confirm_each_others_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with two_hubs(tmp_path) as (a, b):
        for rows in (3, 5):
            grow(a, rows)
            grow(b, 2 * rows)
            await until(lambda: confirmed(a) and confirmed(b))
        for hub, other in ((a, b), (b, a)):
            found = head(hub)
            (witness,), (watched,) = found.witnesses, found.watched
            assert (witness.name, witness.rows, witness.trouble) == (other.store.name, hub.store.log.size, "")
            assert (watched.name, watched.rows, watched.trouble) == (other.store.name, other.store.log.size, "")
            words = ("verify", "--data", str(hub.store.folder), "--witness", log_key(other, COSIGNATURE))
            await asyncio.to_thread(command, *words, "--required", "1", "--ask", other.address)
            assert "1 witnesses" in capsys.readouterr().out


async def test_X6_a_hub_with_two_histories_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with two_hubs(tmp_path) as (a, b):
        grow(a, 3)
        await until(lambda: confirmed(a))
        a.store.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copytree(a.store.folder, tmp_path / "fork" / "hub")
        grow(a, 4, "what the witness sees")
        await until(lambda: confirmed(a))
        seen = a.store.log.size
        async with a_hub(tmp_path / "fork", confirm_every_s=FAST_S) as fork:
            assert log_key(fork) == log_key(a)
            grow(fork, 6, "what others see")
            await until(lambda: head(fork).witnesses[0].trouble)
            (watched,) = head(b).watched
            assert "two histories" in watched.trouble
            assert head(b).last[0].kind == "witness.contradiction"
            for source, message in (
                (fork, f"does not begin with the {seen} rows of the former checkpoint: its past was changed"),
                (b, "a.example/log has two histories"),
            ):
                words = ("verify", "--data", str(source.store.folder))
                await asyncio.to_thread(command, *words, fails=True)
                assert message in capsys.readouterr().err
            for source in (a, fork):  # a reader with an export of either history asks the witness
                out = str(tmp_path / "out" / source.store.folder.parent.name)
                await asyncio.to_thread(command, "export", out, "--data", str(source.store.folder))
                await asyncio.to_thread(command, "verify", out, "--key", log_key(a), "--ask", b.address, fails=True)
                assert "its past was changed" in capsys.readouterr().err
            await asyncio.to_thread(command, "list-watched", "--data", str(b.store.folder))
            assert "two histories" in capsys.readouterr().out


async def test_X6_a_log_that_was_restored_from_a_backup_is_found_while_it_is_shorter(tmp_path: Path) -> None:
    async with two_hubs(tmp_path) as (a, b):
        grow(a, 3)
        await until(lambda: confirmed(a))
        a.store.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copytree(a.store.folder, tmp_path / "old" / "hub")
        grow(a, 9)
        await until(lambda: confirmed(a))
        seen = a.store.log.size
        async with a_hub(tmp_path / "old", confirm_every_s=FAST_S) as old:
            grow(old, 1)
            await until(lambda: head(old).witnesses[0].trouble)
            assert f"shrunk from {seen} rows to" in head(old).witnesses[0].trouble
            assert head(b).watched[0].trouble


async def test_a_witness_that_is_away_or_another_is_named(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "a", confirm_every_s=FAST_S) as a:
        async with a_hub(tmp_path / "b") as b:
            where = b.address
            grow(a, 1)
            words = ("witness", log_key(b, COSIGNATURE), "--at", where, "--data", str(a.store.folder))
            await asyncio.to_thread(command, *words)
            await until(lambda: "is not witnessed here" in head(a).witnesses[0].trouble)
        await until(lambda: "cannot be reached" in head(a).witnesses[0].trouble)
        await asyncio.to_thread(command, "watch", log_key(a, COSIGNATURE), "--data", str(a.store.folder), fails=True)
        with pytest.raises(GridError, match="is that of a log"):
            a.confirming._witnesses.add(key_of(a.store.log), where)


def test_only_what_the_log_has_signed_is_held_against_it(tmp_path: Path) -> None:
    log, other = a_log(tmp_path / "a", rows=4), a_log(tmp_path / "w", "witness.example/grid")
    witness = Witness(other._database, other, lambda: 1_800_000_000.0)
    witness.watch(key_of(log))
    old_note = log.checkpoint()
    witness.add_checkpoint(request_body(0, [], old_note))
    log.append("more", "2027-01-15T08:00:00Z", {})
    rubbish = request_body(4, [b"x" * 32], log.checkpoint())
    for body, signature in (
        (rubbish, b""),
        (rubbish, IdentityKey.generate().sign(SIGNED + rubbish.encode())),
        (rubbish, log.signature(rubbish.encode())),
    ):
        with pytest.raises(Contradiction, match="does not show"):
            witness.add_checkpoint(body, signature)
    with pytest.raises(Conflict):  # an old request again
        witness.add_checkpoint(request_body(0, [], old_note))
    assert not witness.find(log.origin).words
    proof = merkle.consistency_proof(4, 5, log.node)
    witness.add_checkpoint(request_body(4, proof, log.checkpoint() + "— unknown AAAA\n"))
    assert "unknown" not in witness.find(log.origin).note
    fork = log_in(tmp_path / "f", log._key, log.origin)
    for number in range(5):
        fork.append("other", "2027-01-15T08:00:00Z", {"n": number})
    with pytest.raises(Contradiction, match="two logs of 5 rows"):  # both notes are signed, which is enough
        witness.add_checkpoint(request_body(0, [], fork.checkpoint()))
    found = witness.find(log.origin)
    assert found.other == fork.checkpoint()
    assert "two logs of 5 rows" in found.words
