"""The estimator on a rig without a lung: the pH of the loop counts only under gas that has CO2 in it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.estimator.estimator import Estimator
from controller.journal.journal import Journal
from controller.ledger.ledger import Ledger
from controller.rig.description import ROOM_CO2_PCT, Rig, required
from controller.rig.loading import load_rig
from controller.rig.probes import loop_ph
from drivers.commands import Quality
from drivers.registry import MODELS

RIG = load_rig(Path(__file__).parents[2] / "examples" / "rigs" / "incubator.yaml", models=MODELS)

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize(("co2_pct", "titrated"), [(5.0, True), (ROOM_CO2_PCT, False), (0.0, False)])
async def test_the_gas_of_a_zone_without_co2_titrates_nothing(co2_pct: float, titrated: bool, tmp_path: Path) -> None:
    zone = RIG.zones["incubator"].model_copy(update={"co2_pct": co2_pct})
    rig = RIG.model_copy(update={"zones": RIG.zones | {"incubator": zone}})
    clock, store = Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC)), StateStore()
    journal = Journal(tmp_path / "journal.db", clock, durable=False)
    estimator = Estimator(rig, ledger=Ledger(rig, journal, clock), journal=journal, clock=clock, store=store)
    try:
        before = estimator.state.interval("loop", "lactate_mm")
        async with asyncio.TaskGroup() as group:
            probe = group.create_task(_probe(rig, store))
            estimate = await estimator.estimate()
            probe.cancel()
    finally:
        journal.close()
    assert estimate.titrated is titrated
    if not titrated:
        assert estimate.loop.lactate_mm.sd == pytest.approx(before.sd, rel=0.05)


async def _probe(rig: Rig, store: StateStore) -> None:
    """Show pH 7.4 each second."""
    point = required(loop_ph(rig), "a pH probe")
    while True:
        store.read(point, 7.4, "pH", Quality.GOOD, asyncio.get_running_loop().time())
        await asyncio.sleep(1.0)
