"""The lab's simulated devices at the far end of a bench, and their physical truth.

The truth is kept by :class:`BenchPlant`, which knows neither drivers nor bytes: what the simulated device does to
the plant, and what the bench has set for a probe.
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
from sim.devices.tecan_cavro import TecanCavro
from sim.devices.vaisala_gmp25x import VaisalaGmp25x
from sim.devices.vici_actuator import ViciActuator
from sim.devices.wire import Bus, WireDevice

RETURN_C = -0.1
"""Temperature of a simulated Huber's return relative to its bath (K)."""
EXTERNAL_C = -0.3
"""Temperature of a simulated Julabo's external sensor relative to its bath (K)."""
POURED_G, POUR_S = 0.3, 0.05
"""Mass (g) and interval (s) of liquid poured onto a balance so that its weight is not stable."""


class BenchPlant:
    """The plant of a bench, by `device.point`: state of outputs, volumes moved by pumps, values at probes."""

    def __init__(self) -> None:
        self.outputs: dict[str, float] = {}
        self.made: dict[str, float] = {}
        """Values that the bench has set for probes."""
        self._moved_ul: dict[str, float] = {}
        self._since_s: dict[str, float] = {}

    def set_pump(self, point: str, flow_ul_min: float) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self._count(point)
        self.outputs[point] = flow_ul_min

    def set_switch(self, point: str, on: bool) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self.outputs[point] = float(on)

    def set_position(self, point: str, position: float) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self.outputs[point] = position

    def set_gas(self, point: str, flow_ml_min: float) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self.outputs[point] = flow_ml_min

    def set_bath(self, point: str, course: BathRamp | None) -> None:
        """See :class:`sim.devices.port.PlantPort`; the bench reads the bath itself."""

    def sense(self, point: str) -> float:
        """See :class:`sim.devices.port.PlantPort`; a point that is not set follows its output."""
        return self.made.get(point, self.outputs.get(point, 0.0))

    def moved_ul(self, point: str) -> float:
        """Return the volume that a pump has moved so far in both directions (µL): the integral of its motor's flow."""
        self._count(point)
        return self._moved_ul[point]

    def _count(self, point: str) -> None:
        now_s = asyncio.get_running_loop().time()
        minutes = (now_s - self._since_s.get(point, now_s)) / 60.0
        self._moved_ul[point] = self._moved_ul.get(point, 0.0) + abs(self.outputs.get(point, 0.0)) * minutes
        self._since_s[point] = now_s


class LabEnd:
    """A simulated device of the lab at the far end of its own line."""

    def __init__(self, model: str, config: DeviceConfig) -> None:
        self.plant = BenchPlant()
        self.device: WireDevice = DEVICES[model](config.name, spec_of(model, config), self.plant)
        self._name = config.name
        self._line = Bus("sim:bench", baud=self.device.baud)
        self._line.attach(self.device)
        self._deliver: Callable[[bytes], None] = lambda data: None
        self._line.connect(self)

    def connect(self, deliver: Callable[[bytes], None]) -> None:
        """Send all output of the device to `deliver`; power it on now, so that it finds the plant as it should be."""
        self._deliver = deliver
        self.device.power_on()

    def deliver(self, data: bytes) -> None:
        """Deliver bytes to the line's client."""
        self._deliver(data)

    def hang_up(self) -> None:
        """Do nothing: a bench never unplugs its line this way."""

    def receive(self, data: bytes) -> None:
        """Receive bytes from the driver."""
        self._line.from_client(data, self)

    def outputs(self) -> Mapping[str, float]:
        """Return what moves the plant; the set-point of a thermostat; the position of a valve."""
        if isinstance(bath := getattr(self.device, "bath", None), Bath):
            return {"setpoint": bath.goal_c or 0.0}
        if isinstance(self.device, ViciActuator):
            return {"valve": self._turned()}
        if isinstance(self.device, ModbusGeneric):
            return {name: self.device.told(name) for name in self.device.commanded}
        return {self._point(key): value for key, value in self.plant.outputs.items() if value != 0.0}

    def delivered(self) -> Mapping[str, float]:
        """Return the volumes that the plant's pumps have moved (µL)."""
        return {self._point(key): self.plant.moved_ul(key) for key in self.plant.outputs}

    def measure(self, point: str, value: float) -> None:
        """Set the value at a probe; the bath of a thermostat gets that temperature."""
        if isinstance(bath := getattr(self.device, "bath", None), Bath):
            bath.become(value)
        else:
            self.plant.made[f"{self._name}.{point}"] = value

    def measured(self) -> Mapping[str, float]:
        """Return the truth at every probe, and at what follows an output."""
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
        """Make the device doubt its measurement, in the way that its manual defines."""
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
        """Reset the stored settings to the factory's, or to what a person chose at the panel."""
        self.device.forget()
        return type(self.device).forget is not WireDevice.forget

    def power_cycle(self) -> None:
        """Interrupt the power for a moment. A person initialises a syringe pump, which does nothing before that."""
        self.device.power_cycle()
        if isinstance(self.device, TecanCavro):
            self.device.initialise()

    def memory_writes(self) -> int | None:
        """Return the count of the simulated device, if it counts."""
        return self.device.memory_writes

    def _turned(self) -> float:
        """Return the position of a valve as a level: 0 is the position of rest."""
        position, rest = self.device.position, self.device.spec.settings.get("rest_position", 1)  # type: ignore[attr-defined]
        return 0.0 if position == rest else float(position)

    def _made(self) -> dict[str, float]:
        return {self._point(key): value for key, value in self.plant.made.items()}

    def _point(self, key: str) -> str:
        return key.removeprefix(f"{self._name}.")


def spec_of(model: str, config: DeviceConfig) -> DeviceSpec:
    """Return the rig file's content for the device of `config`."""
    channels = {}
    for number, channel in config.channels.items():
        settings = dict(channel.settings)
        tubing_mm = settings.pop("tubing_mm", None)
        tubing = {} if tubing_mm is None else {"tubing": f"{tubing_mm} mm"}
        channels[number] = DeviceChannel.model_validate({"point": channel.point, **tubing, **settings})
    return DeviceSpec(
        model=model, link="sim:bench", address=config.address, channels=channels, settings=dict(config.settings)
    )
