"""The record of commissioning: for this wiring, for half a year; and a rig without one says so while it runs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from controller.commissioning.record import ROW, VALID, not_commissioned, wiring_hash
from controller.commissioning.terms import Check, Report
from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.process.parts.notices import notices
from controller.rig.description import Accepted, Rig
from controller.rig.loading import load_rig
from tests.commissioning.world import EPOCH, RIGS

TEXT = (RIGS / "bench.yaml").read_text(encoding="utf-8")


def real(swapped: bool = False) -> Rig:
    """The bench rig with real links; with `swapped`, the tubing of draw and discard in each other's channel."""
    rig = load_rig(RIGS / "bench.yaml")
    devices = {
        name: spec.model_copy(update={"link": spec.link.replace("sim:", "serial:///dev/")})
        for name, spec in rig.devices.items()
    }
    if swapped:
        channels = devices["reglo"].channels
        other = channels | {"2": channels["4"], "4": channels["2"]}
        devices["reglo"] = devices["reglo"].model_copy(update={"channels": other})
    return rig.model_copy(update={"devices": devices})


def journal_of(folder: Path) -> Journal:
    return Journal(folder / "journal.db", Clock(follow_system=False, epoch=EPOCH), durable=False)


@pytest.mark.virtual_time
async def test_I8_a_record_is_for_the_wiring_and_for_half_a_year(tmp_path: Path) -> None:
    rig = real()
    assert not rig.simulated
    journal = journal_of(tmp_path)
    assert "no person has confirmed" in (not_commissioned(rig, journal, EPOCH) or "")
    failed = Report(rig.name, wiring_hash(rig), "R. Franklin", "", (Check("reglo.draw", "", False, "dead"),))
    journal.append(ROW, failed.to_json())
    assert "reglo.draw" in (not_commissioned(rig, journal, EPOCH) or "")
    passed = Report(rig.name, wiring_hash(rig), "R. Franklin", "", (Check("reglo.draw", "", True, "moves"),))
    journal.append(ROW, passed.to_json())
    assert not_commissioned(rig, journal, EPOCH) is None
    assert "180 days" in (not_commissioned(rig, journal, EPOCH + VALID + timedelta(hours=1)) or "")
    rewired = real(swapped=True)
    assert "have changed" in (not_commissioned(rewired, journal, EPOCH) or "")
    journal.close()


def test_I8_a_report_without_checks_has_not_passed() -> None:
    assert not Report("bench", "", "R. Franklin", "", ()).passed


@pytest.mark.parametrize(
    "swap",
    [
        ("at: chamber, every", "at: loop, every"),
        ("gas: air, ", ""),
        ("pump: dose_fresh.pump", "pump: dose_base.pump"),
        ('address: "1", at: heart', 'address: "9", at: heart'),
        ("valve: relay.return_valve, bore", "bore"),
        ("ph: ph_spent.ph", "ph: ph_loop.ph"),
    ],
)
def test_I8_a_change_of_wiring_asks_again(tmp_path: Path, swap: tuple[str, str]) -> None:
    text = TEXT.replace(*swap, 1)
    if swap[0].startswith("pump"):
        text = text.replace("to: spent, pump: dose_base.pump}", "to: spent, pump: dose_fresh.pump}").replace(
            "from: reservoir, to: spent, pump: dose_fresh.pump", "from: reservoir, to: spent, pump: dose_base.pump"
        )
    path = tmp_path / "other.yaml"
    path.write_text(text, encoding="utf-8")
    assert wiring_hash(load_rig(path)) != wiring_hash(load_rig(RIGS / "bench.yaml"))


@pytest.mark.parametrize(
    "swap",
    [
        ("setpoint: 37 degC", "setpoint: 36.5 degC"),
        ("volume: 40 mL", "volume: 41 mL"),
        ("high: 60 kPa", "high: 50 kPa"),
    ],
)
def test_I8_a_change_of_set_points_does_not(tmp_path: Path, swap: tuple[str, str]) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(TEXT.replace(*swap, 1), encoding="utf-8")
    assert wiring_hash(load_rig(path)) == wiring_hash(load_rig(RIGS / "bench.yaml"))


@pytest.mark.virtual_time
async def test_I8_a_running_rig_tells_what_was_accepted_and_that_it_is_not_commissioned(tmp_path: Path) -> None:
    rig = real()
    accepted = {"oxygen_out_of_range": Accepted(reason="the flow cell is delivered in March", by="R. Franklin")}
    rig = rig.model_copy(update={"safety": rig.safety.model_copy(update={"accepted": accepted})})
    journal = journal_of(tmp_path)
    assert set(notices(rig, journal, EPOCH, tmp_path)) == {
        ("hazard_accepted", "oxygen_out_of_range"),
        ("not_commissioned", "bench"),
    }
    assert notices(load_rig(RIGS / "bench.yaml"), journal, EPOCH, tmp_path) == {}
    journal.close()
