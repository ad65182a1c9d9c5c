"""The faults of a trial as its judges need them: which devices they affect at a moment, and what they excuse."""

from __future__ import annotations

from collections.abc import Iterator

from controller.hazards.table import hazards_of
from controller.hazards.terms import HazardVerdict
from controller.rig.description import Rig
from controller.safety.limits import OVER_PRESSURE_HEART
from sim.faults.kinds import KINDS, survivable
from sim.faults.schedule import Fault

REACH_S = 180.0
"""Time after which a device works again, from the last fault of it or of its line (s)."""
DISTURBED_S = 300.0
"""Time after which the rig as a whole works again, from any fault (s)."""
NOTICED_S = 5.0
GARBLED_S = 60.0
"""Maximum duration of an uncommanded dose, from the flipped bit that began it (s)."""
GARBLING = frozenset(("garble", "lost_byte", "doubled_byte"))
"""Faults that change bytes on a line: a command may become another one."""
MISLEADING = frozenset(
    ("leak", "occlusion", "empty", "reversed", "bubble", "worn_tubing", "stuck", "offset", "drift", "noise", "ignores",
     "eeprom", "clogged_filter", "reboot", "power_cut", "garble", "lost_byte", "doubled_byte")
)  # fmt: skip
"""Faults under which a pump or the balance says what is not so. Then the ledger may be wrong, but not without an alarm."""


MISREADING = frozenset(("stuck", "offset", "drift", "noise"))
"""Faults of a sensor under which it tells another value than the true one."""


