"""The soft sensor at work on a rig: follows every booked transfer, is corrected by pH and gas, remembers in the journal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from controller.clock import Clock
from controller.execution.journal import Journal
from controller.execution.ledger import EVAPORATION_SD_UL_D, EVAPORATION_UL_D, Ledger, Movement
from controller.execution.weighing import Store, settled
from controller.rig.description import Rig
from drivers.device import Quality
from protocols import soft_sensor
from protocols.soft_sensor import Compartment, Composition, MediaEstimate, SensorState, Where

PH_RANGE = (6.5, 8.0)
CO2_SHARE_RANGE = (0.005, 0.2)
PATIENCE_S = 60.0
GAS_STALE_S = 60.0


class Estimator:
    """One rig's soft sensor; `latest` is its last word."""

    def __init__(self, rig: Rig, *, ledger: Ledger, journal: Journal, clock: Clock, store: Store) -> None:
        self._rig = rig
        self._ledger = ledger
        self._journal = journal
        self._clock = clock
        self._store = store
        self._spent = rig.organs.kidney.vessel
        self._circulating = (rig.organs.lung.vessel, rig.organoid.chamber)
        self._at_s = clock.now_s()
        self._state = self._begin()
        self.latest: MediaEstimate | None = None
        self._rebuild()
        ledger.listen(self._moved)

    @property
    def state(self) -> SensorState:
        """What the soft sensor remembers."""
        return self._state

    async def estimate(self, *, run: str | None = None) -> MediaEstimate:
        """Read pH of the loop and the gas flows, correct by them if they may be trusted, and journal the state."""
        ph = await self._acidity()
        self._pass_time(self._clock.now_s() - self._at_s)
        self._follow_ledger()
        pco2 = self._pco2()
        titrated = ph is not None and pco2 is not None
        if ph is not None and pco2 is not None:
            self._state = soft_sensor.titrated(self._state, ph, pco2)
        self.latest = soft_sensor.estimate(self._state, titrated=titrated)
        inputs: dict[str, Any] = {"ph": ph, "pco2_mmhg": pco2}
        body = {"state": self._state.to_json(), "inputs": inputs, "estimate": self.latest.to_json()}
        self._journal.append("estimate", body, run=run)
        return self.latest

    # --- inside -----------------------------------------------------------------------------------------

    def _begin(self) -> SensorState:
        rig = self._rig
        volumes = self._ledger.volumes()
        loop_ul = sum(volumes[name].ul for name in self._circulating)
        organoid = rig.organoid
        tissue_mm3 = organoid.count * math.pi / 6 * organoid.diameter_mm**3
        return soft_sensor.begin(
            Compartment(loop_ul, self._content(self._circulating[0]) or _NOTHING),
            Compartment(volumes[self._spent].ul, self._content(self._spent) or _NOTHING),
            tissue_mm3=tissue_mm3,
        )

    def _content(self, vessel: str) -> Composition | None:
        name = self._rig.vessels[vessel].contains
        if name is None:
            return None
        medium = self._rig.media[name]
        return Composition(
            glucose_mm=medium.glucose_mm,
            lactate_mm=medium.lactate_mm,
            ammonia_mm=medium.ammonia_mm,
            bicarbonate_mm=medium.bicarbonate_mm,
            glutamine_mm=medium.glutamine_mm,
            osmolality_mosm=medium.osmolality_mosm,
        )

    def _pass_time(self, seconds: float) -> None:
        self._at_s = self._clock.now_s()
        days = max(seconds, 0.0) / soft_sensor.DAY_S
        self._state = soft_sensor.elapsed(
            self._state,
            seconds,
            evaporated_ul=EVAPORATION_UL_D * days,
            evaporated_sd_ul=EVAPORATION_SD_UL_D * days,
        )

    def _moved(self, movement: Movement) -> None:
        self._pass_time(self._clock.now_s() - self._at_s)
        self._pour(movement.source, movement.target, movement.ul)

    def _pour(self, source: str, target: str, ul: float) -> None:
        poured: Where | Composition | None = self._where(source) or self._content(source)
        self._state = soft_sensor.moved(self._state, poured, self._where(target), ul)

    def _where(self, vessel: str) -> Where | None:
        if vessel in self._circulating:
            return "loop"
        return "spent" if vessel == self._spent else None

    def _follow_ledger(self) -> None:
        """The ledger weighs and is reconciled; the soft sensor takes its volumes over."""
        volumes = self._ledger.volumes()
        loop_ul = sum(volumes[name].ul for name in self._circulating)
        state = self._state
        self._state = replace(
            state,
            loop=replace(state.loop, volume_ul=loop_ul),
            spent=replace(state.spent, volume_ul=volumes[self._spent].ul),
        )

    async def _acidity(self) -> float | None:
        point = self._rig.organs.lung.ph
        every_s = self._rig.devices[point.partition(".")[0]].every_s
        reading = await settled(self._store, point, every_s=every_s, patience_s=max(PATIENCE_S, 6 * every_s))
        if reading.value is None or not PH_RANGE[0] < reading.value < PH_RANGE[1]:
            return None
        return reading.value

    def _pco2(self) -> float | None:
        lung = self._rig.organs.lung
        flows = [self._gas(point) for point in (lung.co2, lung.air, lung.o2)]
        co2 = flows[0]
        if co2 is None or any(flow is None for flow in flows):
            return None
        total = sum(flow for flow in flows if flow is not None)
        low, high = CO2_SHARE_RANGE
        if total <= 0 or not low < co2 / total < high:
            return None
        return soft_sensor.pco2_mmhg(co2, total)

    def _gas(self, point: str) -> float | None:
        reading = self._store.readings.get(point)
        if reading is None or reading.quality is not Quality.GOOD or not math.isfinite(reading.value):
            return None
        return reading.value if self._clock.now_s() - reading.at_s <= GAS_STALE_S else None

    def _rebuild(self) -> None:
        """Take up the state of the last estimate in the journal, and what was booked since."""
        last = self._journal.last("estimate")
        if last is None:
            opened = self._journal.last("ledger.opened")
            after, since = (opened.seq, opened.utc) if opened is not None else (0, self._clock.utc_text())
        else:
            after, since = last.seq, last.utc
            body: Mapping[str, Any] = last.body
            self._state = SensorState.from_json(body["state"])
            self.latest = MediaEstimate.from_json(body["estimate"])
        at = datetime.fromisoformat(since)
        for entry in self._journal.entries(kinds=("moved",), after=after):
            now = datetime.fromisoformat(entry.utc)
            self._pass_time((now - at).total_seconds())
            line = self._rig.lines[entry.body["line"]]
            self._pour(line.from_, line.to, entry.body["ul"])
            at = now
        self._pass_time((self._clock.utc() - at).total_seconds())


_NOTHING = Composition(0.0, 0.0, 0.0, 0.0, 0.0, 290.0)
