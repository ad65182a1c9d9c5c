"""Facts of the rig description that the organs of a protocol need, and the set-points of the rig."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TypeVar

from controller.estimator.rig_medium import composition_of
from controller.recipes.sensors import SENSORS
from controller.rig.description import Medium, Rig, Vessel
from controller.rig.dosing import dosed_groups, shared_plumbing
from controller.rig.organ_lines import contained, fresh_medium
from controller.rig.places import at, roles_of
from controller.rig.probes import ph_target
from controller.runs.grading import prices_of, rules_of
from controller.safety.kernel import SIGMAS
from controller.steps.barrier import bounds_kpa
from protocols.dialysis import DialyserModel, koa_at
from protocols.host import ProtocolError
from protocols.results import ChamberFacts, VesselVolume
from protocols.soft_sensor import Composition
from protocols.verbs import TransferVerb, Way

SPENT_MARGIN_UL = 1000.0
"""Kept free in the spent vessel below its ceiling: three standard deviations of its volume, and a drip."""
LOOP_MARGIN_UL = 2000.0
"""Kept in the loop above its floor: three standard deviations after ten days without a reading of its volume."""
LOOP_DRIP_UL = 100.0
"""Kept beyond three standard deviations: evaporation, and its uncertainty, from one step to a dose some hours later."""

Part = TypeVar("Part")

PROBE_MODELS: Mapping[str, str] = {"atlas-ezo-ec": "conductivity"}
"""Model of a probe that not every rig has → the quantity that it reads."""


class RigFacts:
    """Facts of one rig; `volumes` returns those of the run (:class:`protocols.host.Facts`)."""

    def __init__(self, rig: Rig, volumes: Callable[[], Mapping[str, VesselVolume]]) -> None:
        self._rig = rig
        self.min_filter_kpa, self.max_filter_kpa = bounds_kpa(rig)
        self.targets = RigTargets(rig, volumes)
        self.rules = rules_of(rig)
        self.prices = prices_of(rig)

    @property
    def hearts(self) -> tuple[str, ...]:
        """The names of the hearts."""
        return tuple(self._rig.organs.hearts)

    @cached_property
    def chambers(self) -> dict[str, ChamberFacts]:
        """The chambers that can be dosed, by name."""
        vessels, plumbing = self._rig.vessels, shared_plumbing(self._rig)
        return {
            name: ChamberFacts(each.capacity_ul, each.floor_ul, each.limit_ul, each.volume_ul, plumbing[name])
            for name, each in vessels.items()
            if name in plumbing
        }

    @cached_property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Groups of these chambers: those of the rig file, batches of tissue, and `all`."""
        return dosed_groups(self._rig)

    def sensor(self, place: str, heart: str = "") -> str | None:
        """Return the sensor (`device.point`) at a place; None on a rig without it or without its organ."""
        if (find := SENSORS.get(place)) is not None:
            return find(self._rig)
        point: str | None = at(self._rig, place, heart=heart)
        return point

    def pump(self, place: str, heart: str = "") -> str | None:
        """Return the pump of the line at a place; None on a rig without it."""
        line = at(self._rig, place, heart=heart)
        return None if line is None else self._rig.lines[line].pump

    def probe(self, quantity: str, place: str) -> str | None:
        """Return the probe (`device.point`) of a quantity in the vessel at a place; None on a rig without it."""
        vessel = at(self._rig, place)
        if vessel is None:
            return None
        for name, device in self._rig.devices.items():
            if device.at == vessel and PROBE_MODELS.get(device.model) == quantity:
                return f"{name}.{quantity}"
        return None

    def dialyser(self, verb: TransferVerb, way: Callable[[str], Way]) -> DialyserModel | None:
        """Return the dialyser that `verb` passes medium through, at the flow of its way; None on a rig without it."""
        line = at(self._rig, verb.line)
        if line is None:
            return None
        route = way(verb.name)
        fibres = self._rig.dialysers[self._rig.lines[line].dialyser or ""]
        koa = koa_at(route.flow_ul_min, fibres.koa_ul_min, fibres.koa_at_ul_min)
        return DialyserModel(koa, route.flow_ul_min, route.min_ul)


