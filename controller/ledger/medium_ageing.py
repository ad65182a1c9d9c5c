"""What time takes from the medium in each vessel, as the ledger expects it: by the temperature at which it is kept."""

from __future__ import annotations

from datetime import date

from controller.ledger.batches import Batch
from controller.ledger.terms import Parcel
from controller.rig.description import Rig
from controller.rig.organ_lines import organ_lines
from controller.rig.surroundings import kept_c, room_c
from protocols.media_state import USUAL_PH
from protocols.medium_ageing import BOTTLE_PH, FRIDGE_C, MediumRates, rates_at


def stocks(rig: Rig) -> set[str | None]:
    """Return the media without supplements: those that the liver doses, and dialysate."""
    lines = [each.line for each in organ_lines(rig) if each.organ == "liver"]
    kidney = rig.organs.kidney
    if kidney is not None and kidney.dialyse is not None:
        lines.append(kidney.dialyse)
    return {rig.vessels[rig.lines[line].from_].contains for line in lines}


class MediumAgeing:
    """The rates of the literature for each vessel of a rig, and what fresh medium is."""

    def __init__(self, rig: Rig) -> None:
        self._stocks = stocks(rig)
        self._stable = {name: medium.stable_glutamine for name, medium in rig.media.items()}
        loop_ph = USUAL_PH if rig.organs.lung is None else rig.organs.lung.ph_setpoint
        self._rates = {
            name: self._of(
                vessel.contains, _expected_c(rig, name), BOTTLE_PH if vessel.kind in ("source", "waste") else loop_ph
            )
            for name, vessel in rig.vessels.items()
        }
        self.in_lines = rates_at(room_c(rig))
        """Of what stands in the lines of several media."""

    def _of(self, medium: str | None, temperature_c: float, ph: float) -> MediumRates:
        return rates_at(temperature_c, stable=self._stable.get(medium or "", False), ph=ph)

    def of_medium(self, medium: str | None) -> Parcel:
        """Return the history of medium of this composition that was just made: stocks have no supplements."""
        whole = 0.0 if medium in self._stocks else 1.0
        return Parcel(insulin=whole, factors=whole)

    def of_batch(self, batch: Batch) -> Parcel:
        """Return the history of a bottle when it is put in: cold since it was thawed or made, by a label with such a day."""
        made = self.of_medium(batch.medium)
        since, put_in = _day(batch.thawed_utc) or _day(batch.made_utc), _day(batch.loaded_utc)
        if since is None or put_in is None:
            return made
        age_s = (put_in - since).total_seconds()
        return made.older(max(age_s, 0.0), self._of(batch.medium, FRIDGE_C, BOTTLE_PH))

    def older(self, vessel: str, parcel: Parcel, seconds: float) -> Parcel:
        """Return the medium of a vessel after some time (s)."""
        return parcel.older(seconds, self._rates[vessel])


def _expected_c(rig: Rig, name: str) -> float:
    """Return the temperature at which medium ages in a vessel (°C).

    A bottle whose rig file names no zone is taken to be in a refrigerator, as bottles usually are: in the room its medium
    would count as decayed, and so would what it has fed. Its limit of use is that of the room all the same.
    """
    spec = rig.vessels[name]
    return FRIDGE_C if spec.kind == "source" and spec.zone is None else kept_c(rig, name)


def _day(utc: str) -> date | None:
    """Return the day of a time; None if there is none: rows of release 0.2.0 have what was entered, unread."""
    try:
        return date.fromisoformat(utc[:10])
    except ValueError:
        return None
