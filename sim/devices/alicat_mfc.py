"""An Alicat mass flow controller (MC series manual p. 43; serial primer): unit id, then the command, CR both ways."""

from __future__ import annotations

from sim.devices.wire import WireDevice


class AlicatMfc(WireDevice):
    """Data frame: id, pressure psia, °C, volumetric, mass, set-point, gas."""

    baud = 19200

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.unit = (self.spec.address or "A").upper()
        self.full_scale = float(self.spec.settings.get("full_scale_ml_min", 100.0))
        self.setpoint = 0.0
        self._buffer = bytearray()

    def power_off(self) -> None:
        self._set(0.0)

    def receive(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r")) >= 0:
            command = bytes(self._buffer[:end]).strip().decode("latin-1")
            del self._buffer[: end + 1]
            if command and command[0].upper() == self.unit:
                self._answer(command[1:].strip().upper())
        if len(self._buffer) > 200:
            self._buffer.clear()

    def _set(self, value: float) -> None:
        self.setpoint = value
        self.plant.set_gas(f"{self.name}.flow", value)

    def _frame(self) -> str:
        flow = self.plant.sense(f"{self.name}.flow")
        return f"{self.unit} +014.70 +025.00 {flow:+07.2f} {flow:+07.2f} {self.setpoint:06.2f}    Air"

    def _answer(self, command: str) -> None:
        reply = "?"
        if command == "":
            reply = self._frame()
        elif command.startswith("S"):
            try:
                value = float(command[1:])
            except ValueError:
                value = -1.0
            if 0.0 <= value <= self.full_scale * 1.02:
                self._set(value)
                reply = self._frame()
        elif command == "R122":
            reply = f"{self.unit}   122 = 37"
        elif command == "VE":
            reply = f"{self.unit}   10v05.0-R24 Nov 30 2022,16:04:20"
        elif command in ("??M*", "??D*", "??G*"):
            reply = f"{self.unit} M00 Alicat Scientific"
        self.send(reply.encode("latin-1") + b"\r")
