"""Register of dose ids that an actuator has accepted, so that no dose is given twice (A4)."""

from __future__ import annotations

from collections import OrderedDict

from drivers.errors import Refused

_REMEMBERED = 256


class DoseBook:
    """Registers the doses of one pump.

    A dose is *given* once the device has accepted it. It is *in doubt* when the device may have started it and was
    then stopped. A dose in doubt is never given again under the same id, because part of it may have been
    delivered.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._doses: OrderedDict[str, bool] = OrderedDict()

    def given(self, dose_id: str) -> bool:
        """Return whether a dose was accepted before.

        Args:
            dose_id: The id in its command.

        Returns:
            True: it must not be given again. False: the book does not know it, or the device has refused it.

        Raises:
            Refused: It is in doubt.
        """
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
        """Record that from now on the device may have started a dose.

        Args:
            dose_id: The id in its command.
        """
        self._note(dose_id, sure=False)

    def accept(self, dose_id: str) -> None:
        """Record that the device has confirmed the start of a dose.

        Args:
            dose_id: The id in its command.
        """
        self._note(dose_id, sure=True)

    def not_begun(self, dose_id: str) -> None:
        """Record that the device has refused a dose: it may be requested again.

        Args:
            dose_id: The id in its command.
        """
        self._doses.pop(dose_id, None)

    def _note(self, dose_id: str, *, sure: bool) -> None:
        self._doses[dose_id] = sure
        while len(self._doses) > _REMEMBERED:
            self._doses.popitem(last=False)
