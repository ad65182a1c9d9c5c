"""What a guard knows of the devices of its rig: who answered at which link, when last, and what they had counted.

The controller sends it once a second, because the guard itself opens no link before it is needed. A file of the guard keeps
it for the next guard. Times are those of the machine since it was started, a suspended machine included, so that a guard that
comes later counts them on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivers.device import Identity

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """A device that was verified: its link, its identity, and when it last answered (s); −inf if that is not known."""

    link: str
    model: str
    serial: str
    at_s: float

    def is_like(self, found: Identity) -> bool:
        """Return whether what answers now is this device, as far as its answers show."""
        return found.model == self.model and (not self.serial or found.serial == self.serial)


class Identities:
    """The identities of a rig's devices.

    `given_up` holds, by link, why the guard leaves it alone until the next controller.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        """`now_s` returns the time that counts between two answers."""
        self.now_s = now_s
        self.given_up: dict[str, str] = {}
        self._counted: dict[str, tuple[float, float]] = {}
        """Volume that a pump itself had counted (µL), by output, and when that was known (s)."""
        self._devices: dict[str, KnownDevice] = {}

    def learn(self, device: str, link: str, found: Identity) -> bool:
        """Record that `device` is verified on `link` now. Return whether its identity is new."""
        before = self.of(device, link)
        self._devices[device] = KnownDevice(link, found.model, found.serial, self.now_s())
        return before is None or (before.model, before.serial) != (found.model, found.serial)

    def count(self, output: str, volume_ul: float) -> None:
        """Record the volume that the pump of `output` itself has counted."""
        self._counted[output] = (volume_ul, self.now_s())

    def counted(self, output: str) -> tuple[float, float] | None:
        """Return the volume that the pump of `output` itself had counted (µL), and the time since then (s)."""
        known = self._counted.get(output)
        return None if known is None else (known[0], max(0.0, self.now_s() - known[1]))

    def of(self, device: str, link: str) -> KnownDevice | None:
        """Return what is known of `device` at `link`."""
        known = self._devices.get(device)
        return known if known is not None and known.link == link else None

    def age_s(self, link: str) -> float:
        """Return the time since a verified device of `link` last answered (s); inf if that is not known."""
        last_s = max((known.at_s for known in self._devices.values() if known.link == link), default=-math.inf)
        return max(0.0, self.now_s() - last_s)

    def answered(self, link: str, age_s: float) -> None:
        """Record that a verified device of `link` answered `age_s` ago."""
        at_s = self.now_s() - age_s
        for device, known in self._devices.items():
            if known.link == link and known.at_s < at_s:
                self._devices[device] = KnownDevice(known.link, known.model, known.serial, at_s)

    def known(self, link: str) -> bool:
        """Return whether any device was ever verified on `link`."""
        return any(known.link == link for known in self._devices.values())

    def witnesses(self, link: str) -> tuple[str, ...]:
        """Return the devices of `link` that have reported a serial number."""
        return tuple(name for name, known in self._devices.items() if known.link == link and known.serial)

    def to_json(self) -> dict[str, Any]:
        """Return all of it for a file."""
        devices = {
            name: [known.link, known.model, known.serial, known.at_s if math.isfinite(known.at_s) else None]
            for name, known in self._devices.items()
        }
        return {"boot": boot_id(), "devices": devices, "counted": self._counted, "given_up": self.given_up}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Take up what an earlier guard has kept. Times of an earlier start of the machine are not known.

        Raises:
            KeyError, ValueError, TypeError, AttributeError: `kept` is not of this form; nothing is taken up.
        """
        same = bool(kept["boot"]) and kept["boot"] == boot_id()
        devices = {
            str(name): KnownDevice(
                str(link), str(model), str(serial), float(at_s) if same and at_s is not None else -math.inf
            )
            for name, (link, model, serial, at_s) in kept["devices"].items()
        }
        counted = {str(output): (float(ul), float(at_s)) for output, (ul, at_s) in kept["counted"].items()}
        given_up = {str(link): str(why) for link, why in kept["given_up"].items()}
        self._devices, self._counted, self.given_up = devices, counted, given_up


def boot_id() -> str:
    """Return what identifies this start of the machine; empty where the system does not say."""
    with suppress(OSError):
        return BOOT_ID.read_text(encoding="ascii").strip()
    return ""


def boot_s() -> float:
    """Return the time since the machine was started (s), a suspended machine included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
