"""Temperature and gas of a new rig: the incubator's, or a heater and gas controllers, with their probes and limits."""

from __future__ import annotations

from choroid.new_rig.draft import Draft
from choroid.new_rig.questions import Answers, listed

INCUBATOR = "incubator"
THERMOMETERS = ("atlas-ezo-rtd",)
PH = {"atlas-ezo-ph": "ph", "hamilton-ph-arc": "ph_arc"}
OXYGEN = {"atlas-ezo-do": "oxygen", "hamilton-visiferm-do": "oxygen_visiferm"}
BUS = {"hamilton-ph-arc": "arc", "hamilton-visiferm-do": "visiferm"}
PORTS, PORT_CHANNELS = "ABCDEFGH", 128
"""Ports of an Intan controller with 1,024 channels, and channels of each."""
W_PER_ML = 0.35
"""Power of a heater in relation to the medium: that of the bench rig. With more, a stuck heater overheats too fast."""


def add(draft: Draft, answers: Answers, chambers: tuple[str, ...], source: str, medium_ul: float, zone: str) -> None:
    """Add the zone, probes, heater, gas controllers and the limits of temperature.

    Args:
        draft: The rig.
        answers: The answers.
        chambers: Names of the chambers.
        source: The vessel that hearts draw from; "" without perfusion.
        medium_ul: Medium that a heater warms (µL).
        zone: The zone of medium and tissue; "" in the room.
    """
    own_gas, own_heat = answers["gas"] != INCUBATOR, answers["heat"] != INCUBATOR
    gas_vessel = "loop" if source == "loop" else chambers[0]
    probes = _needed(list(listed(answers["probes"])), own_gas=own_gas, own_heat=own_heat)
    if zone:
        gas = {"co2": "0.04 %"} if own_gas else {"co2": "5 %", "oxygen": "18.6 %"}
        draft.add("zones", zone, temperature="24 degC" if own_heat else "37 degC", **gas)
    _probes(draft, probes, chambers[0], gas_vessel)
    if own_heat:
        _heater(draft, answers["heat"], medium_ul)
    if own_gas:
        _gas(draft, answers["gas"], gas_vessel, probes)
    if set(probes) & set(THERMOMETERS):
        trips = {INCUBATOR: "", "relay": "relay.heater"}.get(answers["heat"], "bath.setpoint")
        draft.sections["safety"].append(
            f"  temperature: {{point: t_chamber.temperature, low: 35 degC, high: 38.5 degC, stale: 15 s, trips: [{trips}]}}"
        )
    if answers["electrodes"] != "0":
        _electrodes(draft, answers["electrodes"])


def _needed(probes: list[str], *, own_gas: bool, own_heat: bool) -> list[str]:
    """Return the probes, with those that a heater (in the chamber) and a gas mixer cannot do without."""
    wanted: list[tuple[str, ...]] = [THERMOMETERS] if own_heat else []
    wanted += [tuple(PH), tuple(OXYGEN)] if own_gas else []
    return probes + [models[0] for models in wanted if not set(probes) & set(models)]


def _electrodes(draft: Draft, count: str) -> None:
    draft.sections["nerves"] += [
        *(_real_card(int(count)) if draft.real_links else ['  link: "sim:array"']),
        f"  electrodes: {count}",
        "  sample_rate: 25 kHz",
        "  diameter: 30 um",
    ]


def _real_card(electrodes: int) -> list[str]:
    """Return the lines of a card with a link; an Intan controller as far as its channels go."""
    if electrodes > len(PORTS) * PORT_CHANNELS:
        return ["  card: open-ephys   # `choroid card list` lists all of them", '  link: "tcp://192.0.2.1:5556"']
    starts = range(0, electrodes, PORT_CHANNELS)
    names = [
        f"{port}-000:{port}-{min(electrodes - at, PORT_CHANNELS) - 1:03d}"
        for port, at in zip(PORTS, starts, strict=False)
    ]
    return [
        "  card: intan-rhx   # `choroid card list` lists all of them",
        '  link: "tcp://192.0.2.1:5000"',
        f"  options: {{channels: [{', '.join(names)}]}}",
    ]


def _probes(draft: Draft, models: list[str], chamber: str, vessel: str) -> None:
    """Add the probes of temperature, pH, oxygen and CO2, each at its place."""
    for model in models:
        if model in THERMOMETERS:
            draft.device("t_chamber", model, at=chamber, every="2 s")
        elif model in PH or model in OXYGEN:
            name = PH.get(model) or OXYGEN[model]
            address = '"1"' if model in BUS else ""
            draft.device(name, model, bus=BUS.get(model, ""), address=address, at=vessel, every="5 s")
        elif model == "vaisala-gmp25x":
            draft.device("co2", model, address='"240"', every="10 s")


def _heater(draft: Draft, model: str, medium_ul: float) -> None:
    heater, power_w = "bath.setpoint", 15.0
    if model == "relay":
        heater, power_w = "relay.heater", W_PER_ML * medium_ul / 1000.0
        draft.device("relay", "modbus-coil-relay", address='"1"', every="2 s", channels={"0": "point: heater"})
    else:
        address = '"1"' if model == "eurotherm-3200" else ""
        draft.device("bath", model, address=address, every="5 s")
    draft.sections["organs"].append(
        f"  skin: {{heater: {heater}, temperature: t_chamber.temperature, setpoint: 37 degC, power: {power_w:.3g} W,"
        " lease: 20 s}"
    )


def _gas(draft: Draft, model: str, vessel: str, probes: list[str]) -> None:
    """Add three gas controllers on one line, and the lung."""
    addresses = ("A", "B", "C") if model == "alicat-mfc" else ('"1"', '"2"', '"3"')
    for name, address, full in zip(("air", "co2", "o2"), addresses, (200, 20, 20), strict=True):
        settings = f"{{full_scale_ml_min: {full}}}"
        draft.device(f"gas_{name}", model, bus="gas", gas=name, address=address, every="5 s", settings=settings)
    ph = next(name for probe, name in PH.items() if probe in probes)
    oxygen = next(name for probe, name in OXYGEN.items() if probe in probes)
    draft.sections["organs"].append(
        f"  lung: {{vessel: {vessel}, air: gas_air.flow, co2: gas_co2.flow, o2: gas_o2.flow, oxygen: {oxygen}.oxygen, "
        f"ph: {ph}.ph, total_flow: 50 mL/min, oxygen_setpoint: 90 %, ph_setpoint: 7.35, co2_min: 3 %, co2_max: 9 %}}"
    )
