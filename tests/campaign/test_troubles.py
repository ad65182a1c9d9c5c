"""What a trial's faults excuse, and what they do not."""

from __future__ import annotations

from choroid.campaign.troubles import Troubles
from choroid.campaign.world import draw_trial, rig_of
from sim.faults.schedule import Fault

RIG = rig_of(draw_trial(1, 0, days=0.1, faults=()))


def test_a_device_that_answers_for_another_address_excuses_its_line_and_no_other() -> None:
    gases = {"gas_air", "gas_co2", "gas_o2"}
    for fault in (Fault("other_address", "gas_co2", 10.0, 60.0), Fault("wrong_address", "sim:gas", 10.0, 60.0)):
        assert Troubles(RIG, (fault,)).impersonated() == gases
    for fault in (Fault("garble", "sim:gas", 10.0, 60.0), Fault("lost_byte", "sim:gas", 10.0, 60.0)):
        assert Troubles(RIG, (fault,)).impersonated() == frozenset()
