"""Each shipped recipe on the bench rig: to its end with closed books and no alarm, and through crashes (E4, F1, F2)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from choroid.simulation.figures import figures
from controller.core.run_states import RunState
from controller.recipes.catalogue import SHIPPED, shipped
from controller.rig.description import DeviceSpec, Rig
from controller.rig.loading import load_rig
from controller.runs.runner import Runner
from controller.runs.views import RunView
from controller.transfers.routes import Route, routes_of
from sim.lab import SimulatedLab
from sim.virtual_time import run_virtual
from tests.execution.test_whole_stack import controlled
from tests.execution.world import BENCH, RIG, Controller, Killed, World

PARAMS: Mapping[str, Mapping[str, str]] = {
    "back-flush": {},
    "circulate": {"time": "20 min", "every": "5 min"},
    "debubble": {"pulses": "2"},
    "dialyse": {},
    "dilute-to-grade": {},
    "emergency-care": {"time": "1 h", "every": "20 min", "min_glucose": "50 mM", "volume": "3 mL"},
    "end-of-culture": {},
    "feed": {},
    "filter-integrity": {},
    "filter-probe": {},
    "hand-over": {},
    "partial-exchange": {"share": "30 %"},
    "prime": {},
    "pump-calibration": {"doses": "2", "dose": "3 mL"},
    "rinse": {},
    "sample": {},
    "sensor-calibration": {"settle": "20 s"},
    "stand-by": {"time": "5 min"},
    "take-up": {"patience": "20 min"},
}
"""Shipped recipe → parameters that make it short, and make it move what it may."""
ASKS = {
    "back-flush": 1,
    "end-of-culture": 2,
    "hand-over": 3,
    "prime": 1,
    "sample": 2,
    "sensor-calibration": 3,
    "take-up": 1,
}
"""How often a person is called when all is well."""
DIALYSIS = load_rig(BENCH.with_name("bench_dialysis.yaml"))


def rig_of(name: str) -> Rig:
    """The rig that a recipe wants."""
    return DIALYSIS if name == "dialyse" else RIG


def test_every_shipped_recipe_is_tried_here() -> None:
    of_wells = {"change-wells"}  # tried on a plate (test_chamber_doses.py)
    assert set(PARAMS) == set(shipped()) - {"recycle", "exchange"} - of_wells
    assert {path.stem for path in SHIPPED.glob("*.yaml")} - of_wells < set(PARAMS)


async def attended(runs: Runner, run: str, *, dead: object = None) -> tuple[RunView, int]:
    """See a run to its end, doing what it asks a person for; returns it and how often it asked."""
    asked: list[str] = []
    deadline_s = asyncio.get_running_loop().time() + 6 * 3600.0
    while not (view := runs.get(run)).state.ended:
        assert asyncio.get_running_loop().time() < deadline_s, view.messages
        if getattr(dead, "dead", False):
            return view, len(asked)
        if view.state is RunState.HELD:
            assert view.messages[-1].startswith("step "), view.messages  # nothing but the recipe's own requests
            asked.append(view.messages[-1])
            await runs.resume(run, "anna", "done as asked")
        await asyncio.sleep(5.0)
    return view, len(asked)


@pytest.mark.virtual_time
@pytest.mark.parametrize("name", PARAMS)
async def test_F1_on_the_bench_to_its_end_with_closed_books_and_no_alarm(name: str, tmp_path: Path) -> None:
    lab = SimulatedLab(rig_of(name), seed=5)
    async with controlled(lab, tmp_path, rig=rig_of(name)) as controller:
        await asyncio.sleep(60.0)
        run = await controller.runs.start(name, PARAMS[name], "anna", "a test")
        view, asked = await attended(controller.runs, run)
        assert view.state is RunState.COMPLETE
        assert asked == ASKS.get(name, 0)
        answer = figures(lab, controller, run)
        assert answer["violations"] == []
        raised = [row.body["alarm"] for row in controller.journal.entries(kinds=("alarm.raised",))]
        assert {alarm.partition(":")[0] for alarm in raised} == ({"run_held"} if asked else set()), raised
        for vessel in answer["vessels"].values():
            assert abs(vessel["error_ml"]) <= max(vessel["uncertainty_ml"], 0.001)
        if name != "end-of-culture":
            truth = lab.plant.truth().volumes_ul
            assert truth["loop"] == pytest.approx(40_000, abs=2_500)
            assert truth["spent"] == pytest.approx(3_000, abs=1_000)


async def undisturbed(name: str, path: Path) -> tuple[int, list[str]]:
    controller = Controller(World(rig_of(name)), path, catalogue=shipped())
    run = await controller.runs.start(name, PARAMS[name], "anna", "reference")
    view, _ = await attended(controller.runs, run)
    assert view.state is RunState.COMPLETE
    rows, verbs = controller.journal.rows, [step.verb for step in view.progress]
    await controller.gone()
    return rows, verbs


async def killed(name: str, path: Path, die_at: int, verbs: list[str], *, before: bool) -> None:
    world = World(rig_of(name))
    doomed = Controller(world, path, die_at=die_at, before=before, catalogue=shipped())
    with contextlib.suppress(Killed):
        run = await doomed.runs.start(name, PARAMS[name], "anna", "to be killed")
        await attended(doomed.runs, run, dead=doomed.journal)
    assert doomed.journal.dead
    await doomed.gone()
    await asyncio.sleep(200.0 if before else 3.0)
    second = Controller(world, path, catalogue=shipped())
    await second.runs.recover()
    view, _ = await attended(second.runs, second.runs.list()[0].id)
    assert view.state is RunState.COMPLETE
    remaining = iter([step.verb for step in view.progress])
    assert all(verb in remaining for verb in verbs), f"a step was lost: {[step.verb for step in view.progress]}"
    world.advance()
    sharing: dict[str, dict[str, Route]] = {}
    for verb, route in routes_of(world.rig).items():  # verbs may share a pump
        sharing.setdefault(route.pump, {})[verb] = route
    for name, routes in sharing.items():
        pump, route = world.pumps[name], next(iter(routes.values()))
        volumes_ul = [step.args["volume_ul"] for step in view.progress if step.verb in routes]
        asked_ul = sum(volumes_ul)
        assert pump.moved_ul <= asked_ul + 1.0 * len(volumes_ul), (
            f"{name}: {pump.moved_ul} µL moved, {asked_ul} asked: twice"
        )
        # Where no balance looks, a portion that was cut short counts as what it may have been at the most.
        unseen_ul = 0.0 if route.weighed else 3 * route.rel_sd * asked_ul / route.portions(asked_ul)
        assert pump.moved_ul >= asked_ul - route.min_ul - 150.0 - unseen_ul, (
            f"{name}: {pump.moved_ul} of {asked_ul} µL: lost"
        )
        assert len({dose.dose_id for dose in pump.doses}) == len(pump.doses)
    for vessel, volume in second.ledger.volumes().items():
        unseen_ul = 320.0 if vessel == "loop" else 20.0  # the loop's evaporation is booked, but not in this world
        assert abs(volume.ul - world.volumes[vessel]) <= 4 * volume.sd_ul + unseen_ul, vessel
    assert not world.valves["relay.return_valve"].on
    second.journal.verify()
    await second.gone()


@pytest.mark.parametrize("name", PARAMS)
def test_E4_F2_killed_at_journal_boundaries(name: str, tmp_path: Path) -> None:
    rows, verbs = run_virtual(undisturbed(name, tmp_path / "reference.db"))
    places = sorted({3 + (rows - 4) * part // 9 for part in range(10)})
    assert len(places) > 5
    for number, die_at in enumerate(places):
        try:
            run_virtual(killed(name, tmp_path / f"{die_at}.db", die_at, verbs, before=number % 2 == 0))
        except BaseException as error:
            error.add_note(f"{name} killed {'before' if number % 2 == 0 else 'after'} row {die_at} of {rows}")
            raise


async def on_bench(world: World, path: Path, name: str, **params: str) -> tuple[Controller, RunView, int]:
    controller = Controller(world, path, catalogue=shipped())
    run = await controller.runs.start(name, params, "anna", "a test")
    view, asked = await attended(controller.runs, run)
    return controller, view, asked


@pytest.mark.virtual_time
async def test_a_pump_that_gives_too_much_is_found_with_its_interval(tmp_path: Path) -> None:
    world = World()
    world.pumps["reglo.draw"].gain = 1.06
    controller, _, _ = await on_bench(world, tmp_path / "j.db", "pump-calibration", dose="4 mL")
    notes = {row.body["verb"]: row.body for row in controller.journal.entries(kinds=("note.calibration",))}
    assert set(notes) == {"kidney.draw", "kidney.discard", "gut.feed", "kidney.give_back"}
    draw = notes["kidney.draw"]
    assert draw["low"] <= 1.06 <= draw["high"]
    assert draw["high"] - draw["low"] < 0.05
    assert [verb for verb, note in notes.items() if note["due"]] == ["kidney.draw"]
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize(("kpa", "says"), [(0.02, "it burst"), (55.0, "it is clogged"), (6.0, None)])
async def test_the_filter_test_tells_burst_from_clogged_from_whole(
    kpa: float, says: str | None, tmp_path: Path
) -> None:
    world = World()
    world.readings["p_filter.pressure"] = ("kPa", kpa)
    controller, view, asked = await on_bench(world, tmp_path / "j.db", "filter-integrity")
    assert asked == (says is not None)
    assert says is None or says in view.messages[-1]
    note = controller.journal.last("note.filter")
    assert note is not None
    assert note.body["peak_kpa"] == pytest.approx(kpa, abs=0.1)
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_poor_batch_is_diluted_until_its_tries_are_up_and_then_thrown_away(tmp_path: Path) -> None:
    world = World()
    world.readings["ph_spent.ph"] = ("pH", 6.7)  # and no dilution helps
    controller, _, asked = await on_bench(world, tmp_path / "j.db", "dilute-to-grade", tries="2")
    grades = [row.body["grade"] for row in controller.journal.entries(kinds=("note.grade",))]
    assert grades == ["D"] * 4  # as drawn, with the filter seen at work, and diluted twice
    assert asked == 1
    world.advance()
    assert world.volumes["loop"] == pytest.approx(40_000, abs=700)
    assert world.volumes["spent"] == pytest.approx(3_000, abs=700)
    assert world.volumes["waste"] > 15_000
    assert thrown_away(controller)
    await controller.gone()


def thrown_away(controller: Controller) -> bool:
    """Whether what was drawn is gone, down to a drop above the floor, before the last dose went back."""
    moved = [row.body for row in controller.journal.entries(kinds=("moved",))]
    *before, given = [body["line"] for body in moved]
    assert (before[-1], given) == ("feed", "return")
    return bool(before[-2] == "discard" and moved[-3]["ul"] > 9_000.0)


@pytest.mark.virtual_time
@pytest.mark.parametrize("ph", [7.0, None])
@pytest.mark.parametrize(
    ("name", "params", "goes_back"),
    [
        ("dilute-to-grade", {"tries": "1", "step": "10 %"}, False),
        ("dilute-to-grade", {}, True),
        ("dialyse", {"volumes": "0.5"}, False),
        ("dialyse", {}, True),
    ],
)
async def test_a_batch_of_grade_c_goes_back_only_where_half_of_it_was_replaced(
    name: str, params: dict[str, str], goes_back: bool, ph: float | None, tmp_path: Path
) -> None:
    world = World(rig_of(name))
    if ph is None:
        del world.readings["ph_spent.ph"]
    else:
        world.readings["ph_spent.ph"] = ("pH", ph)
    controller, view, asked = await on_bench(world, tmp_path / "j.db", name, **params)
    assert view.state is RunState.COMPLETE
    assert {row.body["grade"] for row in controller.journal.entries(kinds=("note.grade",))} == {"C"}
    assert asked == (not goes_back)
    if goes_back:
        note = controller.journal.last("note.diluted") or controller.journal.last("note.dialysed")
        assert note is not None
        assert note.body.get("kept", 0.0) <= 50.0 <= note.body.get("exchanged", 100.0)
    else:
        assert thrown_away(controller)
    world.advance()
    assert world.volumes["loop"] == pytest.approx(40_000, abs=2_000)
    await controller.gone()


@pytest.mark.virtual_time
async def test_emergency_care_moves_nothing_while_the_medium_is_good_and_goes_on_without_a_probe(
    tmp_path: Path,
) -> None:
    world = World()
    del world.readings["ph_loop.ph"]
    controller, _, asked = await on_bench(world, tmp_path / "j.db", "emergency-care", time="2 h")
    assert asked == 0
    assert [row.body["ph"] for row in controller.journal.entries(kinds=("note.care",))] == [None, None]
    assert not any(pump.doses for pump in world.pumps.values())
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("name", "time", "every"),
    [
        ("circulate", "10 min", "12 h"),
        ("circulate", "2 h", "5 h"),
        ("emergency-care", "1 h", "6 h"),
        ("emergency-care", "1 h", "10 min"),
    ],
)
async def test_care_for_a_time_ends_at_the_ends_of_its_range(name: str, time: str, every: str, tmp_path: Path) -> None:
    controller, view, _ = await on_bench(World(), tmp_path / "j.db", name, time=time, every=every)
    assert view.state is RunState.COMPLETE
    looks = list(controller.journal.entries(kinds=("note.circulating", "note.care")))
    assert len(looks) == (6 if every == "10 min" else 1)
    await controller.gone()


@pytest.mark.virtual_time
async def test_rinsing_tells_how_much_of_the_old_medium_is_left(tmp_path: Path) -> None:
    controller, _, asked = await on_bench(World(), tmp_path / "j.db", "rinse", volume="4 mL", left="1 %", rounds="3")
    note = controller.journal.last("note.rinsed")
    assert note is not None
    left = (2.2 / 6.2) ** 3 * 100.0  # three times 4 mL on 2.2 mL
    assert note.body["left_pct"] == pytest.approx(left, rel=0.1)
    assert note.body["left_pct"] > left  # never told better than it is
    assert asked == 1  # it is more than 1 %
    await controller.gone()


@pytest.mark.virtual_time
async def test_rinsing_goes_on_until_the_conductivity_has_come_to_rest(tmp_path: Path) -> None:
    probe = DeviceSpec(model="atlas-ezo-ec", link="sim:ec", at="spent", every="5 s")
    world = World(RIG.model_copy(update={"devices": {**RIG.devices, "ec_spent": probe}}))
    pump = world.pumps["dose_fresh.pump"]

    async def plant() -> None:
        while True:  # it falls with each round, and comes to rest in the fifth
            world.readings["ec_spent.conductivity"] = ("uS/cm", 14_000.0 + 8_000.0 * 0.2 ** len(pump.doses))
            await asyncio.sleep(1.0)

    probing = asyncio.create_task(plant())
    controller, _, asked = await on_bench(world, tmp_path / "j.db", "rinse", left="50 %")
    note = controller.journal.last("note.rinsed")
    assert note is not None
    assert note.body["left_pct"] < 25.0  # by volumes, one round was enough
    assert note.body["round"] == 3
    assert note.body["change_pct"] < 2.0
    assert asked == 0
    probing.cancel()
    await controller.gone()
