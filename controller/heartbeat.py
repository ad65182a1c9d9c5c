"""The controller's end of the guard's pipe: signs of life, a goodbye in order, and silence for everything else."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable

from controller.guard import ALIVE, GOODBYE

logger = logging.getLogger(__name__)

BEAT_S = 0.25
"""How often the guard hears that this process lives."""
END_MOST_S = 20.0
"""How long an orderly end may take altogether: so long the guard hears that this process lives, though it ticks no more. One
that takes longer hangs."""


class Heartbeat:
    """`pipe` is what the guard reads the other end of; None where no guard watches. `ticks` says whether the control does.

    When the loop turns and the control does not, that is no life. `lost` hears why nobody listens any more.
    """

    def __init__(self, pipe: int | None, ticks: Callable[[], bool], lost: Callable[[str], None]) -> None:
        self._pipe = pipe
        self._ticks = ticks
        self._lost = lost
        self._now_s = asyncio.get_running_loop().time
        self._ending_s: float | None = None

    def begin(self) -> None:
        """Tell the guard that this process lives, from now on again and again."""
        if self._pipe is None:
            return
        asyncio.get_running_loop().call_later(BEAT_S, self.begin)
        if self._lives():
            self._say(ALIVE)

    def ending(self) -> None:
        """The control has stopped ticking because this process ends in order."""
        if self._ending_s is None:
            self._ending_s = self._now_s()

    def goodbye(self) -> None:
        """Every output is at rest: the guard has nothing to do."""
        self._say(GOODBYE)
        self.hang_up()

    def hang_up(self) -> None:
        """Close the pipe. Unless the guard has heard a goodbye, it acts."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def _lives(self) -> bool:
        if self._ending_s is not None:
            return self._now_s() - self._ending_s < END_MOST_S
        return self._ticks()

    def _say(self, sign: bytes) -> None:
        if self._pipe is None:
            return
        try:
            os.write(self._pipe, sign)
        except BlockingIOError:
            pass  # the guard has enough unread signs of life
        except OSError as error:
            logger.error("the guard is gone (%s); nothing watches this controller", error)
            self.hang_up()
            self._lost(str(error))
