"""The two sides of the wire as functions of bytes, and where their findings are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from tests.fuzz.device_side import DeviceSide
from tests.fuzz.driver_side import DriverSide
from tests.fuzz.findings import Feed, Finding

FOUND = Path(__file__).parent / "found"
"""By side and model, inputs that were findings once: `test_found` tries each again, for good."""
USES = 24
"""Inputs that one driver or device is given in a row: to build it costs as much as to feed it."""


class Side(Protocol):
    """One driver or simulated device to be fuzzed."""

    def build(self) -> Feed:
        """A new one, and the way to feed it."""
        ...

    def seeds(self) -> Iterator[bytes]:
        """Inputs to begin with."""
        ...


class Fuzzed:
    """A side that is given input after input, and is built again now and then."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._feed = side.build()
        self._given: list[bytes] = []

    def __call__(self, data: bytes) -> None:
        """Feed `data`; a failure that needs the inputs before it says so, and names them."""
        if len(self._given) >= USES:
            self._feed = self._side.build()
            self._given.clear()
        self._given.append(data)
        try:
            self._feed(data)
        except BaseException as error:
            self._side.build()(data)  # raises likewise, if this input does it alone
            told = ", ".join(each.hex() for each in self._given)
            raise Finding(f"{error!r}, but only after all of: {told}") from error


SIDES: dict[str, Callable[[str], Side]] = {"driver": DriverSide, "device": DeviceSide}
