"""A bench for every model: the lab's simulated devices for built-in models, entry points for third-party ones.

A package with a driver provides its bench under the entry-point group `choroid.benches`: a
:class:`drivers.conformance.Bench`, or a function without arguments that returns one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import entry_points
from typing import Any

from choroid.common.failure import UserError
from choroid.tools.conformance.lab_end import LabEnd
from controller.rig.families import FAMILIES, SETPOINT, Family
from drivers.conformance.bench import Bench, Sense, Untold
from drivers.device import ChannelConfig, DeviceConfig
from drivers.registry import MODELS, load_third_party
from sim.devices.catalogue import DEVICES

ENTRY_POINTS = "choroid.benches"

DESCRIBED = """
format: 1
name: a probe with an output
check: {function: 3, register: 20, type: u16, equals: 4711}
points:
  measured: {function: 3, register: 0, type: f32, word_order: low_first, unit: ppm, limits: [0, 200000]}
  setpoint: {function: 3, register: 10, type: i16, scale: 0.1, unit: degC, level: {limits: [5, 60], rest: 0}}
"""
"""A Modbus device as users describe one."""
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
    "tecan-cavro": {"series": "xcalibur", "syringe_ul": 1000.0},
    "jobst-six": {
        "gain_factor": 0.5,
        **{"lactate_gain": 0.5, "lactate_tc": 2.0, "blank_gain": 0.4},
        **{"glucose_channel": 4.0, "glucose_gain": 0.6, "glucose_tc": 2.5},
    },
    "modbus-generic": {"description": DESCRIBED},
    "roche-cedex-bio-ht": {"sample_ul": 100.0, "lactate_test": 12.0, "glucose_test": 11.0, "timeout_s": 3.0},
}
"""What a model's rig file must or should contain; other models need nothing."""
CHANNEL_SETTINGS: Mapping[str, Mapping[str, float | str | bool]] = {"ismatec-reglo-icc": {"tubing_mm": 1.02}}
OTHER_ADDRESSES = ("2", "02", "B", "5", "3")

SENSES: Mapping[str, Sense] = {
    "pH": Sense("pH", (7.3, 6.6, 4.01, 10.25), within=0.0021),
    "%": Sense("%", (91.4, 60.2, 0.0, 142.7), within=0.11),
    "degC": Sense("degC", (37.0, 31.5, -5.2, 60.4), within=0.06),
    "kPa": Sense("kPa", (21.0, 48.0, -34.6, 0.0, 310.2), within=0.06),
    "g": Sense("g", (100.0, 163.0, 0.0, 512.37), within=0.011),
    "mL/min": Sense("mL/min", (3.2, 6.4, 0.0, 87.5), within=0.06),
    "uL/min": Sense("uL/min", (150.0, 620.0, -431.0, 0.0, 1875.5), within=1.01),
    "ppm": Sense("ppm", (52_000.0, 38_000.0, 410.0, 121_000.0), within=1.0, share=1e-4),
    "uS/cm": Sense("uS/cm", (15_000.0, 12_880.0, 1413.0, 84.0), within=0.6, share=5e-4),
    "mM": Sense("mM", (2.0, 11.4, 0.0, 24.6), within=0.016, share=1e-3),
    "mV": Sense("mV", (220.0, -180.5, 0.0, 987.6), within=0.06),
}
"""By unit, the true values at a probe, and the tolerance of a good reading: about half of the coarsest device's
last digit.
"""
BATH = Sense("degC", (37.0, 61.0, 5.0), within=0.06, drift=1.0)
"""A bath changes by itself: between the device's measurement and the comparison it cools or warms a little."""
FOLLOWS = {
    "power": Sense("%", within=5.0),
    "position": Sense("position"),
    "valve": Sense("position"),
    "air": Sense("1"),
}
"""Points that cannot be set, because they follow from the device's action or view."""
DOUBTS = frozenset(
    {
        "hamilton-ph-arc",
        "hamilton-visiferm-do",
        "vaisala-gmp25x",
        "keller-bus",
        "sensirion-slf3x",
    }
)
"""Models that can mark a reading as unreliable."""
MOVES = frozenset({"mettler-sics", "sartorius-sbi"})
"""Models that can report that their value is in motion."""
CHECKSUMS = frozenset(
    {
        "keller-x-line",
        "keller-bus",
        "hamilton-ph-arc",
        "hamilton-visiferm-do",
        "vaisala-gmp25x",
        "eurotherm-3200",
        "modbus-coil-relay",
        "modbus-generic",
        "longer-0xe9",
        "sensirion-slf3x",
        "tecan-cavro",
        "jobst-six",
        "roche-cedex-bio-ht",
    }
)
"""Models whose every reply has a checksum."""
PUSHES = frozenset({"jobst-six"})
"""Models that send by themselves and are not asked."""
ADDRESSES = {"bronkhorst-propar": "5"}
"""Addresses where every device of the model would answer the default one."""
_KEPT = "a power cut does not change what it regulates to, or where it stands"
_DOSES_ONLY = "it gives doses only, and the defect concerns a continuous flow"
NO_WORSE: Mapping[str, Mapping[str, str]] = {
    "huber-pb": {"resumes": _KEPT},
    "vici-actuator": {"resumes": _KEPT},
    "eurotherm-3200": {"guarantee overstated": "a remote set-point that is not repeated ends by itself within seconds"},
    "tecan-cavro": {"resumes": _DOSES_ONLY, "ramped": _DOSES_ONLY},
    "ismatec-reglo-icc": {"total of commands": "its total counts whole millilitres: the difference is less"},
}
SETTLES_S = {"vici-actuator": 1.0}
UNTOLD: Mapping[str, frozenset[Untold]] = {
    "atlas-ezo-pmp": frozenset({"flow", "direction"}),
    "ismatec-reglo-digital": frozenset({"direction"}),
}
"""What the protocol of a model cannot report of a pump that already runs."""
NEIGHBOURS = (
    ("atlas-ezo-ph", "atlas-ezo-do", "atlas-ezo-rtd", "atlas-ezo-ec", "atlas-ezo-orp", "atlas-ezo-pmp"),
    (
        "keller-x-line",
        "hamilton-ph-arc",
        "hamilton-visiferm-do",
        "vaisala-gmp25x",
        "eurotherm-3200",
        "modbus-coil-relay",
        "modbus-generic",
    ),
    ("ismatec-reglo-icc", "ismatec-reglo-digital"),
    ("masterflex-usb", "masterflex-ls", "tecan-cavro"),
    ("mettler-sics", "sartorius-sbi"),
    ("alicat-mfc", "bronkhorst-propar"),
    ("julabo", "huber-pb"),
    ("longer-0xe9", "watson-marlow-ascii", "vici-actuator", "sensirion-slf3x", "keller-bus"),
    ("jobst-six", "sartorius-sbi", "keller-bus"),
    ("roche-cedex-bio-ht", "mettler-sics", "jobst-six", "modbus-coil-relay"),
)
"""Models with similar protocols, or with the same place in a lab: each must detect the other on its line."""


