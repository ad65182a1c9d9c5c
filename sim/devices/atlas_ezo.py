"""Atlas Scientific EZO circuits over UART: pH, dissolved oxygen, RTD (EZO data sheets, UART mode)."""

from __future__ import annotations

import asyncio

from sim.devices.wire import WireDevice

READ_S = 0.9


class EzoCircuit(WireDevice):
    """What every EZO circuit does: CR lines, response codes, continuous mode on after power-up."""

    kind = ""
    firmware = "2.10"

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._buffer = bytearray()
        self._codes = True
        self._continuous: asyncio.TimerHandle | None = None
        self._period_s = 1.0
        self._asleep = False
        self._temperature = 25.0

    def power_on(self) -> None:
        self._codes = True
        self._buffer.clear()
        self._say("*RS")
        self._say("*RE")
        self._repeat(1.0)

    def power_off(self) -> None:
        self._repeat(0.0)

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
                self._dispatch(command)
        if len(self._buffer) > 200:
            self._buffer.clear()

    def _say(self, text: str, after_s: float | None = None) -> None:
        self.send(text.encode("latin-1") + b"\r", after_s=after_s)

    def _ok(self, after_s: float | None = None) -> None:
        if self._codes:
            self._say("*OK", after_s)

    def _repeat(self, period_s: float) -> None:
        if self._continuous is not None:
            self._continuous.cancel()
            self._continuous = None
        self._period_s = period_s
        if period_s:
            self._continuous = asyncio.get_running_loop().call_later(period_s, self._report)

    def _report(self) -> None:
        self._say(self.reading())
        self._repeat(self._period_s)

    def _dispatch(self, command: str) -> None:
        words = command.lower().split(",")
        match words:
            case ["r"]:
                self._say(self.reading(), READ_S)
                self._ok(READ_S)
            case ["c", "?"]:
                self._say(f"?C,{self._period_s:g}")
                self._ok()
            case ["c", seconds] if seconds.isdecimal() and int(seconds) <= 99:
                self._repeat(float(seconds))
                self._ok()
            case ["*ok", "?"]:
                self._say(f"?*OK,{int(self._codes)}")
                self._ok()
            case ["*ok", state] if state in ("0", "1"):
                self._codes = state == "1"
                self._ok()
            case ["i"]:
                self._say(f"?I,{self.kind},{self.firmware}")
                self._ok()
            case ["status"]:
                self._say("?STATUS,P,5.038")
                self._ok()
            case ["sleep"]:
                self._ok()
                self._say("*SL")
                self._asleep = True
                self._repeat(0.0)
            case ["l", _] | ["find"] | ["name", *_]:
                self._ok()
            case ["t", "?"]:
                self._say(f"?T,{self._temperature:.2f}")
                self._ok()
            case ["t", value] if _number(value):
                self._temperature = float(value)
                self._ok()
            case ["cal", "?"]:
                self._say("?CAL,2")
                self._ok()
            case ["cal", *_]:
                self._ok()
            case _:
                if not self.special(words):
                    self._say("*ER")

    def reading(self) -> str:
        """The reading as the circuit prints it."""
        raise NotImplementedError

    def special(self, words: list[str]) -> bool:
        """Commands of this kind of circuit alone; whether it was one."""
        return False


class EzoPh(EzoCircuit):
    """pH, three decimals."""

    kind = "pH"

    def reading(self) -> str:
        return f"{self.plant.sense(f'{self.name}.ph'):.3f}"

    def special(self, words: list[str]) -> bool:
        if words == ["slope", "?"]:
            self._say("?SLOPE,99.7,100.3,-0.89")
            self._ok()
            return True
        return False


class EzoDo(EzoCircuit):
    """Dissolved oxygen: mg/L by factory, % saturation when switched on; both when both are on."""

    kind = "DO"

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._outputs = {"%": False, "mg": True}

    def reading(self) -> str:
        percent = self.plant.sense(f"{self.name}.oxygen")
        texts = {"mg": f"{percent * 0.0683:.2f}", "%": f"{percent:.1f}"}
        return ",".join(texts[name] for name in ("mg", "%") if self._outputs[name]) or "no output"

    def special(self, words: list[str]) -> bool:
        match words:
            case ["o", "?"]:
                self._say("?O" + "".join(f",{name}" for name in ("%", "mg") if self._outputs[name]))
            case ["o", name, state] if name in self._outputs and state in ("0", "1"):
                self._outputs[name] = state == "1"
            case ["s", "?"]:
                self._say("?S,0.00,ppt")
            case ["p", "?"]:
                self._say("?P,101.3")
            case ["s", *_] | ["p", *_]:
                pass
            case _:
                return False
        self._ok()
        return True


class EzoRtd(EzoCircuit):
    """Temperature, three decimals, °C by factory."""

    kind = "RTD"

    def reading(self) -> str:
        return f"{self.plant.sense(f'{self.name}.temperature'):.3f}"

    def special(self, words: list[str]) -> bool:
        match words:
            case ["s", "?"]:
                self._say("?S,C")
            case ["s", "c"] | ["d", _] | ["m", *_]:
                pass
            case _:
                return False
        self._ok()
        return True


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
