"""The far end of a bench's line: a device that knows the physical truth, and whose measured values can be set.

A far end is a simulator or a script. It is written from the device's manual and never from the driver: the
conformance kit compares two independent readings of the manual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from drivers.conformance.peer import Answers

Deliver = Callable[[bytes], None]


class FarEnd(Protocol):
    """Declares a powered device at the far end of the line. Created while its loop runs.

    All values are physical truth in the units of :mod:`drivers.device`, by the point's name, whatever the protocol
    uses.
    """

    def connect(self, deliver: Deliver) -> None:
        """Send all output of the device to a function from now on.

        Args:
            deliver: Receives each reply.
        """

    def receive(self, data: bytes) -> None:
        """Receive bytes from the driver.

        Args:
            data: Bytes of a request, or a part of them.
        """

    def outputs(self) -> Mapping[str, float]:
        """Return the current state of each output; {} if the device has none.

        A pump: its flow (µL/min), negative in reverse. A switch: 1.0 or 0.0. A level: its value in the actuator's
        unit. An output at rest may be omitted.
        """
        ...

    def delivered(self) -> Mapping[str, float]:
        """Return the volume that each pump has moved since its creation (µL); both directions count as positive."""
        ...

    def measure(self, point: str, value: float) -> None:
        """Make a value true at a point: from now on the device measures it.

        Args:
            point: Name of the point.
            value: The value, in the unit of the bench's :class:`Sense`.
        """

    def measured(self) -> Mapping[str, float]:
        """Return the current truth at each measured point."""
        ...

    def doubt(self, point: str) -> bool:
        """Make the device mark its reading at a point as unreliable, in its own protocol.

        Args:
            point: Name of the point.

        Returns:
            False if the protocol cannot express that.
        """
        ...

    def disturb(self, point: str) -> bool:
        """Keep what the device measures at a point in motion from now on, so that the device says so.

        Args:
            point: Name of the point.

        Returns:
            False if the protocol cannot express that.
        """
        ...

    def misset(self) -> bool:
        """Change the device's own settings, as a person at its panel would: units, modes, unsolicited output.

        Return False if it has none that matter.
        """
        ...

    def power_cycle(self) -> None:
        """Interrupt the device's power for a moment."""

    def memory_writes(self) -> int | None:
        """Return the number of writes to the non-volatile memory; None if they are not counted."""
        ...


@dataclass(frozen=True, slots=True)
class FarEndTroubles:
    """Causes troubles of a scripted device (:class:`FarEnd`); each function returns whether the device can report that
    trouble.
    """

    doubt: Callable[[str], bool] = lambda point: False
    disturb: Callable[[str], bool] = lambda point: False
    misset: Callable[[], bool] = lambda: False


NO_TROUBLES = FarEndTroubles()
DELAY_S = 0.01
"""Time until the reply to a request without a delay of its own (s)."""


class ScriptedEnd:
    """Plays a far end by a function of the request; further abilities are optional.

    Without `measured`, the last value set by `measure` is the truth.
    """

    def __init__(
        self,
        answers: Answers,
        *,
        outputs: Callable[[], Mapping[str, float]] = dict,
        delivered: Callable[[], Mapping[str, float]] = dict,
        measure: Callable[[str, float], None] = lambda point, value: None,
        measured: Callable[[], Mapping[str, float]] | None = None,
        troubles: FarEndTroubles = NO_TROUBLES,
        power_cycle: Callable[[], None] = lambda: None,
        memory_writes: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._answers = answers
        self._deliver: Deliver = lambda data: None
        self._measure = measure
        self._set: dict[str, float] = {}
        self.outputs = outputs
        self.delivered = delivered
        self.measured = measured or (lambda: self._set)
        self.doubt, self.disturb, self.misset = troubles.doubt, troubles.disturb, troubles.misset
        self.power_cycle = power_cycle
        self.memory_writes = memory_writes

    def connect(self, deliver: Deliver) -> None:
        """Send all output of the script to a function from now on.

        Args:
            deliver: Receives each reply.
        """
        self._deliver = deliver

    def measure(self, point: str, value: float) -> None:
        """Make a value true at a point.

        Args:
            point: Name of the point.
            value: The value, in the unit of the bench's :class:`Sense`.
        """
        self._set[point] = value
        self._measure(point, value)

    def receive(self, data: bytes) -> None:
        """Answer a request with the script's reply, after its delay.

        Args:
            data: Bytes of the request.
        """
        said = self._answers(data)
        for n, say in enumerate(() if said is None else (said,) if isinstance(said, bytes) else said):
            delay_s, reply = say if isinstance(say, tuple) else (DELAY_S + 1e-6 * n, say)
            asyncio.get_running_loop().call_later(delay_s, self._deliver, reply)
