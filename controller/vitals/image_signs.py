"""What images tell of the tissue: its volume as evidence, its growth. From rows `image.taken` of the journal alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, pi, sqrt
from typing import Any

from controller.core.clock import Clock
from controller.imaging.time_lapse import MAX_ROWS, ImageFrame
from controller.journal.journal import Journal
from controller.rig.description import Rig
from controller.vitals.ldh_signs import last_told
from protocols.interval import Interval

TAKEN = "image.taken"
MIN_AREA_REL_SD = 0.03
"""Least uncertainty of an area: the accuracy that `choroid verify bench imaging` requires."""
MIN_AREA_MM2, MAX_AREA_MM2 = 1e-4, 1e4
"""Areas of tissue that can be: a cell cluster of 10 µm, and more than a plate shows."""
MISSED = 2.5
"""A camera without a usable image for this many periods no longer counts."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The last usable image of one camera."""

    at_s: float
    mm3: float
    sd_mm3: float
    growth: Mapping[str, float] | None
    seq: int


class ImageSigns:
    """Follows the images of a rig. The volume is that of all cameras together, once each has a new usable image."""

    def __init__(self, rig: Rig, journal: Journal, clock: Clock) -> None:
        """Begin after the last image that is evidence in the journal: each counts once."""
        self._rig = rig
        self._journal = journal
        self._clock = clock
        self._seen: dict[str, Sight] = {}
        self.told = last_told(journal, "volume") if rig.cameras else 0
        """The last row that has become evidence."""
        self._read_to = 0
        for row in journal.entries(kinds=(TAKEN,), newest_first=True, limit=MAX_ROWS if rig.cameras else 0):
            self._read_to = max(self._read_to, row.seq)
            if row.body["camera"] not in self._seen:
                self._take_in(row.seq, row.body, row.utc)
            if len(self._seen) == len(rig.cameras):
                break

        self._counted = frozenset(self._seen)
        """The cameras of the last volume."""

    @property
    def seen(self) -> bool:
        """Whether there was a usable image."""
        return bool(self._seen)

    @property
    def age_h(self) -> float | None:
        """Age (h) of the oldest image that the volume is of; None without one."""
        taken = [sight.at_s for sight in self._present().values()]
        return (self._clock.utc().timestamp() - min(taken)) / 3600.0 if taken else None

    @property
    def instrument(self) -> tuple[str, ...]:
        """The cameras of the volume, with the length of their pixels: another set has another scale. Empty without images."""
        return tuple(f"{name} {self._rig.cameras[name].pixel_um:g}" for name in sorted(self._counted))

    def volume(self) -> Interval | None:
        """Return the volume (mm³) if every camera has an image that has not been evidence yet."""
        if not self._rig.cameras:
            return None
        for row in self._journal.entries(kinds=(TAKEN,), after=self._read_to):
            self._read_to = row.seq
            self._take_in(row.seq, row.body, row.utc)
        present = self._present()
        if not present or any(sight.seq <= self.told for sight in present.values()):
            return None
        self.told = max(sight.seq for sight in present.values())
        self._counted = frozenset(present)
        sd = sqrt(sum(sight.sd_mm3**2 for sight in present.values()))
        return Interval.around(sum(sight.mm3 for sight in present.values()), sd)

    def growth(self) -> Interval | None:
        """Return the growth of the volume per day, the mean of the cameras; None where none has it."""
        known = [sight.growth for sight in self._present().values() if sight.growth is not None]
        if not known:
            return None
        value, low, high = (
            sum(max(1.0 + each[key], 0.0) ** 1.5 - 1.0 for each in known) / len(known)
            for key in ("per_day", "low", "high")
        )
        return Interval(value, low, high)

    # --- inside -----------------------------------------------------------------------------------------

    def _take_in(self, seq: int, body: Mapping[str, Any], utc: str) -> None:
        frame, camera = ImageFrame.of_row(body, utc), body["camera"]
        if camera not in self._rig.cameras or not frame.usable or frame.features is None:
            return
        area, sd = frame.features["area_mm2"], frame.features.get("area_sd_mm2", 0.0)
        if not (MIN_AREA_MM2 <= area <= MAX_AREA_MM2 and isfinite(sd)):
            return
        rel = max(sd / area, MIN_AREA_REL_SD)
        mm3 = 4.0 / (3.0 * sqrt(pi)) * area**1.5  # of the sphere with this outline
        self._seen[camera] = Sight(frame.at_s, mm3, 1.5 * rel * mm3, frame.growth, seq)

    def _present(self) -> dict[str, Sight]:
        now_s = self._clock.utc().timestamp()
        return {
            name: sight
            for name, sight in self._seen.items()
            if now_s - sight.at_s <= MISSED * self._rig.cameras[name].every_s
        }
