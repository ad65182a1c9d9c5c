"""Ask a hub, as a witness, to confirm the checkpoint of a log: of another hub, or of a rig's journal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from controller.signed_log.notes import NoteKey, signature_time
from grid.errors import GridRefused
from grid.log.witness import SIGNED, Contradiction, request_body
from grid.member.membership import CALL_S, HubAddress, authority_of, enrolment_channel, explained
from grid.wire import grid_pb2 as pb
from grid.wire import grid_pb2_grpc as pb_grpc


class ConfirmedLog(Protocol):
    """What is to be confirmed."""

    note: str
    """Its checkpoint."""

    def proof(self, old: int) -> list[bytes]:
        """Return the proof that the log still begins with its first `old` rows; empty when it cannot."""
        ...

    def signature(self, text: bytes) -> bytes:
        """Return the signature of the log's key."""
        ...


async def confirmed_by(witness: NoteKey, address: str, log: ConfirmedLog, old: int) -> str:
    """Return the line with which a witness confirms a checkpoint.

    Args:
        witness: Its verifier key.
        address: Where it listens: host:port#fingerprint.
        log: The log.
        old: Rows that the witness has confirmed last, as far as is known here.

    Raises:
        Contradiction: It holds another checkpoint against the log.
        GridError: It does not confirm, or cannot be reached.
    """
    where = HubAddress.parse(address)
    authority = await asyncio.to_thread(authority_of, where)
    async with enrolment_channel(where, authority) as channel:
        stub: pb_grpc.WitnessingAsyncStub = pb_grpc.WitnessingStub(channel)
        for _ in range(2):
            body = request_body(old, log.proof(old), log.note)
            request = pb.AddCheckpointRequest(body=body, signature=log.signature(SIGNED + body.encode()))
            with explained(f"the witness {witness.name}"):
                reply = await stub.AddCheckpoint(request, timeout=CALL_S)
            if not reply.size or reply.size == old:
                break
            old = reply.size
    if reply.confirmed:
        raise Contradiction(reply.refusal, reply.confirmed)
    if reply.refusal:
        raise GridRefused(reply.refusal)
    line = f"{reply.line.splitlines()[0]}\n" if reply.line else ""
    if signature_time(f"{log.note}{line}", witness) is None:
        raise GridRefused(f"its cosignature is not valid for the key of {witness.name}. Next: compare the keys")
    return line


async def held_by(addresses: Iterable[str], origin: str) -> list[str]:
    """Return what the witnesses at `addresses` have confirmed of a log, and what they hold against it.

    Raises:
        GridError: An address is malformed, or a witness cannot be reached.
    """
    found = []
    for text in addresses:
        where = HubAddress.parse(text)
        async with enrolment_channel(where, await asyncio.to_thread(authority_of, where)) as channel:
            stub: pb_grpc.WitnessingAsyncStub = pb_grpc.WitnessingStub(channel)
            with explained(f"the witness at {where.at(where.port)}"):
                reply = await stub.Witnessed(pb.WitnessedRequest(origin=origin), timeout=CALL_S)
        found += [note for note in (reply.checkpoint, reply.contradiction) if note]
    return found
