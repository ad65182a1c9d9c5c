"""A slow loss of chronically harmed tissue makes `recycle` retreat, with devices, estimator, journal and alarms."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from controller.alarms.states import AlarmState
from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.process.controller import Controller
from controller.vitals.tissue import ROW
from protocols.retreat import RETREAT
from sim.lab import SimulatedLab
from sim.neurons.rates import RateModel
from sim.plant.parameters import PlantParameters
from sim.plant.tissue_models import MODELS
from tests.execution.test_whole_stack import EPOCH, controlled, until
from tests.execution.world import RIG
from verification.bench.cultures import HARMS, CultureFleet
from verification.bench.sensors import Equipment, Sensors

WEEKLY = Equipment("bench rig with weekly assays and images", outlet_oxygen=False, weekly=True, electrodes=True)
CHRONIC = MODELS["chronic"]
LIVED_H = 24 * 12
SEED = 1


def lived(data: Path, *, harmed: bool) -> float:
    """Write twelve days of looks at a culture into the journal of a rig; return its true loss of viability."""
    model = CHRONIC if harmed else MODELS["reference"]
    history = CultureFleet(RIG, model, HARMS[:1], (SEED,)).lived(LIVED_H).arrays()
    truth = {name: values[:, 0] for name, values in history.items()}
    sensors = Sensors(RIG, truth, RateModel(32, 0), WEEKLY, SEED)
    began_h = int((EPOCH - timedelta(hours=LIVED_H)).timestamp() // 3600)
    journal = Journal(data / "journal.db", Clock(follow_system=False, epoch=EPOCH), durable=False)
    for hour in range(LIVED_H):
        # Other instruments than those of the rig that goes on with it: the scale of its signals is taken again.
        row = {"hour": began_h + hour, "look": sensors.update(hour).to_json(), "instruments": {"firing_hz": "another"}}
        journal.append(ROW, row)
    journal.close()
    return float(truth["viability"].max() - truth["viability"][-1])


def exchanges(controller: Controller) -> int:
    return len(list(controller.journal.entries(kinds=("note.exchange",))))


@pytest.mark.virtual_time
@pytest.mark.parametrize("harmed", [True, False], ids=["chronic", "reference"])
async def test_a_chronic_loss_makes_the_run_retreat_and_an_alarm_says_so(harmed: bool, tmp_path: Path) -> None:
    lost = lived(tmp_path, harmed=harmed)
    assert (lost > 0.1) is harmed
    lab = SimulatedLab(RIG, seed=SEED, parameters=PlantParameters(CHRONIC if harmed else MODELS["reference"]))
    async with controlled(lab, tmp_path, leave_running=False) as controller:
        run = await controller.runs.start("recycle", {"every": "1 h"}, "anna", "a test")
        await until(lambda: len(list(controller.journal.entries(kinds=("note.recycle", "note.exchange")))) >= 2, 9000.0)
        alarms = {alarm.kind: alarm for alarm in controller.alarms.active()}
        if not harmed:
            assert RETREAT not in alarms
            assert exchanges(controller) == 0
            await lab.close()
            return
        assert alarms[RETREAT].state is AlarmState.UNACKNOWLEDGED
        assert "of the viability" in alarms[RETREAT].detail
        assert "Next: assay LDH, lactate and ammonia" in alarms[RETREAT].detail
    async with controlled(lab, tmp_path, leave_running=False) as again:
        assert RETREAT in {alarm.kind for alarm in again.alarms.active()}
        await until(lambda: exchanges(again) == 2, 3600.0)
        assert again.runs.get(run).step is not None
        assert len(list(again.journal.entries(kinds=(f"note.{RETREAT}",)))) == 1
        fresh_ul = RIG.vessels["reservoir"].volume_ul - lab.plant.truth().volumes_ul["reservoir"]
        assert fresh_ul == pytest.approx(40_000.0, rel=0.05)
        again.journal.verify()
    await lab.close()
