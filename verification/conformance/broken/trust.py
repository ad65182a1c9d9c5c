"""Broken trust: other devices taken for the right one, waits without end, and replies of before taken for new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drivers.conformance.bench import Bench
from drivers.device import Device, Identity
from drivers.errors import DeviceError
from verification.conformance.broken.making import Broken, any_driver, remade


def _identifying(identify: Callable[[Bench, Device], object]) -> Callable[[Bench], Bench]:
    def spoil(bench: Bench) -> Bench:
        async def _identify(self: Device) -> Identity:
            return await identify(bench, self)  # type: ignore[misc, no-any-return]

        return remade(bench, lambda device: None, _identify=_identify)

    return spoil


async def _anybody(bench: Bench, device: Device) -> Identity:
    try:
        return await bench.driver._identify(device)
    except DeviceError:
        return Identity(model=bench.model)


async def _known_already(bench: Bench, device: Device) -> Identity:
    return device.identity or await bench.driver._identify(device)


def _patient(seconds: float) -> Callable[[Bench], Bench]:
    def change(device: Device) -> None:
        exchange = device.link.exchange
        device.conversation.timeout_s = seconds

        async def waiting(*arguments: Any, **named: Any) -> Any:
            return await exchange(*arguments, **{**named, "timeout_s": seconds})

        device.link.exchange = waiting  # type: ignore[method-assign]

    return lambda bench: remade(bench, change)


TRUST: tuple[Broken, ...] = (
    Broken("anybody will do", "whatever answers or not is verified", "impostor", _identifying(_anybody), any_driver),
    Broken(
        "verified once",
        "after a lost line it is not asked again who is there",
        "exchanged",
        _identifying(_known_already),
        any_driver,
    ),
    Broken("waits a minute", "a silent device keeps the bus for a minute", "silence", _patient(45.0), any_driver),
    Broken("waits for ever", "a silent device is waited for without end", "silence", _patient(1e9), any_driver),
)
"""What can be wrong with how any driver trusts its line."""
