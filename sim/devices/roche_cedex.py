"""A Cedex Bio HT (Host Interface Manual 1.24, chapters 1, 4, 5 and 6): samples in, blocks with results out.

A person brings a tube (:meth:`RocheCedex.load`); minutes later its results are accepted and wait until the host asks. What
was sent is sent again only if the host repeats its request with the same sequence counter, or the operator wants it so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from controller.rig.description import DeviceSpec
from sim.devices.bench_facts import BenchFacts
from sim.devices.port import PlantPort
from sim.devices.wire import WireDevice, forgetting

DAY_S = 86_400.0
ANALYSIS_S = 600.0
"""From loading to the accepted result of a sample [P]."""
THINKS_S = 0.3
CLOCK_ZERO = datetime(2026, 1, 1)  # noqa: DTZ001  (the clock of an analyser knows no zone)
TOP = 9.999999e99
SCATTER, DRIFT_A_DAY = 0.02, 0.004
"""Scatter of one result, and spread of the drift of a test's sensitivity since its calibration [P]."""
RANGES = {"lactate": (0.0, 30.0), "glucose": (0.0, 60.0), "ammonia": (0.0, 15.0), "glutamine": (0.0, 15.0)}
"""Measuring ranges (mM) [P]."""


@dataclass(frozen=True, slots=True)
class AnalysedTest:
    """One accepted result; `number` is None where the analyser has none. Flags: X, S, CALC, QC."""

    sample: str
    name: str
    test: int
    number: float | None
    unit: str
    begun: datetime
    index: int
    flags: tuple[int, int, int, int]


def exponential(number: float | None) -> str:
    """Return 13 characters, such as “+3.234000E+01”."""
    return f"{TOP if number is None else number:+.6E}"


