"""Use of the budgets of stimulation, for people: how much of each is booked, and its limit."""

from __future__ import annotations

from dataclasses import dataclass

from nerves.bookings import STRETCH_S, Bookings
from nerves.envelope import Envelope


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """One budget: whose it is (empty: the organoid's), its name, what is booked, and its limit, both in `unit`."""

    requester: str
    name: str
    used: float
    limit: float
    unit: str


def budgets_used(bookings: Bookings, envelope: Envelope) -> tuple[BudgetUse, ...]:
    """Return the use of each budget; call it after :meth:`Bookings.forget_before`."""
    hours = min(bookings.day.total * STRETCH_S / 3600.0, 24.0)
    organoid = (
        BudgetUse("", "pulses of the last minute", bookings.organoid.pulses.total, envelope.organoid_pulses_min, ""),
        BudgetUse("", "charge of the last hour", bookings.hour.total, envelope.organoid_nc_h, "nC"),
        BudgetUse("", "time of the last hour", bookings.seconds.total, envelope.duty * 3600.0, "s"),
        BudgetUse("", "time of the last day", hours, envelope.day_h, "h"),
    )
    agents = (
        BudgetUse(name, "pulses of the last minute", scope.pulses.total, envelope.requester_pulses_min, "")
        for name, scope in bookings.requesters()
        if scope.pulses.total
    )
    return (*organoid, *agents)
