"""Two plates on one pump, no kidney, on the simulated lab: what is recorded, and what is reported of it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from choroid.simulation.simulate import simulate
from controller.figures.records import Records
from controller.hazards.loading import load_checked_rig

TWO_PLATES = Path(__file__).resolve().parents[1] / "rigs" / "two_plates.yaml"


def test_a_rig_without_kidney_is_recorded_and_reported(tmp_path: Path) -> None:
    answer = simulate(TWO_PLATES, days=0.1, data=tmp_path)
    assert answer["violations"] == []
    assert not [alarm for alarm in answer["alarms_active"] if not alarm.startswith("hazard_accepted")]
    rig = load_checked_rig(TWO_PLATES)
    with closing(Records(tmp_path)) as records:
        kinds = set(records.journal.kinds())
        assert "ledger.tared" in kinds  # the balance under the bottle of the loop
        assert "moved" not in kinds  # what circulates changes no volume
        extent = records.extent()
        assert extent is not None
        period = records.period(rig, *extent)
    assert period.ledger_end is not None
    assert set(period.ledger_end.volumes) == set(rig.vessels)
    assert [organ.name for organ in period.organs] == ["heart", "liver", "skin"]
    assert period.scores.viability
    assert period.chain.ok
