"""Bookings that belong to no dose: medium that hearts move and that does not come back, and vessels on a balance.

A heart that draws from a bottle (single pass) empties it all the time. Its pump's own total tells by how much; a row `moved`
takes that into the ledger every ten minutes, and sooner if it is a hundredth of a vessel. In between the ledger is
informed of what has flowed. A heart whose medium comes back to
its source changes no volume and has no rows.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from controller.core.state import ActuatorView, Reading, State
from controller.journal.journal import Journal
from controller.ledger.flow_paths import FlowPaths
from controller.ledger.ledger import Ledger
from controller.ledger.terms import Nominal
from controller.ledger.witnesses import Weight, went_back
from controller.rig.description import Rig
from controller.rig.families import MASS, points_of
from controller.rig.graph import lines_of_heart
from controller.transfers.routes import Trust, trust_of_model
from controller.transfers.strays import OpenLines
from drivers.commands import PumpStatus, Quality

BOOK_EVERY_S = 600.0
STANDING_SD_G = 0.2
"""Uncertainty of the weight of a vessel from which tubing leads away: tubing that is moved pulls at it [P]."""
STANDING_SPREAD_G = 0.2
"""Maximum difference of the readings of one weighing (g)."""
READINGS = 3
STEP_REL = 0.01
"""Share of the smallest vessel's capacity that is booked at once, before the ten minutes are over."""
COUNTER_UL = 1000.0
"""Coarsest step of a pump's total: whole millilitres. No more than that flows unseen between two of its values."""
CLOSED = 1e-9
"""Share of a heart's flow below which a vessel counts as unchanged."""

Trusted: TypeAlias = Callable[[str], Trust]
"""Returns the trust in the volumes of a pump."""


class ContinuousBookings:
    """Books the open flow of hearts and the weight of vessels on balances. Call :meth:`update` once a tick."""

    def __init__(
        self, rig: Rig, *, ledger: Ledger, journal: Journal, trust: Trusted | None, open_lines: OpenLines
    ) -> None:
        """Begin with the last rows. Without `trust`, that of the pumps' models is used."""
        paths = FlowPaths(rig)
        self._flow = _OpenFlow(rig, paths, ledger, journal, trust or partial(trust_of_model, rig))
        self._weights = _StandingWeights(rig, paths, ledger, open_lines)
        self._flow_s = self._weigh_s = 0.0

    def update(self, state: State) -> None:
        """Book, if it is time."""
        self._weights.update(state.readings)
        weigh = state.at_s >= self._weigh_s and self._weights.ready
        due = weigh or state.at_s >= self._flow_s
        self._flow.update(state.actuators, state.at_s, due=due)
        if due:
            self._flow_s = state.at_s + BOOK_EVERY_S
        if weigh:  # after what the hearts have moved until now
            self._weigh_s = state.at_s + BOOK_EVERY_S
            self._weights.book()


class _OpenFlow:
    """Books the medium that hearts move from one vessel into another without returning it."""

    def __init__(self, rig: Rig, paths: FlowPaths, ledger: Ledger, journal: Journal, trust: Trusted) -> None:
        self._ledger = ledger
        self._trust = trust
        self._pumps: dict[str, tuple[str, str]] = {}
        """By line: its pump and its heart."""
        self._step_ul: dict[str, float] = {}
        lines = ((line, heart) for heart in rig.organs.hearts for line in lines_of_heart(rig, heart))
        for line, heart in lines:
            pump, step_ul = rig.lines[line].pump, _step_ul(rig, paths.full(line))
            if pump is not None and step_ul is not None:
                self._pumps[line], self._step_ul[line] = (pump, heart), step_ul
        self._totals_ul = self._booked(journal)
        self._counted: dict[str, tuple[float, float]] = {}
        """By line: the pump's total, and when it changed last (s)."""
        self._seen: tuple[Mapping[str, ActuatorView], float] = {}, 0.0
        if self._pumps:
            ledger.settled_by(self.settle)

    def update(self, actuators: Mapping[str, ActuatorView], now_s: float, *, due: bool) -> None:
        """Book what each pump has moved since its last row, if it is due or much; the first row of a line is due at once."""
        self._seen = actuators, now_s
        for line, (pump, heart) in self._pumps.items():
            view = actuators.get(pump)
            if view is None or view.fault or not isinstance(view.status, PumpStatus):
                continue
            total_ul = view.status.delivered_ul
            before_ul = self._totals_ul.get(line)
            if before_ul is None:
                self._book(line, pump, heart, 0.0, total_ul)
            elif total_ul != before_ul:
                moved_ul = _moved_since(before_ul, total_ul)
                if due or moved_ul >= self._step_ul[line]:
                    self._book(line, pump, heart, moved_ul, total_ul)
            self._note(line, pump, view.status, now_s)

    def settle(self) -> None:
        """Book what each pump has moved until it was seen last: a person enters a volume that is so now."""
        actuators, now_s = self._seen
        self.update(actuators, now_s, due=True)

    def _note(self, line: str, pump: str, status: PumpStatus, now_s: float) -> None:
        """Inform the ledger of what has flowed since the last row: by the total, and since that changed by the flow."""
        total_ul = status.delivered_ul
        if line not in self._counted or self._counted[line][0] != total_ul:
            self._counted[line] = total_ul, now_s
        unseen_ul = min(status.flow_ul_min * (now_s - self._counted[line][1]) / 60.0, COUNTER_UL)
        trust = self._trust(pump)
        ul = (_moved_since(self._totals_ul[line], total_ul) + max(unseen_ul, 0.0)) * trust.gain
        self._ledger.flowing(line, ul, trust.rel_sd * ul)

    def _book(self, line: str, pump: str, heart: str, counted_ul: float, total_ul: float) -> None:
        trust = self._trust(pump)
        ul = counted_ul * trust.gain
        sd_ul = math.hypot(trust.rel_sd * ul, trust.dose_sd_ul)
        nominal = Nominal(ul, trust.rel_sd, trust.dose_sd_ul, trust.calibration)
        detail = {"heart": heart, "total_ul": total_ul}
        self._ledger.moved(line, ul, sd_ul, "pump", nominal=nominal, detail=detail)
        self._totals_ul[line] = total_ul  # only now: a row that no disk took is tried again

    def _booked(self, journal: Journal) -> dict[str, float]:
        """Return the pumps' totals as of the last rows, by line (µL)."""
        found: dict[str, float] = {}
        if self._pumps:
            for entry in journal.entries(kinds=("moved",), newest_first=True):
                if "heart" in entry.body and entry.body["line"] in self._pumps:
                    found.setdefault(entry.body["line"], entry.body["total_ul"])
                if len(found) == len(self._pumps):
                    break
        return found


