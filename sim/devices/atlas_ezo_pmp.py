"""Atlas Scientific EZO-PMP dosing pump over UART (data sheet, UART mode; captures of firmware 1.06)."""

from __future__ import annotations

import asyncio

from sim.devices.wire import WireDevice

MIN_DOSE_ML = 0.5
MAX_RATE_ML_MIN = 58.5
FULL_RATE_ML_MIN = 105.0


class AtlasEzoPmp(WireDevice):
    """Doses by volume, by volume over time, continuously or at a rate; counts what it gave since power-up."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._buffer = bytearray()
        self._codes = True
        self._report_s = 1.0
        self._reporter: asyncio.TimerHandle | None = None
        self._ender: asyncio.TimerHandle | None = None
        self._rate = 0.0
        self._since_s = 0.0
        self._done_ml = 0.0
        self._total_ml = 0.0
        self._absolute_ml = 0.0
        self._asked = "0.00"
        self._paused = False
        self._asleep = False

    @property
    def point(self) -> str:
        """Its place in the plant."""
        return f"{self.name}.pump"

    def power_on(self) -> None:
        self._total_ml = self._absolute_ml = 0.0
        self._codes = True
        self._buffer.clear()
        self._say("*RS")
        self._say("*RE")
        self._continuous(1.0)

    def power_off(self) -> None:
        self._halt()
        self._continuous(0.0)

    def receive(self, data: bytes) -> None:
        if self._asleep:
            self._asleep = False
            self._say("*WA")
            return
        self._buffer += data
        while (end := self._buffer.find(b"\r")) >= 0:
            command = bytes(self._buffer[:end]).strip().decode("latin-1")
            del self._buffer[: end + 1]
            if command:
                self._dispatch(command.lower().split(","))
        if len(self._buffer) > 200:
            self._buffer.clear()

    # --- the pump ---------------------------------------------------------------------------------------

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _given(self) -> float:
        return self._done_ml + (abs(self._rate) * (self._now() - self._since_s) / 60 if self._rate else 0.0)

    def _start(self, rate: float, volume: float | None, asked: str) -> None:
        self._halt()
        self._done_ml = 0.0
        self._asked = asked
        self._go(rate)
        if volume is not None:
            self._ender = asyncio.get_running_loop().call_later(volume / abs(rate) * 60, self._end)

    def _go(self, rate: float) -> None:
        self._rate = rate
        self._since_s = self._now()
        self.plant.set_pump(self.point, rate * 1000)

    def _halt(self) -> float:
        given = self._given()
        if self._rate:
            moved = abs(self._rate) * (self._now() - self._since_s) / 60
            self._total_ml += moved if self._rate > 0 else -moved
            self._absolute_ml += moved
            self._rate = 0.0
            self.plant.set_pump(self.point, 0.0)
        self._done_ml = given
        if self._ender is not None:
            self._ender.cancel()
            self._ender = None
        return given

    def _end(self) -> None:
        self._ender = None
        self._say(f"*DONE,{self._halt():.2f}")

    def _totals(self) -> tuple[float, float]:
        moved = abs(self._rate) * (self._now() - self._since_s) / 60 if self._rate else 0.0
        return self._total_ml + (moved if self._rate > 0 else -moved), self._absolute_ml + moved

    # --- talk -------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self.send(text.encode("latin-1") + b"\r")

    def _ok(self) -> None:
        if self._codes:
            self._say("*OK")

    def _continuous(self, period_s: float) -> None:
        if self._reporter is not None:
            self._reporter.cancel()
            self._reporter = None
        self._report_s = period_s
        if period_s:
            self._reporter = asyncio.get_running_loop().call_later(period_s, self._report)

    def _report(self) -> None:
        self._say(f"{self._given():.2f}")
        self._continuous(self._report_s)

    def _dispatch(self, words: list[str]) -> None:
        match words:
            case ["r"]:
                self._say(f"{self._given():.2f}")
            case ["c", "0" | "1" | "*" as mode]:
                self._continuous(0.0 if mode == "0" else 1.0)
            case ["c", "?"]:
                self._say(f"?C,{int(self._report_s > 0)}")
            case ["*ok", "0" | "1" as state]:
                self._codes = state == "1"
            case ["i"]:
                self._say("?I,PMP,1.06")
            case ["status"]:
                self._say("?STATUS,P,5.02")
            case ["tv", "?"]:
                self._say(f"?TV,{self._totals()[0]:.2f}")
            case ["atv", "?"]:
                self._say(f"?ATV,{self._totals()[1]:.2f}")
            case ["clear"]:
                self._total_ml = self._absolute_ml = 0.0
                self._since_s = self._now()
            case ["cal", "?"]:
                self._say("?CAL,3")
            case ["pv", "?"]:
                self._say("?PV,12.02")
            case ["p", "?"]:
                self._say(f"?P,{int(self._paused)}")
            case ["dc", "?"]:
                self._say(f"?MAXRATE,{MAX_RATE_ML_MIN}")
            case ["d", "?"]:
                self._say(f"?D,{self._asked},{int(bool(self._rate))}")
            case ["x"]:
                self._say(f"*DONE,{self._halt():.2f}")
                return
            case ["d", *rest] | ["dc", *rest]:
                error = self._dose(words[0], rest)
                if error:
                    for line in error:
                        self._say(line)
                    return
            case ["sleep"]:
                self._ok()
                self._say("*SL")
                self._asleep = True
                return
            case ["l", _] | ["find"] | ["dstart", _] | ["plock", _]:
                pass
            case _:
                self._say("*ER")
                return
        self._ok()

    def _dose(self, kind: str, words: list[str]) -> list[str]:
        """Start a dose; the error lines, none when it started."""
        try:
            match kind, words:
                case "d", ["*"]:
                    self._start(FULL_RATE_ML_MIN, None, "*")
                case "d", ["-*"]:
                    self._start(-FULL_RATE_ML_MIN, None, "-*")
                case "d", [volume]:
                    return self._volume(float(volume), FULL_RATE_ML_MIN, volume)
                case "d", [volume, minutes]:
                    rate = abs(float(volume)) / float(minutes)
                    return self._volume(float(volume), rate, volume)
                case "dc", [rate, "*"]:
                    return self._rated(float(rate), None)
                case "dc", [rate, minutes]:
                    return self._rated(float(rate), float(minutes))
                case _:
                    return ["*ER"]
        except (ValueError, ZeroDivisionError):
            return ["*ER"]
        return []

    def _volume(self, volume: float, rate: float, text: str) -> list[str]:
        if not abs(volume) < 1e6 or rate <= 0:
            return ["*ER"]
        if abs(volume) < MIN_DOSE_ML:
            return ["*MINVOL", "*ER"]
        if rate > FULL_RATE_ML_MIN:
            return ["*TOOFAST", "*ER"]
        self._start(rate if volume > 0 else -rate, abs(volume), f"{volume:.2f}")
        return []

    def _rated(self, rate: float, minutes: float | None) -> list[str]:
        if not 0 < abs(rate) < 1e6:
            return ["*ER"]
        if abs(rate) > MAX_RATE_ML_MIN:
            return ["*TOOFAST", "*ER"]
        self._start(rate, None if minutes is None else abs(rate) * minutes, "*")
        return []
