"""What the campaign's judge reckons with."""

from __future__ import annotations

import pytest

from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from tests.execution.world import RIG
from verification.campaign.findings import Findings
from verification.campaign.surroundings import PH_FOR_S, Surroundings
from verification.campaign.telling import FLOOD_OF_A_FAULT, FLOOD_ROWS, Telling, time_to_tell
from verification.campaign.troubles import Troubles


def test_only_time_at_work_counts_towards_telling() -> None:
    assert time_to_tell(100.0, 90.0, []) == 190.0
    assert time_to_tell(100.0, 90.0, [(50.0, 60.0), (300.0, 310.0)]) == 190.0, "before and after it is no excuse"
    assert time_to_tell(100.0, 90.0, [(80.0, 120.0)]) == 210.0
    pieces = [(float(begin), begin + 5.0) for begin in range(100, 325, 5)]
    assert time_to_tell(100.0, 90.0, pieces) == 415.0, "no controller ran for 225 s, then it had its 90 s"


@pytest.mark.virtual_time
async def test_an_alarm_has_told_of_medium_that_is_minutes_behind_the_gas() -> None:
    """The gas is right again and its alarm over, the medium still alkaline: an operator was called all the same."""
    for told_at_s, violated in ((60.0, False), (None, True)):
        findings = Findings()
        judge = Surroundings(RIG, SimulatedLab(RIG, seed=1), findings, Troubles(RIG, ()))
        for at_s in range(0, int(PH_FOR_S) + 60, 5):
            kinds = {"gas_mixture"} if at_s == told_at_s else {"sensor_flat"}
            judge._see_acidity(8.0, 1.0, kinds, True, float(at_s))
        assert bool(findings.all) is violated
        judge._see_acidity(7.4, 1.0, set(), True, 500.0)
        for at_s in range(600, 600 + int(PH_FOR_S) + 60, 5):  # a second time, without an alarm
            judge._see_acidity(8.0, 1.0, set(), True, float(at_s))
        assert findings.all


def test_a_sensor_misleads_from_a_fault_of_its_value_and_for_as_long_as_it_lasts() -> None:
    troubles = Troubles(
        RIG, (Fault("offset", "balance.mass", 284.0, 118.0, 0.7), Fault("drop", "sim:balance", 900.0, 60.0, 0.5))
    )
    assert troubles.misread("balance.mass", 250.0, 300.0)
    assert troubles.misread("balance.mass", 390.0, 450.0)
    assert not troubles.misread("balance.mass", 500.0, 600.0)
    assert not troubles.misread("balance.mass", 900.0, 950.0)
    assert not troubles.misread("p_heart.pressure", 250.0, 300.0)


@pytest.mark.virtual_time
@pytest.mark.parametrize(("faults", "alarms", "flood"), [
    (1, FLOOD_ROWS, False), (1, FLOOD_ROWS + 1, True),
    (20, 20 * FLOOD_OF_A_FAULT, False), (20, 20 * FLOOD_OF_A_FAULT + 1, True),
])  # fmt: skip
async def test_L3_a_flood_is_counted_against_the_faults_that_began(faults: int, alarms: int, flood: bool) -> None:
    findings = Findings()
    begun = tuple(Fault("silent", "balance", 0.0, 10.0) for _ in range(faults))
    telling = Telling(findings, 5.0, Troubles(RIG, begun))
    for number in range(alarms):
        telling.on_raised(f"device_lost:d{number}")
    assert bool(findings.all) == flood
