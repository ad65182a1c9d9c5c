"""Every pump with one motor through its whole life, its driver against its simulator (A1 to A6, C1, C2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import cast

import pytest

from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.gate.gate import Gate
from controller.journal.context import RigContext
from controller.journal.journal import Journal
from controller.safety.terms import Intent, PumpLimits
from drivers.commands import Dispense, Guarantee, Level, PumpStatus, Run, Stop
from drivers.device import Device
from drivers.errors import DeviceError, Refused
from drivers.ismatec_reglo_digital import IsmatecRegloDigital
from drivers.longer import Longer
from drivers.masterflex_ls import MasterflexLs
from drivers.masterflex_usb import MasterflexUsb
from drivers.watson_marlow import WatsonMarlow
from sim.devices.ismatec_reglo_digital import IsmatecRegloDigital as SimRegloDigital
from sim.devices.longer import Longer as SimLonger
from sim.devices.masterflex_ls import MasterflexLs as SimMasterflexLs
from sim.devices.masterflex_usb import MasterflexUsb as SimMasterflexUsb
from sim.devices.watson_marlow import WatsonMarlow as SimWatsonMarlow
from tests.controller.safety.bench import Rows
from tests.controller.safety.facts import HEART, LIMITS, RIG
from tests.drivers.pump_bench import Joined, joined
from tests.sim.bench import Build

pytestmark = pytest.mark.virtual_time

Settings = Mapping[str, float | str | bool]


@dataclass(frozen=True)
class Case:
    name: str
    driver: type[Device]
    build: Build
    settings: Settings = field(default_factory=dict)
    address: str = ""
    flow: float = 2000.0
    dose_rel: float = 0.002
    """How near a dose must come to what was asked."""

    def joined(self) -> AbstractAsyncContextManager[Joined]:
        return joined(self.driver, self.build, settings=self.settings, address=self.address)


CASES = [
    Case("reglo-digital", IsmatecRegloDigital, SimRegloDigital, {"tubing_mm": 1.02}),
    Case("ipc", IsmatecRegloDigital, SimRegloDigital, {"tubing_mm": 1.02, "variant": "ipc", "direction": "ccw"}, "3"),
    Case("longer", Longer, SimLonger, {"ul_per_rev": 80.0, "max_rpm": 100.0}, dose_rel=0.01),
    Case(
        "longer-wt600",
        Longer,
        SimLonger,
        {
            "ul_per_rev": 40.0,
            "max_rpm": 600.0,
            "drive": "wt600-2j",
            "reply_order": "direction-state",
            "direction": "ccw",
        },
        "17",
        dose_rel=0.01,
    ),
    Case("wm-520", WatsonMarlow, SimWatsonMarlow, {"series": "520", "ul_per_rev": 150.0, "max_rpm": 220.0}),
    Case(
        "wm-505",
        WatsonMarlow,
        SimWatsonMarlow,
        {"series": "505", "ul_per_rev": 150.0, "max_rpm": 220.0, "pulses_per_rev": 1280.0, "direction": "ccw"},
        "16",
    ),
    Case(
        "wm-323",
        WatsonMarlow,
        SimWatsonMarlow,
        {"series": 323.0, "ul_per_rev": 100.0, "max_rpm": 400.0},
        dose_rel=0.01,
    ),
    Case("masterflex-usb", MasterflexUsb, SimMasterflexUsb, {"ul_per_rev": 60.0, "max_rpm": 600.0}),
    Case(
        "masterflex-usb-ccw",
        MasterflexUsb,
        SimMasterflexUsb,
        {"ul_per_rev": 60.0, "max_rpm": 100.0, "direction": "ccw"},
        "8",
    ),
    Case("masterflex-ls", MasterflexLs, SimMasterflexLs, {"ul_per_rev": 150.0, "max_rpm": 600.0}),
    Case(
        "masterflex-ls-ccw",
        MasterflexLs,
        SimMasterflexLs,
        {"ul_per_rev": 150.0, "max_rpm": 100.0, "direction": "ccw"},
        "25",
    ),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@each_case
async def test_A1_a_pump_is_started_retuned_reversed_and_stopped(case: Case) -> None:
    async with case.joined() as rig:
        sign = -1.0 if case.settings.get("direction") == "ccw" else 1.0
        assert not (await rig.status()).running
        await rig.pump.apply(Run(case.flow))
        assert rig.flow == pytest.approx(sign * case.flow, rel=0.01)
        status = await rig.status()
        assert status.running
        assert status.flow_ul_min == pytest.approx(case.flow, rel=0.01)
        began = len(rig.plant.log)
        await rig.pump.apply(Run(case.flow / 2))
        assert [value for _, _, value in rig.plant.log[began:]] == [pytest.approx(sign * case.flow / 2, rel=0.01)]
        await rig.pump.apply(Run(-case.flow))
        assert [round(value) == 0 for _, _, value in rig.plant.log[began + 1 :]] == [True, False]
        assert rig.flow == pytest.approx(-sign * case.flow, rel=0.01)
        assert (await rig.status()).flow_ul_min == pytest.approx(-case.flow, rel=0.01)
        await rig.pump.apply(Stop())
        assert rig.flow == 0.0
        assert not (await rig.status()).running


@each_case
async def test_A4_a_command_given_twice_equals_once(case: Case) -> None:
    async with case.joined() as rig:
        await rig.pump.apply(Run(case.flow))
        log = list(rig.plant.log)
        await rig.pump.apply(Run(case.flow))
        assert rig.plant.log == log
        await rig.pump.apply(Stop())
        await rig.pump.apply(Stop())
        assert rig.flow == 0.0


@each_case
async def test_A4_a_dose_is_given_once_ends_and_is_counted(case: Case) -> None:
    async with case.joined() as rig:
        before = await rig.status()
        dose = Dispense(3000.0, case.flow, "dose")
        await rig.pump.apply(dose)
        assert (await rig.status()).running
        with pytest.raises(Refused, match="still running"):
            await rig.pump.apply(Dispense(3000.0, case.flow, "another"))
        for _ in range(120):
            await asyncio.sleep(2)
            await rig.status()
        after = await rig.status()
        assert not after.running
        assert abs(rig.moved()) == pytest.approx(3000.0, rel=case.dose_rel)
        assert after.delivered_ul - before.delivered_ul == pytest.approx(
            abs(rig.moved()), abs=2 * after.resolution_ul + 1e-6
        )
        assert after.resolution_ul < 100.0
        await rig.pump.apply(dose)
        await asyncio.sleep(300)
        assert abs(rig.moved()) == pytest.approx(3000.0, rel=case.dose_rel)


@each_case
async def test_a_stopped_dose_stays_stopped_and_the_next_run_is_not_ended_by_it(case: Case) -> None:
    async with case.joined() as rig:
        await rig.pump.apply(Dispense(3000.0, case.flow, "dose"))
        await asyncio.sleep(10)
        await rig.pump.apply(Stop())
        given = abs(rig.moved())
        assert 0 < given < 1500
        await rig.pump.apply(Run(case.flow))
        await asyncio.sleep(600)
        assert abs(rig.flow) == pytest.approx(case.flow, rel=0.01)
        await rig.pump.apply(Stop())
        await asyncio.sleep(600)
        assert rig.flow == 0.0


@each_case
async def test_a_run_takes_the_place_of_a_dose(case: Case) -> None:
    async with case.joined() as rig:
        await rig.pump.apply(Dispense(3000.0, case.flow, "dose"))
        await asyncio.sleep(5)
        await rig.pump.apply(Run(case.flow))
        await asyncio.sleep(600)
        assert abs(rig.flow) == pytest.approx(case.flow, rel=0.01)


@each_case
@pytest.mark.parametrize("kind", ["run", "dose"])
async def test_A2_cancelled_at_every_await_the_pump_stands(case: Case, kind: str) -> None:
    command = Run(case.flow) if kind == "run" else Dispense(3000.0, case.flow, "dose")
    async with case.joined() as rig:
        begun = asyncio.get_running_loop().time()
        await rig.pump.apply(command)
        whole_s = asyncio.get_running_loop().time() - begun
    steps = 40
    for step in range(steps):
        async with case.joined() as rig:
            applying = asyncio.ensure_future(rig.pump.apply(command))
            await asyncio.sleep(whole_s * step / steps)
            applying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await applying
            await asyncio.sleep(0.1)
            assert rig.flow == 0.0, f"cancelled {whole_s * step / steps:.4f} s into it"
            await asyncio.sleep(1.5)
            assert not (await rig.status()).running


@each_case
async def test_A3_close_leaves_the_pump_at_rest(case: Case) -> None:
    async with case.joined() as rig:
        await rig.pump.apply(Run(case.flow))
        await rig.device.close()
        assert rig.flow == 0.0


@each_case
async def test_A6_nothing_is_sent_before_the_device_is_verified(case: Case) -> None:
    async with case.joined() as rig:
        await rig.pump.apply(Run(case.flow))
        rig.sim.power_off()
        for _ in range(4):
            with pytest.raises(DeviceError):
                await rig.status()
        assert not rig.device.conversation.verified
        with pytest.raises(DeviceError, match=r"not verified|not open"):
            await rig.pump.apply(Run(case.flow))
        assert rig.flow == 0.0
        rig.sim.power_on()
        await asyncio.sleep(20)
        assert rig.device.conversation.verified
        assert not (await rig.status()).running
        await rig.pump.apply(Run(case.flow))
        assert abs(rig.flow) == pytest.approx(case.flow, rel=0.01)


@each_case
async def test_C1_a_pulled_cable_leaves_a_usable_device(case: Case) -> None:
    async with case.joined() as rig:
        await rig.pump.apply(Run(case.flow))
        rig.line.unplug()
        await asyncio.sleep(3)
        with pytest.raises(DeviceError):
            await rig.pump.apply(Stop())
        rig.line.plug()
        await asyncio.sleep(15)
        assert rig.device.conversation.verified
        assert (await rig.status()).running
        await rig.pump.apply(Stop())
        assert rig.flow == 0.0


SPOILED: dict[str, Callable[[bytes], bytes]] = {
    "lost": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "flipped": lambda data: bytes((data[0] ^ 0x55, *data[1:])),
    "noise": lambda data: b"\x00\xff\x13" + data[:-1] + b"\x7f",
    "doubled": lambda data: data + data,
    "zeros": lambda data: bytes(40),
}


@each_case
@pytest.mark.parametrize("spoil", SPOILED)
async def test_C2_spoiled_replies_are_never_taken_for_a_reading(case: Case, spoil: str) -> None:
    async with case.joined() as rig:
        for running in (True, False):
            await rig.pump.apply(Run(case.flow) if running else Stop())
            await asyncio.sleep(30)
            true = await rig.status()
            rig.line.tamper = SPOILED[spoil]
            for _ in range(2):
                try:
                    status = await rig.status()
                except DeviceError as error:
                    assert "Likely cause:" in str(error)  # noqa: PT017
                else:
                    assert status.running is true.running
                    assert status.flow_ul_min == pytest.approx(true.flow_ul_min)
            rig.line.tamper = None
            await asyncio.sleep(10)
            assert (await rig.status()).running is running


@each_case
async def test_C2_a_late_reply_is_not_the_answer_to_the_next_request(case: Case) -> None:
    async with case.joined() as rig:
        await rig.pump.apply(Run(case.flow))
        held: list[bytes] = []

        def hold(data: bytes) -> bytes:
            held.append(data)
            return b""

        def late(data: bytes) -> bytes:
            before = b"".join(held)
            held.clear()
            return before + data

        rig.line.tamper = hold
        with pytest.raises(DeviceError):
            await rig.status()
        rig.line.tamper = late  # what was held comes in front of the next reply, as from a slow serial server
        try:
            await rig.pump.apply(Stop())
        except DeviceError:
            await asyncio.sleep(3)
            await rig.pump.apply(Stop())
        assert rig.flow == 0.0
        assert not (await rig.status()).running


@each_case
async def test_a_flow_or_a_command_it_cannot_do_is_refused_and_moves_nothing(case: Case) -> None:
    async with case.joined() as rig:
        for command in (Run(1e9), Run(1e-9), Dispense(100.0, 1e9, "a"), Dispense(0.0, case.flow, "b"), Level(1.0)):
            with pytest.raises(Refused, match="Next:"):
                await rig.pump.apply(command)
        assert rig.plant.log == []


COARSE = {
    "ipc": 0.001 * 6300.0,
    "longer": 0.1 * 80.0,
    "longer-wt600": 40.0,
    "wm-520": 0.1 * 150.0,
    "wm-505": 0.1 * 150.0,
    "wm-323": 100.0,
    "masterflex-usb": 0.01 * 60.0,
    "masterflex-usb-ccw": 0.01 * 60.0,
    "masterflex-ls": 0.1 * 150.0,
    "masterflex-ls-ccw": 0.1 * 150.0,
}
"""The step of each pump's flow in its case (µL/min), by the manuals; a Reglo Digital is sent a flow, not a speed."""
each_coarse_case = pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in COARSE], ids=lambda case: case.name
)


