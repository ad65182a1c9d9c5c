"""X6: the log of the grid: proofs against published vectors, edits, forks and false witnesses are detected."""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.signed_log import merkle
from controller.signed_log.notes import COSIGNATURE, ED25519, Checkpoint, NoteKey, NoteSigner, body_of, signature_time
from grid.errors import GridError, GridRefused
from grid.identity.keys import IdentityKey
from grid.log.ledger import GridLog
from grid.log.tiles import index_path, tile
from grid.log.verification import LogVerdict, verify_log
from grid.log.witness import Conflict, Witness, request_body

UTC = "2027-01-15T08:00:00Z"
VECTORS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = {
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    4: "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}
"""Leaves and roots of the reference implementation of certificate transparency."""


class Leaves:
    def __init__(self, leaves: list[bytes]) -> None:
        self.nodes: dict[tuple[int, int], bytes] = {}
        for number, leaf in enumerate(leaves):
            for level, index, found in merkle.completed(number, merkle.leaf_hash(leaf), self):
                self.nodes[level, index] = found

    def __call__(self, level: int, index: int) -> bytes:
        return self.nodes[level, index]


def plain_root(leaves: list[bytes]) -> bytes:
    """The definition of RFC 6962, section 2.1."""
    if len(leaves) <= 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest() if leaves else hashlib.sha256().digest()
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return hashlib.sha256(b"\1" + plain_root(leaves[:k]) + plain_root(leaves[k:])).digest()


def test_published_roots() -> None:
    tree = Leaves([bytes.fromhex(each) for each in VECTORS])
    assert {size: merkle.root(size, tree).hex() for size in ROOTS} == ROOTS


@given(st.integers(1, 70), st.data())
def test_proofs_hold_for_every_size_and_for_nothing_else(size: int, data: st.DataObject) -> None:
    leaves = [bytes([n]) * 3 for n in range(size)]
    tree, root = Leaves(leaves), plain_root(leaves)
    assert merkle.root(size, tree) == root
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))
    proof = merkle.inclusion_proof(index, size, tree)
    leaf = merkle.leaf_hash(leaves[index])
    assert merkle.verify_inclusion(index, size, leaf, proof, root)
    assert not merkle.verify_inclusion(index, size, merkle.leaf_hash(b"other"), proof, root)
    assert not merkle.verify_inclusion(index, size, leaf, [*proof, b"x" * 32], root)
    longer = merkle.consistency_proof(old, size, tree)
    assert merkle.verify_consistency(old, size, plain_root(leaves[:old]), root, longer)
    assert not merkle.verify_consistency(old, size, b"x" * 32, root, longer)
    assert not merkle.verify_consistency(old, size, plain_root(leaves[:old]), b"x" * 32, longer)


OPEN: list[sqlite3.Connection] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close the databases of a test in its own thread: a finalizer runs in any thread, where SQLite refuses it."""
    yield
    while OPEN:
        OPEN.pop().close()


def log_in(path: Path, key: NoteSigner, origin: str) -> GridLog:
    """A log in a database that is closed after the test."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA synchronous = OFF")
    log = GridLog(database, key, origin)
    OPEN.append(database)
    return log


def a_log(path: Path, origin: str = "hub.example/grid", rows: int = 0) -> GridLog:
    log = log_in(path, IdentityKey.generate(), origin)
    for number in range(rows):
        log.append("test", UTC, {"n": number})
    return log


def key_of(log: GridLog, algorithm: int = ED25519) -> NoteKey:
    return NoteKey(log.origin, algorithm, log._key.public)


def judged(log: GridLog, *formers: str) -> LogVerdict:
    return verify_log([body for _, body in log.rows(0, 10_000)], log.checkpoint(), key_of(log), formers=formers)


def test_a_sound_log_passes(tmp_path: Path) -> None:
    log = a_log(tmp_path / "a", rows=5)
    former = log.checkpoint()
    for number in range(300):
        log.append("more", UTC, {"n": number})
    assert judged(log, former).faults == ()
    assert judged(log).rows == 305


@pytest.mark.parametrize("rehash", [False, True], ids=["row", "row-and-tables"])
def test_X6_an_edited_row_is_detected(tmp_path: Path, rehash: bool) -> None:
    log = a_log(tmp_path / "a", rows=20)
    former = log.checkpoint()
    bodies = [json.loads(body) for _, body in log.rows(0, 100)]
    bodies[7]["about"]["n"] = 99
    if rehash:  # an operator who rewrites the whole log, with all hashes and a fresh signature
        edited = log_in(tmp_path / "b", log._key, log.origin)
        for each in bodies:
            edited.append(each["kind"], each["utc"], each["about"])
        assert judged(edited).faults == ()
        assert any("its past was changed" in each for each in judged(edited, former).faults)
    else:
        text = json.dumps(bodies[7], sort_keys=True, separators=(",", ":")).encode()
        log._database.execute("UPDATE log SET body = ? WHERE number = 7", (text,))
        faults = judged(log).faults
        assert any(each.startswith("row 8:") for each in faults)
        assert any("root" in each for each in faults)


