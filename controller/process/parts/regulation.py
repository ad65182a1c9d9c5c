"""Regulation: the regulators' intents at each tick, and the stop of outputs that move without being asked to."""

from __future__ import annotations

import asyncio

from controller.core.state import State
from controller.process.core import ControllerCore
from controller.process.part import Part, TickStage
from controller.process.registry import part
from controller.regulation.heart import HeartRegulator
from controller.regulation.heat_balance import HeatBalance
from controller.regulation.references import References
from controller.regulation.regulators import Regulator, regulators_of
from controller.safety.terms import Intent


class Regulation:
    """Submits the intents of a rig's regulators; those of one regulator one after the other."""

    def __init__(self, core: ControllerCore, heat: HeatBalance | None) -> None:
        self._core = core
        self.regulators = dict(regulators_of(core.rig, heat))

    async def start_hearts(self, state: State) -> None:
        """Bring every heart to its flow."""
        hearts = [each for each in self.regulators.values() if isinstance(each, HeartRegulator)]
        await asyncio.gather(*(self._submit(heart.intents(state)) for heart in hearts))

    def update(self, state: State) -> None:
        """Submit what each regulator asks for; one whose last intents are still under way submits again later."""
        for name, regulator in self.regulators.items():
            self._core.tasks.isolate(name, self._regulate, name, regulator, state)

    def _regulate(self, name: str, regulator: Regulator, state: State) -> None:
        if not self._core.tasks.running(name) and (intents := regulator.intents(state)):
            self._core.tasks.start(name, self._submit(intents))

    async def _submit(self, intents: tuple[Intent, ...]) -> None:
        for intent in intents:
            await self._core.gate.submit(intent)


@part(TickStage.REGULATE)
def regulation(core: ControllerCore) -> Part:
    """Make the regulators of the rig."""
    skin, memory = core.rig.organs.skin, core.provide(References(core.journal))
    heat = core.provide(HeatBalance(skin, memory)) if core.limits.compared and skin is not None else None
    return Part("regulation", update=core.provide(Regulation(core, heat)).update)
