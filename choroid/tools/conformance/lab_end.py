"""The lab's simulated devices at the far end of a bench, and what is physically true there.

The truth is kept by :class:`BenchPlant`, which knows neither drivers nor bytes: it is what the simulated device does to
the plant, and what the bench has decided that a probe measures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from controller.rig.description import DeviceChannel, DeviceSpec
from drivers.device import DeviceConfig
from sim.devices.bath import Bath
from sim.devices.catalogue import DEVICES
from sim.devices.hamilton_arc import HamiltonArc
from sim.devices.keller_bus import KellerBus
from sim.devices.mettler_sics import MettlerSics
from sim.devices.modbus_generic import ModbusGeneric
from sim.devices.port import BathRamp
from sim.devices.sartorius_sbi import SartoriusSbi
from sim.devices.sensirion_slf3x import SensirionSlf3x
from sim.devices.vaisala_gmp25x import VaisalaGmp25x
from sim.devices.vici_actuator import ViciActuator
from sim.devices.wire import Bus, WireDevice

RETURN_C = -0.1
"""The return of a simulated Huber is cooler than its bath by so much."""
EXTERNAL_C = -0.3
"""So is the external sensor of a simulated Julabo."""
POURED_G, POUR_S = 0.3, 0.05
"""So much liquid (g), so often (s), onto a balance, and it says that its weight is not stable."""


class BenchPlant:
    """The plant of a bench, by `device.point`: what outputs do, what pumps have moved, and what probes measure."""

    def __init__(self) -> None:
        self.outputs: dict[str, float] = {}
        self.made: dict[str, float] = {}
        """What the bench has decided that a probe measures."""
        self._moved_ul: dict[str, float] = {}
        self._since_s: dict[str, float] = {}

    def set_pump(self, point: str, flow_ul_min: float) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self._count(point)
        self.outputs[point] = flow_ul_min

    def set_switch(self, point: str, on: bool) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self.outputs[point] = float(on)

    def set_gas(self, point: str, flow_ml_min: float) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self.outputs[point] = flow_ml_min

    def set_bath(self, point: str, course: BathRamp | None) -> None:
        """See :class:`sim.devices.port.PlantPort`; the bench asks the bath itself."""

    def sense(self, point: str) -> float:
        """See :class:`sim.devices.port.PlantPort`; what nobody has decided follows the output."""
        return self.made.get(point, self.outputs.get(point, 0.0))

    def moved_ul(self, point: str) -> float:
        """What a pump has moved until now, either way (µL): the integral of what its motor did."""
        self._count(point)
        return self._moved_ul[point]

    def _count(self, point: str) -> None:
        now_s = asyncio.get_running_loop().time()
        minutes = (now_s - self._since_s.get(point, now_s)) / 60.0
        self._moved_ul[point] = self._moved_ul.get(point, 0.0) + abs(self.outputs.get(point, 0.0)) * minutes
        self._since_s[point] = now_s


class LabEnd:
    """A simulated device of the lab at the far end of a line of its own."""

    def __init__(self, model: str, config: DeviceConfig) -> None:
        self.plant = BenchPlant()
        self.device: WireDevice = DEVICES[model](config.name, spec_of(model, config), self.plant)
        self._name = config.name
        self._line = Bus("sim:bench", baud=self.device.baud)
        self._line.attach(self.device)
        self._deliver: Callable[[bytes], None] = lambda data: None
        self._line.connect(self)

    def connect(self, deliver: Callable[[bytes], None]) -> None:
        """All that the device says goes to `deliver`; it is switched on now, so that it finds the plant as it is to be."""
        self._deliver = deliver
        self.device.power_on()

    def deliver(self, data: bytes) -> None:
        """The line's way to its client."""
        self._deliver(data)

    def hang_up(self) -> None:
        """The line's way to say that it was unplugged, which a bench never does."""

    def receive(self, data: bytes) -> None:
        """Bytes from the driver."""
        self._line.from_client(data, self)

    def outputs(self) -> Mapping[str, float]:
        """What moves the plant; what a thermostat regulates to; where a valve stands."""
        if isinstance(bath := getattr(self.device, "bath", None), Bath):
            return {"setpoint": bath.goal_c or 0.0}
        if isinstance(self.device, ViciActuator):
            return {"valve": self._turned()}
        if isinstance(self.device, ModbusGeneric):
            return {name: self.device.told(name) for name in self.device.commanded}
        return {self._point(key): value for key, value in self.plant.outputs.items() if value != 0.0}

    def delivered(self) -> Mapping[str, float]:
        """What the plant's pumps have moved (µL)."""
        return {self._point(key): self.plant.moved_ul(key) for key in self.plant.outputs}

    def measure(self, point: str, value: float) -> None:
        """Decide what a probe measures; the bath of a thermostat gets that temperature."""
        if isinstance(bath := getattr(self.device, "bath", None), Bath):
            bath.become(value)
        else:
            self.plant.made[f"{self._name}.{point}"] = value

    def measured(self) -> Mapping[str, float]:
        """What is true at every probe, and at what follows an output."""
        if isinstance(bath := getattr(self.device, "bath", None), Bath):
            celsius = bath.temperature_c
            return {
                "temperature": celsius,
                "setpoint": celsius,
                "return": celsius + RETURN_C,
                "external": celsius + EXTERNAL_C,
                "power": bath.output(cools=self.device.spec.model != "eurotherm-3200"),
            }
        if isinstance(self.device, ViciActuator):
            return {"position": float(self.device.position), "valve": self._turned()}
        if isinstance(self.device, SensirionSlf3x):
            return {"air": float(self.device.air), **self._made()}
        return {**{self._point(key): value for key, value in self.plant.outputs.items()}, **self._made()}

    def doubt(self, point: str) -> bool:
        """Make the device doubt what it measures, in the way in which its manual says that it tells."""
        match self.device:
            case HamiltonArc() as probe:
                probe.warnings[0] = 1
            case VaisalaGmp25x() as probe:
                probe.device_status = 1 << 2
            case KellerBus() as transmitter:
                transmitter.status = 1
            case SensirionSlf3x() as sensor if point != "air":
                sensor.air = True
            case _:
                return False
        return True

    def disturb(self, point: str) -> bool:
        """Pour liquid onto a balance without end."""
        if not isinstance(self.device, MettlerSics | SartoriusSbi):
            return False
        loop, key = asyncio.get_running_loop(), f"{self._name}.{point}"

        def pour() -> None:
            self.plant.made[key] += POURED_G
            loop.call_later(POUR_S, pour)

        pour()
        return True

    def misset(self) -> bool:
        """What is stored in the device falls back to the factory's, or to what somebody chose at its panel."""
        self.device.forget()
        return type(self.device).forget is not WireDevice.forget

    def power_cycle(self) -> None:
        """Lose power and come back."""
        self.device.power_cycle()

    def memory_writes(self) -> int | None:
        """What the simulated device counts, if it does."""
        return self.device.memory_writes

    def _turned(self) -> float:
        """Where a valve stands, as a level says it: 0 is the position of rest."""
        position, rest = self.device.position, self.device.spec.settings.get("rest_position", 1)  # type: ignore[attr-defined]
        return 0.0 if position == rest else float(position)

    def _made(self) -> dict[str, float]:
        return {self._point(key): value for key, value in self.plant.made.items()}

    def _point(self, key: str) -> str:
        return key.removeprefix(f"{self._name}.")


def spec_of(model: str, config: DeviceConfig) -> DeviceSpec:
    """What a rig file would say of the device of `config`."""
    channels = {}
    for number, channel in config.channels.items():
        settings = dict(channel.settings)
        tubing_mm = settings.pop("tubing_mm", None)
        tubing = {} if tubing_mm is None else {"tubing": f"{tubing_mm} mm"}
        channels[number] = DeviceChannel.model_validate({"point": channel.point, **tubing, **settings})
    return DeviceSpec(
        model=model, link="sim:bench", address=config.address, channels=channels, settings=dict(config.settings)
    )
