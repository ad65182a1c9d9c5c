"""Let readers see what is on the disk: a thread that syncs chunks and then lets their arrays grow.

A sync waits for the disk, and on a busy machine for the processor after it; the writer's own thread has no time for that.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from nerves.recording.store import ZarrArray

RETRY_S = 0.5

Growth = tuple[ZarrArray, int]
"""An array, and the rows that readers may see once they are on the disk."""


class Publisher:
    """Works through growths in their order. A full disk holds it up; it tries again, and `check` says so."""

    def __init__(self) -> None:
        self._jobs: deque[Growth] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._work, name="publisher", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether all growths are done."""
        return not self._jobs

    def submit(self, growths: Sequence[Growth]) -> None:
        """Have arrays grow."""
        with self._changed:
            self._jobs.extend(growths)
            self._changed.notify_all()

    def check(self) -> None:
        """Raise the OSError for which the disk does not take the present growth, if there is one."""
        if self._error is not None:
            raise self._error

    def drain(self, within_s: float) -> None:
        """Wait until all growths are done.

        Raises:
            OSError: The disk does not take them, or not in this time.
        """
        with self._changed:
            done = self._changed.wait_for(lambda: not self._jobs or self._error is not None, within_s)
        self.check()
        if not done:
            raise TimeoutError(f"the disk did not take the recording within {within_s:g} s")

    def end(self) -> None:
        """End the thread; what it has not done is left to the caller."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._ended)
                if self._ended:
                    return
                array, rows = self._jobs[0]
            error = None
            try:
                array.grow(rows)
            except OSError as failed:
                error = failed
            with self._changed:
                self._error = error
                if error is None:
                    self._jobs.popleft()
                self._changed.notify_all()
                if error is not None:
                    self._changed.wait_for(lambda: self._ended, RETRY_S)
