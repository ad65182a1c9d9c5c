"""Data streams of a program: its own data by time, which recordings include."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from choroid.client.cl.attributes import program_attributes
from choroid.client.cl.packing import to_msgpacked


class DataStream:
    """Collects data of a program by time.

    Attributes:
        name: Its name in recordings.
        attributes: Facts about it.
    """

    name: str
    attributes: dict[str, Any]

    def __init__(self, name: str, attributes: Mapping[str, Any] | None) -> None:
        """Begin an empty stream; see :meth:`CulturedNeurons.create_data_stream`."""
        self.name = name
        self.attributes = program_attributes(attributes or {})
        self._entries: list[tuple[int, bytes]] = []

    def append(self, timestamp: int, data: Any) -> None:
        """Add data.

        Args:
            timestamp: Frame to which the data belongs; greater than the last one.
            data: Mappings, lists, texts, numbers, bytes and arrays of numpy.

        Raises:
            RuntimeError: The time is not after the last one.
            TypeError: The data holds something else.
            MissingPackage: msgpack is not installed.
        """
        if self._entries and timestamp <= self._entries[-1][0]:
            raise RuntimeError(
                f"{self.name}: {timestamp} is not after {self._entries[-1][0]}; give ascending timestamps"
            )
        self._entries.append((int(timestamp), to_msgpacked(data)))

    def set_attribute(self, key: str, value: Any) -> None:
        """Set one attribute.

        Args:
            key: Name of the attribute; one of this name is replaced.
            value: Any value that has a form in JSON.

        Raises:
            TypeError: The value has no form in JSON.
            ValueError: The attributes are too large together.
        """
        self.update_attributes({key: value})

    def update_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set several attributes.

        Args:
            attributes: Values by name; those of the same names are replaced, the others stay.

        Raises:
            TypeError: A value has no form in JSON.
            ValueError: The attributes are too large together.
        """
        self.attributes = program_attributes(attributes, self.attributes)

    def between(self, first: int, end: int) -> list[tuple[int, bytes]]:
        """Return the entries of a range of frames.

        Args:
            first: The first frame.
            end: The frame after the last.

        Returns:
            Frame and data (MessagePack) of each entry, in their order.
        """
        return [entry for entry in self._entries if first <= entry[0] < end]