class RocheCedex(WireDevice):
    """The analyser with its host interface."""

    model_id = "roche-cedex-bio-ht"
    bench = BenchFacts(
        settings={"sample_ul": 100.0, "lactate_test": 12.0, "glucose_test": 11.0, "timeout_s": 3.0},
        similar=("laboratory",),
        checksum=True,
    )
    think_s = THINKS_S

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.identifier = "CEDEX BIO HT"
        self.block_check = bool(spec.settings.get("block_check", True))
        self.code = 14
        self.tests = {
            key.removesuffix("_test"): int(float(number))
            for key, number in spec.settings.items()
            if key.endswith("_test")
        }
        self.unit = "mmol/L"
        self.clock_zero = CLOCK_ZERO
        """What its clock shows at time 0 of the loop."""
        self.flags = (0, 0, 0, 0)
        """Of the samples that are loaded from now on."""
        self.refusing = False
        """A fault: it answers every result request with a control message."""
        self.waiting: list[AnalysedTest] = []
        self.sent: list[AnalysedTest] = []
        self._random = np.random.default_rng(list(name.encode()))
        self._calibrated_s = self.loop.time()
        self._drift = dict.fromkeys(self.tests, 0.0) | {
            each: float(self._random.normal(0.0, DRIFT_A_DAY)) for each in self.tests
        }
        self._count = 0
        self._counter: int | None = None
        self._last = b""
        self._received = bytearray()

    # --- at the bench ---------------------------------------------------------------------------------------

    def load(self, sample: str, contents: Mapping[str, float], *, name: str = "", exact: bool = False) -> None:
        """Load a sample with its contents (mM, LDH in U/L) by analyte; its results wait after :data:`ANALYSIS_S`.

        Args:
            sample: The order number.
            contents: What the tube holds.
            name: The sample name.
            exact: Without scatter and drift.
        """
        begun = self.clock_zero + timedelta(seconds=round(self.loop.time()))
        for analyte, number in self.tests.items():
            if analyte in contents:
                self._count += 1
                finding = self._measured(analyte, number, contents[analyte], exact)
                value, unit, flags = finding
                entry = AnalysedTest(sample, name, number, value, unit, begun, self._count, flags)
                self.loop.call_later(ANALYSIS_S, self.waiting.append, entry)

    def _measured(
        self, analyte: str, test: int, truth: float, exact: bool
    ) -> tuple[float | None, str, tuple[int, int, int, int]]:
        value = truth
        if not exact:
            days = (self.loop.time() - self._calibrated_s) / DAY_S
            value *= (1.0 + self._drift[analyte] * days) * (1.0 + SCATTER * float(self._random.normal()))
        low, high = RANGES.get(analyte, (0.0, 1e4))
        flags = self.flags
        if not low <= value <= high:
            return None, self._unit_of(analyte), (*flags[:2], 29 if value > high else 30, flags[3])
        return value, self._unit_of(analyte), flags

    def _unit_of(self, analyte: str) -> str:
        return "U/l" if analyte == "ldh" else self.unit

    def calibrate(self) -> None:
        """Calibrate all tests: the drift begins again."""
        self._calibrated_s = self.loop.time()

    def send_again(self) -> None:
        """Mark all results as not sent, as an operator can."""
        self.waiting, self.sent = self.sent + self.waiting, []

    # --- the host interface ---------------------------------------------------------------------------------

    def _boot(self) -> None:
        self._counter, self._last = None, b""
        self._received.clear()

    def forget(self) -> Callable[[], None]:
        """Reset what its setup menu has stored."""
        return forgetting(self, {"identifier": "COBAS INTEGRA", "block_check": True})

    def receive(self, data: bytes) -> None:
        """Take bytes from the line; a message ends with EOT."""
        self._received += data
        while (end := self._received.find(4)) >= 0:
            message = bytes(self._received[: end + 1])
            del self._received[: end + 1]
            begin = message.rfind(1)
            if begin >= 0:
                self._message(message[begin:])
        if len(self._received) > 4096:
            self._received.clear()

    def _message(self, message: bytes) -> None:
        rows = message[:-1].replace(b"\r", b"").split(b"\n")
        # SOH, header, STX, lines, ETX, counter, sum, and nothing after the last LF
        counter: int | None = None
        if self.block_check:
            if len(rows) < 6 or rows[-3] not in (b"0", b"1") or not rows[-2].isdigit():
                self._complain("05")
                return
            if sum(message[: len(message) - 1 - len(rows[-2]) - 1]) % 1000 != int(rows[-2]):
                self._complain("01")
                return
            counter = int(rows[-3])
            rows = [*rows[:-3], b""]
        header = rows[1].decode("latin-1") if len(rows) > 1 else ""
        if len(header) != 22 or rows[0] != b"\x01" or rows[-2:] != [b"\x03", b""] or rows[2] != b"\x02":
            self._complain("05")
            return
        self._command(header[20:], [row.decode("latin-1") for row in rows[3:-2]], counter)

    def _command(self, block: str, lines: list[str], counter: int | None) -> None:
        if block == "00":
            self._counter = counter
            self._reply("00", [])
        elif counter is not None and counter == self._counter:
            self.send(self._last)  # the host did not get it
        elif block != "09" or len(lines) != 1 or lines[0] not in ("10 01", "10 07", "10 17"):
            self._complain("06")
        elif self.refusing:
            self._complain("08")
        else:
            self._counter = counter
            self._next_result(with_lots=lines[0] == "10 17")

    def _next_result(self, *, with_lots: bool) -> None:
        if not self.waiting:
            self._reply("00", [])
            return
        found = self.waiting.pop(0)
        self.sent.append(found)
        order = f"53 {found.sample:<15.15} 00/00/0000"
        named = [f"56 {found.name:<50.50}"] if found.name else []
        flags = " ".join(f"{flag:3d}" for flag in found.flags)
        result = f"00 {exponential(found.number)} {found.unit:<6} {flags}"
        if with_lots:
            times = [f"15 {found.begun:%H:%M:%S %d/%m/%Y}", f"16 {7:10d} {3:10d} {found.index:10d}"]
            lot = "11 68354      30/05/2028"
            self._reply("07", [order, *named, *times, f"55 {found.test:3d}", lot, result])
        else:
            self._reply("04", [order, *named, f"55 {found.test:3d}", result])

    def _complain(self, error: str) -> None:
        self._reply("99", [f"99 {error}"])

    def _reply(self, block: str, lines: list[str]) -> None:
        rows = ["\x01", f"{self.code:02d} {self.identifier:<16.16} {block}", "\x02", *lines, "\x03"]
        text = "".join(f"{row}\n" for row in rows)
        if self.block_check:
            text += f"{self._counter or 0}\n"
            text += f"{sum(text.encode('latin-1')) % 1000:03d}\n"
        data = (text + "\x04\n").encode("latin-1")
        if block != "99":
            self._last = data
        self.send(data)
