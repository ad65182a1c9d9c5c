"""Assays on the bench: what is refused, what is doubted, and that a late one counts as if it had come in time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.core.run_states import RunState
from controller.estimator.assays import AssayError, AssayRefused, Assays, parse_taken
from controller.estimator.estimator import Estimator
from controller.rig.description import required
from protocols.media_state import SPECIES
from protocols.soft_sensor import Where
from sim.virtual_time import run_virtual
from tests.execution.world import EPOCH, Controller, World


def the_estimator(controller: Controller) -> Estimator:
    return required(controller.runs.estimator, "a loop")


def the_assays(controller: Controller) -> Assays:
    return Assays(
        controller.world.rig,
        estimator=controller.runs.estimator,
        ledger=controller.ledger,
        journal=controller.journal,
        clock=controller.clock,
        alarm=controller.alarm,
    )


def at(hours: float) -> str:
    return (EPOCH + timedelta(hours=hours)).isoformat()


def enter(controller: Controller, *words: str, hours: float = 0.5, vessel: str = "loop", **more: Any) -> dict[str, Any]:
    return the_assays(controller).enter(*words, vessel=vessel, taken=at(hours), user="anna", **more)


async def bench(path: Path, *, hours: float = 1.0) -> Controller:
    controller = Controller(World(), path, tick_s=60.0)
    await asyncio.sleep(hours * 3600.0)
    return controller


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("words", "more", "says"),
    [
        (("lactose", "3 mM"), {}, "“lactose” is not assayed"),
        (("lactate", "3"), {}, "has no unit"),
        (("lactate", "3 kg"), {}, "is in kilogram"),
        (("lactate", "3,2 mM"), {}, "decimal comma"),
        (("osmolality", "290 mg/dL"), {}, "mOsm/kg"),
        (("lactate", "-1 mM"), {}, "cannot be"),
        (("lactate", "820 mM"), {}, "cannot be"),
        (("osmolality", "29 mOsm/kg"), {}, "cannot be"),
        (("lactate", "3 mM"), {"sd": "0 mM"}, "standard deviation"),
        (("lactate", "3 mM"), {"sd": "5 %"}, "standard deviation"),
        (("lactate", "3 mM"), {"vessel": "kettle"}, "no vessel is called “kettle”"),
        (("lactate", "3 mM"), {"vessel": "reservoir"}, "the medium in “reservoir” is not estimated"),
        (("lactate", "3 mM"), {"hours": 1.5}, "still to come"),
        (("lactate", "3 mM"), {"hours": -0.5}, "before this culture began"),
    ],
)
async def test_what_cannot_be_is_refused_and_says_why(
    words: tuple[str, ...], more: dict[str, Any], says: str, tmp_path: Path
) -> None:
    controller = await bench(tmp_path / "j.db")
    rows, state = controller.journal.next_seq, the_estimator(controller).state
    with pytest.raises(AssayError, match=r"Likely cause: .* Next: ") as refused:
        enter(controller, *words, **more)
    assert says in str(refused.value)
    assert controller.journal.next_seq == rows
    assert the_estimator(controller).state is state
    assert not any(pump.doses for pump in controller.world.pumps.values())
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("analyte", "text", "value"),
    [
        ("glucose", "360 mg/dL", 19.98),
        ("lactate", "4.2 mg/dL", 0.4715),
        ("lactate", "420 umol/L", 0.42),
        ("ammonia", "34 ug/dL", 0.01996),
        ("osmolality", "0.287 Osm/kg", 287.0),
    ],
)
async def test_units_of_the_laboratory_are_understood(analyte: str, text: str, value: float, tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db")
    told = enter(controller, analyte, text)
    assert told["value"] == pytest.approx(value, rel=1e-3)
    assert told["unit"] in ("mmol/L", "mOsm/kg")
    row = controller.journal.last("assay")
    assert row is not None
    assert (row.body["text"], row.body["user"]) == (text, "anna")
    await controller.gone()


@pytest.mark.virtual_time
async def test_the_same_assay_counts_once(tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db")
    enter(controller, "glucose", "20.5 mM")
    state = the_estimator(controller).state
    with pytest.raises(AssayRefused, match=r"entered before \(journal row [0-9]+, by anna\)"):
        enter(controller, "glucose", "20.5 mM", sure=True)
    assert the_estimator(controller).state is state
    enter(controller, "glucose", "20.5 mM", hours=0.6)  # another sample
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_gross_contradiction_is_kept_unused_until_a_person_confirms_it(tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db")
    with pytest.raises(AssayRefused, match="contradicts the estimate"):
        enter(controller, "lactate", "8.2 mM")
    assert the_estimator(controller).now().interval("loop", "lactate_mm").high < 1.0
    assert [(kind, source) for kind, source, _ in controller.alarms] == [("assay_doubtful", "lactate in loop")]
    row = controller.journal.last("assay")
    assert row is not None
    assert not row.body["used"]
    with pytest.raises(AssayRefused, match="enter it with --sure"):
        enter(controller, "lactate", "8.2 mM")
    told = enter(controller, "lactate", "8.2 mM", sure=True)
    assert told["used"]
    assert told["after"]["value"] == pytest.approx(8.2, abs=0.5)
    assert [row["used"] for row in the_assays(controller).recent()] == [True, False]
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_label_that_an_assay_contradicts_is_doubted_and_the_next_assay_decides(tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db", hours=3.0)
    with pytest.raises(AssayRefused, match="the medium is not what its label says"):
        enter(controller, "lactate", "3.1 mM", hours=1.0)
    doubted = the_estimator(controller).now().interval("loop", "lactate_mm")
    assert doubted.high > 3.1
    assert enter(controller, "lactate", "3.0 mM", hours=2.0)["used"]
    known = the_estimator(controller).now().interval("loop", "lactate_mm")
    assert known.low < 3.1 < known.high
    assert known.high - known.low < 0.6 * (doubted.high - doubted.low)
    assert [kind for kind, _, _ in controller.alarms] == ["assay_doubtful", "medium_doubtful"]
    assert "lactate of the fresh medium is" in controller.alarms[-1][2]
    before = the_estimator(controller).now().to_json()
    await controller.gone()
    again = Controller(controller.world, tmp_path / "j.db", tick_s=60.0)
    np.testing.assert_allclose(the_estimator(again).now().to_json()["mean"], before["mean"], rtol=1e-6, atol=1e-9)
    await again.gone()


@pytest.mark.virtual_time
async def test_exchanged_samples_are_named_and_not_used(tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db", hours=0.1)
    estimator, liver = the_estimator(controller), required(controller.world.rig.organs.liver, "organs.liver")
    controller.ledger.moved(liver.glucose, 900.0, 20.0, "pump")
    await asyncio.sleep(3600.0)
    loop, spent = (estimator.now().interval(where, "glucose_mm").value for where in ("loop", "spent"))
    assert spent > loop + 5.0
    enter(controller, "osmolality", "285 mOsm/kg")
    before = estimator.now().interval("loop", "glucose_mm")
    enter(controller, "glucose", f"{spent:.3f} mM", vessel="loop")
    with pytest.raises(AssayRefused, match="exchanged labels of the samples"):
        enter(controller, "glucose", f"{loop:.3f} mM", vessel="spent")
    after = estimator.now().interval("loop", "glucose_mm")
    assert after.value == pytest.approx(before.value, abs=0.1)
    assert after.sd == pytest.approx(before.sd, rel=0.1)
    assert controller.alarms[-1][1].startswith("samples of ")
    assert enter(controller, "glucose", f"{loop:.3f} mM", vessel="loop", sure=True)["used"]
    await controller.gone()


async def _cycles(path: Path, entries: list[tuple[float, float, str, str]]) -> Controller:
    """Two cycles of `recycle`, which draw; `entries` are (entered at h, taken at h, analyte, value), as entered."""
    controller = Controller(World(), path, tick_s=5.0)
    loop = controller.world.loop
    begin_h = loop.time() / 3600.0
    params = {"cycles": "2", "every": "4 h", "min_batch": "18 mL"}
    run = await controller.runs.start("recycle", params, "anna", "a test")
    for entered, taken, analyte, value in entries:
        await asyncio.sleep((begin_h + entered) * 3600.0 - loop.time())
        enter(controller, analyte, value, hours=begin_h + taken)
    await controller.until(lambda: controller.runs.get(run).state is RunState.COMPLETE, 1e5)
    await asyncio.sleep((begin_h + 10.0) * 3600.0 - loop.time())
    return controller


@dataclass
class Lived:
    """What a controller believed in the end, and what it had seen and moved until then."""

    intervals: list[float]
    ammonia_sd: float
    seen: list[Any]
    moved: list[Any]


def _lived(path: Path, entries: list[tuple[float, float, str, str]], *, restarted: bool = False) -> Lived:
    """A life of its own virtual time, so that two of them see the same readings."""

    async def whole() -> Lived:
        controller = await _cycles(path, entries)
        if restarted:
            await controller.gone()
            controller = Controller(controller.world, path, tick_s=5.0)
        rows = controller.journal.entries
        looks = [row.body["inputs"] for row in rows(kinds=("estimate",)) if "loop_ul" in row.body["inputs"]]
        moved = [(row.utc, row.body["line"], row.body["ul"]) for row in rows(kinds=("moved",))]
        sd = the_estimator(controller).now().interval("loop", "ammonia_mm").sd
        lived = Lived(_intervals(controller), sd, looks, moved)
        await controller.gone()
        return lived

    return run_virtual(whole())


def _intervals(controller: Controller) -> list[float]:
    state = the_estimator(controller).now()
    places: tuple[Where, ...] = ("loop", "spent")
    found = [state.interval(where, name) for where in places for name in SPECIES]
    return [end for interval in found for end in (interval.low, interval.value, interval.high)]


AMMONIA, LACTATE, GLUCOSE = ("ammonia", "0.06 mM"), ("lactate", "1.1 mM"), ("glucose", "20.3 mM")


@pytest.mark.parametrize("restarted", [False, True])
def test_a_late_assay_counts_as_if_it_had_come_in_time(restarted: bool, tmp_path: Path) -> None:
    """With transfers and looks between sample and entry: at the loop's third hour, between two draws, entered at nine."""
    prompt = [(3.01, 3.0, *AMMONIA), (3.02, 3.0, *GLUCOSE), (7.01, 7.0, *LACTATE)]
    in_time = _lived(tmp_path / "a.db", prompt)
    late = _lived(tmp_path / "b.db", [prompt[2], (8.0, 3.0, *GLUCOSE), (9.0, 3.0, *AMMONIA)], restarted=restarted)
    assert len(late.moved) == 6  # the filter's first pass, and two cycles
    assert late.moved == in_time.moved
    assert late.seen == in_time.seen
    np.testing.assert_allclose(late.intervals, in_time.intervals, rtol=1e-9)
    untold = _lived(tmp_path / "c.db", prompt[1:])
    assert late.ammonia_sd < 0.9 * untold.ammonia_sd


