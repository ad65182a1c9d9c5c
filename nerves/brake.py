"""The emergency stop inside the electrode engine: an order from any thread, obeyed and confirmed by the real-time thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrakeOrder:
    """Stop stimulation for the reason `why`, or allow it again where `why` is empty; `done` confirms it."""

    why: str
    done: Callable[[], None]


class Brake:
    """Orders to the core. `why` is the reason for which stimulation is stopped; empty while it is allowed.

    An engine that starts with a reason stays stopped until it is allowed. The core confirms an order only when every
    pulse that it had handed to the array has a known fate: nothing is delivered after a confirmation.
    """

    def __init__(self, why: str = "") -> None:
        self.why = why
        self._orders: deque[BrakeOrder] = deque()
        self._unconfirmed: list[BrakeOrder] = []

    def order(self, order: BrakeOrder) -> None:
        """Leave an order for the next step of the core. From any thread."""
        self._orders.append(order)

    def take(self) -> bool:
        """Put the waiting orders into force; return whether stimulation must be stopped now. Real-time thread only."""
        stop = False
        while self._orders:
            order = self._orders.popleft()
            self.why = order.why
            stop = stop or bool(order.why)
            self._unconfirmed.append(order)
        return stop

    def confirm(self) -> None:
        """Confirm the orders in force: no pulse is on its way any more. Real-time thread only."""
        confirmed, self._unconfirmed = self._unconfirmed, []
        for order in confirmed:
            order.done()
