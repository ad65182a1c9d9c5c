"""Set-points and media of a rig, as protocols see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from protocols.soft_sensor import Composition


class Targets(Protocol):
    """Set-points and volumes from the rig description."""

    @property
    def loop_ul(self) -> float:
        """The loop's working volume (µL)."""

    @property
    def loop_spare_ul(self) -> float:
        """The largest volume that may be drawn from the loop at once (µL)."""

    @property
    def spent_ul(self) -> float:
        """Volume that stays in the spent vessel between cycles (µL)."""

    @property
    def spent_floor_ul(self) -> float:
        """Volume of the spent vessel that must never be pumped out (µL)."""

    @property
    def spent_room_ul(self) -> float:
        """Volume that the spent vessel may take beyond `spent_ul` (µL), less a margin for the interlock's uncertainty."""

    @property
    def ph(self) -> float:
        """pH set-point."""

    @property
    def glucose_mm(self) -> float:
        """Glucose of fresh medium (mM)."""

    @property
    def glucose_stock_mm(self) -> float:
        """Glucose of the stock (mM)."""

    @property
    def base_stock_mm(self) -> float:
        """Bicarbonate of the stock (mM)."""

    @property
    def osmolality_mosm(self) -> float:
        """Osmolality of fresh medium (mOsm/kg)."""

    @property
    def media(self) -> Mapping[str, Composition]:
        """Composition of the bottles: `fresh`, `glucose`, `base`, and `basal` on a rig with a dialyser."""
