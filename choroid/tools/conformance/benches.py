"""A bench for every model: the lab's simulated devices for the built-in ones, entry points for third parties'.

A package that brings a driver brings its bench under the entry point group `choroid.benches`: a
:class:`drivers.conformance.Bench`, or a function without arguments that returns one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from choroid.failure import UserError
from controller.rig.description import Channel, DeviceSpec
from controller.rig.families import FAMILIES, Family
from drivers.conformance import Bench, FarEnd
from drivers.device import ChannelConfig, DeviceConfig
from drivers.registry import MODELS, load_third_party
from sim.devices.bath import Bath
from sim.devices.catalogue import DEVICES
from sim.devices.port import Course
from sim.devices.wire import Line

ENTRY_POINTS = "choroid.benches"

DESCRIBED = """
format: 1
name: a probe with an output
check: {function: 3, register: 20, type: u16, equals: 4711}
points:
  measured: {function: 3, register: 0, type: f32, word_order: low_first, unit: ppm, limits: [0, 200000]}
  setpoint: {function: 3, register: 10, type: i16, scale: 0.1, unit: degC, level: {limits: [5, 60], rest: 0}}
"""
"""A Modbus device such as people describe themselves."""
SETTINGS: Mapping[str, Mapping[str, float | str | bool]] = {
    "alicat-mfc": {"full_scale_ml_min": 200.0},
    "mettler-sics": {"tare_g": 10.0},
    "ismatec-reglo-digital": {"tubing_mm": 1.02},
    "longer-0xe9": {"ul_per_rev": 100.0, "max_rpm": 100.0},
    "watson-marlow-ascii": {"series": "520", "max_rpm": 220.0, "ul_per_rev": 100.0},
    "masterflex-usb": {"ul_per_rev": 100.0, "max_rpm": 600.0},
    "masterflex-ls": {"ul_per_rev": 100.0, "max_rpm": 600.0},
    "bronkhorst-propar": {"full_scale_ml_min": 200.0},
    "vici-actuator": {"positions": 6.0},
    "modbus-generic": {"description": DESCRIBED},
}
"""What a model's rig file must or should say; other models do without."""
CHANNEL_SETTINGS: Mapping[str, Mapping[str, float | str | bool]] = {"ismatec-reglo-icc": {"tubing_mm": 1.02}}
OTHER_ADDRESSES = ("2", "02", "B", "5", "3")

SENSED: Mapping[str, tuple[float, float]] = {
    "pH": (7.3, 6.6),
    "%": (91.4, 60.2),
    "degC": (37.0, 31.5),
    "kPa": (21.0, 48.0),
    "g": (100.0, 163.0),
    "mL/min": (0.0, 3.0),
}
"""By unit, what a sensor measures at first and after a shift; what is also an output is that much off what was set."""
ELSE = (5.0, 8.0)
SHIFTED_BATH_C = 90.0
SENSE_OUTPUTS_ONLY = frozenset({"vici-actuator"})


class BenchPlant:
    """The plant of a bench: remembers what outputs do, and lets sensors measure one of two things."""

    def __init__(self, sensed: Callable[[str], tuple[float, float]]) -> None:
        self.outputs: dict[str, float] = {}
        self.shifted = False
        self._sensed = sensed

    def set_pump(self, point: str, flow_ul_min: float) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self.outputs[point] = flow_ul_min

    def set_switch(self, point: str, on: bool) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self.outputs[point] = float(on)

    def set_gas(self, point: str, flow_ml_min: float) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self.outputs[point] = flow_ml_min

    def set_bath(self, point: str, course: Course | None) -> None:
        """See :class:`sim.devices.port.PlantPort`; what a thermostat does is seen by its own bath."""

    def sense(self, point: str) -> float:
        """See :class:`sim.devices.port.PlantPort`."""
        first, shifted = self._sensed(point)
        return self.outputs.get(point, first) + (shifted - first if self.shifted else 0.0)

    def __getattr__(self, name: str) -> Callable[[str, float], None]:
        """Whatever else devices may set: remembered likewise."""
        if not name.startswith("set_"):
            raise AttributeError(name)
        return lambda point, value: self.outputs.__setitem__(point, float(value))


