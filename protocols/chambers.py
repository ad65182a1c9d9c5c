"""The chambers of a lab: each is dosed by its name, and its volume is read from the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from protocols.chamber_verbs import ASPIRATE, DISPENSE, MAX_CARRY_OVER_PCT
from protocols.host import ProtocolError
from protocols.organs import VerbHolder
from protocols.results import Amount, ChamberFacts
from protocols.verbs import ChamberVerb, action

ALL_CHAMBERS = "all"
"""The group of all chambers that can be dosed."""


class Doser(VerbHolder):
    """Carries out the verbs of :mod:`protocols.chamber_verbs`."""

    async def move(self, verb: ChamberVerb, volume_ul: float, named: Mapping[str, Any]) -> Amount:
        """Carry out a verb. `named` are its other arguments; those that are empty are left out of the record."""
        args = {
            "volume_ul": volume_ul,
            **{key: value for key, value in named.items() if value not in ("", None, False)},
        }
        return await self._move(verb, args)

    @action("Read the chamber's volume in the ledger")
    async def chamber_volume(self, chamber: str) -> float:
        """Read the volume of a chamber in the ledger (µL)."""
        return float((await self.host.act(Doser.chamber_volume, {"chamber": chamber}))["ul"])


class Chamber:
    """One chamber of the rig."""

    def __init__(self, name: str, doser: Doser) -> None:
        self.name = name
        self._doser = doser

    @property
    def facts(self) -> ChamberFacts:
        """Capacity and limits of the chamber (µL)."""
        return self._doser.facts.chambers[self.name]

    async def volume_ul(self) -> float:
        """Read its volume in the ledger (µL)."""
        return await self._doser.chamber_volume(self.name)

    async def dispense(
        self, volume_ul: float, *, source: str = "", max_carry_over_pct: float = MAX_CARRY_OVER_PCT, alone: bool = False
    ) -> Amount:
        """Dispense medium into it.

        Args:
            volume_ul: The volume (µL).
            source: Vessel or medium, if several lead to it.
            max_carry_over_pct: Maximum share of the dose that may be other medium, left in the shared line (%).
            alone: Whether a failure is returned (`Amount.failed`) instead of holding the run.
        """
        given = {DISPENSE.source: source, "max_carry_over_pct": _unusual(max_carry_over_pct), "alone": alone}
        return await self._doser.move(DISPENSE, volume_ul, {DISPENSE.place: self.name, **given})

    async def aspirate(
        self, volume_ul: float, *, max_carry_over_pct: float = MAX_CARRY_OVER_PCT, alone: bool = False
    ) -> Amount:
        """Aspirate medium from it; arguments as those of :meth:`dispense`."""
        given = {"max_carry_over_pct": _unusual(max_carry_over_pct), "alone": alone}
        return await self._doser.move(ASPIRATE, volume_ul, {ASPIRATE.place: self.name, **given})


class Chambers(Mapping[str, Chamber]):
    """The chambers that can be dosed, by name; and groups of them."""

    def __init__(self, doser: Doser) -> None:
        self._doser = doser

    def __getitem__(self, name: str) -> Chamber:
        if name not in self._doser.facts.chambers:
            known = ", ".join(self) or "none"
            raise ProtocolError(f"no chamber “{name}” can be dosed on this rig. Next: use one of its chambers: {known}")
        return Chamber(name, self._doser)

    def __iter__(self) -> Any:
        return iter(self._doser.facts.chambers)

    def __len__(self) -> int:
        return len(self._doser.facts.chambers)

    def group(self, name: str) -> tuple[str, ...]:
        """Return the chambers of a group: of the rig file, a batch of tissue, or `all`."""
        groups = self._doser.facts.groups
        if name not in groups:
            raise ProtocolError(f"no group is called “{name}” on this rig. Next: use one of {', '.join(groups)}")
        return groups[name]

    def in_turns(self, names: Sequence[str]) -> list[list[str]]:
        """Return the chambers in lists that share no plumbing: those of one list take turns, lists may run abreast."""
        lists: list[tuple[set[str], list[str]]] = []
        for name in names:
            parts, members = set(self[name].facts.plumbing), [name]
            apart = [each for each in lists if not each[0] & parts]
            for shared in lists:
                if shared[0] & parts:
                    parts |= shared[0]
                    members = [*shared[1], *members]
            lists = [*apart, (parts, members)]
        order = {name: number for number, name in enumerate(names)}
        return sorted((sorted(members, key=order.__getitem__) for _, members in lists), key=lambda each: order[each[0]])


def _unusual(max_carry_over_pct: float) -> float | None:
    """Return a bound that is not the default: only that is recorded."""
    return None if max_carry_over_pct == MAX_CARRY_OVER_PCT else max_carry_over_pct
