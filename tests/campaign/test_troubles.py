"""What a trial's faults excuse, and what they do not."""

from __future__ import annotations

import pytest

from controller.rig.probes import chamber_temperature
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from verification.campaign.findings import Findings
from verification.campaign.surroundings import HOT_C, Surroundings
from verification.campaign.troubles import REACH_S, Troubles
from verification.campaign.world import draw_trial, rig_of

RIG = rig_of(draw_trial(1, 0, days=0.1, faults=()))


def test_a_device_that_answers_for_another_address_excuses_its_line_and_no_other() -> None:
    gases = {"gas_air", "gas_co2", "gas_o2"}
    for fault in (Fault("other_address", "gas_co2", 10.0, 60.0), Fault("wrong_address", "sim:gas", 10.0, 60.0)):
        assert Troubles(RIG, (fault,)).impersonated() == gases
    for fault in (Fault("garble", "sim:gas", 10.0, 60.0), Fault("lost_byte", "sim:gas", 10.0, 60.0)):
        assert Troubles(RIG, (fault,)).impersonated() == frozenset()


@pytest.mark.virtual_time
async def test_an_offset_of_the_chambers_probe_moves_the_limit_by_as_much_and_no_other_fault_does() -> None:
    point = chamber_temperature(RIG)
    assert point is not None
    for kind, target, amount, allowed in (
        ("offset", point, -1.0, 1.0),
        ("offset", "ph_loop.ph", -1.0, 0.0),
        ("stuck", point, -1.0, 0.0),
    ):
        troubles = Troubles(RIG, (Fault(kind, target, 100.0, 60.0, amount),))
        assert troubles.offset(point, 130.0) == allowed
        assert troubles.offset(point, 99.0) == 0.0
        assert troubles.offset(point, 160.0 + REACH_S + 1.0) == 0.0
        findings = Findings()
        judge = Surroundings(RIG, SimulatedLab(RIG, seed=1), findings, troubles)
        judge._see_warmth(HOT_C + 0.5, set(), True, 130.0)
        assert bool(findings.all) == (allowed == 0.0), (kind, target)


@pytest.mark.parametrize(("target", "begin_s", "hidden"), [
    ("p_heart.pressure", 50.0, True), ("p_heart.pressure", 400.0, False), ("p_filter.pressure", 50.0, False),
])  # fmt: skip
def test_only_a_stuck_gauge_of_the_heart_hides_its_occlusion(target: str, begin_s: float, hidden: bool) -> None:
    occluded = Fault("heart_occlusion", "heart", 100.0, 60.0, 1.0)
    assert Troubles(RIG, (occluded, Fault("stuck", target, begin_s, 100.0))).unseen(occluded) == hidden
    assert not Troubles(RIG, (occluded, Fault("offset", target, begin_s, 100.0, 1.0))).unseen(occluded)