def test_removed_and_forged_ends_are_detected(tmp_path: Path) -> None:
    log = a_log(tmp_path / "a", rows=9)
    rows, note = [body for _, body in log.rows(0, 100)], log.checkpoint()
    assert verify_log(rows[:-1], note, key_of(log)).faults
    assert verify_log(rows, note, NoteKey(log.origin, ED25519, IdentityKey.generate().public)).faults
    assert verify_log(rows, note, key_of(log), required=1).faults == (
        "0 of 1 required witnesses confirm the checkpoint",
    )
    with pytest.raises(GridError, match="no checkpoint"):
        verify_log(rows, "a\nb\nc\n\n", key_of(log))


def test_X6_openssl_verifies_the_signature_of_a_checkpoint(tmp_path: Path) -> None:
    log = a_log(tmp_path / "a", rows=3)
    note = log.checkpoint()
    encoded = note.splitlines()[-1].rpartition(" ")[2]
    (tmp_path / "sig").write_bytes(base64.b64decode(encoded)[4:])
    (tmp_path / "text").write_bytes(body_of(note).encode())
    prefix = bytes.fromhex("302a300506032b6570032100")  # RFC 8410
    (tmp_path / "key.der").write_bytes(prefix + log._key.public)
    words = ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", "key.der", "-rawin"]
    words += ["-in", "text", "-sigfile", "sig"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert "Signature Verified Successfully" in done.stdout, done.stderr
    (tmp_path / "text").write_bytes(body_of(note).encode() + b"x")
    assert subprocess.run(words, cwd=tmp_path, capture_output=True).returncode != 0


PUBLISHED_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
PUBLISHED_NOTE = """This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
"""
"""The example of the specification of signed notes."""


def test_the_published_note_is_verified_with_the_published_key() -> None:
    key = NoteKey.parse(PUBLISHED_KEY)
    assert str(key) == PUBLISHED_KEY
    assert signature_time(PUBLISHED_NOTE, key) == 0
    assert signature_time(PUBLISHED_NOTE.replace("example message", "exemplar message"), key) is None
    with pytest.raises(GridError, match="damaged"):
        NoteKey.parse(PUBLISHED_KEY.replace("530d", "530e"))


def test_a_witness_confirms_growth_and_refuses_a_fork(tmp_path: Path) -> None:
    log, other = a_log(tmp_path / "a", rows=4), a_log(tmp_path / "w", "witness.example/grid")
    witness = Witness(other._database, other, lambda: 1_800_000_000.0)
    with pytest.raises(GridRefused, match="not witnessed"):
        witness.add_checkpoint(request_body(0, [], log.checkpoint()))
    witness.watch(key_of(log))
    line = witness.add_checkpoint(request_body(0, [], log.checkpoint()))
    log.add_cosignature(4, line)
    assert signature_time(log.checkpoint(), key_of(other, COSIGNATURE)) == 1_800_000_000
    rows = [body for _, body in log.rows(0, 100)]
    good = verify_log(rows, log.checkpoint(), key_of(log), witnesses=[key_of(other, COSIGNATURE)], required=1)
    assert good.faults == ()
    assert good.witnesses == ("witness.example/grid",)
    for number in range(3):
        log.append("more", UTC, {"n": number})
    with pytest.raises(Conflict) as conflict:
        witness.add_checkpoint(request_body(0, [], log.checkpoint()))
    assert conflict.value.size == 4
    proof = merkle.consistency_proof(4, 7, log.node)
    fork = a_log(tmp_path / "f", rows=7)
    fork._signer = log._signer
    with pytest.raises(GridRefused, match="does not show"):
        witness.add_checkpoint(request_body(4, proof, fork.checkpoint()))
    with pytest.raises(GridRefused, match="shrunk"):
        witness.add_checkpoint(request_body(4, [], log.checkpoint(3)))
    witness.add_checkpoint(request_body(4, proof, log.checkpoint()))
    with pytest.raises(GridError, match="another key"):
        witness.watch(key_of(fork).__class__(log.origin, ED25519, b"k" * 32))


def test_tiles_have_the_published_paths_and_give_the_root(tmp_path: Path) -> None:
    assert index_path(1_234_067) == "x001/x234/067"
    log = a_log(tmp_path / "a", rows=300)
    full, rest = tile(log, "tile/0/000"), tile(log, "tile/0/001.p/44")
    assert full is not None
    assert rest is not None
    hashes = [(full + rest)[n : n + 32] for n in range(0, 300 * 32, 32)]
    nodes = Leaves([])
    for number, leaf in enumerate(hashes):
        for level, index, found in merkle.completed(number, leaf, nodes):
            nodes.nodes[level, index] = found
    assert merkle.root(300, nodes) == Checkpoint.parse(log.checkpoint()).root
    assert tile(log, "tile/1/000.p/1") == nodes(8, 0)
    bundle = tile(log, "tile/entries/000")
    assert bundle is not None
    assert bundle[2 : 2 + int.from_bytes(bundle[:2], "big")] == log.rows(0, 1)[0][1]
    for wrong in ("tile/0/001", "tile/0/001.p/45", "tile/0/1", "tile/0/000.p/0", "tile/0/000.p/256", "../hub.sqlite"):
        assert tile(log, wrong) is None
