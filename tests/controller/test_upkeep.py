"""Calibrations that hold or do not (F5), and tubing counted in revolutions, over the journal and its restarts."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.alarms.definitions import DEFINITIONS
from controller.core.clock import Clock
from controller.core.state import ActuatorView, Volume
from controller.journal.journal import Journal
from controller.journal.terms import JournalUnwritten
from controller.ledger.batches import Batch, Whereabouts
from controller.memory.calibrations import FILE, Calibration, keep
from controller.rig.description import Rig, UpkeepSpec
from controller.rig.upkeep import TubingSpec
from controller.safety.kernel import decide
from controller.safety.limits import limits_of
from controller.safety.terms import Intent, Seen, View
from controller.upkeep.tubing import LIFE_REVOLUTIONS, moved_since, revolution_of
from controller.upkeep.upkeep import Upkeep, UpkeepError
from drivers.commands import Dispense, Guarantee, PumpStatus, Run, Stop
from tests.execution.world import RIG

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
DAY_S = 86_400.0
REQUIRED = RIG.model_copy(update={"upkeep": UpkeepSpec(calibration="required")})
RECORD = Calibration(
    "reglo.draw", "pump", "balance", "ada", "2025-12-20T00:00:00.000Z", "2026-01-10T00:00:00.000Z", "bench", 1.02,
    "uL", ((5000.0, 4740.0), (5000.0, 4760.0)), 0.95, 0.0, 0.002,
)  # fmt: skip
PER_TURN_UL = 63.0


@asynccontextmanager
async def kept(data: Path, rig: Rig = RIG, medium: Whereabouts | None = None) -> AsyncIterator[Upkeep]:
    clock = Clock(follow_system=False, epoch=EPOCH)
    journal = Journal(data / "journal.db", clock, durable=False)
    try:
        yield Upkeep(rig, journal=journal, clock=clock, data=data, medium=lambda: medium or Whereabouts())
    finally:
        journal.close()


def seen(total_ul: float, pump: str = "reglo.heart") -> dict[str, ActuatorView]:
    status = PumpStatus(True, 2000.0, total_ul, 1000.0)
    return {pump: ActuatorView(status, 0.0, None, Stop(), Guarantee.DEVICE, None)}


def look(upkeep: Upkeep, total_ul: float = 0.0) -> None:
    upkeep.update(seen(total_ul), lambda _: PER_TURN_UL)


# --- F5 ---------------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_F5_a_simulated_rig_is_factory_calibrated_and_a_real_one_is_not(tmp_path: Path) -> None:
    async with kept(tmp_path) as upkeep:
        assert upkeep.causes == {}
        assert all(trust.refusal is None and trust.gain == 1.0 for trust in upkeep.pumps.values())
        assert upkeep.trust("reglo.draw").rel_sd == 0.08
        assert upkeep.trust("dose_fresh.pump").rel_sd == 0.02
    real = RIG.model_copy(
        update={
            "devices": {
                n: d.model_copy(update={"link": f"tcp://h:{i + 1}"}) for i, (n, d) in enumerate(RIG.devices.items())
            }
        }
    )
    assert not real.factory_calibrated
    assert RIG.factory_calibrated
    assert not REQUIRED.factory_calibrated


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"expires_utc": "2025-12-31T23:59:59.000Z"}, "expired on 2025-12-31 23:59 UTC"),
        ({"tubing_mm": 1.14}, "wrong tubing: reglo.draw has 1.02 mm, the calibration was made with 1.14 mm"),
        ({"rig": "another"}, "made on the rig “another”"),
        (None, "reglo.draw has no record"),
    ],
)
async def test_F5_volumes_are_refused_at_the_gate_and_the_heart_goes_on(
    change: dict[str, str] | None, reason: str, tmp_path: Path
) -> None:
    for pump in ("reglo.draw", "reglo.heart"):
        if change is not None:
            keep(tmp_path, replace(RECORD, point=pump, **change))  # type: ignore[arg-type]
    async with kept(tmp_path, REQUIRED) as upkeep:
        limits = limits_of(REQUIRED)
        volumes = {name: Volume(vessel.volume_ul, 10.0) for name, vessel in RIG.vessels.items()}
        view = View(0.0, {}, volumes, {"reglo.heart": Seen(True, 2000.0, 0.0)}, pumps=upkeep.pumps)
        dose = decide(Intent("reglo.draw", Dispense(5000.0, 2000.0, "d"), "test", ""), view, limits)
        assert not dose.accepted
        assert any(each.startswith("calibration: ") and reason in each for each in dose.reasons), dose.reasons
        assert any("Next: " in each for each in dose.reasons)
        untested = replace(view, pumps={})
        without = decide(Intent("reglo.draw", Dispense(5000.0, 2000.0, "d"), "test", ""), untested, limits)
        assert not any(each.startswith("calibration") for each in without.reasons)
        heart = decide(Intent("reglo.heart", Run(1600.0), "heart", ""), view, limits)
        basal_only = decide(Intent("reglo.heart", Run(1600.0), "heart", ""), untested, limits)
        assert heart == basal_only, "no calibration ever stands between the heart and its flow"
        assert upkeep.causes[("calibration_invalid", "reglo.heart")].startswith("it goes on circulating: ")
        assert upkeep.causes[("calibration_invalid", "reglo.draw")].startswith("it gives no volumes: ")


@pytest.mark.virtual_time
async def test_F5_it_warns_expires_in_time_and_is_taken_up_again_after_a_calibration(tmp_path: Path) -> None:
    keep(tmp_path, RECORD)
    async with kept(tmp_path) as upkeep:
        assert upkeep.pumps["reglo.draw"].refusal is None
        assert upkeep.pumps["reglo.draw"].gain == 0.95
        assert upkeep.trust("reglo.draw").rel_sd == pytest.approx(0.0305, abs=2e-3)
        assert upkeep.causes == {}
        await asyncio.sleep(6.5 * DAY_S)
        look(upkeep)
        assert list(upkeep.causes) == [("calibration_due", "reglo.draw")]
        await asyncio.sleep(3 * DAY_S)
        look(upkeep)
        assert list(upkeep.causes) == [("calibration_invalid", "reglo.draw")]
        assert "expired" in str(upkeep.pumps["reglo.draw"].refusal)
        keep(tmp_path, replace(RECORD, at_utc="2026-01-10T12:00:00.000Z", expires_utc="2026-02-10T00:00:00.000Z"))
        await asyncio.sleep(61.0)
        look(upkeep)
        assert upkeep.causes == {}
        assert upkeep.pumps["reglo.draw"].refusal is None


@pytest.mark.virtual_time
async def test_F5_new_tubing_ends_a_calibration_and_a_record_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    keep(tmp_path, RECORD)
    async with kept(tmp_path) as upkeep:
        await asyncio.sleep(60.0)
        upkeep.install("reglo.draw", material="silicone", bore_mm=None, user="anna", reason="cracked")
        assert "new tubing was fitted on 2026-01-01 00:01 UTC" in str(upkeep.pumps["reglo.draw"].refusal)
        (tmp_path / FILE).write_text("{nonsense}\n{}\n")
        await asyncio.sleep(61.0)
        look(upkeep)
        assert "cannot be read" in str(upkeep.pumps["reglo.draw"].refusal)


@pytest.mark.virtual_time
async def test_F5_a_file_edited_into_latin_1_refuses_volumes_and_stops_no_start(tmp_path: Path) -> None:
    """It once ended every start of the controller."""
    text = keep(tmp_path, replace(RECORD, by="Müller")).read_text()
    (tmp_path / FILE).write_bytes(text.encode("latin-1"))
    async with kept(tmp_path) as upkeep:
        assert "cannot be read" in str(upkeep.pumps["reglo.draw"].refusal)
        assert ("calibration_invalid", "reglo.draw") in upkeep.causes
        assert upkeep.standings["reglo.heart"].heart, "the heart goes on"


@pytest.mark.virtual_time
async def test_F5_what_was_taken_is_in_the_journal_once(tmp_path: Path) -> None:
    keep(tmp_path, RECORD)
    for _ in range(2):
        async with kept(tmp_path) as upkeep:
            rows = list(upkeep._journal.entries(kinds=("calibration.taken",)))
    assert [(row.body["pump"], row.body["by"], row.body["gain"]) for row in rows] == [("reglo.draw", "ada", 0.95)]


@pytest.mark.virtual_time
async def test_D2_a_calibration_that_no_disk_took_down_is_put_on_record_when_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(tmp_path, RECORD)

    def full(*_: object, **__: object) -> int:
        raise JournalUnwritten(sqlite3.OperationalError("database or disk is full"))

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", full)
        clock = Clock(follow_system=False, epoch=EPOCH)
        journal = Journal(tmp_path / "journal.db", clock, durable=False)
        upkeep = Upkeep(REQUIRED, journal=journal, clock=clock, data=tmp_path)
        assert upkeep.pumps["reglo.draw"].refusal is None
        with pytest.raises(JournalUnwritten):
            look(upkeep)
    await asyncio.sleep(61.0)
    look(upkeep)
    rows = journal.entries(kinds=("calibration.taken",))
    assert [row.body["pump"] for row in rows] == ["reglo.draw"]
    journal.close()


@pytest.mark.virtual_time
async def test_medium_past_its_date_is_told(tmp_path: Path) -> None:
    lot = Batch("NB-1", "fresh", "", "reservoir", expires_utc="2026-01-02")
    medium = Whereabouts()
    medium.batches["NB-1"] = lot
    async with kept(tmp_path, medium=medium) as upkeep:
        assert upkeep.causes == {}
        await asyncio.sleep(2 * DAY_S)
        look(upkeep)
        assert "lot NB-1 expired" in upkeep.causes[("medium_expired", "reservoir")]
        assert {kind for kind, _ in upkeep.causes} <= set(DEFINITIONS)


@pytest.mark.virtual_time
async def test_bottles_that_run_out_and_a_waste_that_fills_are_told_in_time(tmp_path: Path) -> None:
    clock = Clock(follow_system=False, epoch=EPOCH)
    journal = Journal(tmp_path / "journal.db", clock, durable=False)
    volumes = {name: Volume(vessel.volume_ul, 10.0) for name, vessel in RIG.vessels.items()}
    upkeep = Upkeep(RIG, journal=journal, clock=clock, data=tmp_path, volumes=lambda: volumes)
    reservoir, waste = RIG.vessels["reservoir"], RIG.vessels["waste"]
    edge_ul = reservoir.floor_ul + 0.1 * (reservoir.capacity_ul - reservoir.floor_ul)
    for name, ul, told in (
        ("reservoir", edge_ul + 1.0, []),
        ("reservoir", edge_ul - 1.0, [("stock_low", "reservoir")]),
        ("reservoir", 0.0, [("stock_low", "reservoir")]),
        ("reservoir", reservoir.volume_ul, []),
        ("waste", 0.9 * waste.limit_ul - 1.0, []),
        ("waste", 0.9 * waste.limit_ul + 1.0, [("waste_full", "waste")]),
    ):
        volumes[name] = Volume(ul, 10.0)
        await asyncio.sleep(61.0)
        look(upkeep)
        assert list(upkeep.causes) == told, (name, ul)
        assert {kind for kind, _ in upkeep.causes} <= set(DEFINITIONS)
    volumes["reservoir"] = Volume(0.0, 10.0)
    upkeep = Upkeep(RIG, journal=journal, clock=clock, data=tmp_path, volumes=lambda: volumes)  # begun with it empty
    await asyncio.sleep(61.0)
    volumes["reservoir"], volumes["waste"] = Volume(reservoir.volume_ul, 10.0), Volume(0.0, 10.0)  # changed and emptied
    look(upkeep)
    await asyncio.sleep(10 * DAY_S)
    volumes["reservoir"], volumes["waste"] = Volume(50_000.0, 10.0), Volume(1_800_000.0, 10.0)
    look(upkeep)
    assert upkeep.causes[("stock_low", "reservoir")].endswith(
        "it holds 520 mL; as it has gone so far, enough for 0.9 d"
    )
    assert upkeep.causes[("waste_full", "waste")].endswith(
        "1900 mL is the most; as it has gone so far, enough for 0.6 d"
    )
    quiet = RIG.model_copy(update={"upkeep": UpkeepSpec.model_validate({"stock_low": "0 %"})})
    volumes["reservoir"] = Volume(reservoir.floor_ul + 1.0, 10.0)
    assert ("stock_low", "reservoir") not in Upkeep(
        quiet, journal=journal, clock=clock, data=tmp_path, volumes=lambda: volumes
    ).causes
    journal.close()


# --- tubing -----------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_revolutions_survive_restarts_power_cycles_and_what_turned_meanwhile(tmp_path: Path) -> None:
    async with kept(tmp_path) as upkeep:
        look(upkeep, 5_000.0)
        assert upkeep.tubing["reglo.heart"].revolutions == 0.0, "what the pump did before is unknown"
        await asyncio.sleep(61.0)
        look(upkeep, 5_000.0 + 100 * PER_TURN_UL)
        upkeep.write()
    async with kept(tmp_path) as upkeep:
        assert upkeep.tubing["reglo.heart"].revolutions == pytest.approx(100.0)
        look(upkeep, 5_000.0 + 150 * PER_TURN_UL)  # it went on while the controller was gone
        assert upkeep.tubing["reglo.heart"].revolutions == pytest.approx(150.0)
        await asyncio.sleep(61.0)
        look(upkeep, 10 * PER_TURN_UL)  # it lost power: its total restarted at 0
        assert upkeep.tubing["reglo.heart"].revolutions == pytest.approx(160.0)
        upkeep.install("reglo.heart", material="pharmed-bpt", bore_mm=1.02, user="anna", reason="due", lot="T-9")
        assert upkeep.tubing["reglo.heart"].revolutions == 0.0
        await asyncio.sleep(61.0)
        look(upkeep, 30 * PER_TURN_UL)
        upkeep.write()
    async with kept(tmp_path) as upkeep:
        tubing = upkeep.tubing["reglo.heart"]
        assert (tubing.material, tubing.by, tubing.lot) == ("pharmed-bpt", "anna", "T-9")
        assert tubing.revolutions == pytest.approx(20.0)
        assert tubing.life_revolutions == LIFE_REVOLUTIONS["pharmed-bpt"]
        told = next(each for each in upkeep.to_json() if each["pump"] == "reglo.heart")["tubing"]
        assert told["remaining_revolutions"] == pytest.approx(LIFE_REVOLUTIONS["pharmed-bpt"] - 20.0)


@pytest.mark.virtual_time
async def test_the_end_of_a_life_is_told_before_and_after_it(tmp_path: Path) -> None:
    spec = UpkeepSpec(tubing={"reglo.heart": TubingSpec(life=1000.0, material="tygon")})
    async with kept(tmp_path, RIG.model_copy(update={"upkeep": spec})) as upkeep:
        for turns, kinds in ((0, []), (899, []), (901, ["tubing_due"]), (1001, ["tubing_over"])):
            await asyncio.sleep(61.0)
            look(upkeep, turns * PER_TURN_UL)
            assert [kind for kind, _ in upkeep.causes] == kinds, turns
        assert "1,001 of 1,000 revolutions (tygon)" in upkeep.causes[("tubing_over", "reglo.heart")]
        assert {kind for kind, _ in upkeep.causes} <= set(DEFINITIONS)


@pytest.mark.virtual_time
async def test_tubing_that_cannot_be_is_refused(tmp_path: Path) -> None:
    async with kept(tmp_path) as upkeep:
        with pytest.raises(UpkeepError, match="no line has the pump"):
            upkeep.install("reglo.unknown", material="silicone", bore_mm=None, user="anna", reason="")
        with pytest.raises(UpkeepError, match="not known here"):
            upkeep.install("reglo.draw", material="rubber", bore_mm=None, user="anna", reason="")


def test_a_pump_that_does_not_tell_is_counted_by_its_bore() -> None:
    assert revolution_of(1.0) == pytest.approx(80.0, rel=0.05)
    assert revolution_of(3.0) == pytest.approx(800.0, rel=0.05)
    assert revolution_of(4.0) == pytest.approx(1430.0, rel=0.05)
    assert (moved_since(None, 7.0), moved_since(5.0, 7.0), moved_since(7.0, 2.0)) == (0.0, 2.0, 2.0)


@pytest.mark.virtual_time
async def test_a_probe_whose_calibration_is_over_is_told_and_goes_on(tmp_path: Path) -> None:
    probe = replace(
        RECORD, point="ph_spent.ph", kind="sensor", method="buffers", tubing_mm=None, unit="pH",
        measured=((7.0, 7.0), (10.0, 10.0)), gain=1.0, expires_utc="2026-01-03T00:00:00.000Z",
    )  # fmt: skip
    keep(tmp_path, probe)
    keep(tmp_path, replace(probe, point="ph_elsewhere.ph"))
    keep(tmp_path, replace(probe, point="ph_loop.ph", rig="another"))
    async with kept(tmp_path) as upkeep:
        assert upkeep.causes == {}
        await asyncio.sleep(2 * DAY_S)
        look(upkeep)
        assert list(upkeep.causes) == [("probe_calibration_over", "ph_spent.ph")]
        assert "ran out on 2026-01-03" in upkeep.causes["probe_calibration_over", "ph_spent.ph"]
        assert "probe_calibration_over" in DEFINITIONS
