"""The targets of each kind of fault on a rig."""

from __future__ import annotations

from collections.abc import Callable

from controller.rig.description import Rig
from controller.rig.families import FAMILIES, points_of
from sim.faults.kinds import KINDS

HOST, BROKER, STORE = "host", "broker", "store"
_DESCRIBED = "modbus-generic"
"""The model whose points and commands stand in a description of their own."""
_BY_CHANNEL = ("ismatec-reglo-icc",)
"""Models of a bus that are addressed by the channel instead."""
_UNSIGNED = ("ismatec-reglo-digital", "masterflex-usb", "tecan-cavro", "watson-marlow-ascii")
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
"""Models that carry out commands."""


def targets(kind: str, rig: Rig) -> tuple[str, ...]:
    """Return every target of the rig for this kind of fault, in the order of the rig file; empty when it has none.

    A link is named by its text, a point by `device.point`, a heart by its name, the controller's computer is "host", the
    services that readings go to are "broker" and "store".

    Raises:
        KeyError: there is no such kind.
    """
    if (special := _BY_KIND.get(kind)) is not None:
        return special(rig)
    return _BY_TARGET[KINDS[kind].target](rig)


def drawn_targets(kind: str, rig: Rig) -> tuple[str, ...]:
    """Return the targets of random draws: all but the passive outlets of vessels.

    These are wide and run by gravity; a rig shows no difference until a vessel is full, so that a plugged one is chosen.
    """
    outlets = {
        name
        for name, line in rig.lines.items()
        if line.pump is None and line.port is None and line.from_ in rig.vessels
    }
    found = targets(kind, rig)
    return found if KINDS[kind].target != "line" else tuple(name for name in found if name not in outlets)


def next_on_bus(rig: Rig, name: str) -> str:
    """Return the device whose address `name` takes in `other_address`: the next on the same link, or the first."""
    others = _addressed(rig, rig.devices[name].link)
    return others[(others.index(name) + 1) % len(others)]


def address_of(rig: Rig, name: str) -> str:
    """Return the address of a device as in its rig file, or the factory's."""
    family = FAMILIES.get(rig.devices[name].model)
    return rig.devices[name].address or (family.default_address if family is not None else "") or "1"


def _links(rig: Rig) -> tuple[str, ...]:
    return tuple(dict.fromkeys(device.link for device in rig.devices.values()))


def _pumped(rig: Rig) -> tuple[str, ...]:
    return tuple(name for name, line in rig.lines.items() if line.pump is not None)


def _without_hearts(rig: Rig) -> tuple[str, ...]:
    hearts = {heart.line for heart in rig.organs.hearts.values()}
    return tuple(name for name in rig.lines if name not in hearts)


def _contaminated(rig: Rig) -> tuple[str, ...]:
    """Return the vessels into which microbes come: those that hearts draw from, else the chambers."""
    loops = (name for name, vessel in rig.vessels.items() if vessel.kind == "loop")
    return tuple(loops) or tuple(rig.tissue)


def _points(*kinds: str) -> Callable[[Rig], tuple[str, ...]]:
    return lambda rig: tuple(point for point, what in points_of(rig).items() if what.kind in kinds)


def _outputs(rig: Rig) -> tuple[str, ...]:
    """Return what is commanded: pumps, the heater, the gases. A valve alone does nothing."""
    skin, lung = rig.organs.skin, rig.organs.lung
    pumps = (line.pump for line in rig.lines.values() if line.pump is not None)
    heaters = () if skin is None else (skin.heater,)
    gases = () if lung is None else (lung.air, lung.co2, lung.o2)
    return tuple(dict.fromkeys((*pumps, *heaters, *gases)))


def _addressed(rig: Rig, link: str) -> list[str]:
    return [name for name, device in rig.devices.items() if device.link == link and device.model in ADDRESSED]


def _shared_links(rig: Rig) -> tuple[str, ...]:
    """Return the links on which several devices have addresses and an answer bears one."""
    return tuple(
        link
        for link in _links(rig)
        if len(on_it := _addressed(rig, link)) > 1 and any(rig.devices[name].model in SIGNING for name in on_it)
    )


def _neighbours(rig: Rig) -> tuple[str, ...]:
    """Return the devices with an address that share their link."""
    groups = (_addressed(rig, link) for link in _links(rig))
    return tuple(name for group in groups if len(group) > 1 for name in group)


def _sources(rig: Rig) -> tuple[str, ...]:
    return tuple(name for name, vessel in rig.vessels.items() if vessel.kind == "source")


_BY_KIND: dict[str, Callable[[Rig], tuple[str, ...]]] = {
    "wrong_address": _shared_links,
    "other_address": _neighbours,
    "ignores": lambda rig: tuple(name for name, device in rig.devices.items() if device.model in ACTING),
    "reversed": _points("pump"),
    "slipped": lambda rig: tuple(selector.valve.partition(".")[0] for selector in rig.selectors.values()),
    "occlusion": _without_hearts,
    "heart_occlusion": lambda rig: tuple(rig.organs.hearts),
    "leak": lambda rig: tuple(rig.lines),
    "contaminated": _contaminated,
    "empty": _sources,
    "wrong_medium": _sources,
    "store_down": lambda _: (STORE,),
}
"""Kinds that affect only a part of their target's type."""


_BY_TARGET: dict[str, Callable[[Rig], tuple[str, ...]]] = {
    "link": _links,
    "device": lambda rig: tuple(rig.devices),
    "line": _pumped,
    "vessel": lambda rig: tuple(rig.vessels),
    "filter": lambda rig: tuple(rig.filters),
    "point": _points("sensor", "level"),
    "output": _outputs,
    "host": lambda _: (HOST,),
    "service": lambda _: (BROKER,),
}
