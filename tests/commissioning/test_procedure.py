"""Commissioning in the lab: a rig that is as its file says passes, and each part that is wired wrongly is found and named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.commissioning.bench import CommissioningRig
from controller.commissioning.procedure import NotReady, commission
from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.rig.loading import load_rig
from sim.faults.injector import Injector
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from tests.commissioning.world import EPOCH, RIGS, Miswire, commissioned, rewired

BENCH = load_rig(RIGS / "bench.yaml")


def swap(one: str, other: str) -> Miswire:
    """Exchange two values of the description."""

    def holder(data: dict[str, Any], place: str) -> tuple[dict[str, Any], str]:
        *way, last = place.split(".")
        for key in way:
            data = data[key]
        return data, last

    def miswire(data: dict[str, Any]) -> None:
        (a, key_a), (b, key_b) = holder(data, one), holder(data, other)
        a[key_a], b[key_b] = b[key_b], a[key_a]

    return miswire


def pumps(one: str, other: str) -> Miswire:
    return swap(f"lines.{one}.pump", f"lines.{other}.pump")


def valve_on_discard(data: dict[str, Any]) -> None:
    data["lines"]["discard"]["valve"] = data["lines"]["return"].pop("valve")


@pytest.mark.virtual_time
@pytest.mark.parametrize("name", ["bench", "bench_dialysis", "other_makers"])
async def test_I8_a_shipped_rig_that_is_as_its_file_says_passes(tmp_path: Path, name: str) -> None:
    rig = load_rig(RIGS / f"{name}.yaml")
    report, person, lab = await commissioned(tmp_path, rig, rig)
    assert report.passed, [str(check) for check in report.checks if not check.ok]
    subjects = {check.subject for check in report.checks}
    assert subjects >= {line.pump for line in rig.lines.values() if line.pump}
    assert subjects >= {
        "gas_air.flow",
        "gas_co2.flow",
        "gas_o2.flow",
        "ph_spent.ph",
        "relay.heater",
        "relay.return_valve",
    }
    assert subjects >= {"emergency stop"}
    assert len(person.asked) >= 7
    journal = Journal(tmp_path / "journal.db", Clock(follow_system=False, epoch=EPOCH), durable=False)
    commanded = {row.body["actuator"] for row in journal.entries(kinds=("act",))}
    journal.close()
    assert commanded >= subjects - {"ph_spent.ph", "emergency stop"}, "a command went past the gate"
    volumes = lab.plant.truth().volumes_ul
    for vessel, spec in rig.vessels.items():
        assert spec.floor_ul <= volumes[vessel] <= spec.limit_ul or vessel == "chamber", vessel


# what was wired wrongly, and what of the report has to name it: subject, words
MISWIRED: list[tuple[str, Miswire, list[tuple[str, str]]]] = [
    ("draw and discard", pumps("draw", "discard"),
     [("reglo.draw", "reglo.discard (line “discard”) should"), ("reglo.discard", "reglo.draw (line “draw”)")]),
    ("return and discard", pumps("return", "discard"),
     [("reglo.return", "reglo.discard (line “discard”) should"), ("reglo.discard", "reglo.return (line “return”")]),
    ("heart and draw", pumps("heart", "draw"), [("reglo.heart", "reglo.draw (line “draw”)")]),
    ("heart and return", pumps("heart", "return"),
     [("reglo.heart", "p_filter.pressure responds"), ("reglo.return", "reglo.heart (line “heart”) should")]),
    ("glucose and base", pumps("glucose", "base"),
     [("dose_glucose.pump", "a person saw another line"), ("dose_base.pump", "a person saw another line"),
      ("ph_spent.ph", "the bottle holds no base")]),
    ("CO2 and oxygen", swap("organs.lung.co2", "organs.lung.o2"),
     [("gas_co2.flow", "it carries oxygen"), ("gas_o2.flow", "it carries CO2")]),
    ("air and CO2", swap("organs.lung.air", "organs.lung.co2"),
     [("gas_air.flow", "carries CO2; is it exchanged with gas_co2.flow?"), ("gas_co2.flow", "does not acidify")]),
    ("pH probes", swap("devices.ph_loop.at", "devices.ph_spent.at"),
     [("ph_spent.ph", "ph_spent.ph and ph_loop.ph are exchanged")]),
    ("gauges", swap("devices.p_heart.at", "devices.p_filter.at"),
     [("reglo.heart", "gauge p_filter.pressure responds to reglo.heart, and p_heart.pressure does not"),
      ("reglo.return", "gauge p_heart.pressure responds to reglo.return")]),
    ("valve on another line", valve_on_discard,
     [("reglo.discard", "relay.return_valve is open: that valve is on line “discard”"),
      ("relay.return_valve", "a person saw")]),
    ("heater and valve", swap("devices.relay.channels.0.point", "devices.relay.channels.1.point"),
     [("reglo.return", "its line is shut"), ("relay.heater", "did not respond")]),
]  # fmt: skip


@pytest.mark.virtual_time
@pytest.mark.parametrize(("name", "miswire", "named"), MISWIRED, ids=[case[0] for case in MISWIRED])
async def test_I8_what_is_wired_wrongly_is_found_and_named(
    tmp_path: Path, name: str, miswire: Miswire, named: list[tuple[str, str]]
) -> None:
    report, _, lab = await commissioned(tmp_path, BENCH, rewired(tmp_path, miswire))
    assert not report.passed
    failed = {check.subject: check.detail for check in report.checks if not check.ok}
    for subject, words in named:
        assert words in failed.get(subject, ""), failed
    volumes = lab.plant.truth().volumes_ul
    for vessel, spec in BENCH.vessels.items():
        assert volumes[vessel] <= spec.capacity_ul + 1.0, f"{vessel} ran over while it was looked for"


def faulty(*faults: Fault) -> Callable[[SimulatedLab], None]:
    def begin(lab: SimulatedLab) -> None:
        injector = Injector(lab, (), seed=1)
        for fault in faults:
            injector.inject(fault)

    return begin


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("fault", "subject", "words"),
    [
        (Fault("worn_tubing", "draw", 0.0, 1e5, amount=0.99), "reglo.draw", "the pump moves nothing"),
        (Fault("worn_tubing", "heart", 0.0, 1e5, amount=0.99), "reglo.heart", "nothing responds"),
        (Fault("worn_tubing", "feed", 0.0, 1e5, amount=0.5), "dose_fresh.pump", "calibrate"),
        (Fault("reversed", "reglo.discard", 0.0, 1e5), "reglo.discard", "it fills spent"),
        (Fault("stuck", "t_chamber.temperature", 0.0, 1e5), "relay.heater", "t_chamber.temperature flat"),
        (Fault("unplug", "sim:ph_spent", 0.0, 1e5), "ph_spent", "it does not answer"),
    ],
)
async def test_I8_what_is_dead_is_found_and_named(tmp_path: Path, fault: Fault, subject: str, words: str) -> None:
    report, _, _ = await commissioned(tmp_path, BENCH, BENCH, before=faulty(fault))
    failed = {check.subject: check.detail for check in report.checks if not check.ok}
    assert words in failed.get(subject, ""), failed


@pytest.mark.virtual_time
async def test_I8_nothing_moves_before_a_person_has_confirmed(tmp_path: Path) -> None:
    lab = SimulatedLab(BENCH, seed=1)
    clock = Clock(follow_system=False, epoch=EPOCH)
    journal = Journal(tmp_path / "journal.db", clock, durable=False)
    bench = await CommissioningRig.open(BENCH, lab.opener, journal, clock, lambda *_: None)

    async def no(_: str) -> bool:
        await asyncio.sleep(60.0)
        return False

    with pytest.raises(NotReady, match="nothing was moved"):
        await commission(bench, by="R. Franklin", utc=clock.utc_text(), ask=no, tell=lambda _: None)
    assert all(bench.flow(line.pump or "") == 0.0 for line in BENCH.lines.values() if line.pump)
    await bench.close()
    commanded = [row.body for row in journal.entries(kinds=("act",))]
    journal.close()
    await lab.close()
    assert commanded == [], "a rig that is not prepared must stay as it is, also when commissioning ends"
