"""A probe's own calibration: set through the gate, read back, on record; whole stack with the simulated EZO pH, and rules."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controller.core.run_states import RunState
from controller.memory.calibrations import current
from controller.process.controller import Controller
from controller.rig.description import required
from controller.safety.limits import limits_of
from controller.safety.probe_rules import ProbeIntent, reasons_against
from drivers.commands import Calibrate, Quality
from sim.devices.atlas_ezo import EzoPh
from sim.lab import SimulatedLab
from tests.execution.test_whole_stack import controlled, until
from tests.execution.world import RIG

POINT = required(RIG.organs.liver, "organs.liver").ph
SLOPE, OFFSET = 0.93, 0.21
"""The probe puts out 7 + SLOPE · (pH − 7) + OFFSET."""


class Hands:
    """A person with buffers: puts the probe where the run asks for it, and resumes."""

    def __init__(self, lab: SimulatedLab, *, second: str = "pH 10", liquid: float = 10.0) -> None:
        self._sense = lab.drives.sense
        self._second, self._liquid = second, liquid
        self.ph: float | None = None
        self.asked: list[str] = []
        lab.drives.sense = self._seen

    def _seen(self, point: str) -> float:
        if point != POINT or self.ph is None:
            return self._sense(point)
        wobble = 0.001 * (asyncio.get_running_loop().time() % 7.0)
        return 7.0 + SLOPE * (self.ph - 7.0) + OFFSET + wobble

    def follow(self, message: str) -> None:
        """Do what a message asks."""
        self.asked.append(message)
        told = message.partition(": ")[2]
        if "put it back" in told:
            self.ph = None
        elif f"into the buffer of {self._second}" in told:
            self.ph = self._liquid
        elif "into the buffer of pH 7" in told:
            self.ph = 7.0

    async def attend(self, controller: Controller, run: str, *, until_asked: int = 99) -> None:
        """Follow the run to its end, or until it has asked so often."""
        while not (view := controller.runs.get(run)).state.ended and len(self.asked) < until_asked:
            if view.state is RunState.HELD:
                assert view.messages[-1].startswith("step "), view.messages
                self.follow(view.messages[-1])
                await controller.runs.resume(run, "anna", "done as asked")
            await asyncio.sleep(1.0)


def rows(controller: Controller, kind: str) -> list[Mapping[str, Any]]:
    return [row.body for row in controller.journal.entries(kinds=(kind,))]


def circuit(lab: SimulatedLab) -> EzoPh:
    found = lab.devices[POINT.partition(".")[0]]
    assert isinstance(found, EzoPh)
    return found


@pytest.mark.virtual_time
@pytest.mark.parametrize(("second", "place"), [(10.0, "high"), (4.0, "low")])
async def test_two_buffers_set_the_probe_itself_and_a_record_with_its_end(
    second: float, place: str, tmp_path: Path
) -> None:
    lab = SimulatedLab(RIG, seed=5)
    hands = Hands(lab, second=f"pH {second:g}", liquid=second)
    async with controlled(lab, tmp_path) as controller:
        await asyncio.sleep(60.0)
        run = await controller.runs.start("sensor-calibration", {"second": second, "settle": "20 s"}, "anna", "a test")
        await hands.attend(controller, run)
        assert controller.runs.get(run).state is RunState.COMPLETE
        assert len(hands.asked) == 4
        await asyncio.sleep(60.0)
        # The probe itself holds it: what it reads is right without anybody's reckoning.
        assert circuit(lab).own_command(["cal", "?"]) == ["?CAL,2"]
        hands.ph = between = (7.0 + second) / 2.0
        await asyncio.sleep(60.0)
        assert controller.store.readings[POINT].value == pytest.approx(between, abs=0.02)
        done = rows(controller, "calibration.set")
        assert [(row["place"], row["value"]) for row in done] == [("mid", 7.0), (place, second)]
        assert done[0]["before"] == pytest.approx(7.0 + OFFSET, abs=0.02)
        assert [row["after"] for row in done] == pytest.approx([7.0, second], abs=0.02)
        assert done[1]["places"] == 2
        assert done[1][f"slope_{place}"] == pytest.approx(SLOPE, abs=0.02)
        assert len(rows(controller, "calibration.begun")) == 2
        assert ("probe_calibration_over", POINT) not in controller.upkeep.causes
        assert rows(controller, "calibration.refused") == rows(controller, "calibration.failed") == []
        (note,) = rows(controller, "note.sensor_calibrated")
        assert note["places"] == 2.0
        assert note["second"] == pytest.approx(second, abs=0.02)
    record = current(tmp_path)[POINT]
    assert (record.kind, record.method, record.by) == ("sensor", "buffers", f"run:{run}")
    assert [true for _, true in record.measured] == sorted([7.0, second])
    assert record.gain == pytest.approx(1.0, abs=0.01)
    assert record.at_utc < record.expires_utc
    assert record.expires_utc.startswith("2026-01-08")
    assert record.expired("2026-01-09T00:00:00.000Z")


@pytest.mark.virtual_time
async def test_nothing_is_set_in_a_probe_that_does_not_work(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=5)
    hands = Hands(lab, liquid=7.4)  # both buffers are the same
    async with controlled(lab, tmp_path) as controller:
        await asyncio.sleep(60.0)
        run = await controller.runs.start("sensor-calibration", {"settle": "20 s"}, "anna", "a test")
        await hands.attend(controller, run)
        assert len(hands.asked) == 3
        assert "Nothing was set" in hands.asked[-1]
        assert rows(controller, "calibration.begun") == []
        assert circuit(lab).own_command(["cal", "?"]) == ["?CAL,0"]
    assert current(tmp_path) == {}


@pytest.mark.virtual_time
@pytest.mark.parametrize("asked", [2, 3], ids=["before the middle", "before the other"])
async def test_E4_a_controller_gone_while_the_probe_is_set_sets_it_after_its_restart(
    asked: int, tmp_path: Path
) -> None:
    lab = SimulatedLab(RIG, seed=5)
    hands = Hands(lab)
    async with controlled(lab, tmp_path, leave_running=True) as first:
        await asyncio.sleep(60.0)
        run = await first.runs.start("sensor-calibration", {"settle": "20 s"}, "anna", "a test")
        await hands.attend(first, run, until_asked=asked)
        count = asked - 1
        await until(lambda: len(rows(first, "calibration.begun")) == count)
        assert len(rows(first, "calibration.set")) == count - 1
    async with controlled(lab, tmp_path) as second:
        await hands.attend(second, run)
        assert second.runs.get(run).state is RunState.COMPLETE
        assert len(hands.asked) == 4  # no question was asked twice
        assert len(rows(second, "calibration.begun")) == 3
        assert [row["place"] for row in rows(second, "calibration.set")] == ["mid", "high"]
        second.journal.verify()
    assert circuit(lab).own_command(["cal", "?"]) == ["?CAL,2"]
    assert len(current(tmp_path)[POINT].measured) == 2


@pytest.mark.virtual_time
async def test_a_probe_in_another_buffer_is_refused_until_it_stands_in_the_right_one(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=5)
    hands = Hands(lab)
    async with controlled(lab, tmp_path) as controller:
        await asyncio.sleep(60.0)
        run = await controller.runs.start("sensor-calibration", {"settle": "20 s"}, "anna", "a test")
        await hands.attend(controller, run, until_asked=3)
        hands.ph = 4.0  # a slip of the hand
        await until(lambda: controller.runs.get(run).state is RunState.HELD)
        view = controller.runs.get(run)
        assert "too far from 10.00: another buffer" in view.messages[-1]
        (refused,) = rows(controller, "calibration.refused")
        assert refused["place"] == "high"
        hands.ph = 10.0
        await asyncio.sleep(30.0)
        await controller.runs.resume(run, "anna", "in the right one")
        await hands.attend(controller, run)
        assert controller.runs.get(run).state is RunState.COMPLETE
        assert [row["place"] for row in rows(controller, "calibration.set")] == ["mid", "high"]


# --- the rules --------------------------------------------------------------------------------------------


@dataclass
class Read:
    value: float = 7.1
    unit: str = "pH"
    quality: Quality = Quality.GOOD
    at_s: float = 100.0
    same_since_s: float = 100.0

    @property
    def good(self) -> Read | None:
        return self if self.quality is Quality.GOOD else None


LIMITS = limits_of(RIG)


def intent(point: str = POINT, value: float = 7.0, valid_s: float = 86_400.0) -> ProbeIntent:
    return ProbeIntent(point, Calibrate("mid", value), valid_s, "run:1", "a test")


def reasons(wanted: ProbeIntent, read: Read | None, now_s: float) -> tuple[str, ...]:
    return reasons_against(wanted, read, min_value=1.0, max_value=13.0, every_s=10.0, limits=LIMITS, now_s=now_s)


def test_a_fresh_reading_near_the_buffer_is_let_through() -> None:
    assert reasons(intent(), Read(), 100.0) == ()


@pytest.mark.parametrize(
    ("wanted", "change", "now_s", "says"),
    [
        (intent(), lambda read: None, 136.0, "36 s old"),
        (intent(), lambda read: setattr(read, "quality", Quality.SUSPECT), 100.0, "its reading failed"),
        (intent(), lambda read: setattr(read, "value", math.nan), 100.0, "its reading failed"),
        (intent(), lambda read: setattr(read, "value", 8.01), 100.0, "too far from 7.00"),
        (intent(), lambda read: setattr(read, "value", 5.99), 100.0, "too far from 7.00"),
        (intent(value=math.nan), lambda read: None, 100.0, "range: nan"),
        (intent(value=13.5), lambda read: setattr(read, "value", 13.5), 100.0, "range: 13.5"),
        (intent(valid_s=0.0), lambda read: None, 100.0, "validity"),
        (intent(valid_s=math.inf), lambda read: None, 100.0, "validity"),
        (
            intent(required(RIG.organs.lung, "organs.lung").ph),
            lambda read: None,
            100.0,
            "in use: the gas mixture depends on it",
        ),
    ],
)
def test_what_is_doubtful_or_in_use_is_refused(
    wanted: ProbeIntent, change: Callable[[Read], None], now_s: float, says: str
) -> None:
    read = Read()
    change(read)
    (reason,) = reasons(wanted, read, now_s)
    assert says in reason


def test_one_that_was_never_read_is_refused() -> None:
    assert reasons(intent(), None, 0.0) == ("it was never read",)
