"""Steps of a recipe that dose chambers: one dose, and steps that are carried out for each of several chambers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from protocols.chamber_verbs import CHAMBER
from protocols.expression import Expression
from protocols.program import CHAMBER_VOLUME_NAME, ChamberFailed, Ended, Now, Step, names_used, run_all, walked
from protocols.results import NOTHING
from protocols.steps import too_small, values_saved
from protocols.verbs import Argument, ChamberVerb, StepForm

FOR_EACH = StepForm(
    "for_each",
    "carry out steps for each chamber: at the same time where the plumbing shares nothing, else one after the other."
    " `chamber` names the chamber of the turn",
    {
        "group": Argument("group", "a group of the rig file, or a batch of tissue (default: all that can be dosed)"),
        "chambers": Argument("texts", "names of the chambers, instead of a group"),
        "do": Argument("steps", "what is done for each", required=True),
    },
)
EACH = CHAMBER
"""`for_each: chamber` stands for all chambers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoseChamber(Step):
    """Dispense into a chamber, aspirate from one, or rinse a selector."""

    verb: ChamberVerb
    form: StepForm
    at: str
    """The chamber or selector."""
    source: str
    volume: Expression
    max_carry_over: Expression | None
    save: str | None

    @property
    def acts(self) -> bool:
        return True

    async def run(self, now: Now) -> None:
        volume_ul = await now.number(self.volume, self.place)
        named = await self._named(now)
        doser = now.lab.doser
        if await too_small(now, self.place, self.verb.name, volume_ul, doser.route(self.verb, named).min_ul):
            moved = NOTHING
        else:
            moved = await doser.move(self.verb, volume_ul, named)
        if self.save:
            now.values |= values_saved(self.form, self.save, moved)
        if named[self.verb.place] == now.chamber and CHAMBER_VOLUME_NAME in now.values:
            # Read, not added up: a straw may have drawn air, and a neighbour's overflow counts as well.
            now.values[CHAMBER_VOLUME_NAME] = await now.lab.chambers[now.chamber].volume_ul()
        if moved.failed:
            raise ChamberFailed(now.chamber, moved.failed)

    async def _named(self, now: Now) -> dict[str, Any]:
        """Return the arguments of the verb; those with their default are left out."""
        at = now.chamber if self.at == CHAMBER and now.chamber else self.at
        named: dict[str, Any] = {self.verb.place: at}
        if self.source:
            named[self.verb.source] = self.source
        if self.max_carry_over is not None:
            named["max_carry_over_pct"] = await now.number(self.max_carry_over, self.place)
        if now.chamber and at == now.chamber:
            named["alone"] = True
        return named


@dataclass(frozen=True, slots=True, kw_only=True)
class ForEach(Step):
    """Carry out steps for each chamber. What they save belongs to that chamber.

    A chamber whose dose is given up is left out from there on, for the rest of the run.
    """

    group: str
    chambers: tuple[str, ...]
    steps: Sequence[Step]

    @property
    def acts(self) -> bool:
        return True

    async def run(self, now: Now) -> None:
        known = now.lab.chambers
        lists = known.in_turns(self.chambers or known.group(self.group))

        async def along(members: Sequence[str]) -> bool:
            ended = [await self._turn(name, now) for name in members]
            return any(ended)

        if len(lists) == 1:
            ended = [await along(lists[0])]
        else:
            ended = await now.lab.together(*(along(each) for each in lists), names=[each[0] for each in lists])
        now.idle = 0
        if any(ended):
            raise Ended

    async def _turn(self, name: str, now: Now) -> bool:
        """Carry out the steps for one chamber. Return whether they ended with `end`."""
        if name in now.left_out:
            return False
        own = replace(now, values={**now.values, **now.saved_by.get(name, {})}, chamber=name, idle=0)
        if self._reads_volume:
            own.values[CHAMBER_VOLUME_NAME] = await now.lab.chambers[name].volume_ul()
        before = dict(now.values)
        try:
            await run_all(self.steps, own)
        except Ended:
            return True
        except ChamberFailed as failure:
            now.left_out[name] = failure.why
            await now.lab.note("chamber_left_out", {"chamber": name, "why": failure.why})
        finally:
            now.saved_by[name] = _own_values(own.values, before)
        return False

    @property
    def _reads_volume(self) -> bool:
        return any(CHAMBER_VOLUME_NAME in names_used(step) for step in walked(self.steps))

    def inner(self) -> Iterator[Step]:
        yield from self.steps


def _own_values(values: Mapping[str, Any], outside: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the steps of one chamber have saved, without what was known outside."""
    return {name: value for name, value in values.items() if name not in outside}
