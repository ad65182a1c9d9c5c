"""The age of medium: what the ledger expects of a bottle and of the loop agrees with the plant."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from sim.lab import SimulatedLab
from tests.execution.protocols_for_tests import CATALOGUE
from tests.execution.test_whole_stack import controlled, until
from tests.execution.world import RIG

DAY_S = 86_400.0
LIVED_D = 0.5


@pytest.mark.long
@pytest.mark.virtual_time
async def test_the_ledger_knows_the_age_and_the_decline_of_all_medium(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=5)
    async with controlled(lab, tmp_path) as controller:
        await asyncio.sleep(LIVED_D * DAY_S)
        run = await controller.runs.start(CATALOGUE["everything"], {}, "anna", "a test")
        await until(lambda: controller.runs.get(run).state.ended)
        assert controller.runs.get(run).state is RunState.COMPLETE, controller.runs.get(run).messages
        rows = controller.journal.entries(kinds=("moved",))
        row = next(row for row in rows if row.body["line"] == "feed")
        truth, parcels = lab.plant.truth(), controller.ledger.parcels()
        for vessel in ("reservoir", "loop", "spent"):
            real, expected = truth.concentrations[vessel], parcels[vessel]
            assert expected.age_s / DAY_S == pytest.approx(real["age"], rel=0.01, abs=0.02), vessel
            assert expected.insulin == pytest.approx(real["insulin"], rel=0.005), vessel
        bottle = truth.concentrations["reservoir"]
        stated = RIG.media["fresh"].glutamine_mm
        assert bottle["glutamine"] < stated
        assert parcels["reservoir"].glutamine == pytest.approx(bottle["glutamine"] / stated, abs=0.001)
        assert row.body["glutamine"] == pytest.approx(bottle["glutamine"] / stated, abs=0.001)
        assert parcels["reservoir"].factors == pytest.approx(bottle["trophic"], abs=0.002)
    await lab.close()
