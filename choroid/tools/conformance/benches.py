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
from drivers.conformance.bench import Bench, Sense
from drivers.device import ChannelConfig, DeviceConfig
from drivers.registry import MODELS, load_third_party
from sim.devices.catalogue import DEVICES

ENTRY_POINTS = "choroid.benches"

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
    family, facts = FAMILIES.get(model, Family()), DEVICES[model].bench
    config = _config(model, family, facts.address or family.default_address)
    return Bench(
        driver=MODELS[model],
        far_end=partial(LabEnd, model),
        config=config,
        senses=_senses(model, family, config),
        other=_other(model, family),
        impostors={
            other: partial(_impostor, other)
            for other, device in DEVICES.items()
            if other != model and set(device.bench.similar) & set(facts.similar)
        },
        checksum=facts.checksum,
        pushes=facts.pushes,
        untold=facts.untold,
        no_worse=facts.no_worse,
        settles_s=facts.settles_s,
    )


def _sense_of(point: str, unit: str, *, regulated: bool) -> Sense | None:
    """Return what a point measures, or None; the temperature of a regulated device is that of its bath."""
    if regulated and unit == "degC":
        return BATH
    return FOLLOWS.get(point) or SENSES.get(unit)


def _senses(model: str, family: Family, config: DeviceConfig) -> dict[str, Sense]:
    if model == "modbus-generic":
        return {"measured": SENSES["ppm"]}
    found, facts = {}, DEVICES[model].bench
    kinds = dict(family.points)
    regulated = kinds.get("setpoint") == SETPOINT
    for point, kind in kinds.items():
        sense = _sense_of(point, kind.unit, regulated=regulated)
        if sense is not None and kind.kind != "pump":
            found[point] = replace(sense, doubts=facts.doubts and point != "air", moves=facts.moves)
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
    facts = DEVICES[model].bench
    channels = {
        str(number): ChannelConfig(f"c{number}", facts.channel_settings) for number in list(family.channels)[:2]
    }
    return DeviceConfig("bench", address, facts.settings, channels)


def _other(model: str, family: Family) -> DeviceConfig | None:
    if family.bus is None:
        return None
    for address in OTHER_ADDRESSES:
        if re.fullmatch(family.address, address) and address != family.default_address:
            return _config(model, family, address)
    return None