@pytest.mark.virtual_time
async def test_assays_survive_a_restart(tmp_path: Path) -> None:
    entries = [(7.01, 7.0, "lactate", "1.1 mM"), (9.0, 3.0, "ammonia", "0.06 mM")]
    controller = await _cycles(tmp_path / "j.db", entries)
    before = _intervals(controller)
    world = controller.world
    await controller.gone()
    again = Controller(world, tmp_path / "j.db", tick_s=5.0)
    np.testing.assert_allclose(_intervals(again), before, rtol=1e-9)
    # Killed between the assay's own row and that of the new state, it is taken in at the restart.
    row = again.journal.last("assay")
    assert row is not None
    body = {**row.body, "analyte": "glucose", "value": 15.0, "taken_utc": at(9.5)}
    again.journal.append("assay", body)
    await again.gone()
    third = Controller(world, tmp_path / "j.db", tick_s=5.0)
    assert _intervals(third)[4] < before[4] - 2.0
    await third.gone()


async def _exchanged(world: World, path: Path) -> Controller:
    """A day of life in its medium, then one exchange."""
    controller = Controller(world, path, tick_s=60.0)
    await asyncio.sleep(86_400.0)
    controller.tick_s = 1.0
    run = await controller.runs.start("exchange", {"cycles": "1"}, "anna", "a test")
    await controller.until(lambda: controller.runs.get(run).state is RunState.COMPLETE)
    return controller


