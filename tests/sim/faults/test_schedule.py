"""Schedules: as data, through the injector, by chance; the same ones give the same bytes."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from controller.alarms.definitions import DEFINITIONS
from sim.faults.chance import draw
from sim.faults.conditions import Conditional, PointBeyond, StepBegun
from sim.faults.injector import Injector
from sim.faults.kinds import KINDS, survivable
from sim.faults.schedule import Fault, Schedule, from_json, to_json
from sim.faults.targets import drawn_targets, targets
from sim.lab import SimulatedLab
from sim.virtual_time import run_virtual
from tests.sim.faults.bench import RIG, ROOT, SELECTORS, lab_with, listener_on

OF_THE_LAB = [kind for kind in KINDS.values() if kind.group not in ("host", "network")]


class FakeHost:
    def __init__(self) -> None:
        self.calls: list[tuple[str, float, tuple[float | None, ...]]] = []
        self.services = {"broker", "store"}

    def _note(self, name: str, *values: float | None) -> None:
        self.calls.append((name, round(asyncio.get_running_loop().time(), 6), values))

    def kill(self, at_journal_row: int | None = None) -> None:
        self._note("kill", at_journal_row)

    def stall(self, for_s: float) -> None:
        self._note("stall", for_s)

    def step_clock(self, by_s: float) -> None:
        self._note("step_clock", by_s)

    def disk_full(self, for_s: float) -> None:
        self._note("disk_full", for_s)

    def disk_slow(self, for_s: float, delay_s: float) -> None:
        self._note("disk_slow", for_s, delay_s)

    def lock_database(self, for_s: float) -> None:
        self._note("lock_database", for_s)

    def service_down(self, service: str, for_s: float) -> None:
        self._note(f"{service} down", for_s)

    def flood(self, for_s: float) -> None:
        self._note("flood", for_s)

    def careless(self, output: str, for_s: float) -> None:
        self._note(f"careless {output}", for_s)


# --- as data ------------------------------------------------------------------------------------------------


def test_a_schedule_survives_json() -> None:
    schedule = draw(np.random.default_rng(3), RIG, 5.0, 20.0)
    assert len(schedule) > 50
    assert from_json(json.loads(json.dumps(to_json(schedule)))) == schedule
    assert schedule.faults == tuple(schedule)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"kind": "drop"}, "is a list"),
        (["drop"], "fault 1 is a str"),
        ([{"kind": "drop", "target": "sim:x"}], "lacks “at_s”"),
        ([{"kind": "drop", "target": "sim:x", "at_s": 1, "length": 2}], "“length”"),
        ([{"kind": 3, "target": "sim:x", "at_s": 1}], "texts"),
        ([{"kind": "drop", "target": "sim:x", "at_s": "2 h"}], "numbers"),
        ([{"kind": "drop", "target": "sim:x", "at_s": float("nan")}], "finite"),
        ([{"kind": "drop", "target": "sim:x", "at_s": True}], "numbers"),
        ([{"kind": "drop", "target": "sim:x", "at_s": -1}], "negative"),
    ],
)
def test_what_is_no_schedule_is_refused(data: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        from_json(data)


# --- kinds and targets --------------------------------------------------------------------------------------


def test_kinds_are_told_by_alarms_that_there_are_and_their_ranges_are_sound() -> None:
    for kind in KINDS.values():
        assert kind.alarms <= set(DEFINITIONS), kind.name
        assert bool(kind.alarms) == (kind.told_within_s > 0), kind.name
        assert kind.momentary or 0 < kind.drawn_s[0] < kind.drawn_s[1], kind.name
        assert kind.momentary or not kind.survivable or kind.survivable_for_s > 0, kind.name
        assert kind.meaning.endswith("."), kind.name
        if kind.amount is not None:
            low, high = kind.amount.drawn
            assert kind.amount.minimum <= low <= high <= kind.amount.maximum, kind.name
            assert kind.amount.minimum <= kind.amount.usual <= kind.amount.maximum, kind.name


def test_what_is_survivable() -> None:
    fault = Fault("heart_occlusion", "heart", 0.0, 30.0)
    assert survivable(fault)
    assert not survivable(replace(fault, for_s=KINDS["heart_occlusion"].survivable_for_s + 1))
    assert not survivable(replace(fault, for_s=0.0)), "for good"
    assert survivable(Fault("reboot", "reglo", 0.0))
    assert not survivable(Fault("contaminated", "loop", 0.0))


def test_every_kind_has_a_target_on_the_bench_rig_or_on_one_with_selectors() -> None:
    assert {name for name in KINDS if not targets(name, RIG)} == {"slipped"}
    assert targets("slipped", SELECTORS) == ("giver", "taker")
    assert "from01" in drawn_targets("occlusion", SELECTORS)
    assert targets("other_address", RIG) == ("p_heart", "p_filter", "relay", "gas_air", "gas_co2", "gas_o2")
    assert targets("wrong_address", RIG) == ("sim:rs485", "sim:gas")
    assert "heart" not in targets("occlusion", RIG)


@pytest.mark.parametrize("kind", [kind.name for kind in OF_THE_LAB])
def test_every_target_works_and_is_taken_back(kind: str) -> None:
    """The healthy lab and one that has had the fault on every target differ in nothing that a fault sets."""

    def state(lab: SimulatedLab) -> dict[str, object]:
        found: dict[str, object] = {
            "lines": list(lab.lines),
            "reversed": set(lab.drives._reversed),
            "positions": dict(lab.plant.positions),
        }
        for link, line in lab.lines.items():
            found[link] = (line.plugged, line.echo, line.elsewhere, line.inward[:], line.outward[:], set(line.ghosts))
        for name, device in lab.devices.items():
            found[name] = (
                device.powered,
                device.hung,
                device.obeys,
                getattr(device, "address", getattr(device, "unit", "")),
            )
        faults = lab.plant.faults
        for name in faults.__slots__:
            value = getattr(faults, name)
            found[f"plant.{name}"] = dict(value) if isinstance(value, dict) else value
        return found

    async def run() -> None:
        rig = RIG if targets(kind, RIG) else SELECTORS
        async with lab_with(rig=rig) as (lab, _):
            healthy = state(lab)
            faults = [
                Fault(kind, target, 10.0 * number, 0.0 if KINDS[kind].momentary else 5.0)
                for number, target in enumerate(targets(kind, rig), start=1)
            ]
            injector = Injector(lab, faults)
            running = asyncio.create_task(injector.run())
            if not KINDS[kind].momentary:
                await asyncio.sleep(12.0)
                touched = state(lab) != healthy
                assert touched or kind in ("half_open", "eeprom"), "it acts on something that is there to see"
            await running
            assert [each.fault for each in injector.applied] == faults
            assert all(each.ended_s is not None for each in injector.applied)
            after = state(lab)
            if kind == "wrong_medium":  # the entry stays, with the right medium
                assert after.pop("plant.wrong_medium") == {
                    name: RIG.vessels[name].contains for name in targets(kind, RIG)
                }
                healthy.pop("plant.wrong_medium")
            if not KINDS[kind].momentary:
                assert after == healthy

    run_virtual(run())


# --- the injector -------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_faults_begin_and_end_at_their_times() -> None:
    faults = (
        Fault("silent", "balance", 20.0, 30.0),
        Fault("unplug", "sim:gas", 5.0, 60.0),
        Fault("reboot", "reglo", 20.0),
        Fault("stuck", "ph_loop.ph", 40.0),
    )
    async with lab_with() as (lab, _):
        await asyncio.sleep(7.0)
        injector = Injector(lab, faults)
        await injector.run()
        assert [(each.fault.kind, each.begun_s, each.ended_s) for each in injector.applied] == [
            ("unplug", 5.0, 65.0),
            ("silent", 20.0, 50.0),
            ("reboot", 20.0, 20.0),
            ("stuck", 40.0, None),
        ]
        assert asyncio.get_running_loop().time() == 72.0
        assert lab.plant.faults.sensor_stuck
        injector.clear()
        assert not lab.plant.faults.sensor_stuck
        assert injector.applied[-1].ended_s == 65.0
        injector.clear()


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault("unplugged", "sim:gas", 0.0), "no fault “unplugged”"),
        (Fault("unplug", "sim:nowhere", 0.0), "cannot occur on “sim:nowhere”"),
        (Fault("kill", "host", 0.0), "not part of this lab"),
        (Fault("drop", "sim:gas", 0.0, 1.0, 1.5), "not an amount"),
    ],
)
async def test_what_cannot_happen_is_refused_before_anything_happens(fault: Fault, said: str) -> None:
    async with lab_with() as (lab, injector):
        with pytest.raises(ValueError, match=said):
            Injector(lab, [fault])
        with pytest.raises(ValueError, match=said):
            injector.inject(fault)
        assert injector.applied == []


@pytest.mark.virtual_time
async def test_the_host_receives_each_fault_of_its_own() -> None:
    host = FakeHost()
    faults = [
        Fault("kill", "host", 1.0),
        Fault("kill", "host", 2.0, 0.0, 7.0),
        Fault("stall", "host", 3.0, 4.0),
        Fault("clock_step", "host", 4.0, 10.0, -600.0),
        Fault("dst", "host", 5.0, 10.0),
        Fault("disk_full", "host", 6.0, 2.0),
        Fault("disk_slow", "host", 7.0, 2.0, 0.5),
        Fault("database_locked", "host", 8.0, 2.0),
        Fault("broker_down", "broker", 9.0, 2.0),
        Fault("store_down", "store", 9.5, 3.0),
        Fault("flood", "host", 10.0, 2.0),
    ]
    async with lab_with() as (lab, _):
        await Injector(lab, faults, host).run()
        assert host.calls == [
            ("kill", 1.0, (None,)),
            ("kill", 2.0, (7,)),
            ("stall", 3.0, (4.0,)),
            ("step_clock", 4.0, (-600.0,)),
            ("step_clock", 5.0, (3600.0,)),
            ("disk_full", 6.0, (2.0,)),
            ("disk_slow", 7.0, (2.0, 0.5)),
            ("lock_database", 8.0, (2.0,)),
            ("broker down", 9.0, (2.0,)),
            ("store down", 9.5, (3.0,)),
            ("flood", 10.0, (2.0,)),
            ("step_clock", 14.0, (600.0,)),
            ("step_clock", 15.0, (-3600.0,)),
        ]
        host.services, before = {"store"}, len(host.calls)
        injector = Injector(lab, [], host)
        assert injector.inject(faults[8]) is None
        assert (injector.applied, len(host.calls)) == ([], before)


async def _bytes_of(seed: int, chance: int, faults: Schedule) -> list[tuple[float, bytes]]:
    async with lab_with(seed=seed) as (lab, _):
        injector = Injector(lab, faults, seed=chance)
        running = asyncio.create_task(injector.run())
        bus = await listener_on(lab, "balance")
        for _ in range(200):
            await bus.ask(b"SI\r\n", 0.5)
        await running
        return bus.received


def test_the_same_schedule_and_seed_give_the_same_bytes() -> None:
    mess = Schedule(
        Fault(kind, "sim:balance", 5.0 * number, 30.0)
        for number, kind in enumerate(("drop", "garble", "truncate", "duplicate", "delay", "echo"))
    )
    first = run_virtual(_bytes_of(1, 1, mess))
    assert run_virtual(_bytes_of(1, 1, mess)) == first
    assert run_virtual(_bytes_of(1, 2, mess)) != first
    assert run_virtual(_bytes_of(1, 1, Schedule(mess[1:]))) != first


def test_leaving_one_fault_out_changes_nothing_of_another() -> None:
    """So that a failing schedule can be made smaller."""
    garble = Fault("garble", "sim:balance", 1.0, 60.0, 0.05)
    alone = run_virtual(_bytes_of(1, 1, Schedule([garble])))
    other = Fault("drop", "sim:gas", 0.5, 60.0)
    assert run_virtual(_bytes_of(1, 1, Schedule([other, garble]))) == alone


# --- conditions ---------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_a_fault_waits_for_a_point() -> None:
    async with lab_with() as (lab, _):
        heavy = PointBeyond("balance.mass", above=6.0)
        once = Conditional(Fault("silent", "ph_spent", 0.0, 5.0), heavy)
        often = Conditional(Fault("silent", "do_loop", 0.0, 5.0), heavy, again=True)
        injector = Injector(lab, [], conditions=[once, often])
        running = asyncio.create_task(injector.run())
        pump = await listener_on(lab, "dose_fresh")
        for _ in range(2):
            await pump.ask(b"D,4,1\r", 70.0)  # 3 g and 4 g: above
            drain = await listener_on(lab, "reglo")
            for request in (b"1~1\r", b"4M\r", b"4f5000+0\r", b"4H\r"):
                await drain.ask(request, 0.2)
            await asyncio.sleep(58.0)
            await drain.ask(b"4I\r")
            drain.writer.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert Counter(each.fault.target for each in injector.applied) == {"ph_spent": 1, "do_loop": 2}
        assert all(each.begun_s > 30.0 for each in injector.applied)
        assert {each.fault.at_s for each in injector.applied} == {each.begun_s for each in injector.applied}
        injector.clear()


@pytest.mark.virtual_time
async def test_a_fault_waits_for_a_step_of_a_run() -> None:
    async with lab_with() as (lab, _):
        condition = Conditional(Fault("silent", "balance", 0.0, 5.0), StepBegun("recycle", "kidney.draw"))
        injector = Injector(lab, [], conditions=[condition])
        running = asyncio.create_task(injector.run())
        injector.on_row(1, "run.start", {"protocol": "exchange"}, "run-1")
        injector.on_row(2, "step", {"verb": "kidney.draw"}, "run-1")
        injector.on_row(3, "run.start", {"protocol": "recycle"}, "run-3")
        injector.on_row(4, "step", {"verb": "sleep"}, "run-3")
        await asyncio.sleep(5.0)
        assert injector.applied == []
        injector.on_row(5, "step", {"verb": "kidney.draw"}, "run-3")
        await asyncio.sleep(2.0)
        assert [each.fault.target for each in injector.applied] == ["balance"]
        await running


# --- by chance ----------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_chance_draws_every_kind_and_only_what_can_happen() -> None:
    schedule = draw(np.random.default_rng(11), RIG, 40.0, 60.0)
    assert len(schedule) == pytest.approx(2400, abs=200)
    assert {fault.kind for fault in schedule} == set(KINDS) - {"slipped"}
    assert [fault.at_s for fault in schedule] == sorted(fault.at_s for fault in schedule)
    assert all((fault.for_s == 0) == KINDS[fault.kind].momentary for fault in schedule)
    assert schedule == draw(np.random.default_rng(11), RIG, 40.0, 60.0)
    assert schedule != draw(np.random.default_rng(12), RIG, 40.0, 60.0)
    async with lab_with() as (lab, _):
        Injector(lab, schedule, FakeHost())


def test_the_documentation_knows_every_kind() -> None:
    text = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    for kind in KINDS.values():
        assert f"| `{kind.name}` | {kind.meaning} | {kind.target} |" in text, kind.name
        row = next(line for line in text.splitlines() if line.startswith(f"| `{kind.name}` |"))
        told = (
            f" within {kind.told_within_s / 60:g} min"
            if kind.told_within_s % 60 == 0
            else f" within {kind.told_within_s:g} s"
        )
        assert row.endswith(f"{told} |" if kind.alarms else "|  |"), kind.name
