"""What campaigns have found, each as the shortest trial that showed it (docs/campaign.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.steps.steps import StepRecord
from controller.transfers import transfers
from controller.transfers.delivery import Complete, Decision, Give
from controller.transfers.routes import Route, Trust
from sim.faults.schedule import Fault
from verification.campaign.trial import run_trial
from verification.campaign.world import Trial

FOUND = {
    "a temperature probe stuck half a degree low": Fault("stuck", "t_chamber.temperature", 300.0, 1200.0, -0.5),
    "the air controller without power": Fault("power_cut", "gas_air", 300.0, 600.0),
    "a balance stuck while the draw runs": Fault("stuck", "balance.mass", 30.0, 300.0),
    "a pump that loses power for a moment": Fault("reboot", "reglo", 700.0),
    "a disk that is full when the hour's score is due": Fault("disk_full", "host", 3590.0, 300.0),
    "a journal that is locked while the run is started": Fault("database_locked", "host", 1.0, 600.0),
    "a balance stuck while a batch is given back": Fault("stuck", "balance.mass", 200.0, 200.0),
}


@pytest.mark.parametrize("fault", FOUND.values(), ids=FOUND.keys())
def test_what_was_found_stays_repaired(fault: Fault) -> None:
    hours = (fault.at_s + fault.for_s) / 3600.0
    trial = Trial(1, hours, "recycle", {"batch": "8 mL", "min_batch": "8 mL", "every": "2 h"}, faults=(fault,))
    result = run_trial(trial)
    assert result.violations == []
    assert result.viability > 0.945, (
        "twenty minutes of the stuck probe once cost a tenth of it, ten minutes without air 3 %"
    )


def test_without_air_oxygen_carries_the_co2_also_where_there_is_more_gas_than_its_controller_gives() -> None:
    """58 mL/min in all, and 40 % of that is beyond the 20 mL/min of the oxygen's: it was refused, and none flowed."""
    fault = Fault("other_address", "gas_air", 300.0, 300.0)
    result = run_trial(Trial(1, 0.2, "circulate", {}, rig={"organs.lung.total_flow": "58 mL/min"}, faults=(fault,)))
    assert result.violations == []


def test_a_pump_that_loses_power_next_to_a_stuck_balance_leaves_its_dose_in_doubt() -> None:
    """How much had been given back was not known: nothing was booked, a person resumed, and the vessel was pumped dry."""
    faults = (Fault("stuck", "balance.mass", 400.0, 1300.0), Fault("reboot", "reglo", 560.0))
    trial = Trial(
        1, 0.5, "recycle", {"batch": "12 mL", "min_batch": "12 mL", "every": "2 h"}, attend_min=5.0, faults=faults
    )
    assert run_trial(trial).violations == []


def test_I1_heat_requested_by_hand_with_a_stuck_probe_does_not_overheat_the_chamber() -> None:
    """The probe stuck at 38.4 °C, below the limit: each pulse was let through, 41.0 °C within three minutes."""
    faults = (Fault("careless", "relay.heater", 60.0, 540.0), Fault("stuck", "t_chamber.temperature", 250.0, 350.0))
    assert run_trial(Trial(1, 1.0 / 6.0, "circulate", {}, faults=faults)).violations == []


def test_F1_a_pump_that_turns_back_for_a_moment_moves_its_dose_less_twice_that_volume() -> None:
    """The ledger books the net volume that the balance shows. The judge once took the way back for a part of the dose."""
    back = Fault("reversed", "reglo.return", 650.0, 19.0)
    params = {"batch": "16 mL", "min_batch": "16 mL", "every": "1 h"}
    rig = {"organs.kidney.flow": "2.8 mL/min"}
    assert run_trial(Trial(1, 0.4, "recycle", params, rig=rig, attend_min=10.0, faults=(back,))).violations == []


def test_air_in_a_line_is_no_error_of_the_books() -> None:
    """The balance sees 0.59 mL arrive; 0.42 mL are taken in, since air takes the place of the rest in the tube."""
    bubble = Fault("bubble", "feed", 1.0, 0.0, 200.0)
    assert run_trial(Trial(1, 0.1, "feed", {"volume": "0.6 mL"}, faults=(bubble,))).violations == []


def _lost_rule(step: StepRecord, route: Route, trust: Trust, requested_ul: float) -> Decision:
    """What releases did that lost doses: a rest below the minimum was dropped, and the step reported as done."""
    rest_ul = requested_ul - step.charged_ul
    dropped = step.finished or (step.parts and rest_ul < max(route.min_ul, 0.01 * requested_ul))
    return Complete() if dropped else Give(rest_ul)


@pytest.mark.long
def test_A10_J1_a_lost_dose_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minimum dose is killed at each row around the one that announces it; the judge sees the rule that loses it."""
    monkeypatch.setattr(transfers, "decide", _lost_rule)
    for row in range(8, 20):
        kill = Fault("kill", "host", 1.0, 0.0, float(row))
        trial = Trial(1, 0.1, "feed", {"volume": "0.5 mL"}, faults=(kill,))
        found = [violation["invariant"] for violation in run_trial(trial).violations]
        if found:
            break
    assert found == ["no lost dose"]
    monkeypatch.undo()
    assert run_trial(trial).violations == []


def test_an_operator_asks_for_more_than_bottles_of_litres_hold() -> None:
    """19 minutes at the full flow of a line fitted its bottles: it was given, and the campaign called it unannounced."""
    rig = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "perfusion_tank.yaml"
    fault = Fault("careless", "dialysate.pump", 60.0, 30.0)
    assert run_trial(Trial(1, 0.05, "circulate", {}, rig_file=str(rig), faults=(fault,))).violations == []
