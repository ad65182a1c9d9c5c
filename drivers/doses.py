"""Doses given once: which dose ids an actuator has already had (A4)."""

from __future__ import annotations

from collections import OrderedDict

from drivers.errors import Refused

_REMEMBERED = 256


class DoseBook:
    """Remembers the doses of one pump.

    A dose is *given* once the device has accepted it, and *in doubt* when the device may have started it
    and was then stopped: in doubt it is never given again under the same id, since part of it may have been
    delivered.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._doses: OrderedDict[str, bool] = OrderedDict()

    def given(self, dose_id: str) -> bool:
        """Whether this dose was accepted before; raises :class:`Refused` when that is in doubt."""
        sure = self._doses.get(dose_id)
        if sure is False:
            raise Refused(
                f"dose “{dose_id}” was begun before and its start was not confirmed",
                where=self._where,
                cause="the line failed, or the request was cancelled, just as the pump was started",
                action="read the pump's total, and give what is missing under a new dose id",
            )
        return sure is True

    def begin(self, dose_id: str) -> None:
        """From now on the device may have started this dose."""
        self._note(dose_id, sure=False)

    def accept(self, dose_id: str) -> None:
        """The device has confirmed that it started this dose."""
        self._note(dose_id, sure=True)

    def not_begun(self, dose_id: str) -> None:
        """The device has refused it: it may be asked again."""
        self._doses.pop(dose_id, None)

    def _note(self, dose_id: str, *, sure: bool) -> None:
        self._doses[dose_id] = sure
        while len(self._doses) > _REMEMBERED:
            self._doses.popitem(last=False)
