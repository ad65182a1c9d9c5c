"""What an interlock demands of an output, and which transfers count as underway."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.gate.actuation import Actuation
from controller.gate.outputs import GatedOutput
from controller.safety.kernel import comes_to_rest
from controller.safety.terms import Response, Trip, Underway
from drivers.commands import Command, Run


def enforce(trip: Trip, output: GatedOutput, actuation: Actuation, now_s: float) -> None:
    """Require of `output` the state that `trip` demands, if it is not in that state already."""
    wanted = _demanded(trip, output, actuation)
    if wanted is not None:
        output.owe(wanted, f"interlock {trip.interlock}: {trip.point} {trip.detail}", now_s)


def _demanded(trip: Trip, output: GatedOutput, actuation: Actuation) -> Command | None:
    """Return the state that an output has to be brought to for a trip, or None."""
    if trip.response is Response.ALARM:
        return None
    if trip.response is Response.OFF:
        return output.rest if output.seen is None or output.seen.on else None
    return output.basal if _exceeds_basal(output, actuation) else None


def _exceeds_basal(output: GatedOutput, actuation: Actuation) -> bool:
    """Return whether an output does, or may do, more than its basal state."""
    seen, basal = output.seen, output.basal
    if isinstance(basal, Run) and seen is not None:
        return seen.on and actuation.above_basal(output, basal, seen.level)
    return seen is None or (seen.on and comes_to_rest(basal))


def underway(outputs: Iterable[GatedOutput], now_s: float, unbooked_s: float) -> Iterator[Underway]:
    """Yield the transfers that the kernel has to count.

    Args:
        outputs: the transfer pumps.
        now_s: loop time (s).
        unbooked_s: how long an ended transfer counts while the ledger has not booked it (s).
    """
    for output in outputs:
        transfer = output.transfer
        if transfer is not None:
            dose = transfer.dose
            if transfer.ended_s is None:
                yield Underway(output.name, dose.volume_ul, dose.dose_id, positions=transfer.positions)
            elif now_s - transfer.ended_s < unbooked_s:
                yield Underway(output.name, dose.volume_ul, dose.dose_id, running=False, positions=transfer.positions)
        elif output.seen is not None and output.seen.on:
            yield Underway(output.name, 0.0)  # started by a foreign command, or before a crash
