"""Ask the witnesses of the hub's log to confirm its checkpoints, each whenever it has not confirmed the present one."""

from __future__ import annotations

import asyncio
import logging
import sqlite3

from controller.signed_log import merkle
from controller.signed_log.notes import Checkpoint, NoteKey, signature_time
from grid.errors import GridError, GridRefused
from grid.hub.store import Store, hub_reading_error
from grid.log.witness import SIGNED, request_body
from grid.log.witnesses import LogWitness, LogWitnesses
from grid.member.membership import CALL_S, HubAddress, authority_of, enrolment_channel, explained
from grid.wire import grid_pb2 as pb
from grid.wire import grid_pb2_grpc as pb_grpc

logger = logging.getLogger(__name__)

MAX_TEXT = 300


class Confirming:
    """Asks witnesses on a schedule. One instance a hub."""

    def __init__(self, store: Store, every_s: float) -> None:
        self._store = store
        self._every_s = every_s
        self._witnesses = LogWitnesses(store.database, store.log)

    async def run(self) -> None:
        """Ask until cancelled; the first time at once."""
        while True:
            try:
                waiting = [each for each in self._witnesses.every() if each.rows < self._store.log.size]
                await asyncio.gather(*(self._confirmed(each) for each in waiting))
            except sqlite3.Error as error:
                logger.error("the witnesses of the log: %s", hub_reading_error(error))
            await asyncio.sleep(self._every_s)

    async def _confirmed(self, witness: LogWitness) -> None:
        """Ask one witness and note the outcome."""
        try:
            size, line = await self._asked(witness)
            with self._store.transaction():
                self._witnesses.confirmed(size, line)
        except GridError as error:
            logger.warning("%s has not confirmed the log: %s", witness.key.name, error)
            try:
                with self._store.transaction():
                    self._witnesses.refused(witness.key, str(error)[:MAX_TEXT])
            except GridError as failed:
                logger.error("%s", failed)

    async def _asked(self, witness: LogWitness) -> tuple[int, str]:
        """Return the size that was confirmed and the cosignature. Raises :class:`GridError` without one."""
        address = HubAddress.parse(witness.address)
        authority = await asyncio.to_thread(authority_of, address)
        async with enrolment_channel(address, authority) as channel:
            stub: pb_grpc.WitnessingAsyncStub = pb_grpc.WitnessingStub(channel)
            size, old = self._store.log.size, witness.rows
            for _ in range(2):
                request = self._request(old, size)
                with explained(f"the witness {witness.key.name}"):
                    reply = await stub.AddCheckpoint(request, timeout=CALL_S)
                if not reply.size or reply.size == old:
                    break
                old = reply.size
        if reply.confirmed:
            self._contradicted(witness.key, reply.confirmed)
        if reply.refusal:
            raise GridRefused(reply.refusal)
        line = f"{reply.line.splitlines()[0]}\n" if reply.line else ""
        if signature_time(f"{_bare(request.body)}{line}", witness.key) is None:
            raise GridRefused(f"its cosignature is not valid for the key of {witness.key.name}. Next: compare the keys")
        return size, line

    def _request(self, old: int, size: int) -> pb.AddCheckpointRequest:
        log = self._store.log
        proof = merkle.consistency_proof(old, size, log.node) if 0 < old <= size else []
        body = request_body(old, proof, log.checkpoint(size))
        return pb.AddCheckpointRequest(body=body, signature=log.signature(SIGNED + body.encode()))

    def _contradicted(self, key: NoteKey, note: str) -> None:
        """Keep what the witness holds against this log, if this log has signed it."""
        own = NoteKey(self._store.name, 1, self._store.public_key)
        if signature_time(note, own) is not None and Checkpoint.parse(note).origin == own.name:
            with self._store.transaction():
                self._witnesses.contradicted(key, note)


def _bare(body: str) -> str:
    """Return the checkpoint of a request."""
    return body.partition("\n\n")[2]