class RigTargets:
    """Set-points, read off the rig description. `volumes` are the run's; without them the loop is full and known.

    What refers to a part that the rig does not have raises :class:`ProtocolError`.
    """

    def __init__(self, rig: Rig, volumes: Callable[[], Mapping[str, VesselVolume]] = dict) -> None:
        self._volumes = volumes
        self._rig = rig
        self._vessels = {role: rig.vessels[name] for role, name in roles_of(rig).items()}
        self.media = {name: _composition(rig, vessel) for name, vessel in _bottles(rig).items()}

    @property
    def _loop(self) -> Vessel:
        return _needed(self._vessels.get("loop"), "a loop vessel that a heart draws from")

    @property
    def _spent(self) -> Vessel:
        return _needed(self._vessels.get("spent"), "a kidney with its vessel of spent medium")

    @property
    def spent_ul(self) -> float:
        """Volume that stays in the spent vessel between cycles (µL)."""
        return self._spent.volume_ul

    @property
    def spent_floor_ul(self) -> float:
        """Volume of the spent vessel that must never be pumped out (µL)."""
        return self._spent.floor_ul

    @property
    def spent_room_ul(self) -> float:
        """Volume that the spent vessel may take beyond `spent_ul` (µL), less a margin."""
        return self._spent.limit_ul - self._spent.volume_ul - SPENT_MARGIN_UL

    @cached_property
    def ph(self) -> float:
        """Target pH."""
        return ph_target(self._rig)

    @property
    def glucose_mm(self) -> float:
        """Glucose of fresh medium (mM)."""
        return self._fresh.glucose_mm

    @property
    def osmolality_mosm(self) -> float:
        """Osmolality of fresh medium (mOsm/kg)."""
        return self._fresh.osmolality_mosm

    @property
    def _fresh(self) -> Medium:
        return self._rig.media[fresh_medium(self._rig)]

    @property
    def glucose_stock_mm(self) -> float:
        """Glucose of the stock (mM); 0 on a rig without one."""
        return self.media["glucose"].glucose_mm if "glucose" in self.media else 0.0

    @property
    def base_stock_mm(self) -> float:
        """Bicarbonate of the stock (mM); 0 on a rig without one."""
        return self.media["base"].bicarbonate_mm if "base" in self.media else 0.0

    @property
    def loop_ul(self) -> float:
        """The loop's working volume (µL): as the rig file has it, unless the loop may run over.

        Its doubt grows from day to day until a person reads its level. When what it may hold at the most comes near the
        ceiling, less is given back; else the gate would refuse it, and the run would wait with the batch in its hands.
        """
        vessel, loop = self._loop, self._volumes().get("loop")
        if loop is None:
            return vessel.volume_ul
        surely_ul = vessel.limit_ul - SIGMAS * loop.sd_ul - LOOP_MARGIN_UL
        return min(vessel.volume_ul, max(surely_ul, vessel.floor_ul))

    @property
    def loop_spare_ul(self) -> float:
        """What may be drawn from the loop at once (µL): of its working volume, and of what is surely in it.

        Nothing measures the loop, so what is surely in it falls from day to day until a person reads its level; a draw
        that the gate would refuse for doubt alone (I4) becomes a smaller one. As of the branch's last step, so that the
        run repeats itself after a restart.
        """
        max_ul = self.loop_ul - LOOP_MARGIN_UL
        loop = self._volumes().get("loop")
        if loop is not None:
            max_ul = min(max_ul, loop.ul - SIGMAS * loop.sd_ul - LOOP_DRIP_UL)
        return max(max_ul - self._loop.floor_ul, 0.0)


def _needed(part: Part | None, what: str) -> Part:
    """Return a part that the rig may lack; raise :class:`ProtocolError` if it does."""
    if part is None:
        raise ProtocolError(
            f"this needs {what}, and the rig does not have it. Next: choose a protocol that `choroid check --capabilities`"
            " lists for this rig, or add the part to the rig file"
        )
    return part


def _bottles(rig: Rig) -> dict[str, str]:
    """Return the vessel of each medium that the rig gives, by its name in :class:`protocols.targets.Targets`."""
    gut, liver, kidney = rig.organs.gut, rig.organs.liver, rig.organs.kidney
    dialyse = None if kidney is None else kidney.dialyse
    lines = {} if gut is None else {"fresh": gut.feed}
    lines |= {} if liver is None else {"glucose": liver.glucose, "base": liver.base}
    lines |= {} if dialyse is None else {"basal": dialyse}
    return {name: rig.lines[line].from_ for name, line in lines.items()}


def _composition(rig: Rig, vessel: str) -> Composition:
    return composition_of(rig.media[contained(rig, vessel)])