def _moved_since(before_ul: float, total_ul: float) -> float:
    """Return the advance of a pump's total (µL); one that went back began at zero."""
    return total_ul if went_back(before_ul, total_ul) else total_ul - before_ul


def _step_ul(rig: Rig, changes: Mapping[str, float]) -> float | None:
    """Return the volume of a row (µL): a hundredth of the vessel that it changes most; None if it changes none."""
    changed = {name: abs(change) for name, change in changes.items() if abs(change) > CLOSED}
    return STEP_REL * min(rig.vessels[name].capacity_ul / share for name, share in changed.items()) if changed else None


class _StandingWeights:
    """Balances under vessels other than the kidney's, which is weighed before and after each dose."""

    def __init__(self, rig: Rig, paths: FlowPaths, ledger: Ledger, open_lines: OpenLines) -> None:
        self._ledger = ledger
        self._open_lines = open_lines
        self._vessels = standing_balances(rig)
        """By point of a balance: the vessel."""
        self._lines = {
            vessel: tuple(line for line, each in rig.lines.items() if not each.passive and vessel in paths.full(line))
            for vessel in self._vessels.values()
        }
        self._seen: dict[str, deque[Reading]] = {point: deque(maxlen=READINGS) for point in self._vessels}

    def update(self, readings: Mapping[str, Reading]) -> None:
        """Keep the last readings of each balance; a dose that touches its vessel begins them again."""
        for point, vessel in self._vessels.items():
            seen, reading = self._seen[point], readings.get(point)
            if any(line in self._open_lines for line in self._lines[vessel]):
                seen.clear()
            elif reading is not None and (not seen or reading.at_s > seen[-1].at_s):
                if reading.quality is Quality.GOOD and reading.stable and math.isfinite(reading.value):
                    seen.append(reading)
                else:
                    seen.clear()

    @property
    def ready(self) -> bool:
        """Whether the last readings of some balance agree."""
        return any(_agree(seen) for seen in self._seen.values())

    def book(self) -> None:
        """Book each vessel whose last readings agree."""
        for point, vessel in self._vessels.items():
            if _agree(seen := self._seen[point]):
                grams = sum(reading.value for reading in seen) / READINGS
                self._ledger.balanced(vessel, Weight(grams, STANDING_SD_G))


def standing_balances(rig: Rig) -> dict[str, str]:
    """Return the vessels on balances, by point, without the kidney's; the first balance of each vessel."""
    kidney = rig.organs.kidney
    weighed = {None if kidney is None else kidney.vessel}
    found = {}
    for point, kind in points_of(rig).items():
        at = rig.devices[point.partition(".")[0]].at
        if kind == MASS and at in rig.vessels and at not in weighed:
            found[point] = at
            weighed.add(at)
    return found


def _agree(seen: Sequence[Reading]) -> bool:
    values = [reading.value for reading in seen]
    return len(values) == READINGS and max(values) - min(values) <= STANDING_SPREAD_G