class LabEnd:
    """A simulated device of the lab at the far end of a line of its own."""

    def __init__(self, model: str, config: DeviceConfig) -> None:
        self.plant = BenchPlant(lambda point: _sensed(model, point.partition(".")[2]))
        self.device = DEVICES[model](config.name, _spec(model, config), self.plant)
        self._line = Line("sim:bench", baud=self.device.baud)
        self._line.attach(self.device)
        self._deliver: Callable[[bytes], None] = lambda data: None
        self._line.connect(self)
        self.device.power_on()

    def connect(self, deliver: Callable[[bytes], None]) -> None:
        """All that the device says goes to `deliver`."""
        self._deliver = deliver

    def deliver(self, data: bytes) -> None:
        """The line's way to its client."""
        self._deliver(data)

    def hang_up(self) -> None:
        """The line's way to say that it was unplugged, which a bench never does."""

    def receive(self, data: bytes) -> None:
        """Bytes from the driver."""
        self._line.from_client(data, self)

    def outputs(self) -> Mapping[str, float]:
        """What moves the plant; an output that was never set is at rest."""
        return {point: value for point, value in self.plant.outputs.items() if value != 0.0}

    def shift(self) -> None:
        """The plant changes, and the bath that a thermostat keeps beside it."""
        self.plant.shifted = True
        if isinstance(bath := getattr(self.device, "bath", None), Bath):
            bath.become(SHIFTED_BATH_C)

    def power_cycle(self) -> None:
        """Lose power and come back."""
        self.device.power_cycle()

    def memory_writes(self) -> int | None:
        """What the simulated device counts, if it does."""
        return self.device.memory_writes


def all_benches(models: list[str] | None = None) -> list[Bench]:
    """A bench for every installed model, or for `models`; a model without one raises :class:`UserError`."""
    load_third_party()
    brought = {bench.model: bench for bench in _brought()}
    for model in models or []:
        if model not in MODELS and model not in brought:
            raise UserError(f"there is no driver for model “{model}”. Next: choose one of {', '.join(sorted(MODELS))}")
    wanted = models or sorted({*MODELS, *brought})
    without = [model for model in wanted if model not in brought and model not in DEVICES]
    if without:
        raise UserError(
            f"nothing stands at the far end for {', '.join(without)}: no simulated device in the lab and no bench."
            f" Likely cause: a driver package without one. Next: give it an entry point of the group {ENTRY_POINTS}"
            " (docs/writing-a-driver.md)"
        )
    return [brought.get(model) or lab_bench(model) for model in wanted]


def lab_bench(model: str) -> Bench:
    """The bench of a built-in model on the lab's simulated device."""
    family = FAMILIES.get(model, Family())
    far_end: Callable[[DeviceConfig], FarEnd] = lambda config: LabEnd(model, config)  # noqa: E731
    return Bench(
        driver=MODELS[model],
        far_end=far_end,
        config=_config(model, family, family.default_address),
        other=_other(model, family),
        senses_outputs_only=model in SENSE_OUTPUTS_ONLY,
    )


def _brought() -> list[Bench]:
    found: list[Bench] = []
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            loaded: Any = entry.load()
            bench = loaded if isinstance(loaded, Bench) else loaded()
            if not isinstance(bench, Bench):
                raise TypeError(f"it gives {bench!r} and no drivers.conformance.Bench")
        except Exception as error:  # it is somebody else's code: it may raise anything
            package = "an unnamed package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
            raise UserError(
                f"{package}: its bench “{entry.name}” ({entry.value}) cannot be loaded ({type(error).__name__}: {error})."
                " Likely cause: a slip in that package. Next: mend its entry point (docs/writing-a-driver.md)"
            ) from error
        found.append(bench)
    return found


def _config(model: str, family: Family, address: str) -> DeviceConfig:
    settings = CHANNEL_SETTINGS.get(model, {})
    channels = {str(number): ChannelConfig(f"c{number}", settings) for number in list(family.channels)[:2]}
    return DeviceConfig("bench", address, SETTINGS.get(model, {}), channels)


def _other(model: str, family: Family) -> DeviceConfig | None:
    if family.bus is None:
        return None
    for address in OTHER_ADDRESSES:
        if re.fullmatch(family.address, address) and address != family.default_address:
            return _config(model, family, address)
    return None


def _spec(model: str, config: DeviceConfig) -> DeviceSpec:
    channels = {}
    for number, channel in config.channels.items():
        settings = dict(channel.settings)
        tubing_mm = settings.pop("tubing_mm", None)
        tubing = {} if tubing_mm is None else {"tubing": f"{tubing_mm} mm"}
        channels[number] = Channel.model_validate({"point": channel.point, **tubing, **settings})
    return DeviceSpec(
        model=model, link="sim:bench", address=config.address, channels=channels, settings=dict(config.settings)
    )


def _sensed(model: str, point: str) -> tuple[float, float]:
    family = FAMILIES.get(model, Family())
    kind = family.points.get(point, family.channel)
    return SENSED.get(kind.unit, ELSE) if kind is not None else ELSE