@pytest.mark.virtual_time
@pytest.mark.parametrize("assayed", [False, True])
async def test_E7_a_clock_that_was_ahead_makes_no_exchange_undone(assayed: bool, tmp_path: Path) -> None:
    """It was an hour ahead while medium was exchanged, and is set right: what was given stays given."""
    world = World()
    world.clock_step_s = 3600.0
    controller = await _exchanged(world, tmp_path / "j.db")
    before = _intervals(controller)
    world.clock_step_s = 0.0
    if assayed:
        the_estimator(controller).learn(controller.journal.next_seq - 1)
    else:
        await controller.gone()
        controller = Controller(world, tmp_path / "j.db")
    np.testing.assert_allclose(_intervals(controller), before, rtol=1e-3, atol=1e-3)
    await controller.gone()


@pytest.mark.virtual_time
async def test_E7_a_clock_that_comes_back_behind_forgets_nothing(tmp_path: Path) -> None:
    """A dead battery puts it back by a month; what is known is as of the last row, not as of a culture that just began."""
    world = World()
    controller = await _exchanged(world, tmp_path / "j.db")
    before = _intervals(controller)
    await controller.gone()
    world.clock_step_s = -30 * 86_400.0
    controller = Controller(world, tmp_path / "j.db")
    np.testing.assert_allclose(_intervals(controller), before, rtol=1e-3, atol=1e-3)
    await asyncio.sleep(3600.0)
    lived = _intervals(controller)
    # The network's time corrects it; an assay makes the estimator read the journal again.
    world.clock_step_s = 0.0
    the_estimator(controller).learn(controller.journal.next_seq - 1)
    np.testing.assert_allclose(_intervals(controller), lived, rtol=1e-3, atol=1e-3)
    await controller.gone()


