"""A balance that speaks MT-SICS level 0/1 (Mettler-Toledo reference manual; operating instructions p. 72)."""

from __future__ import annotations

from sim.devices.wire import WireDevice


class MettlerSics(WireDevice):
    """Commands end CR LF; replies too. Weight right-aligned in ten characters, 0.01 g."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._buffer = bytearray()
        self._tare_g = 0.0
        self._last_g = 0.0

    def receive(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\n")) >= 0:
            command = bytes(self._buffer[:end]).strip().decode("latin-1")
            del self._buffer[: end + 1]
            if command:
                self._answer(command)
        if len(self._buffer) > 200:
            self._buffer.clear()

    def _weight(self) -> float:
        return self.plant.sense(f"{self.name}.mass") - self._tare_g

    def _say(self, text: str, after_s: float = 0.02) -> None:
        self.send(text.encode("latin-1") + b"\r\n", after_s=after_s)

    def _answer(self, command: str) -> None:
        if command == "SI":
            weight = self._weight()
            stable = abs(weight - self._last_g) < 0.015
            self._last_g = weight
            self._say(f"S {'S' if stable else 'D'} {weight:>10.2f} g")
        elif command == "S":
            self._say(f"S S {self._weight():>10.2f} g", 0.5)
        elif command in ("Z", "ZI", "T", "TI"):
            self._tare_g += self._weight()
            self._say(f"{command[0]} {'A' if command[0] == 'Z' else 'S       0.00 g'}", 0.5)
        elif command == "@":
            self._say('I4 A "B021002593"')
        elif command == "I0":
            for line in ('I0 B 0 "I0"', 'I0 B 0 "I4"', 'I0 B 0 "S"', 'I0 B 0 "SI"', 'I0 A 0 "Z"'):
                self._say(line)
        elif command == "I1":
            self._say('I1 A "01" "2.30" "2.22" "" ""')
        elif command == "I2":
            self._say('I2 A "MS3002S Standard 3200.00 g"')
        elif command == "I3":
            self._say('I3 A "2.10 10.28.0.493.142"')
        elif command == "I4":
            self._say('I4 A "B021002593"')
        elif command == "M21 0 0":
            self._say("M21 A")
        else:
            self._say("ES")
