"""Vaisala GMP252 carbon dioxide probe on Modbus RTU (GMP252 User Guide M211897EN, appendix A).

Register n is address n - 1. A float takes two registers, the least significant word first; what is not there is a quiet
NaN. Power-up values wear an EEPROM, volatile values are copied from them at each start.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.bench_facts import BenchFacts
from sim.devices.modbus_slave import (
    ILLEGAL_ADDRESS,
    ILLEGAL_FUNCTION,
    ILLEGAL_VALUE,
    READ_HOLDING_REGISTERS,
    WRITE_MULTIPLE_REGISTERS,
    ModbusError,
    ModbusSlave,
)
from sim.devices.port import PlantPort
from sim.devices.wire import forgetting

ENCAPSULATED = 0x2B
READ_IDENTIFICATION = 0x0E
READY_S, RELIABLE_S = 2.0, 12.0
"""From power-up to the first measurement, and to one that the probe calls reliable."""
NOT_RELIABLE, NOT_READY = 2, 256
POWER_UP, VOLATILE = 513, 521
RANGES = ((700.0, 1500.0), (-40.0, 80.0), (0.0, 100.0), (0.0, 100.0))
"""Pressure (hPa), temperature (°C), relative humidity (%), oxygen (%)."""
FACTORY = (1013.25, 25.0, 0.0, 0.0)
QUIET_NAN = b"\x00\x00\x7f\xc0"


class VaisalaGmp25x(ModbusSlave):
    """A GMP252: its point is `co2` (ppm)."""

    model_id = "vaisala-gmp25x"
    bench = BenchFacts(similar=("Modbus",), doubts=True, checksum=True)
    baud = 19200
    think_s = 0.006

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.address = int(spec.address or "240")
        self.stored = list(FACTORY)
        """Power-up values of the compensations."""
        self.volatile = list(FACTORY)
        self.modes = [1, 1, 0]
        self.filtering = 100
        self.device_status = 0
        """1 critical error, 2 error, 4 warning."""
        self.identity: dict[int, str] = {0: "Vaisala", 1: "GMP252", 2: "1.3.0"}
        self.memory_writes: int = 0
        self._point = f"{name}.co2"
        self._started_s = 0.0

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: compensations and their modes, the filter, the address."""
        return forgetting(
            self,
            {"stored": list(FACTORY), "modes": [1, 1, 0], "filtering": 100, "address": 240},
        )

    def _boot(self) -> None:
        self.volatile = list(self.stored)
        # A lab begins with probes that have long been warm.
        self._started_s = self.loop.time() if self.boots > 1 else -math.inf

    def _status(self) -> int:
        """Return the CO2 status."""
        up_s = self.loop.time() - self._started_s
        return NOT_READY | NOT_RELIABLE if up_s < READY_S else NOT_RELIABLE if up_s < RELIABLE_S else 0

    def serve(self, function: int, body: bytes) -> bytes:
        """See :meth:`ModbusSlave.serve`."""
        if function == READ_HOLDING_REGISTERS:
            first, count = struct.unpack(">HH", body)
            if not 1 <= count <= 125:
                raise ModbusError(ILLEGAL_VALUE)
            known = self._registers()
            if any(register not in known for register in range(first + 1, first + 1 + count)):
                raise ModbusError(ILLEGAL_ADDRESS)
            words = b"".join(known[register] for register in range(first + 1, first + 1 + count))
            return bytes((2 * count,)) + words
        if function == WRITE_MULTIPLE_REGISTERS:
            return self._write(body)
        if function == ENCAPSULATED:
            return self._identification(body)
        raise ModbusError(ILLEGAL_FUNCTION)

    def _registers(self) -> dict[int, bytes]:
        """Return all registers by their number in the guide."""
        status = self._status()
        ppm = math.nan if status & NOT_READY else self.plant.sense(self._point)
        known: dict[int, bytes] = {}
        for register, value in (
            (1, ppm),
            (3, self.volatile[1]),
            (5, math.nan),
            *((POWER_UP + 2 * n, value) for n, value in enumerate(self.stored)),
            *((VOLATILE + 2 * n, value) for n, value in enumerate(self.volatile)),
        ):
            data = _float(value)
            known[register], known[register + 1] = data[:2], data[2:]
        for register, number in (
            (257, _integer(ppm)),
            (258, _integer(ppm / 10.0)),
            *((773 + n, mode) for n, mode in enumerate(self.modes)),
            (777, self.filtering),
            (2049, self.device_status),
            (2050, status),
        ):
            known[register] = struct.pack(">H", number & 0xFFFF)
        return known

    def _write(self, body: bytes) -> bytes:
        first, count, size = struct.unpack_from(">HHB", body)
        register = first + 1
        if size != 2 * count or not count:
            raise ModbusError(ILLEGAL_VALUE)
        if count == 1 and self._set_small(register, int.from_bytes(body[5:7], "big")):
            self.memory_writes += 1
        elif POWER_UP <= register < VOLATILE + 8 and register % 2 and count == 2:
            self._set(register, struct.unpack(">f", body[7:9] + body[5:7])[0])
        else:
            raise ModbusError(ILLEGAL_ADDRESS)
        return body[:4]

    def _set_small(self, register: int, value: int) -> bool:
        """Set a mode or the filtering; return False for another register, or a value out of range."""
        if 773 <= register <= 775 and value <= 1:
            self.modes[register - 773] = value
        elif register == 777 and value <= 100:
            self.filtering = value
        else:
            return False
        return True

    def _set(self, register: int, value: float) -> None:
        if not math.isfinite(value):
            return  # silently ignored
        kept = self.stored if register < VOLATILE else self.volatile
        which = (register - (POWER_UP if register < VOLATILE else VOLATILE)) // 2
        low, high = RANGES[which]
        if not low <= value <= high:
            raise ModbusError(ILLEGAL_VALUE)
        kept[which] = value
        self.memory_writes += kept is self.stored

    def _identification(self, body: bytes) -> bytes:
        """Return the basic identification (application protocol V1.1b3, 6.21), always from the first object on."""
        if len(body) != 3 or body[0] != READ_IDENTIFICATION:
            raise ModbusError(ILLEGAL_FUNCTION)
        if body[1] != 1 or body[2] != 0:
            raise ModbusError(ILLEGAL_VALUE)
        objects = b"".join(
            bytes((number, len(text))) + text.encode("ascii") for number, text in sorted(self.identity.items())
        )
        return bytes((READ_IDENTIFICATION, 1, 1, 0, 0, len(self.identity))) + objects


def _float(value: float) -> bytes:
    if math.isnan(value):
        return QUIET_NAN
    data = struct.pack(">f", value)
    return data[2:] + data[:2]


def _integer(value: float) -> int:
    """Return a value as a 16-bit integer, limited to its range; an unavailable one is 0x8000."""
    return 0x8000 if math.isnan(value) else max(-32767, min(32767, round(value)))