class Troubles:
    """The faults of a rig, and when they act."""

    def __init__(self, rig: Rig, faults: tuple[Fault, ...]) -> None:
        self.survivable = all(survivable(fault) for fault in faults)
        self._rig = rig
        self._faults = faults
        self._blind = frozenset(_without_gauge(rig))
        """Hearts whose line shows no occlusion."""

    def begun(self, since_s: float, until_s: float) -> int:
        """Return how many faults began between two times."""
        return sum(since_s <= fault.at_s <= until_s for fault in self._faults)

    def devices_under(self, kinds: frozenset[str]) -> frozenset[str]:
        """Return the devices to which any fault of these kinds is injected at some time."""
        return frozenset(fault.target.partition(".")[0] for fault in self._faults if fault.kind in kinds)

    def impersonated(self) -> frozenset[str]:
        """Return the devices whose line has, at some time, a device that answers for another address.

        Its replies are whole and well addressed: no driver can know whose probe is behind them.
        """
        links = {self._rig.devices[fault.target].link for fault in self._faults if fault.kind == "other_address"}
        links |= {fault.target for fault in self._faults if fault.kind == "wrong_address"}
        return frozenset(name for name, device in self._rig.devices.items() if device.link in links)

    def backwards(self, line: str, at_s: float) -> bool:
        """Return whether a motor turns backwards and drains what it should fill; the controller cannot detect that."""
        pump = self._rig.lines[line].pump
        return any(
            fault.kind == "reversed" and fault.target == pump and fault.at_s <= at_s <= fault.end_s + NOTICED_S
            for fault in self._faults
        )

    def turned_back(self, pump: str, since_s: float, until_s: float) -> bool:
        """Return whether a pump's motor turned backwards at some moment between two."""
        return any(self._during("reversed", pump, since_s, until_s))

    def between_ports(self, valve: str, since_s: float, until_s: float) -> bool:
        """Return whether a slipped rotor stood between two ports at some moment between two."""
        during = self._during("slipped", valve.partition(".")[0], since_s, until_s)
        return sum(fault.amount for fault in during) % 1.0 != 0.0

    def bubbles_ul(self, line: str, since_s: float, until_s: float) -> float:
        """Return how much air came into a line between two moments (µL)."""
        return sum(
            _amount(fault)
            for fault in self._faults
            if (fault.kind, fault.target) == ("bubble", line) and since_s < fault.at_s <= until_s
        )

    def _during(self, kind: str, target: str, since_s: float, until_s: float) -> Iterator[Fault]:
        """Yield the faults of a kind and target that act at some moment between two."""
        for fault in self._faults:
            if (fault.kind, fault.target) == (kind, target) and fault.at_s <= until_s and fault.end_s >= since_s:
                yield fault

    def unseen(self, fault: Fault) -> bool:
        """Return whether nothing of the rig can show a fault: a person has accepted that, or the one gauge is stuck."""
        if fault.kind != "heart_occlusion":
            return False
        gauge = self._rig.organs.hearts[fault.target].pressure
        return fault.target in self._blind or any(
            (each.kind, each.target) == ("stuck", gauge) and each.at_s <= fault.end_s and each.end_s >= fault.at_s
            for each in self._faults
        )

    def stopped_unseen(self, heart: str, now_s: float) -> bool:
        """Return whether a fault that nothing can show stops a heart, or did until a moment ago.

        A bubble is none that lasts: its pump turns, and moves medium again when the air has passed.
        """
        spec = self._rig.organs.hearts[heart]
        return any(
            (self.unseen(fault) and fault.target == heart and fault.at_s <= now_s <= fault.end_s + REACH_S)
            or (
                (fault.kind, fault.target) == ("bubble", spec.line)
                and fault.at_s <= now_s <= fault.at_s + 60.0 * fault.amount / spec.basal_ul_min + NOTICED_S
            )
            for fault in self._faults
        )

    def disturbed(self, now_s: float) -> bool:
        """Return whether a fault in hardware is on at this moment, or was within the last minutes."""
        return any(fault.at_s <= now_s <= fault.at_s + fault.for_s + DISTURBED_S for fault in self._faults)

    def near(self, point: str, now_s: float) -> bool:
        """Return whether something ails a point, its device, its line or the controller's computer, or did lately."""
        device = point.partition(".")[0]
        where = {point, device, self._rig.devices[device].link, "host"}
        return any(
            fault.target in where
            and fault.kind not in ("clock_step", "dst", "flood", "careless")
            and fault.at_s <= now_s <= fault.at_s + fault.for_s + REACH_S
            for fault in self._faults
        )

    def misread(self, point: str, since_s: float, until_s: float) -> bool:
        """Return whether a sensor's value was not the true one at some moment between two."""
        return any(
            fault.target == point
            and fault.kind in MISREADING
            and fault.at_s <= until_s
            and fault.end_s >= since_s - NOTICED_S
            for fault in self._faults
        )

    def offset(self, point: str, at_s: float) -> float:
        """Return by how much a sensor's value is off by its faults, or was until a moment ago (its unit)."""
        return sum(
            abs(fault.amount)
            for fault in self._faults
            if fault.kind == "offset" and fault.target == point and fault.at_s <= at_s <= fault.end_s + REACH_S
        )

    def garbled_until_s(self, point: str, now_s: float) -> float | None:
        """Until when bits are flipped on a point's line, if they are now or were until a moment ago."""
        link = self._rig.devices[point.partition(".")[0]].link
        ends = [
            fault.end_s
            for fault in self._faults
            if fault.kind in GARBLING and fault.target == link and fault.at_s <= now_s <= fault.end_s + GARBLED_S
        ]
        return max(ends, default=None)

    def misled_since_s(self, now_s: float) -> float | None:
        """Since when pumps or the balance may have said what is not so, if they may."""
        return min((f.at_s for f in self._faults if f.kind in MISLEADING and f.at_s <= now_s), default=None)


def _amount(fault: Fault) -> float:
    """Return the amount of a fault, the usual one where it has none of its own."""
    magnitude = KINDS[fault.kind].amount
    return fault.amount if magnitude is None else magnitude.of(fault)


def unseen_rows(rig: Rig) -> frozenset[str]:
    """Return the ids of the hazards that remain: a person has accepted them, or no sensor shows them."""
    return frozenset(hazard.id for hazard in hazards_of(rig) if hazard.verdict is not HazardVerdict.COVERED)


def unseen_places(rig: Rig) -> frozenset[str]:
    """Return the places of hazards that remain: a person has accepted them, or no sensor shows them."""
    return frozenset(hazard.place for hazard in hazards_of(rig) if hazard.verdict is not HazardVerdict.COVERED)


def _without_gauge(rig: Rig) -> Iterator[str]:
    """Yield the hearts whose blocked line is a hazard that nothing detects."""
    known = {
        hazard.place
        for hazard in hazards_of(rig)
        if hazard.id.startswith(OVER_PRESSURE_HEART) and hazard.verdict is not HazardVerdict.COVERED
    }
    yield from (name for name, heart in rig.organs.hearts.items() if heart.line in known)
