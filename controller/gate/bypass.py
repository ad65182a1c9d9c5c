"""Bypasses: interlocks that a person disables for a limited time, with a reason (I6).

A bypass is needed when a probe fails or is replaced and its interlock would keep an output off. Only an interlock on one
reading can be bypassed; the bounds of volumes, the gas mixture and the rule of one transfer at a time cannot. A bypass ends
by itself, and with the controller's process: after a restart every interlock acts again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from math import isfinite

from controller.core.clock import Clock
from controller.gate.recording import Recorder
from controller.safety.terms import Limits

MAX_BYPASS_S = 3600.0
"""Maximum length of a bypass (s). Renewing it makes a person look at the rig again."""


class BypassRefused(Exception):
    """The bypass is refused. The message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Bypass:
    """A bypassed interlock: by whom, why, until when (loop seconds, UTC)."""

    interlock: str
    user: str
    reason: str
    until_s: float
    until_utc: str


class Bypasses:
    """The bypasses of one rig."""

    def __init__(self, limits: Limits, clock: Clock, record: Recorder, now_s: Callable[[], float]) -> None:
        self._names = tuple(rule.name for rule in limits.interlocks)
        self._clock = clock
        self._record = record
        self._now_s = now_s
        self._active: dict[str, Bypass] = {}

    @property
    def names(self) -> frozenset[str]:
        """The interlocks that are bypassed at this moment."""
        return frozenset(each.interlock for each in self.active()) if self._active else frozenset()

    def active(self) -> tuple[Bypass, ...]:
        """Return the bypasses at this moment, and record the end of those that ran out."""
        now_s = self._now_s()
        for each in tuple(self._active.values()):
            if not now_s < each.until_s:
                self._end(each, "it ran out")
        return tuple(self._active.values())

    async def begin(self, interlock: str, user: str, reason: str, for_s: float) -> Bypass:
        """Bypass `interlock` for `for_s` seconds, once its journal row is durable.

        Raises:
            BypassRefused: for an unknown interlock, a missing reason, a length above :data:`MAX_BYPASS_S`, or a journal that
                cannot take the row.
        """
        if interlock not in self._names:
            raise BypassRefused(
                f"“{interlock}” cannot be bypassed. Likely cause: a typing error, or it is no interlock on one reading."
                f" Next: choose among {', '.join(self._names)}"
            )
        if not reason.strip():
            raise BypassRefused("a bypass needs a reason. Likely cause: it was left empty. Next: say why it is safe")
        if not (isfinite(for_s) and 0.0 < for_s <= MAX_BYPASS_S):
            raise BypassRefused(
                f"a bypass lasts more than 0 and at most {MAX_BYPASS_S / 60:g} min, not {for_s / 60:g} min."
                " Next: ask for less, and look at the rig before you ask again"
            )
        bypass = Bypass(interlock, user, reason, self._now_s() + for_s, _utc_text(self._clock, for_s))
        body = {name: value for name, value in asdict(bypass).items() if name != "until_s"} | {"for_s": for_s}
        refusal = await self._record.refusal(self._record.write("safety.bypass", body))
        if refusal is not None:
            raise BypassRefused(
                f"{interlock} is not bypassed: the journal cannot be written. Next: repair the journal first"
            )
        self._active[interlock] = bypass
        return bypass

    def end(self, interlock: str, user: str) -> None:
        """End the bypass of `interlock` at once. Raises BypassRefused if it is not bypassed."""
        bypass = next((each for each in self.active() if each.interlock == interlock), None)
        if bypass is None:
            raise BypassRefused(f"“{interlock}” is not bypassed. Likely cause: its bypass ran out. Next: nothing")
        self._end(bypass, f"ended by {user}")

    def _end(self, bypass: Bypass, why: str) -> None:
        del self._active[bypass.interlock]  # first: the interlock acts again even if the journal takes no row
        self._record.write("safety.bypass_ended", {"interlock": bypass.interlock, "why": why})


def _utc_text(clock: Clock, in_s: float) -> str:
    return (clock.utc() + timedelta(seconds=in_s)).isoformat(timespec="seconds")
