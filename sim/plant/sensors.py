"""Errors of probes: calibration, lag, drift, fouling, noise, and injected faults."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np

from controller.rig import families
from controller.rig.description import DeviceSpec
from controller.rig.families import PointKind
from drivers.strict_yaml import load_yaml
from sim.plant.faults import Faults

DAY_S = 86_400.0
MEASURED = 32
"""So many measurements of a probe are kept: more than a device asks of it in ten seconds."""


@dataclass(frozen=True, slots=True)
class Model:
    """Errors of a kind of probe, each in its own unit [P, of the order of its data sheet].

    `offset` is the spread of the calibration error, `noise` that of one reading, `lag_s` its time constant, `drift` the
    spread of its drift in a day, `fouling` the part of its sensitivity around `foot` that it loses in a day.
    """

    quantity: str
    """What it measures; also the name of its point, but for a liquid's flow, whose point is `flow` like a gas's."""
    offset: float
    noise: float
    lag_s: float = 0.0
    drift: float = 0.0
    fouling: float = 0.0
    foot: float = 0.0
    gain: float = 0.0
    """Spread of the relative error of its sensitivity after calibration."""
    fouling_sd: float = 0.0
    """Spread of `fouling` between probes."""


_WARMTH = Model("temperature", 0.1, 0.01, lag_s=5.0)
_LACTATE = Model("lactate", 0.1, 0.03, lag_s=12.0, drift=0.01, fouling=0.02, gain=0.03, fouling_sd=0.005)
_GLUCOSE = Model("glucose", 0.1, 0.05, lag_s=12.0, drift=0.01, fouling=0.02, gain=0.03, fouling_sd=0.005)
_AMMONIA = Model("ammonia", 0.05, 0.01, lag_s=20.0, drift=0.01, gain=0.03)
"""Enzyme electrodes lose 1–3 % of their sensitivity a day; t95 is below 30 s (10.1021/ac950630x)."""
USUAL: Mapping[PointKind, Model] = {
    families.PH: Model("ph", 0.01, 0.002, lag_s=2.0, drift=0.001, fouling=0.0005, foot=7.0),
    families.OXYGEN: Model("oxygen", 0.8, 0.15, lag_s=10.0, drift=0.05, fouling=0.0005),
    families.TEMPERATURE: _WARMTH,
    families.PRESSURE: Model("pressure", 0.05, 0.03, drift=0.005),
    families.MASS: Model("mass", 0.0, 0.003),
    families.GAS: Model("flow", 0.0, 0.02),
    families.LIQUID_FLOW: Model("liquid", 0.0, 3.0),
    families.CARBON_DIOXIDE: Model("co2", 300.0, 50.0, lag_s=30.0),
    families.CONDUCTIVITY: Model("conductivity", 150.0, 20.0, lag_s=2.0),
    families.REDOX: Model("orp", 5.0, 0.3, lag_s=2.0),
    families.LACTATE: _LACTATE,
    families.GLUCOSE: _GLUCOSE,
    families.AMMONIA: _AMMONIA,
}
"""By what a point measures. A pH electrode loses slope and wanders by some hundredths in a month [P]."""
OTHERS: Mapping[str, tuple[Model, ...]] = {
    "atlas-ezo-rtd": (Model("temperature", 0.05, 0.004, lag_s=2.0, drift=0.0005),),
    "hamilton-ph-arc": (Model("ph", 0.01, 0.001, lag_s=5.0, drift=0.001, fouling=0.0003, foot=7.0), _WARMTH),
    "hamilton-visiferm-do": (Model("oxygen", 0.4, 0.05, lag_s=15.0, drift=0.01), _WARMTH),
    **dict.fromkeys(("eurotherm-3200", "huber-pb", "julabo"), ()),
}
"""Models whose probes differ from the usual ones, or that have none in the plant: a thermostat measures its own bath."""


_ANALYSED: Mapping[str, Model] = {"lactate": _LACTATE, "glucose": _GLUCOSE, "ammonia": _AMMONIA}
"""What a device described by its registers may measure in the medium: its points of these names in mM."""


def models_of(device: DeviceSpec) -> tuple[Model, ...]:
    """Return the errors of each quantity that a device measures."""
    text = device.settings.get("description") if device.model == "modbus-generic" else None
    if text is None:
        return OTHERS[device.model] if device.model in OTHERS else _usual(device.model)
    told = load_yaml(str(text))["points"]
    return tuple(model for name, model in _ANALYSED.items() if told.get(name, {}).get("unit") == "mM")


def _usual(model: str) -> tuple[Model, ...]:
    family = families.FAMILIES.get(model)
    kinds = () if family is None else family.points.values()
    return tuple(USUAL[kind] for kind in kinds if kind in USUAL)


class Probe:
    """One sensor point. Same seed, same questions at the same times: same answers."""

    def __init__(self, point: str, model: Model, seed: Sequence[int], at_s: float) -> None:
        self.point = point
        self.model = model
        self._random = np.random.default_rng(list(seed))
        self.offset = float(self._random.normal(0.0, model.offset))
        self.drift_per_s = float(self._random.normal(0.0, model.drift)) / DAY_S
        self.gain = float(self._random.normal(0.0, model.gain)) if model.gain else 0.0
        self.fouling = model.fouling
        if model.fouling_sd:
            self.fouling = max(0.0, float(self._random.normal(model.fouling, model.fouling_sd)))
        self._spare: list[float] = []
        self._began_s = at_s
        self._at_s = at_s
        self._follows: float | None = None
        self._fault_since_s: float | None = None
        self.measured: deque[tuple[float, float]] = deque(maxlen=MEASURED)
        """When and what it has measured lately, before any wire: judges compare with it what became of a reading."""

    def read(self, truth: float, now_s: float, faults: Faults) -> float:
        """Return the reading at `now_s`. The probe follows the truth with its lag since the last reading."""
        model = self.model
        if model.lag_s and self._follows is not None:
            self._follows += (truth - self._follows) * (1.0 - exp(-(now_s - self._at_s) / model.lag_s))
        else:
            self._follows = truth
        self._at_s = now_s
        spare = self._spare
        if not spare:
            spare = self._spare = self._random.normal(0.0, model.noise, 512).tolist()
        noise = spare.pop()
        since_s = now_s - self._began_s
        reading = self._follows + self.offset + self.drift_per_s * since_s
        if self.fouling or self.gain:
            sensitivity = (1.0 + self.gain) * exp(-self.fouling * since_s / DAY_S)
            reading += (self._follows - model.foot) * (sensitivity - 1.0)
        measured = self._with_faults(reading, noise, now_s, faults)
        self.measured.append((now_s, measured))
        return measured

    def _with_faults(self, reading: float, noise: float, now_s: float, faults: Faults) -> float:
        """Return what the probe measures with the faults of this moment."""
        point = self.point
        if faults.sensor_drift_per_day and point in faults.sensor_drift_per_day:
            if self._fault_since_s is None:
                self._fault_since_s = now_s
            reading += faults.sensor_drift_per_day[point] * (now_s - self._fault_since_s) / DAY_S
        else:
            self._fault_since_s = None
        if faults.sensor_noise:
            noise *= faults.sensor_noise.get(point, 1.0)
        if faults.sensor_offset:
            reading += faults.sensor_offset.get(point, 0.0)
        return faults.sensor_stuck[point] if point in faults.sensor_stuck else reading + noise
