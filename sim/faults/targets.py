"""What of a rig each kind of fault may befall."""

from __future__ import annotations

from controller.rig.description import Rig
from controller.rig.families import FAMILIES, points_of
from sim.faults.kinds import KINDS

HOST, BROKER, STORE = "host", "broker", "store"
_DESCRIBED = "modbus-generic"
"""The model whose points and commands stand in a description of their own."""
_BY_CHANNEL = ("ismatec-reglo-icc",)
"""Models of a bus that are addressed by the channel instead, by whoever uses their channels."""
_UNSIGNED = ("ismatec-reglo-digital", "masterflex-usb", "watson-marlow-ascii")
"""Models whose requests bear an address, and whose answers bear none."""
ADDRESSED = (*(name for name, family in FAMILIES.items() if family.bus and name not in _BY_CHANNEL), _DESCRIBED)
"""Models whose requests bear an address."""
SIGNING = tuple(name for name in ADDRESSED if name not in _UNSIGNED)
"""Models whose answers bear their address."""
ACTING = (
    *(
        name
        for name, family in FAMILIES.items()
        if any(point.kind != "sensor" for point in (*family.points.values(), family.channel) if point is not None)
    ),
    _DESCRIBED,
)
"""Models that are told to do something."""


def targets(kind: str, rig: Rig) -> tuple[str, ...]:
    """Every target of the rig for this kind of fault, in the rig file's order; empty when it has none.

    A link is named by its text, a point by `device.point`, the controller's computer is "host", the services that
    readings go to are "broker" and "store".
    Raises KeyError for an unknown kind.
    """
    match kind:
        case "wrong_address":
            return tuple(
                link
                for link in _links(rig)
                if len(_addressed(rig, link)) > 1
                and any(rig.devices[name].model in SIGNING for name in _addressed(rig, link))
            )
        case "other_address":
            return tuple(
                name for link in _links(rig) for name in _addressed(rig, link) if len(_addressed(rig, link)) > 1
            )
        case "ignores":
            return tuple(name for name, device in rig.devices.items() if device.model in ACTING)
        case "reversed":
            return tuple(point for point, what in points_of(rig).items() if what.kind == "pump")
        case "occlusion":
            return tuple(name for name in _pumped(rig) if name != rig.organs.heart.line)
        case "heart_occlusion":
            return (rig.organs.heart.line,)
        case "contaminated":
            return (rig.organs.lung.vessel,)
        case "empty" | "wrong_medium":
            return tuple(name for name, vessel in rig.vessels.items() if vessel.kind == "source")
    match KINDS[kind].target:
        case "link":
            return _links(rig)
        case "device":
            return tuple(rig.devices)
        case "line":
            return _pumped(rig)
        case "vessel":
            return tuple(rig.vessels)
        case "filter":
            return tuple(rig.filters)
        case "point":
            return tuple(point for point, what in points_of(rig).items() if what.kind in ("sensor", "level"))
        case "output":
            return _outputs(rig)
        case "host":
            return (HOST,)
        case "service":
            return (STORE,) if kind == "store_down" else (BROKER,)


def next_on_bus(rig: Rig, name: str) -> str:
    """The device whose address `name` takes in `other_address`: the next on the same link, or the first."""
    others = _addressed(rig, rig.devices[name].link)
    return others[(others.index(name) + 1) % len(others)]


def address_of(rig: Rig, name: str) -> str:
    """The address of a device as its rig file writes it, or the factory's."""
    family = FAMILIES.get(rig.devices[name].model)
    return rig.devices[name].address or (family.default_address if family is not None else "") or "1"


def _links(rig: Rig) -> tuple[str, ...]:
    return tuple(dict.fromkeys(device.link for device in rig.devices.values()))


def _pumped(rig: Rig) -> tuple[str, ...]:
    return tuple(name for name, line in rig.lines.items() if line.pump is not None)


def _outputs(rig: Rig) -> tuple[str, ...]:
    """What is commanded: pumps, the heater, the gases. A valve alone does nothing."""
    organs, lung = rig.organs, rig.organs.lung
    pumps = (line.pump for line in rig.lines.values() if line.pump is not None)
    return tuple(dict.fromkeys((*pumps, organs.skin.heater, lung.air, lung.co2, lung.o2)))


def _addressed(rig: Rig, link: str) -> list[str]:
    return [name for name, device in rig.devices.items() if device.link == link and device.model in ADDRESSED]
