"""The conversion of a large file to the present format, in a thread of its own (real time only).

The copy and the migration of a history of months can take minutes. The control loop does not wait for it.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from pathlib import Path

from controller.memory.formats import BUSY_S, ConversionStopped, Format, migrate

logger = logging.getLogger(__name__)

INTERRUPT_EVERY_S = 0.05
INTERRUPTS = 40


class Conversion:
    """One conversion, begun when this is made. A process that is killed in it leaves the file as it was."""

    def __init__(self, path: Path, form: Format) -> None:
        self._path = path
        self._form = form
        self._stopped = threading.Event()
        self._db: sqlite3.Connection | None = None
        self.failure: Exception | None = None
        """Why it failed, once it has ended."""
        self._thread = threading.Thread(target=self._work, name=f"conversion of {path.name}", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether it has succeeded or failed."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End it: a transaction under way is rolled back, here or, if it does not end in time, with the process."""
        self._stopped.set()
        for _ in range(INTERRUPTS):
            if not self._thread.is_alive():
                return
            db = self._db
            if db is not None:
                with contextlib.suppress(sqlite3.ProgrammingError):  # it was closed at this moment
                    db.interrupt()  # of no effect between two statements, so it is repeated
            self._thread.join(INTERRUPT_EVERY_S)

    def _work(self) -> None:
        try:
            with contextlib.closing(
                sqlite3.connect(self._path, isolation_level=None, timeout=BUSY_S, check_same_thread=False)
            ) as db:
                self._db = db
                migrate(db, self._path, self._form, stopped=self._stopped.is_set)
        except (ConversionStopped, sqlite3.Error, OSError) as error:
            self.failure = error
            if not self._stopped.is_set():
                logger.error("%s cannot be converted to format %d: %s", self._path, self._form.version, error)
        finally:
            self._db = None
