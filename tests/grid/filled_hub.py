"""A hub's folder with members, tissue, leases, a ranking and a witness, for the tests of its page."""

from __future__ import annotations

import math
from pathlib import Path

from controller.signed_log.notes import COSIGNATURE, NoteKey, cosignature
from grid.boards.loading import load_boards, newest
from grid.boards.manifest import sign_manifest
from grid.clock import utc_s
from grid.grading.rotation import Rotation
from grid.grading.sealing import SecretSeal
from grid.grading.store import BoardStore
from grid.hub.leases import LeaseBook
from grid.hub.members import Members
from grid.hub.owner import owned
from grid.hub.store import Store
from grid.hub.work import WorkBook
from grid.identity.keys import IdentityKey
from grid.jobs.manifest import JobManifest
from grid.jobs.signing import signed
from grid.log.witnesses import LogWitnesses
from grid.policy.policy import load_policy
from grid.policy.standing import MemberStanding
from grid.wire import grid_pb2 as pb

SECRET = b"the secret of the first rotation"
MODEL = b"the bytes of a model"
HOSTILE = "<img src=x onerror=alert(1)>"
FIGURES = {
    "cores": 8.0,
    "core_hash_hz": 1.2345e6,
    "gemm_flop_s": 5.21e11,
    "memory_bytes_s": 2.4e10,
    "memory_bytes": 1.6e10,
    "downlink_bit_s": 9.4e8,
    "uplink_bit_s": 4.1e8,
    "round_trip_s": 0.0123,
    "disk_write_bytes_s": 4.2e8,
}
REASONS = {
    "compute": (),
    "gpu": ("gpus was not measured",),
    "storage": ("uplink_bit_s is 4e+06, at least 2e+07 is needed",),
    "relay": (),
    "agent_host": (),
}


JOB = {
    "name": "job-1",
    "preset": "tiny",
    "data": {"train": ["5b" * 32]},
    "ranks": {"max": 2},
    "local_steps": 50,
    "outer_steps": 200,
    "batch": 32,
    "inner": {"rate": 3e-4},
    "budget": {"core_hours": 20, "bytes": 2_000_000_000},
}


def fill(folder: Path, *, members: int = 3) -> dict[str, IdentityKey]:
    """Make the folder; return the keys of those who are in it by name."""
    store = owned(folder, name="hub.example.org/log")
    store.database.execute("PRAGMA synchronous = OFF")
    keys = {"lab-1": IdentityKey.generate()} | {f"member-{n}": IdentityKey.generate() for n in range(members)}
    known = Members(store)
    for name, key in keys.items():
        kind = "lab" if name == "lab-1" else "member"
        known.request(pb.EnrolRequest(name=name, kind=kind, public_key=key.public))
        known.decide(name, "approve", "operator")
        if kind == "member":
            known.set_standing(key.id, name, MemberStanding(REASONS, FIGURES, {}, utc_s()))
    known.request(pb.EnrolRequest(name="newcomer", kind="member", public_key=IdentityKey.generate().public))
    known.seen({keys["lab-1"].id: "", keys["member-0"].id: "grading", keys["member-1"].id: ""})
    offer = pb.TissueOffer(organoid="o1", electrodes=32, stimulation=True, simulated=True, sample_rate_hz=25_000)
    with store.transaction() as database:
        row = (keys["lab-1"].id, "o1", offer.SerializeToString())
        database.execute("INSERT INTO tissues VALUES (?, ?, ?)", row)
    _lease(store, known, keys)
    if members > 2:
        _work(store, known, keys)
    rank(folder, keys["member-0"])
    confirm(store)
    store.close()
    return keys


def _lease(store: Store, known: Members, keys: dict[str, IdentityKey]) -> None:
    book = LeaseBook(store, known, load_policy().leases)
    for number, purpose in ((0, HOSTILE), (1, "waits for the same electrodes")):
        request = pb.LeaseRequest(
            key="k", lab="lab-1", organoid="o1", electrodes=[0, 1, 2, 3, 7], mode="stimulate", purpose=purpose
        )
        found = book.request(keys[f"member-{number}"].id, request)
        book.advance({keys["lab-1"].id})
        book.verdict(keys["lab-1"].id, pb.LeaseVerdict(lease=found["id"], accepted=True))


def _work(store: Store, known: Members, keys: dict[str, IdentityKey]) -> None:
    """A training job of two members, of which one reports no number as its loss, and a name that is no text of a page."""
    book, ranks = WorkBook(store, known, load_policy().work), ["member-1", "member-2"]
    job = JobManifest.model_validate(JOB).with_ranks([keys[name].id for name in ranks])
    manifest = signed(job, keys["member-1"])
    request = pb.WorkRequest(key="k", job=HOSTILE, ranks=ranks, manifest=manifest)
    found = book.request(keys["member-1"].id, request)
    book.advance({key.id for key in keys.values()})
    for number, name in enumerate(ranks):
        book.verdict(keys[name].id, pb.LeaseVerdict(lease=found["id"], accepted=True))
        loss = math.nan if number else 0.25
        said = pb.WorkReport(lease=found["id"], outer=7, loss=loss, sent=5_300_000, state="trains", reason=HOSTILE)
        said.scores.update({"loss": 0.5, "accuracy": loss})
        ids = [keys[each].id for each in ranks]
        book.jobs.report(found["id"], ids, keys[name].id, said)


def rank(folder: Path, key: IdentityKey) -> None:
    """Put a graded model on the board decode-stimulus."""
    board = newest(load_boards(), "decode-stimulus")
    boards = BoardStore(folder, SecretSeal(IdentityKey.in_folder(folder)))
    boards.begin_rotation(Rotation(board.key, 1, SECRET, utc_s()))
    boards.set_baselines(board.key, 1, {"zero": [0.2, 0.3]})
    manifest = sign_manifest(key.private, MODEL, board=board.key, name="first-model", nonce=bytes(32))
    boards.add(manifest, MODEL, member=key.id, now_s=utc_s(), rotation=1)
    boards.settle(manifest.id, 1, state="graded", published=0.875, reason="", detail="", now_s=utc_s())
    boards.close()


def confirm(store: Store) -> None:
    """Let a witness confirm the present checkpoint."""
    witness = IdentityKey.generate()
    key = NoteKey("witness.example.org/log", COSIGNATURE, witness.public)
    witnesses = LogWitnesses(store.database, store.log)
    witnesses.add(key, "127.0.0.1:1#" + "0" * 32)
    witnesses.confirmed(store.log.size, cosignature(witness, key.name, store.log.checkpoint(), int(utc_s())))
