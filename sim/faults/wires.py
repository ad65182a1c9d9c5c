"""Changes of bytes on a bad line: functions for `Line.inward` and `Line.outward`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from sim.devices.wire import Inward, Outward, WireDevice

T = TypeVar("T")


def put(hooks: list[T], hook: T) -> Callable[[], None]:
    """Add a hook to a line; returns what takes this one off again."""
    hooks.append(hook)

    def undo() -> None:
        hooks[:] = [each for each in hooks if each is not hook]

    return undo


def on_time(change: Inward) -> Outward:
    """Return the same change towards clients, without delay."""
    return lambda data: [(0.0, change(data))]


def losing(share: float, rng: np.random.Generator) -> Inward:
    """Lose this share of all pieces whole."""
    return lambda data: b"" if rng.random() < share else data


def flipping(share: float, rng: np.random.Generator) -> Inward:
    """Return a change that flips one bit in this share of all bytes."""

    def flip(data: bytes) -> bytes:
        hit = rng.random(len(data)) < share
        bits = rng.integers(0, 8, len(data))
        return bytes(
            byte ^ (1 << int(bit)) if struck else byte for byte, bit, struck in zip(data, bits, hit, strict=True)
        )

    return flip


def losing_bytes(share: float, rng: np.random.Generator) -> Inward:
    """Lose this share of all bytes, each by itself."""
    return lambda data: bytes(byte for byte, hit in zip(data, rng.random(len(data)) < share, strict=True) if not hit)


def doubling_bytes(share: float, rng: np.random.Generator) -> Inward:
    """Send this share of all bytes twice in a row, each by itself."""

    def double(data: bytes) -> bytes:
        twice = rng.random(len(data)) < share
        return b"".join(bytes((byte, byte)) if hit else bytes((byte,)) for byte, hit in zip(data, twice, strict=True))

    return double


def cutting(share: float, rng: np.random.Generator) -> Inward:
    """Lose the second half of this share of all pieces."""
    return lambda data: data[: len(data) // 2] if rng.random() < share else data


def late(by_s: float) -> Outward:
    """Return a change that delays everything by `by_s`."""
    return lambda data: [(by_s, data)]


def doubling(share: float, rng: np.random.Generator, lasts_s: Callable[[bytes], float]) -> Outward:
    """Return a change that sends this share of all pieces twice."""

    def double(data: bytes) -> Sequence[tuple[float, bytes]]:
        once = [(0.0, data)]
        return [*once, (lasts_s(data), data)] if rng.random() < share else once

    return double


def readdressing(share: float, rng: np.random.Generator, devices: Sequence[WireDevice]) -> Inward:
    """Return a change that gives this share of all answers the address of the next device, with a correct checksum."""

    def readdress(data: bytes) -> bytes:
        if rng.random() >= share:
            return data
        on_bus = [(device, address) for device in devices if (address := device.answers_to) is not None]
        for at, (device, _) in enumerate(on_bus):
            _, other = on_bus[(at + 1) % len(on_bus)]
            if len(on_bus) > 1 and (forged := device.forged(data, other)) is not None:
                return forged
        return data

    return readdress
