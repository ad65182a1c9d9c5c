"""Who is on a line, and how each of them is kept verified while it is open.

A device is trusted only after it has been verified on this opening of its line (:mod:`drivers.transport.conversation`).
Those that fail are tried again with growing pauses; on a bus where others answer they get a small share of its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeAlias

from drivers.errors import BadReply, DeviceError

BACKOFF_FIRST_S = 0.25
BACKOFF_MOST_S = 5.0
DEAD_SHARE = 0.1
"""The part of a bus's time that is spent on devices which do not answer, while others on it do."""


class Speaker(Protocol):
    """One device's side of the line, as the line needs to know it; see :mod:`drivers.transport.conversation`."""

    where: str
    verified: bool

    def distrust(self) -> None:
        """The line was lost: nothing passes until this device is verified again."""


Verify: TypeAlias = Callable[[], Awaitable[object]]
_Member: TypeAlias = tuple[Speaker, Verify]


class Attached:
    """The devices of one line; `failures` tells by device why it is not verified."""

    def __init__(self) -> None:
        self.failures: dict[str, DeviceError] = {}
        self._members: list[_Member] = []
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._members)

    @property
    def verified(self) -> bool:
        """Whether all are."""
        return not self._doubtful()

    def add(self, speaker: Speaker, verify: Verify) -> None:
        """Have `verify` run whenever `speaker` is not verified and the line is open."""
        self._members.append((speaker, verify))
        self.wake()

    def wake(self) -> None:
        """Something has changed: somebody wants to be verified again, or the line is lost."""
        self._wake.set()

    def distrust(self) -> None:
        """Nobody is verified any more: the line has just been opened."""
        for speaker, _ in self._members:
            speaker.distrust()

    def lost(self, why: DeviceError) -> None:
        """The line is gone, and everybody with it; who had failed before keeps that reason."""
        self.distrust()
        for speaker, _ in self._members:
            self.failures.setdefault(speaker.where, why)
        self.wake()

    def unreached(self, why: DeviceError) -> None:
        """The line could not be opened: that is why nobody on it is verified."""
        for speaker, _ in self._members:
            self.failures[speaker.where] = why

    async def keep_verified(self, is_open: Callable[[], bool], after_round: Callable[[], None]) -> bool:
        """Verify everybody once; then, until the line is lost, whoever is not (or no longer) verified.

        On a bus where others answer these take turns, the one who was tried longest ago first, and get a share of the
        bus's time and no more. `after_round` is called after each round. Returns whether anybody was ever verified.
        """
        delay_s = BACKOFF_FIRST_S
        any_verified = False
        tried_s: dict[Speaker, float] = {}
        whom = self._doubtful()
        while is_open():
            self._wake.clear()
            lost_s = await self._verify_each(whom, tried_s, is_open)
            after_round()
            if not is_open():
                break
            doubtful = self._doubtful()
            shared = len(doubtful) < len(self._members)
            any_verified = any_verified or shared
            pause_s = None
            if doubtful:
                pause_s = max(delay_s / len(doubtful), lost_s * (1.0 / DEAD_SHARE - 1.0)) if shared else delay_s
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            doubtful = self._doubtful()
            whom = sorted(doubtful, key=lambda each: tried_s.get(each[0], 0.0))[: 1 if shared else None]
            delay_s = min(2 * delay_s, BACKOFF_MOST_S) if doubtful else BACKOFF_FIRST_S
        return any_verified

    def _doubtful(self) -> list[_Member]:
        return [each for each in self._members if not each[0].verified]

    async def _verify_each(
        self, whom: list[_Member], tried_s: dict[Speaker, float], is_open: Callable[[], bool]
    ) -> float:
        """Returns how long the longest attempt in vain took (s)."""
        loop = asyncio.get_running_loop()
        lost_s = 0.0
        for speaker, verify in whom:
            began_s = tried_s[speaker] = loop.time()
            if is_open():
                await self._verify(speaker, verify)
            if not speaker.verified:
                lost_s = max(lost_s, loop.time() - began_s)
        return lost_s

    async def _verify(self, speaker: Speaker, verify: Verify) -> None:
        try:
            await verify()
        except DeviceError as error:
            self.failures[speaker.where] = error
        except Exception as error:  # a driver that trips over what a device said must not end the supervision
            self.failures[speaker.where] = BadReply(
                f"verification failed with {error!r}",
                where=speaker.where,
                cause="an answer that this driver does not foresee",
                action="look at the capture of this link and report it",
            )
        else:
            self.failures.pop(speaker.where, None)
