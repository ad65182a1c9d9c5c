"""Twelve wells behind two selectors, for the runner's tests: what a pump moves goes where the valves stand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller.hazards.loading import load_checked_rig
from controller.recipes.catalogue import find
from controller.recipes.file import read_recipe
from controller.rig.description import Rig
from controller.rig.dosing import levels_of
from controller.rig.selectors import paths
from drivers.commands import Command, Guarantee, Level, LevelStatus, Status, Stop
from drivers.device import Actuator
from protocols.registry import Recipe
from tests.execution.world import Pump, World

TWO_SELECTORS = Path(__file__).resolve().parents[1] / "rigs" / "two_selectors.yaml"
PLATE = load_checked_rig(TWO_SELECTORS)
WELLS = tuple(name for name in PLATE.tissue)


class PlatePump(Pump):
    """Moves along the path that the selectors connect; against a closed port it moves nothing."""

    world: PlateWorld

    def __init__(self, world: PlateWorld, line: str) -> None:
        super().__init__(world, line)
        self.step_ul, self.min_ul = 1.0, 10.0
        self.counted_ul = 5000.0  # a total of zero would not tell a loss of power

    def advance(self) -> None:
        now_s = self.world.loop.time()
        ul = min(self.flow_ul_min * (now_s - self.at_s) / 60.0, self.left_ul)
        self.at_s = now_s
        ends = self.world.ends(self.name)
        if ends is None or ends in self.world.blocked:
            if ul > 0.0:
                self.flow_ul_min = self.left_ul = 0.0  # its pressure switch stops it
            return
        self.counted_ul += ul
        self.left_ul -= ul
        self.moved_ul += ul * self.gain
        self.world.volumes[ends[0]] -= ul * self.gain
        self.world.volumes[ends[1]] += ul * self.gain
        for end, sign in zip(ends, (-1.0, 1.0), strict=True):
            if ul > 0.0:
                self.world.entered[end] = self.world.entered.get(end, 0.0) + sign * ul * self.gain
        if self.left_ul <= 1e-9:
            self.flow_ul_min = self.left_ul = 0.0


class SelectorValve(Actuator):
    """Stands at a position, 0 at rest; notes every move while a pump behind it runs."""

    kind = "level"
    unit = "position"
    guarantee = Guarantee.GUARD

    def __init__(self, world: PlateWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.level = 0.0
        self.stuck = False
        """Whether it answers and does not turn."""
        self.moves: list[float] = []

    async def apply(self, command: Command) -> None:
        self.world.advance()
        self._look()
        await asyncio.sleep(0.5)
        self.world.advance()
        self._look()
        level = command.value if isinstance(command, Level) else 0.0
        assert isinstance(command, Level | Stop)
        if not self.stuck and level != self.level:
            self.level = level
            self.moves.append(level)

    async def status(self) -> Status:
        await asyncio.sleep(0.02)
        return self.present()

    def present(self) -> Status:
        return LevelStatus(self.level, self.level)

    def _look(self) -> None:
        running = [pump.name for pump in self.world.pumps.values() if pump.flow_ul_min > 0]
        rig = self.world.rig
        mine = {name for name, selector in rig.selectors.items() if selector.valve == self.name}
        own = {path.pumped for path in paths(rig) if mine & set(dict(path.positions))}
        self.world.turned_under_flow += [f"{self.name} while {name} runs" for name in running if name in own]


class PlateWorld(World):
    """The plate, its pumps and its valves; it goes on when the controller is gone."""

    def __init__(self, rig: Rig = PLATE) -> None:
        super().__init__(rig)
        self.entered: dict[str, float] = {}
        """What has truly entered each vessel (µL; negative: left it)."""
        self.turned_under_flow: list[str] = []
        self.blocked: set[tuple[str, str]] = set()
        """Ends between which nothing passes: a line is kinked, and the pump stalls."""
        self.pumps = {line.pump: PlatePump(self, name) for name, line in rig.lines.items() if line.pump}
        self.selectors = {each.valve: SelectorValve(self, each.valve) for each in rig.selectors.values()}
        self.valves = self.selectors  # type: ignore[assignment]  # the controller's test double commands all of them
        self.readings = {"gauge.pressure": ("kPa", 1.0)}

    @property
    def mass_g(self) -> float:
        self.advance()
        return self.volumes.get("waste", 0.0) / 1000.0

    def ends(self, line: str) -> tuple[str, str] | None:
        """Return the vessels that the selectors connect with a pumped line; None at a closed port."""
        stands = {name: valve.level for name, valve in self.selectors.items()}
        for path in paths(self.rig):
            if path.pumped == line and all(stands[v] == level for v, level in levels_of(self.rig, path).items()):
                return path.source, path.target
        return None

    @property
    def at_rest(self) -> bool:
        """Whether every selector is at rest and every pump stands."""
        self.advance()
        resting = all(valve.level == 0.0 for valve in self.selectors.values())
        return resting and all(pump.flow_ul_min == 0.0 for pump in self.pumps.values())


def recipe_of(folder: Path, steps: str, parameters: str = "", name: str = "mine") -> Recipe:
    """Return a recipe with these steps."""
    path = folder / f"{name}.yaml"
    path.write_text(f"recipe: 1\nname: {name}\ntitle: A test\n{parameters}steps:{steps}", encoding="utf-8")
    return read_recipe(path, find=find)


def of_kind(controller: Any, kind: str) -> list[Mapping[str, Any]]:
    """Return the bodies of all rows of a kind."""
    return [entry.body for entry in controller.journal.entries(kinds=(kind,))]
