"""What the estimator takes from the latest readings: on-line metabolites and the oxygen lost in the chamber."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.core.state import ActuatorView, StateStore
from controller.estimator.estimator import Estimator
from controller.estimator.observations import OLD_S, Observations
from controller.journal.journal import Journal
from controller.ledger.ledger import Ledger
from controller.rig.loading import load_rig
from drivers.commands import Guarantee, PumpStatus, Quality, Run
from drivers.registry import MODELS

RIG = load_rig(Path(__file__).parents[2] / "examples" / "rigs" / "bench_monitored.yaml", models=MODELS)
HEART = "reglo.heart"

pytestmark = pytest.mark.virtual_time


def seen(store: StateStore, **values: float) -> None:
    for point, value in values.items():
        unit = "%" if point.endswith("oxygen") else "mM"
        store.read(point.replace("__", "."), value, unit, Quality.GOOD, 0.0)


def running(store: StateStore, flow_ul_min: float, *, turns: bool = True) -> None:
    status = PumpStatus(turns, flow_ul_min, 0.0)
    store.actuator(HEART, ActuatorView(status, 0.0, Run(flow_ul_min), Run(1000.0), Guarantee.GUARD))


def observed() -> tuple[StateStore, Observations]:
    store = StateStore()
    where = {"loop": "loop", "chamber": "loop", "spent": "spent"}
    return store, Observations(RIG, store, Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC)), where)  # type: ignore[arg-type]


async def test_metabolites_are_points_of_that_name_in_mM_at_the_medium() -> None:
    store, observations = observed()
    seen(store, six__lactate=4.2, six__glucose=15.0, elsewhere__lactate=1.0)
    store.read("six.temperature", 37.0, "degC", Quality.GOOD, 0.0)
    assert observations.metabolites() == [
        ("loop", "glucose_mm", 15.0, "six.glucose"),
        ("loop", "lactate_mm", 4.2, "six.lactate"),
    ]


@pytest.mark.parametrize("quality", [Quality.SUSPECT, Quality.STALE, Quality.MISSING])
async def test_I2_doubtful_values_are_not_used(quality: Quality) -> None:
    store, observations = observed()
    store.read("six.lactate", 4.2, "mM", quality, 0.0)
    store.read("six.glucose", 15.0, "mM", Quality.GOOD, -OLD_S - 60.0)
    assert observations.metabolites() == []


async def test_oxygen_uptake_is_flow_times_the_loss_in_the_chamber() -> None:
    store, observations = observed()
    seen(store, do_loop__oxygen=90.0, do_chamber__oxygen=60.0)
    assert observations.oxygen_uptake() is None, "the flow is not known"
    running(store, 2000.0)
    uptake = observations.oxygen_uptake()
    assert uptake is not None
    assert uptake.umol_d == pytest.approx(2000.0 * 1440.0 * 1e-6 * 0.30 * 0.209 * 1e3)
    assert 0.1 * uptake.umol_d < uptake.sd_umol_d < 0.2 * uptake.umol_d
    running(store, 2000.0, turns=False)
    assert observations.oxygen_uptake() is None
    running(store, 2000.0)
    seen(store, do_chamber__oxygen=89.0)
    assert observations.oxygen_uptake() is None, "1 % is the error of the probes"


@pytest.mark.parametrize(
    ("hepes_mm", "phosphate_mm", "capacity"),
    [(None, None, 3.0), (0.0, 0.95, 0.8), (5.5, 0.93, 3.9), (10.9, 0.91, 6.9), (15.0, 0.95, 9.3)],
)
def test_declared_buffers_give_the_capacity_of_the_medium(
    hepes_mm: float | None, phosphate_mm: float | None, capacity: float
) -> None:
    """Within the rounding of docs/estimation.md: 0.57 mM per pH for each mM HEPES, phosphate and amino acids."""
    fresh = RIG.media["fresh"]
    medium = fresh.model_copy(update={"hepes_mm": hepes_mm, "phosphate_mm": phosphate_mm})
    assert medium.buffer_mm_per_ph(3.0) == pytest.approx(capacity, abs=0.15)
    assert math.isnan(fresh.buffer_mm_per_ph(math.nan))


async def test_a_sensor_that_contradicts_the_estimate_twice_in_a_row_calls_a_person(tmp_path: Path) -> None:
    """One bubble is none; the estimate stays, and the alarm names the sensor and both values."""
    clock, store = Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC)), StateStore()
    journal = Journal(tmp_path / "journal.db", clock, durable=False)
    alarms: list[tuple[str, str, str]] = []
    estimator = Estimator(
        RIG,
        ledger=Ledger(RIG, journal, clock),
        journal=journal,
        clock=clock,
        store=store,
        alarm=lambda *alarm: alarms.append(alarm),
    )
    try:
        for number, lactate in enumerate((0.1, 18.0, 0.1, 18.0, 18.0)):
            store.read("six.lactate", lactate, "mM", Quality.GOOD, clock.now_s())
            estimate = await estimator.estimate()
            assert estimate.loop.lactate_mm.value < 1.5, number
    finally:
        journal.close()
    assert [(kind, source) for kind, source, _ in alarms] == [("sensor_doubtful", "six.lactate")]
    assert "reads 18 mM" in alarms[0][2]
