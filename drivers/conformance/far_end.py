"""The far end of a bench's line: a device that knows what is physically true, and can be told what its sensors measure.

A far end is a simulator or a script. It is written from the device's manual and never from the driver: the two are
independent readings, and the conformance kit compares them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from drivers.conformance.peer import Answers

Deliver = Callable[[bytes], None]


class FarEnd(Protocol):
    """A device at the far end of the line, powered. Made while the loop runs in which it lives.

    All values are physical truth in the units of :mod:`drivers.device`, by the point's name, whatever the wire says.
    """

    def connect(self, deliver: Deliver) -> None:
        """All that the device says goes to `deliver`, reply by reply."""

    def receive(self, data: bytes) -> None:
        """Bytes from the driver."""

    def outputs(self) -> Mapping[str, float]:
        """What each output does at this moment; {} if the device has none.

        A pump: its flow (µL/min), negative when it pumps backwards. A switch: 1.0 or 0.0. A level: its value in the
        actuator's unit. An output at rest may be left out.
        """
        ...

    def delivered(self) -> Mapping[str, float]:
        """What each pump has moved since it was made (µL), forwards and backwards both counted as positive."""
        ...

    def measure(self, point: str, value: float) -> None:
        """Make `value` true at `point` (the unit of the bench's :class:`Sense`): from now on the device measures that."""

    def measured(self) -> Mapping[str, float]:
        """What is true at this moment where the device measures, by point."""
        ...

    def doubt(self, point: str) -> bool:
        """Make the device say, in its own protocol, that its reading at `point` is not to be trusted.

        False if the protocol cannot say that.
        """
        ...

    def disturb(self, point: str) -> bool:
        """Keep what the device measures at `point` in motion from now on, so that the device says so.

        False if the protocol cannot say that.
        """
        ...

    def misset(self) -> bool:
        """Somebody has changed the device's own settings at its panel: units, modes, what it says by itself.

        False if it has none that matter.
        """
        ...

    def power_cycle(self) -> None:
        """The device loses power and comes back."""

    def memory_writes(self) -> int | None:
        """How often it has written its non-volatile memory; None when nobody counts."""
        ...


class ScriptedEnd:
    """A far end from a function of the request; what else it can do is given where there is any.

    Without `measured`, what was last set by `measure` is what is true.
    """

    def __init__(
        self,
        answers: Answers,
        *,
        outputs: Callable[[], Mapping[str, float]] = dict,
        delivered: Callable[[], Mapping[str, float]] = dict,
        measure: Callable[[str, float], None] = lambda point, value: None,
        measured: Callable[[], Mapping[str, float]] | None = None,
        doubt: Callable[[str], bool] = lambda point: False,
        disturb: Callable[[str], bool] = lambda point: False,
        misset: Callable[[], bool] = lambda: False,
        power_cycle: Callable[[], None] = lambda: None,
        memory_writes: Callable[[], int | None] = lambda: None,
        delay_s: float = 0.01,
    ) -> None:
        self._answers = answers
        self._delay_s = delay_s
        self._deliver: Deliver = lambda data: None
        self._measure = measure
        self._set: dict[str, float] = {}
        self.outputs = outputs
        self.delivered = delivered
        self.measured = measured or (lambda: self._set)
        self.doubt = doubt
        self.disturb = disturb
        self.misset = misset
        self.power_cycle = power_cycle
        self.memory_writes = memory_writes

    def connect(self, deliver: Deliver) -> None:
        """All that the script says goes to `deliver`."""
        self._deliver = deliver

    def measure(self, point: str, value: float) -> None:
        """See :meth:`FarEnd.measure`."""
        self._set[point] = value
        self._measure(point, value)

    def receive(self, data: bytes) -> None:
        """Answer `data` by the script."""
        said = self._answers(data)
        for n, say in enumerate(() if said is None else (said,) if isinstance(said, bytes) else said):
            delay_s, reply = say if isinstance(say, tuple) else (self._delay_s + 1e-6 * n, say)
            asyncio.get_running_loop().call_later(delay_s, self._deliver, reply)
