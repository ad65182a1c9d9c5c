"""What each family of devices offers to a rig: its points, and how it shares a link.

Facts of the manuals, kept apart from the drivers so that a rig file can be judged without them (and by the lab in
software, which shares nothing with the drivers). A model that is not here, such as a third party's, is taken at its word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

from controller.rig.description import DeviceSpec, Rig

Kind = Literal["pump", "switch", "level", "sensor"]


@dataclass(frozen=True, slots=True)
class PointKind:
    """What can be done with a point, what it tells, and in which unit."""

    kind: Kind
    quantity: str
    unit: str

    def __str__(self) -> str:
        match self.kind:
            case "sensor":
                return f"{self.quantity} sensor"
            case "level":
                return self.quantity
        return self.kind


@dataclass(frozen=True, slots=True)
class Family:
    """One model: fixed points, or numbered channels; `bus` names the language of a line that may be shared."""

    points: Mapping[str, PointKind] = field(default_factory=dict)
    channel: PointKind | None = None
    channels: range = range(0)
    bus: str | None = None
    address: str = ""
    address_form: str = ""
    default_address: str = ""
    shares_if: tuple[str, str] | None = None
    """Setting and value that a device needs to share its link with another of its kind."""
    poll_s: float = 0.05
    """How long its link is busy when the device, or one of its channels, is read once; estimated from the manual (s)."""
    max_rpm: float | None = None
    """Maximum speed of a pump head, where the flow follows from the tubing."""
    max_flow_ul_min: float | None = None
    """Maximum flow of a pump whose tubing is fixed."""

    def same_address(self, device: DeviceSpec) -> str:
        """Return the address in the one form in which two of them can be compared ("01" is "1", "a" is "A")."""
        text = (device.address or self.default_address).upper()
        return text.lstrip("0") if text.isdigit() else text

    def address_fits(self, device: DeviceSpec) -> bool:
        """Return whether the address is one that the family can have."""
        return device.address == "" or re.fullmatch(self.address, self.same_address(device)) is not None


PUMP = PointKind("pump", "flow", "uL/min")
SWITCH = PointKind("switch", "state", "")
GAS = PointKind("level", "gas flow", "mL/min")
PH = PointKind("sensor", "pH", "pH")
OXYGEN = PointKind("sensor", "oxygen", "%")
TEMPERATURE = PointKind("sensor", "temperature", "degC")
PRESSURE = PointKind("sensor", "pressure", "kPa")
MASS = PointKind("sensor", "mass", "g")
LIQUID_FLOW = PointKind("sensor", "liquid flow", "uL/min")
AIR_IN_LINE = PointKind("sensor", "air in line", "1")
CARBON_DIOXIDE = PointKind("sensor", "carbon dioxide", "ppm")
CONDUCTIVITY = PointKind("sensor", "conductivity", "uS/cm")
REDOX = PointKind("sensor", "redox potential", "mV")
LACTATE = PointKind("sensor", "lactate", "mM")
GLUCOSE = PointKind("sensor", "glucose", "mM")
AMMONIA = PointKind("sensor", "ammonia", "mM")
POWER = PointKind("sensor", "heating power", "%")
SETPOINT = PointKind("level", "temperature set-point", "degC")
POSITION = PointKind("sensor", "valve position", "position")
TURN = PointKind("level", "valve position", "position")

_MODBUS = Family(
    bus="Modbus RTU",
    address=r"[1-9][0-9]?|1[0-9]{2}|2[0-3][0-9]|24[0-7]",
    address_form="the address set on the device, 1 to 247",
    default_address="1",
)


def _pump(bus: str | None, address: str, form: str) -> Family:
    """Return the family of a pump with one channel. It may share its line with other devices that use the language of a
    `bus`.
    """
    return Family({"pump": PUMP}, bus=bus, address=address, address_form=form, default_address="1")


_UNKNOWN = Family()
FAMILIES: Mapping[str, Family] = {
    "ismatec-reglo-icc": Family(
        channel=PUMP,
        channels=range(1, 5),
        bus="Reglo ICC",
        address="[1-8]",
        address_form="the pump's address, 1 to 8",
        default_address="1",
        shares_if=("addressing", "legacy"),  # with channel addressing every pump of a chain takes the command
        poll_s=0.1,  # three questions of some 15 characters at 9,600 baud
        max_rpm=100.0,
    ),
    "atlas-ezo-ph": Family({"ph": PH}, poll_s=0.9),
    "atlas-ezo-do": Family({"oxygen": OXYGEN}, poll_s=0.6),
    "atlas-ezo-rtd": Family({"temperature": TEMPERATURE}, poll_s=0.6),
    "atlas-ezo-pmp": Family({"pump": PUMP}, poll_s=0.3, max_flow_ul_min=105_000.0),
    "keller-x-line": replace(_MODBUS, points={"pressure": PRESSURE}),
    "modbus-coil-relay": replace(_MODBUS, channel=SWITCH, channels=range(32)),
    "alicat-mfc": Family(
        {"flow": GAS},
        bus="Alicat",
        address="[A-Z]",
        address_form="the controller's letter, A to Z",
        default_address="A",
    ),
    "mettler-sics": Family({"mass": MASS}),
    "ismatec-reglo-digital": _pump("Ismatec", "[1-8]", "the pump's address, 1 to 8"),
    "longer-0xe9": _pump("Longer E9", "[1-9]|[12][0-9]|30", "the pump's address, 1 to 30"),
    "watson-marlow-ascii": _pump("Watson-Marlow", "[1-9]|[12][0-9]|3[0-2]", "the pump's number, 1 to 32"),
    "masterflex-usb": _pump("Masterflex", "[1-8]", "the drive's address, 1 to 8"),
    "masterflex-ls": _pump(None, "[1-9]|1[0-9]|2[0-5]", "the drive's number, 1 to 25"),
    "tecan-cavro": replace(_pump("Cavro", "[1-9]|1[0-5]", "the address switch plus one, 1 to 15"), poll_s=0.1),
    "hamilton-ph-arc": replace(_MODBUS, points={"ph": PH, "temperature": TEMPERATURE}),
    "hamilton-visiferm-do": replace(_MODBUS, points={"oxygen": OXYGEN, "temperature": TEMPERATURE}),
    "sensirion-slf3x": Family(
        {"flow": LIQUID_FLOW, "temperature": TEMPERATURE, "air": AIR_IN_LINE},
        bus="SHDLC",
        address="|[0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-4]",
        address_form="the cable's SHDLC address, 0 to 254",
        default_address="0",
    ),
    "vaisala-gmp25x": replace(_MODBUS, points={"co2": CARBON_DIOXIDE}, default_address="240"),
    "sartorius-sbi": Family({"mass": MASS}),
    "bronkhorst-propar": Family(
        {"flow": GAS},
        bus="ProPar",
        address="[1-9][0-9]?|1[01][0-9]|12[0-8]",
        address_form="the controller's node, 1 to 127, or 128 for the only one",
        default_address="128",
    ),
    "eurotherm-3200": replace(_MODBUS, points={"temperature": TEMPERATURE, "power": POWER, "setpoint": SETPOINT}),
    "julabo": Family(
        {"temperature": TEMPERATURE, "power": POWER, "external": TEMPERATURE, "setpoint": SETPOINT},
        bus="Julabo",
        address="[1-9][0-9]?|1[01][0-9]|12[0-7]",
        address_form="the thermostat's RS485 address, 1 to 127",
    ),
    "huber-pb": Family({"temperature": TEMPERATURE, "return": TEMPERATURE, "setpoint": SETPOINT}),
    "vici-actuator": Family(
        {"position": POSITION, "valve": TURN}, address="[0-9A-Z]", address_form="the actuator's ID, 0 to 9 or A to Z"
    ),
    "jobst-six": Family({"lactate": LACTATE, "glucose": GLUCOSE, "temperature": TEMPERATURE}, poll_s=1.1),
    "roche-cedex-bio-ht": Family(poll_s=1.0),  # no points: its results belong to samples
    "atlas-ezo-ec": Family({"conductivity": CONDUCTIVITY}, poll_s=0.6),
    "atlas-ezo-orp": Family({"orp": REDOX}, poll_s=0.9),
    "keller-bus": Family(
        {"pressure": PRESSURE, "temperature": TEMPERATURE},
        bus="Keller bus",
        address="[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]",
        address_form="the transmitter's address, 1 to 249",
        default_address="1",
    ),
}


def points_of(rig: Rig) -> dict[str, PointKind]:
    """Return every point of the rig that is known beforehand, by `device.point`."""
    found: dict[str, PointKind] = {}
    for name, device in rig.devices.items():
        family = FAMILIES.get(device.model)
        if family is None:
            continue
        found |= {f"{name}.{point}": kind for point, kind in family.points.items()}
        if family.channel is not None:
            found |= {f"{name}.{channel.point}": family.channel for channel in device.channels.values()}
    return found


def poll_s(device: DeviceSpec) -> float:
    """Return how long the device's link is busy with one reading of all that the device has (s)."""
    family = FAMILIES.get(device.model, _UNKNOWN)
    return family.poll_s * max(1, len(device.channels) if family.channel == PUMP else 1)


