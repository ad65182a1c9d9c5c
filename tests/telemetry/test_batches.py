"""Batches: every new reading once, with the time at which it was taken."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from controller.core.state import Reading, State
from controller.telemetry import batches
from controller.telemetry.batches import MAX_IN_MESSAGE, ReadingBatch, message
from drivers.commands import Quality


def state(at_s: float, **readings: Reading) -> State:
    seconds = int(at_s)
    utc = f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}.{round(at_s % 1 * 1000):03}Z"
    return State(at_s, utc, {name.replace("_", "."): reading for name, reading in readings.items()}, {}, {}, (), {})


def readings(batch: ReadingBatch) -> list[dict[str, Any]]:
    body = json.loads(message(7, batch.readings, "0c9b5a7f21de"))
    assert (body["seq"], body["rig_id"]) == (7, "0c9b5a7f21de")
    return list(body["readings"])


def test_every_reading_of_a_batch_is_in_it_with_its_own_time() -> None:
    batch = ReadingBatch()
    for tick in range(6):
        taken_s = tick - tick % 2 - 0.25  # a fresh one every other second
        batch.take(state(float(tick), a_x=Reading(float(tick), "kPa", Quality.GOOD, taken_s)))
    assert [(reading["value"], reading["utc"]) for reading in readings(batch)] == [
        (0.0, "2025-12-31T23:59:59.750Z"),
        (2.0, "2026-01-01T00:00:01.750Z"),
        (4.0, "2026-01-01T00:00:03.750Z"),
    ]
    assert readings(batch)[0] | {"utc": ""} == {
        "point": "a.x",
        "value": 0.0,
        "unit": "kPa",
        "quality": "good",
        "utc": "",
    }
    assert [taken.value for taken in batch.cut()] == [0.0, 2.0, 4.0]
    batch.take(state(5.0, a_x=Reading(5.0, "kPa", Quality.GOOD, 3.75)))
    assert len(batch) == 0


def test_what_is_cut_goes_into_one_message_and_the_rest_stays_in_order() -> None:
    batch = ReadingBatch()
    for number in range(MAX_IN_MESSAGE + 3):
        batch.take(state(0.0, a_x=Reading(float(number), "g", Quality.GOOD, number / 1000)))
    assert [taken.value for taken in batch.cut()] == [float(number) for number in range(MAX_IN_MESSAGE)]
    assert [taken.value for taken in batch.cut()] == [MAX_IN_MESSAGE, MAX_IN_MESSAGE + 1, MAX_IN_MESSAGE + 2]


def test_a_reading_that_goes_bad_is_news_and_one_that_never_was_is_null() -> None:
    batch = ReadingBatch()
    batch.take(state(1.0, a_x=Reading(3.0, "g", Quality.GOOD, 1.0)))
    for _ in range(3):
        batch.take(
            state(
                2.0,
                a_x=Reading(3.0, "g", Quality.MISSING, 1.0, "no reply"),
                b_x=Reading(math.nan, "g", Quality.MISSING, -math.inf, "no reply"),
                c_x=Reading(1.0, "", Quality.GOOD, 2.0),
            )
        )
    assert [(reading["point"], reading["value"], reading["quality"]) for reading in readings(batch)] == [
        ("a.x", 3.0, "good"),
        ("a.x", 3.0, "missing"),
        ("b.x", None, "missing"),
    ]


def test_a_reading_in_motion_says_so() -> None:
    batch = ReadingBatch()
    batch.take(
        state(1.0, a_x=Reading(3.0, "g", Quality.GOOD, 1.0, stable=False), b_x=Reading(3.0, "g", Quality.GOOD, 1.0))
    )
    moving, still = readings(batch)
    assert (moving["quality"], moving["stable"]) == ("good", False)
    assert "stable" not in still


def test_what_waits_in_memory_is_bounded_and_losses_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_WAITING", 100)
    batch = ReadingBatch()
    for tick in range(250):
        batch.take(state(float(tick), a_x=Reading(float(tick), "g", Quality.GOOD, float(tick))))
    assert batch.given_up == 150
    assert [reading["value"] for reading in readings(batch)] == [float(tick) for tick in range(150, 250)]
