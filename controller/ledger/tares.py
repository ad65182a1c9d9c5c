"""Vessels that stand on a balance with all that hangs on them: their weight tells changes, not contents.

The weight of the empty vessel is not known. It follows from the first weighing and the volume that the ledger believes then;
the error of that volume is the error of the tare. A later weighing therefore corrects what has happened since, such as
evaporation and what pumps have moved, and not what the vessel was filled with.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.ledger.reconcile import Unknowns


class Tares:
    """The tares of a rig's vessels: unknowns of the balance equations."""

    def __init__(self) -> None:
        self._tares_ul: dict[str, float] = {}

    def set(self, unknowns: Unknowns, vessel: str, gross_ul: float, noise_ul: float) -> None:
        """Take the difference of a weighing and the believed volume as the tare of a vessel (µL by the nominal density)."""
        name = _name(vessel)
        if name in unknowns:
            unknowns.known(name, 0.0, 0.0)
        else:
            unknowns.add(name, 0.0, 0.0)
        unknowns.add_to(name, {vessel: -1.0}, 0.0)
        unknowns.wander(name, noise_ul**2)
        self._tares_ul[vessel] = gross_ul - unknowns.mean(vessel)

    def drop(self, vessel: str) -> None:
        """Forget the tare of a vessel: a person has changed or exchanged it."""
        self._tares_ul.pop(vessel, None)

    @staticmethod
    def doubt(unknowns: Unknowns, vessel: str, sd_ul: float) -> None:
        """Let the tare be wrong by as much as the vessel: no later weighing shows which of the two has changed."""
        unknowns.exchanged({vessel: 1.0, _name(vessel): -1.0}, sd_ul**2)

    def net_ul(self, vessel: str, gross_ul: float) -> float | None:
        """Return the volume in a vessel by a weighing; None without a tare."""
        tare_ul = self._tares_ul.get(vessel)
        return None if tare_ul is None else gross_ul - tare_ul

    @staticmethod
    def terms(vessel: str) -> Mapping[str, float]:
        """Return the terms of the equation of a weighing: the balance shows the volume and the error of the tare together."""
        return {vessel: 1.0, _name(vessel): 1.0}


def _name(vessel: str) -> str:
    return f"tare {vessel}"