def max_flow_ul_min(rig: Rig, pump: str) -> float:
    """Return the maximum flow of a pump with its tubing (µL/min); infinite where that is not known.

    A revolution moves 0.081·d^2.08 mL (table of the OMEGA FPU5, bores of 1 to 4 mm), and as much again is allowed for
    heads with more rollers or thinner walls.
    """
    device, _, name = pump.partition(".")
    spec = rig.devices[device]
    family = FAMILIES.get(spec.model, _UNKNOWN)
    if family.max_flow_ul_min is not None:
        return family.max_flow_ul_min
    bores = [channel.tubing_mm for channel in spec.channels.values() if channel.point == name]
    if family.max_rpm is None or not bores or bores[0] is None:
        return inf
    return float(2.0 * 81.0 * bores[0] ** 2.08 * family.max_rpm)


def by_thermostat(rig: Rig) -> bool:
    """Return whether a thermostat's set-point keeps the skin warm, rather than a switch of a heater."""
    return rig.organs.skin is not None and points_of(rig).get(rig.organs.skin.heater) == SETPOINT


def may_be_point(rig: Rig, point: str) -> bool:
    """Return whether `point` belongs to a device whose model is not known here, so that it cannot be judged."""
    device = rig.devices.get(point.partition(".")[0])
    return device is not None and device.model not in FAMILIES