@pytest.mark.virtual_time
async def test_asking_moves_nothing(tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db")
    assays, rows, state = the_assays(controller), controller.journal.next_seq, the_estimator(controller).state
    medium = assays.medium()
    assert medium["loop"]["glucose_mm"]["low"] < 21.0 < medium["loop"]["glucose_mm"]["high"]
    assert controller.journal.next_seq == rows
    assert the_estimator(controller).state is state
    await controller.gone()


NOW = datetime(2026, 10, 25, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "zone", "hour"),
    [("10:40", "UTC", 10), ("10:40", "Europe/Berlin", 9), ("9:40", "UTC", 9), ("2026-10-25T10:40+02:00", "UTC", 8)],
)
def test_times_are_read_where_they_were_written(text: str, zone: str, hour: int) -> None:
    assert parse_taken(text, NOW, zone) == datetime(2026, 10, 25, hour, 40, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "zone", "says"),
    [
        ("02:30", "Europe/Berlin", "came twice"),
        ("2026-03-29T02:30", "Europe/Berlin", "not at all"),
        ("noon", "UTC", "is no time"),
        ("25:00", "UTC", "is no time"),
        ("2026-10-25", "UTC", "is no time"),
        ("10:40", "Mars/Olympus", "no time zone"),
        ("10:40", "../../etc/passwd", "no time zone"),
    ],
)
def test_times_that_say_nothing_certain_are_refused(text: str, zone: str, says: str) -> None:
    with pytest.raises(AssayError, match="Next: ") as refused:
        parse_taken(text, NOW, zone)
    assert says in str(refused.value)
