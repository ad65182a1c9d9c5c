"""The motor of a simulated pump: it turns, counts revolutions, and ends finite tasks by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class PumpMotor:
    """One rotor.

    `drive` receives the flow (µL/min, sign = direction) at each change; `ended` is called when finite work is done.
    """

    def __init__(
        self,
        *,
        ul_per_rev: float,
        drive: Callable[[float], None],
        loop: asyncio.AbstractEventLoop,
        ended: Callable[[], None] | None = None,
    ) -> None:
        """Create a motor at rest; `ul_per_rev`: volume of a revolution (µL) of the fitted tubing by the maker's chart."""
        self.ul_per_rev = ul_per_rev
        self.rpm = 0.0
        """Signed; 0 while it stands."""
        self._drive = drive
        self._loop = loop
        self._ended = ended
        self._turned = 0.0
        self._since_s = 0.0
        self._left: float | None = None
        self._left_s: float | None = None
        self._ending: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        """Return whether it turns."""
        return self.rpm != 0.0

    @property
    def revolutions(self) -> float:
        """Return the revolutions since power-up, in either direction."""
        self._account()
        return self._turned

    def turn(self, rpm: float, *, revolutions: float | None = None, seconds: float | None = None) -> None:
        """Turn at `rpm` (signed), without end, or for a number of revolutions or seconds."""
        self._account()
        self._left, self._left_s = revolutions, seconds
        self._set(rpm)

    def change(self, rpm: float) -> None:
        """Change the speed (signed) of the present task; without effect at rest."""
        if self.running and rpm != self.rpm:
            self._account()
            self._set(rpm)

    def rest(self) -> None:
        """Stop, and drop the rest of the task."""
        self._account()
        self._left = self._left_s = None
        if self.running:
            self._set(0.0)

    def power_off(self) -> None:
        """Stop, and lose the count."""
        self.rest()
        self._turned = 0.0

    def _set(self, rpm: float) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        self.rpm = rpm
        self._drive(rpm * self.ul_per_rev)
        if rpm and self._left is not None:
            self._ending = self._loop.call_later(self._left / abs(rpm) * 60.0, self._done)
        elif rpm and self._left_s is not None:
            self._ending = self._loop.call_later(self._left_s, self._done)

    def _account(self) -> None:
        now_s = self._loop.time()
        elapsed_s, self._since_s = now_s - self._since_s, now_s
        turned = abs(self.rpm) * elapsed_s / 60.0
        self._turned += turned
        if self._left is not None:
            self._left = max(0.0, self._left - turned)
        if self._left_s is not None:
            self._left_s = max(0.0, self._left_s - elapsed_s)

    def _done(self) -> None:
        self._ending = None
        self.rest()
        if self._ended is not None:
            self._ended()
