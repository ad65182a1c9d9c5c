"""The geometry of a rig's array: what the rig file declares, what the card knows, and how they agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.rig.description import Nerves
from controller.rig.geometry_rules import places, size_um
from nerves.cards.contract import CardRefused
from nerves.cards.geometry import ArrayGeometry


def declared_geometry(nerves: Nerves) -> ArrayGeometry | None:
    """Return the geometry that a rig file declares; None without one."""
    spec = nerves.geometry
    if spec is None:
        return None
    found = places(nerves)
    sizes = [size_um(each, nerves) for each in found]
    return ArrayGeometry(
        x_um=tuple(each.x_um for each in found),
        y_um=tuple(each.y_um for each in found),
        shape=tuple(each.shape for each in found),
        width_um=tuple(width for width, _ in sizes),
        height_um=tuple(height for _, height in sizes),
        shank=tuple(each.shank for each in found),
        pad=tuple(each.pad or str(number) for number, each in enumerate(found)),
        module=spec.module,
        reference=spec.reference,
        source="rig file",
    )


def described_geometry(config: Mapping[str, Any]) -> ArrayGeometry | None:
    """Return the declared geometry of a card's configuration."""
    packed = config.get("geometry")
    return ArrayGeometry.unpacked(packed) if packed else None


def agreed_geometry(known: ArrayGeometry | None, config: Mapping[str, Any]) -> ArrayGeometry | None:
    """Return what a card and the rig file say together.

    Raises:
        CardRefused: They contradict each other.
    """
    declared = described_geometry(config)
    how = known.differs(declared) if known and declared else ""
    if how:
        raise CardRefused(
            f"the geometry of the recording is not that of the rig file: {how}. Likely cause: a recording of another array."
            " Next: leave geometry out under nerves, or choose another recording"
        )
    return declared or known
