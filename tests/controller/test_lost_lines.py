"""One alarm for a lost line, not one for each of its devices (L3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from controller.alarms.care import ends_care, vital_devices
from controller.alarms.lines import merge_lost_lines, shared_lines
from controller.alarms.states import Alarms, AlarmState
from controller.rig.loading import load_rig

RIG = load_rig(Path("examples/rigs/sixteen_chambers.yaml"))
LINES = shared_lines(RIG)
GAUGES = tuple(f"p{number:02}" for number in range(1, 17))
LINE = "device_lost:line of p01"


class Room:
    """Alarms that are given the devices without an answer, second by second."""

    def __init__(self) -> None:
        self.raised: list[str] = []
        self.alarms = Alarms(self._on_row, lambda: "2026-01-01T00:00:00.000Z")
        self._now_s = 0.0

    def _on_row(self, kind: str, body: Mapping[str, Any]) -> None:
        if kind == "alarm.raised":
            self.raised.append(str(body["alarm"]))

    def live(self, lost: tuple[str, ...], seconds: int) -> None:
        for _ in range(seconds):
            self._now_s += 1.0
            causes = {("device_lost", device): f"{device}: no reply" for device in lost}
            silent = {alarm.id for alarm in self.alarms.suppressed()}
            self.alarms.levels(causes, self._now_s, merge_lost_lines(LINES, causes, (), silent))


def test_L3_sixteen_gauges_on_a_lost_line_are_one_alarm() -> None:
    room = Room()
    room.live(GAUGES[:9], 5)  # they are asked in turn
    room.live(GAUGES, 120)
    assert room.raised == [LINE]
    [alarm] = room.alarms.active()
    assert "none of its 16 devices answers (p01, p02, " in alarm.detail
    room.live((), 20)
    assert [(each.id, each.state) for each in room.alarms.active()] == [
        (LINE, AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED)
    ]


def test_L3_a_line_of_which_every_device_is_out_of_service_is_silent() -> None:
    room = Room()
    for gauge in GAUGES:
        room.alarms.take_out_of_service(f"device_lost:{gauge}", "ada", "the rack is being rebuilt")
    room.live(GAUGES, 120)
    assert room.raised == []
    room.alarms.bring_back("device_lost:p03", "ada")
    room.live(GAUGES, 120)
    assert room.raised == ["device_lost:p03", LINE]


def test_L3_a_device_that_stays_lost_when_its_line_is_back_has_its_alarm() -> None:
    room = Room()
    room.live(GAUGES, 60)
    room.live(("p07",), 60)
    assert room.raised == [LINE, "device_lost:p07"]


def test_L3_a_device_that_was_lost_before_its_line_keeps_its_alarm() -> None:
    room = Room()
    room.live(("p07",), 60)
    room.live(GAUGES, 60)
    states = {each.id: each.state for each in room.alarms.active()}
    assert states == {"device_lost:p07": AlarmState.UNACKNOWLEDGED, LINE: AlarmState.UNACKNOWLEDGED}


def test_L3_all_but_one_device_of_a_line_are_told_one_by_one() -> None:
    room = Room()
    room.live(GAUGES[1:], 60)
    assert sorted(room.raised) == sorted(f"device_lost:{each}" for each in GAUGES[1:])


@pytest.mark.parametrize("rig", sorted(Path("examples/rigs").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_loss_of_a_line_counts_for_the_tissue_as_the_loss_of_its_devices(rig: Path) -> None:
    vital, lines = vital_devices(load_rig(rig)), shared_lines(load_rig(rig))
    for line, devices in lines.items():
        counts = any(ends_care("device_lost", device, vital) for device in devices)
        assert ends_care("device_lost", line, vital) == counts, line
