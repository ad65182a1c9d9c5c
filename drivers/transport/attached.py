"""The devices on a line, and how each one is kept verified while the line is open.

A device is trusted only after it has been verified on this opening of its line
(:mod:`drivers.transport.conversation`). A device that fails is retried with growing pauses. On a bus where other
devices answer, the retries get a small share of the bus time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeAlias

from drivers.errors import BadReply, DeviceError

BACKOFF_FIRST_S = 0.25
BACKOFF_MAX_S = 5.0
DEAD_SHARE = 0.1
"""Maximum share of a bus's time for devices that do not answer, while others on it do."""


class Speaker(Protocol):
    """Declares the part of a device's :class:`~drivers.transport.conversation.Conversation` that the line uses."""

    where: str
    verified: bool

    def distrust(self) -> None:
        """Withdraw verification: the line was lost, and nothing passes until this device is verified again."""


Verify: TypeAlias = Callable[[], Awaitable[object]]
_Member: TypeAlias = tuple[Speaker, Verify]


class Attached:
    """Keeps the devices of one line verified; `failures` holds, by device, why it is not."""

    def __init__(self) -> None:
        self.failures: dict[str, DeviceError] = {}
        self._members: list[_Member] = []
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._members)

    @property
    def verified(self) -> bool:
        """Whether all devices are verified."""
        return not self._doubtful()

    def add(self, speaker: Speaker, verify: Verify) -> None:
        """Keep a device verified from now on.

        Args:
            speaker: The device's side of the line.
            verify: Verifies the device; called whenever it is not verified and the line is open.
        """
        self._members.append((speaker, verify))
        self.wake()

    def wake(self) -> None:
        """Wake the supervision: a device must be verified again, or the line is lost."""
        self._wake.set()

    def distrust(self) -> None:
        """Withdraw the verification of all devices: the line has just been opened."""
        for speaker, _ in self._members:
            speaker.distrust()

    def lost(self, why: DeviceError) -> None:
        """Withdraw all verification: the line is lost.

        Args:
            why: The reason, for each device that has not failed before; one that has keeps its own.
        """
        self.distrust()
        for speaker, _ in self._members:
            self.failures.setdefault(speaker.where, why)
        self.wake()

    def unreached(self, why: DeviceError) -> None:
        """Record that the line could not be opened.

        Args:
            why: The reason, for every device.
        """
        for speaker, _ in self._members:
            self.failures[speaker.where] = why

    async def keep_verified(self, is_open: Callable[[], bool], after_round: Callable[[], None]) -> bool:
        """Verify every device once; then, until the line is lost, those that are not (or no longer) verified.

        On a bus where others answer, unverified devices take turns, the least recently tried first, within their
        share of the bus time.

        Args:
            is_open: Returns whether the line is still open.
            after_round: Called after each round.

        Returns:
            Whether any device was ever verified.
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
            delay_s = min(2 * delay_s, BACKOFF_MAX_S) if doubtful else BACKOFF_FIRST_S
        return any_verified

    def _doubtful(self) -> list[_Member]:
        return [each for each in self._members if not each[0].verified]

    async def _verify_each(
        self, whom: list[_Member], tried_s: dict[Speaker, float], is_open: Callable[[], bool]
    ) -> float:
        """Verify `whom` in turn; return the duration of the longest failed attempt (s)."""
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
        except Exception as error:  # a driver that fails on an unforeseen answer must not end the supervision
            self.failures[speaker.where] = BadReply(
                f"verification failed with {error!r}",
                where=speaker.where,
                cause="an answer that this driver does not foresee",
                action="look at the capture of this link and report it",
            )
        else:
            self.failures.pop(speaker.where, None)
