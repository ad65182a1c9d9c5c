"""Places below `organs`, such as `kidney.draw` or `heart.line`: how verbs name parts of a rig that they do not know."""

from __future__ import annotations

from typing import Any

from controller.rig.description import Rig
from controller.rig.organs import HeartConfig, Organs

HEART = "heart"
"""First word of the places of a heart, of which a rig may have several."""


def organ_of(rig: Rig, organ: str) -> Any:
    """Return an organ's description, or None on a rig without it. Of several hearts, return the first."""
    if organ == HEART:
        return next(iter(rig.organs.hearts.values()), None)
    return getattr(rig.organs, organ)


def has_organ(rig: Rig, organ: str) -> bool:
    """Return whether the rig has an organ; true for a word that names none."""
    known = organ == HEART or organ in Organs.model_fields
    return not known or organ_of(rig, organ) is not None


def at(rig: Rig, place: str, *, heart: str = "") -> Any:
    """Return what stands at a place; None on a rig without it or without its organ.

    Args:
        rig: The rig.
        place: Organ and key, such as `heart.line`.
        heart: Name of the heart, for a place of a heart; default: the first.
    """
    organ, _, key = place.partition(".")
    part: HeartConfig | Any = rig.organs.hearts.get(heart) if heart and organ == HEART else organ_of(rig, organ)
    return None if part is None else getattr(part, key)


def roles_of(rig: Rig) -> dict[str, str]:
    """Return the vessels that protocols know, by role: `loop`, `spent` and `waste`, as far as the rig has them."""
    roles = {} if rig.loop is None else {"loop": rig.loop}
    kidney = rig.organs.kidney
    return roles if kidney is None else {**roles, "spent": kidney.vessel, "waste": kidney.waste}