@each_coarse_case
async def test_a_flow_between_two_steps_is_refused_with_those_next_to_it(case: Case) -> None:
    step = COARSE[case.name]
    async with case.joined() as rig:
        for sign in (1.0, -1.0):
            with pytest.raises(Refused, match=f"next to it there is {sign * step:g} or {sign * 2 * step:g}"):
                await rig.pump.apply(Run(sign * 1.5 * step))
        assert rig.plant.log == []
        await rig.pump.apply(Run(20.3 * step))  # 1.5 % from a step: taken, and told as it is
        assert abs(rig.flow) == pytest.approx(20 * step, rel=0.001)
        assert (await rig.status()).flow_ul_min == pytest.approx(20 * step, rel=0.001)


@each_coarse_case
@pytest.mark.parametrize(("steps", "had"), [(0.4, {1}), (1.5, {1, 2}), (2.6, {3})])
async def test_A7_the_gate_brings_a_heart_to_the_step_next_to_its_flow_and_leaves_it_there(
    case: Case, steps: float, had: set[int]
) -> None:
    """Neither a heart that stands because its pump refuses, nor one that falls back again and again."""
    step = COARSE[case.name]
    wanted = Run(steps * step)
    async with case.joined() as rig:
        bounds = PumpLimits("heart", "reservoir", "chamber", 0.1 * step, 1000.0 * step)
        alarms: list[str] = []
        rows = Rows()
        store = StateStore()
        gate = Gate(
            RigContext(
                RIG,
                Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC)),
                store,
                cast(Journal, rows),
                lambda kind, source, detail: alarms.append(f"{kind} {detail}"),
            ),
            actuators={HEART: rig.pump},
            limits=replace(LIMITS, basal={HEART: wanted}, pumps={HEART: bounds}, interlocks=(), mixture=None),
        )
        outcome = await gate.submit(Intent(HEART, wanted, "test", "a test"))
        assert outcome.ok, outcome
        assert any(reason.startswith("steps:") for reason in outcome.reasons)
        for _ in range(30):
            await asyncio.sleep(1.0)
            await gate.poll(HEART)
            await gate.tick(gate.observe())
            assert (await gate.submit(Intent(HEART, wanted, "test", "once more"))).ok
            assert round(abs(rig.flow) / step, 2) in had
            status = store.actuators[HEART].status
            assert isinstance(status, PumpStatus)
            assert status.flow_ul_min == pytest.approx(abs(rig.flow), rel=0.02)
        assert alarms == []
        assert len(rows.of("act")) == 1, "what already is so is not commanded again"


@each_case
async def test_guarantees_are_told_for_each_command(case: Case) -> None:
    async with case.joined() as rig:
        assert rig.pump.guarantee_for(Run(1.0)) is Guarantee.GUARD
        assert rig.pump.guarantee_for(Dispense(1.0, 1.0, "x")) is rig.pump.guarantee


@each_case
async def test_every_model_has_a_page(case: Case) -> None:
    page = case.driver.page
    assert page is not None
    assert page.wiring
    assert page.commands
    assert page.traps
    assert {setting.key for setting in case.driver.settings} >= set(case.settings)