def all_benches(models: list[str] | None = None) -> list[Bench]:
    """Return a bench for every installed model, or for `models`; raise :class:`UserError` for a model without one."""
    load_third_party()
    brought = {bench.model: bench for bench in _brought()}
    _require_drivers(models or [], {*MODELS, *brought})
    wanted = models or sorted({*MODELS, *brought})
    without = [model for model in wanted if model not in brought and model not in DEVICES]
    if without:
        raise UserError(
            f"nothing stands at the far end for {', '.join(without)}: no simulated device in the lab and no bench."
            f" Likely cause: a driver package without one. Next: give it an entry point of the group {ENTRY_POINTS}"
            " (docs/writing-a-driver.md)"
        )
    return [brought.get(model) or lab_bench(model) for model in wanted]


def _require_drivers(models: list[str], known: set[str]) -> None:
    for model in models:
        if model not in known:
            raise UserError(f"there is no driver for model “{model}”. Next: choose one of {', '.join(sorted(MODELS))}")


def lab_bench(model: str) -> Bench:
    """Return the bench of a built-in model on the lab's simulated device."""
    family = FAMILIES.get(model, Family())
    config = _config(model, family, ADDRESSES.get(model, family.default_address))
    return Bench(
        driver=MODELS[model],
        far_end=partial(LabEnd, model),
        config=config,
        senses=_senses(model, family, config),
        other=_other(model, family),
        impostors={
            other: partial(_impostor, other)
            for group in NEIGHBOURS
            if model in group
            for other in group
            if other != model
        },
        checksum=model in CHECKSUMS,
        pushes=model in PUSHES,
        untold=UNTOLD.get(model, frozenset()),
        no_worse=NO_WORSE.get(model, {}),
        settles_s=SETTLES_S.get(model, 0.0),
    )


def _sense_of(point: str, unit: str, *, regulated: bool) -> Sense | None:
    """Return what a point measures, or None; the temperature of a regulated device is that of its bath."""
    if regulated and unit == "degC":
        return BATH
    return FOLLOWS.get(point) or SENSES.get(unit)


def _senses(model: str, family: Family, config: DeviceConfig) -> dict[str, Sense]:
    if model == "modbus-generic":
        return {"measured": SENSES["ppm"]}
    found = {}
    kinds = dict(family.points)
    regulated = kinds.get("setpoint") == SETPOINT
    for point, kind in kinds.items():
        sense = _sense_of(point, kind.unit, regulated=regulated)
        if sense is not None and kind.kind != "pump":
            found[point] = replace(sense, doubts=model in DOUBTS and point != "air", moves=model in MOVES)
    if "external" in found and not config.settings.get("external"):
        del found["external"]
    return found


def _impostor(model: str, config: DeviceConfig) -> LabEnd:
    """Return a device of `model` in place of that of `config`, at its address if possible."""
    family = FAMILIES.get(model, Family())
    fits = family.address and re.fullmatch(family.address, config.address)
    return LabEnd(model, _config(model, family, config.address if fits else family.default_address))


def _brought() -> list[Bench]:
    found: list[Bench] = []
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            loaded: Any = entry.load()
            bench = loaded if isinstance(loaded, Bench) else loaded()
            if not isinstance(bench, Bench):
                raise TypeError(f"it gives {bench!r} and no drivers.conformance.Bench")
        except Exception as error:  # third-party code may raise anything
            package = "an unnamed package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
            raise UserError(
                f"{package}: its bench “{entry.name}” ({entry.value}) cannot be loaded ({type(error).__name__}: {error})."
                " Likely cause: a mistake in that package. Next: correct its entry point (docs/writing-a-driver.md)"
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
