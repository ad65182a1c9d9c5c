"""Every built-in driver conforms; a model without a simulated counterpart is reported, not skipped."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from choroid.cli import main
from choroid.common.failure import UserError
from choroid.tools.conformance.benches import all_benches
from choroid.tools.conformance.table import conformance, in_virtual_time
from drivers.atlas_ezo_pmp import DosingPump
from drivers.commands import PumpStatus
from drivers.conformance.bench import Bench
from drivers.conformance.examine import examine
from drivers.conformance.properties import PROPERTIES
from drivers.registry import MODELS
from sim.devices.catalogue import DEVICES


@pytest.mark.parametrize("bench", all_benches(), ids=str)
def test_every_driver_has_every_property(bench: Bench) -> None:
    verdicts = examine(bench, in_virtual_time)
    assert [each.property for each in verdicts] == list(PROPERTIES)
    assert {each.property: each.told for each in verdicts if each.outcome == "fail"} == {}
    tried = {each.property for each in verdicts if each.outcome == "pass"}
    wanted = {"verified-first", "garbage", "truncated", "flipped", "doubled", "late", "comes-back", "ranges"}
    wanted |= {"impostor", "exchanged", "echo", "endless", "silence", "left-behind", "one-clock", "no-blocking"}
    if bench.driver.model.capabilities != ("run", "dispense", "total"):
        wanted |= {"leftover"}
    if "read" in bench.driver.model.capabilities and bench.driver.model.kind != "analyser":
        wanted |= {"truth"}
    if bench.driver.model.capabilities != ("read",):
        wanted |= {"idempotent", "cancelled", "lost-reply", "closed", "readback", "status"}
        wanted |= {"effect", "stopped", "restarted", "power-cut"}
    if "run" in bench.driver.model.capabilities:
        wanted |= {"total", "dose", "nearest"}
    if bench.model == "modbus-generic":
        wanted -= {"readback"}  # its level is seen in the register that it was written to
    assert tried >= wanted | promised(bench)
    reasons = [each.told for each in verdicts if each.outcome == "n/a"]
    assert all(reason not in ("", "None") for reason in reasons), "each says why it does not apply"


def promised(bench: Bench) -> set[str]:
    """What a bench says that it can make its device do must be tried."""
    found = {"doubt"} if any(sense.doubts for sense in bench.senses.values()) else set()
    found |= {"motion"} if any(sense.moves for sense in bench.senses.values()) else set()
    found |= {"checksum"} if bench.checksum else set()
    return found | ({"own-address"} if bench.other is not None else set())


def test_every_model_is_tried() -> None:
    assert {bench.model for bench in all_benches()} >= set(MODELS)


def test_a_poll_that_is_one_bit_from_a_command_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the EZO-PMP was once polled: is it running?"""

    async def status(self: DosingPump) -> PumpStatus:
        return PumpStatus(await self._running(), 0.0, 0.0, 10.0)

    monkeypatch.setattr(DosingPump, "status", status)
    (bench,) = (bench for bench in all_benches() if bench.model == "atlas-ezo-pmp")
    (verdict,) = examine(bench, in_virtual_time, {"harmless": PROPERTIES["harmless"]})
    assert verdict.outcome == "fail"
    assert "one wrong bit makes b'D,7\\r' of the poll b'D,?\\r'" in verdict.told


def test_a_pump_that_tells_another_flow_than_it_was_told_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    true_status = DosingPump.status

    async def status(self: DosingPump) -> PumpStatus:
        told = await true_status(self)
        return replace(told, flow_ul_min=1.03 * told.flow_ul_min)

    monkeypatch.setattr(DosingPump, "status", status)
    (bench,) = (bench for bench in all_benches() if bench.model == "atlas-ezo-pmp")
    (verdict,) = examine(bench, in_virtual_time, {"status": PROPERTIES["status"]})
    assert verdict.outcome == "fail"
    assert "after Run(flow_ul_min=2000.0) the status is" in verdict.told


def test_the_table_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["driver", "test", "keller-x-line", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer["drivers"]) == ["keller-x-line"]
    assert answer["failures"] == 0
    assert main(["driver", "test", "keller-x-line"]) == 0
    assert capsys.readouterr().out.endswith("1 driver, 0 failures\n")


def test_a_model_without_far_end_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(DEVICES, "mettler-sics")
    with pytest.raises(UserError, match="nothing stands at the far end for mettler-sics"):
        conformance([])
    assert main(["driver", "test", "no-such-pump"]) == 1
    assert "there is no driver for model “no-such-pump”" in capsys.readouterr().err
