"""Ask the witnesses of the hub's log to confirm its checkpoints, each whenever it has not confirmed the present one."""

from __future__ import annotations

import asyncio
import logging
import sqlite3

from controller.signed_log import merkle
from controller.signed_log.notes import Checkpoint, NoteKey, signature_time
from grid.errors import GridError
from grid.hub.store import Store, hub_reading_error
from grid.log.ledger import GridLog
from grid.log.witness import Contradiction
from grid.log.witnesses import LogWitness, LogWitnesses
from grid.member.confirmation import confirmed_by

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
        asked = LogPart(self._store.log, self._store.log.size)
        try:
            return asked.size, await confirmed_by(witness.key, witness.address, asked, witness.rows)
        except Contradiction as found:
            self._contradicted(witness.key, found.confirmed)
            raise

    def _contradicted(self, key: NoteKey, note: str) -> None:
        """Keep what the witness holds against this log, if this log has signed it."""
        own = NoteKey(self._store.name, 1, self._store.public_key)
        if signature_time(note, own) is not None and Checkpoint.parse(note).origin == own.name:
            with self._store.transaction():
                self._witnesses.contradicted(key, note)


class LogPart:
    """The first rows of a log, which a witness is asked to confirm."""

    def __init__(self, log: GridLog, size: int) -> None:
        self._log = log
        self.size = size
        self.note = log.checkpoint(size)

    def proof(self, old: int) -> list[bytes]:
        """See :class:`ConfirmedLog`."""
        return merkle.consistency_proof(old, self.size, self._log.node) if 0 < old <= self.size else []

    def signature(self, text: bytes) -> bytes:
        """See :class:`ConfirmedLog`."""
        return self._log.signature(text)
