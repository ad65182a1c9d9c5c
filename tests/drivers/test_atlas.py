"""Atlas EZO circuits and the EZO-PMP against frames from the data sheets and from captured hardware."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

import pytest

from drivers.atlas_ezo import AtlasEzoDo, AtlasEzoPh, AtlasEzoRtd, AtlasEzoSensor
from drivers.atlas_ezo_pmp import AtlasEzoPmp
from drivers.commands import Dispense, PumpStatus, Run, Stop
from drivers.conformance.peer import Peer, Say
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceError, DeviceFault, NoReply, Refused, WrongDevice
from drivers.settings import BadSetting
from tests.drivers.facts import DriverFacts
from tests.drivers.fakes import FakeEzo, FakePmp
from tests.drivers.peer import linked, settings

FACTS = {
    "atlas-ezo-do": DriverFacts(
        line="9600 8N1", queries=frozenset({"i", "Status", "O,?", "R"}), no_health="the pages read print none"
    ),
    "atlas-ezo-ph": DriverFacts(line="9600 8N1", queries=frozenset({"i", "Status", "R"})),
    "atlas-ezo-pmp": DriverFacts(line="9600 8N1", queries=frozenset({"i", "Status", "DC,?", "ATV,?", "D,?"})),
    "atlas-ezo-rtd": DriverFacts(
        line="9600 8N1", queries=frozenset({"i", "Status", "S,?", "R"}), no_health="the pages read print none"
    ),
}

pytestmark = pytest.mark.virtual_time


# --- probes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "name", "reading", "point", "value", "unit"),
    [
        (AtlasEzoPh, b"pH", b"7.352", "ph", 7.352, "pH"),
        (AtlasEzoDo, b"DO", b"91.4", "oxygen", 91.4, "%"),
        (AtlasEzoDo, b"D.O.", b"7.82", "oxygen", 7.82, "%"),
        (AtlasEzoRtd, b"RTD", b"36.998", "temperature", 36.998, "degC"),
    ],
)
async def test_golden_reading(
    driver: type[AtlasEzoSensor], name: bytes, reading: bytes, point: str, value: float, unit: str
) -> None:
    peer = Peer(FakeEzo(name, reading))
    async with linked(driver, peer, FakeEzo.config) as probe:
        assert await probe.sensors[point].read() == value
        assert probe.sensors[point].unit == unit
        assert peer.sent == [b"R\r"]


async def test_golden_oxygen_is_put_out_in_percent_alone_and_written_only_when_it_differs() -> None:
    circuit = FakeEzo(b"DO", b"7.82")
    peer = Peer(circuit)
    async with linked(AtlasEzoDo, peer, FakeEzo.config, verified=False) as probe:
        assert b"O,mg,0\r" in peer.sent
        assert circuit.outputs == {b"%": True, b"mg": False}
        peer.sent.clear()
        await probe.verify()
        assert not any(request.startswith(b"O,") and request != b"O,?\r" for request in peer.sent)


async def test_continuous_mode_from_the_factory_is_ended_and_drained() -> None:
    circuit = FakeEzo(b"pH", b"7.35")
    peer = Peer(circuit)
    chatter = asyncio.ensure_future(_chatter(peer))

    def answers(request: bytes) -> Iterable[Say]:
        if request == b"C,0\r":
            chatter.cancel()
        return circuit(request)

    peer.answers = answers
    async with linked(AtlasEzoPh, peer, FakeEzo.config) as probe:
        assert await probe.sensors["ph"].read() == 7.35
    await asyncio.gather(chatter, return_exceptions=True)


async def _chatter(peer: Peer) -> None:
    while True:
        peer.say(b"*RS\r*RE\r9.99\r")
        await asyncio.sleep(0.05)


async def test_C2_a_reading_sent_twice_is_not_the_next_reading() -> None:
    circuit = FakeEzo(b"pH", b"7.00")

    def twice(request: bytes) -> Iterable[Say]:
        if request != b"R\r":
            return circuit(request)
        return [(0.9, circuit.reading + b"\r*OK\r"), (1.0, circuit.reading + b"\r*OK\r")]

    async with linked(AtlasEzoPh, Peer(twice), FakeEzo.config) as probe:
        for reading in (7.0, 7.1, 7.2, 7.3):
            circuit.reading = b"%.2f" % reading
            assert await probe.sensors["ph"].read() == reading  # the copy of the one before arrives 0.1 s into it


@pytest.mark.parametrize("late_s", [2.6, 3.0, 4.0, 5.0])
async def test_C2_a_late_reading_is_not_the_next_reading(late_s: float) -> None:
    circuit = FakeEzo(b"pH", b"7.00")
    late = [late_s]
    free_at = [0.0]

    def answers(request: bytes) -> Iterable[Say]:
        """One thing after the other, as the circuit does them."""
        now = asyncio.get_running_loop().time()
        if request != b"R\r":
            said = [text for text in circuit(request) if isinstance(text, bytes)]
            return [(max(0.01, free_at[0] - now + 0.01), text) for text in said]
        takes = late.pop() if late else 0.9
        free_at[0] = max(now, free_at[0]) + takes
        return [(free_at[0] - now, circuit.reading + b"\r*OK\r")]

    async with linked(AtlasEzoPh, Peer(answers), FakeEzo.config) as probe:
        with pytest.raises(NoReply):
            await probe.sensors["ph"].read()
        for reading in (7.1, 7.2, 7.3, 7.4):
            circuit.reading = b"%.2f" % reading
            with suppress(DeviceError):
                assert await probe.sensors["ph"].read() == reading
            await asyncio.sleep(0.4)


@pytest.mark.parametrize(
    ("reading", "error"),
    [
        (b"", BadReply),
        (b"nan", BadReply),
        (b"inf", BadReply),
        (b"7.35,7.36", BadReply),
        (b"7.3\xb5", BadReply),
        (b"7,35", BadReply),
        (b"1e9", BadReply),
        (b"15.1", DeviceFault),
        (b"-1.0", DeviceFault),
        (b"7.35\r7.36", BadReply),
    ],
)
async def test_C2_what_is_no_reading_is_no_number(reading: bytes, error: type[DeviceError]) -> None:
    circuit = FakeEzo(b"pH", reading)
    async with linked(AtlasEzoPh, Peer(circuit), FakeEzo.config) as probe:
        with pytest.raises(error):
            await probe.sensors["ph"].read()
        circuit.reading = b"7.35"
        assert await probe.sensors["ph"].read() == 7.35


async def test_a_missing_temperature_probe_is_a_fault() -> None:
    async with linked(AtlasEzoRtd, Peer(FakeEzo(b"RTD", b"-1023.000")), FakeEzo.config) as probe:
        with pytest.raises(DeviceFault, match="the probe is missing"):
            await probe.sensors["temperature"].read()


async def test_low_supply_spoils_the_reading() -> None:
    circuit = FakeEzo(b"pH", b"*UV\r7.35")
    async with linked(AtlasEzoPh, Peer(circuit), FakeEzo.config) as probe:
        with pytest.raises(DeviceFault, match="supply voltage"):
            await probe.sensors["ph"].read()


async def test_swapped_circuits_are_found() -> None:
    async with linked(AtlasEzoPh, Peer(FakeEzo(b"RTD", b"37")), FakeEzo.config, verified=False) as probe:
        error = probe.link.failures["probe"]
        assert isinstance(error, WrongDevice)
        assert "an EZO-RTD answers, not an EZO-PH" in str(error)


async def test_A6_a_restart_takes_back_trust_until_it_is_verified_again() -> None:
    peer = Peer(FakeEzo(b"pH", b"7.35"))
    async with linked(AtlasEzoPh, peer, FakeEzo.config) as probe:
        peer.say(b"*RS\r*RE\r")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not probe.conversation.verified
        await asyncio.sleep(2)
        assert b"C,0\r" in peer.sent
        assert await probe.sensors["ph"].read() == 7.35


async def test_D7_unknown_settings_are_refused() -> None:
    with pytest.raises(BadSetting, match="unknown"):
        async with linked(AtlasEzoPh, Peer(FakeEzo(b"pH", b"7")), DeviceConfig("p", settings=settings(slope=1.0))):
            pass


# --- the dosing pump --------------------------------------------------------------------------------------


async def test_golden_captured_identity_status_and_maximum_flow() -> None:
    captured = {
        b"i\r": "3F 49 2C 50 4D 50 2C 31 2E 30 36 0D",
        b"Status\r": "3F 53 54 41 54 55 53 2C 42 2C 33 2E 32 38 0D",
        b"DC,?\r": "3F 4D 41 58 52 41 54 45 2C 35 34 2E 36 36 0D",
    }
    peer = Peer(lambda request: bytes.fromhex(captured.get(request, "")) + b"*OK\r")
    peer_boot = bytes.fromhex("2A 52 53 0D 2A 52 45 0D")
    async with linked(AtlasEzoPmp, peer, FakePmp.config) as pump:
        assert pump.identity is not None
        assert pump.identity.firmware == "1.06"
        peer.say(peer_boot)
        await asyncio.sleep(3)
        with pytest.raises(Refused, match="carries up to 54660"):
            await pump.pump.apply(Run(60000.0))


async def test_golden_lower_case_answers_are_understood() -> None:
    pmp = FakePmp()

    def lower(request: bytes) -> list[Say]:
        return [text.replace(b"MAXRATE", b"maxrate") for text in pmp(request) if isinstance(text, bytes)]

    async with linked(AtlasEzoPmp, Peer(lower), FakePmp.config) as pump:
        await pump.pump.apply(Dispense(5000.0, 10000.0, "d"))
        assert pmp.starts == ["D,5,0.5"]


@pytest.mark.parametrize(
    ("volume_ul", "flow_ul_min", "wire"),
    [
        (5000.0, 10000.0, "D,5,0.5"),
        (500.0, 10000.0, "D,0.5,0.05"),
        (12340.0, 5000.0, "D,12.34,2.468"),
        (10000.0, 54660.0, "D,10"),
    ],
)
async def test_golden_a_dose(volume_ul: float, flow_ul_min: float, wire: str) -> None:
    pmp = FakePmp()
    async with linked(AtlasEzoPmp, Peer(pmp), FakePmp.config) as pump:
        await pump.pump.apply(Dispense(volume_ul, flow_ul_min, "d"))
        assert pmp.starts == [wire]


async def test_golden_continuous_flow_and_its_end() -> None:
    pmp = FakePmp()
    async with linked(AtlasEzoPmp, Peer(pmp), FakePmp.config) as pump:
        await pump.pump.apply(Run(25000.0))
        await pump.pump.apply(Run(25000.0))
        assert pmp.starts == ["DC,25,*"]
        await pump.pump.apply(Run(-12500.0))
        assert pmp.starts == ["DC,25,*", "DC,-12.5,*"]
        await pump.pump.apply(Stop())
        assert not pmp.on


@pytest.mark.parametrize(
    ("flow_ul_min", "near"), [(3.0, "10"), (14.0, "10 or 20"), (24.0, "20 or 30"), (-14.0, "-10 or -20")]
)
async def test_a_flow_that_two_decimals_cannot_tell_is_refused(flow_ul_min: float, near: str) -> None:
    pmp = FakePmp()
    async with linked(AtlasEzoPmp, Peer(pmp), FakePmp.config) as pump:
        with pytest.raises(Refused, match=f"next to it there is {near}"):
            await pump.pump.apply(Run(flow_ul_min))
        assert pmp.starts == []
        nearest = pump.pump.nearest(Run(flow_ul_min))
        await pump.pump.apply(nearest)
        assert (await pump.pump.status()).flow_ul_min == nearest.flow_ul_min  # type: ignore[union-attr]
        assert len(pmp.starts) == 1


@pytest.mark.parametrize(
    ("flow_ul_min", "wire", "told_ul_min"),
    [(250.0, "DC,0.25,*", 250.0), (1004.0, "DC,1,*", 1000.0), (-2506.0, "DC,-2.51,*", -2510.0)],
)
async def test_golden_a_flow_is_told_as_it_was_rounded(flow_ul_min: float, wire: str, told_ul_min: float) -> None:
    pmp = FakePmp()
    async with linked(AtlasEzoPmp, Peer(pmp), FakePmp.config) as pump:
        await pump.pump.apply(Run(flow_ul_min))
        await pump.pump.apply(Run(flow_ul_min))
        assert pmp.starts == [wire]
        assert (await pump.pump.status()).flow_ul_min == pytest.approx(told_ul_min)


@pytest.mark.parametrize("ok_after_stop", [False, True])
async def test_golden_the_answer_to_x_with_and_without_ok(ok_after_stop: bool) -> None:
    pmp = FakePmp(ok_after_stop=ok_after_stop)
    peer = Peer(pmp)
    async with linked(AtlasEzoPmp, peer, FakePmp.config) as pump:
        for n in range(3):
            await pump.pump.apply(Dispense(5000.0, 10000.0, f"d{n}"))
            await pump.pump.apply(Stop())
            pmp.total_ml += 1.5
            assert await pump.pump.status() == PumpStatus(False, 0.0, 1500.0 * (n + 1), 10.0)
        assert peer.sent.count(b"X\r") == 3  # each was understood at once


async def test_done_comes_whenever_it_likes() -> None:
    pmp = FakePmp()

    def with_done(request: bytes) -> list[Say]:
        return [b"*DONE,5.00\r", *pmp(request)]

    peer = Peer(pmp)
    async with linked(AtlasEzoPmp, peer, FakePmp.config) as pump:
        await pump.pump.apply(Dispense(5000.0, 10000.0, "d"))
        peer.answers = with_done
        assert (await pump.pump.status()).running
        peer.say(b"*DONE,5.00\r")
        assert (await pump.pump.status()).running


async def test_a_pump_at_rest_is_asked_for_its_total_alone() -> None:
    """One flipped bit makes the question `D,?` a dose, `D,7`; none makes a dose of `ATV,?`."""
    assert b"D,?"[-1] ^ ord("7") == 0x08
    pmp = FakePmp()
    peer = Peer(pmp)
    async with linked(AtlasEzoPmp, peer, FakePmp.config) as pump:
        assert not (await pump.pump.status()).running
        peer.sent.clear()
        for _ in range(3):
            assert not (await pump.pump.status()).running
        assert peer.sent == [b"ATV,?\r"] * 3
        pmp.total_ml, pmp.running = 0.5, True  # an operator at its terminal
        status = await pump.pump.status()
        assert status.running
        assert status.delivered_ul == 500.0


async def test_A7_a_dose_that_was_understood_otherwise_is_stopped_and_told() -> None:
    class Deaf(FakePmp):
        def __call__(self, request: bytes) -> Iterable[Say]:
            return super().__call__(b"D,7,0.5\r" if request == b"D,5,0.5\r" else request)

    pmp = Deaf()
    async with linked(AtlasEzoPmp, Peer(pmp), FakePmp.config) as pump:
        with pytest.raises(DeviceFault, match=r"5\.00 mL were sent and 7\.00 received; it is stopped"):
            await pump.pump.apply(Dispense(5000.0, 10000.0, "d"))
        assert pmp.starts == ["D,7,0.5"]
        assert not pmp.on
        await pump.pump.apply(Dispense(5000.0, 10000.0, "d"))
        assert pmp.starts == ["D,7,0.5"], "something of it has been given (A4)"


async def test_A4_a_dose_given_twice_is_delivered_once() -> None:
    pmp = FakePmp()
    async with linked(AtlasEzoPmp, Peer(pmp), FakePmp.config) as pump:
        await pump.pump.apply(Dispense(5000.0, 10000.0, "d1"))
        await pump.pump.apply(Dispense(5000.0, 10000.0, "d1"))
        pmp.running = False
        await pump.pump.apply(Dispense(5000.0, 10000.0, "d1"))
        assert len(pmp.starts) == 1


async def test_refusals_and_faults_of_the_pump() -> None:
    pmp = FakePmp()
    async with linked(AtlasEzoPmp, Peer(pmp), FakePmp.config) as pump:
        with pytest.raises(Refused, match="below its least dose"):
            await pump.pump.apply(Dispense(400.0, 10000.0, "d"))
        for error, kind, text in (
            (b"*TOOFAST\r*ER\r", Refused, "cannot pump that fast"),
            (b"*MINVOL\r*ER\r", Refused, "below its least volume"),
            (bytes.fromhex("2A55562C50554D505057522C302E30300D 2A45520D"), DeviceFault, "supply voltage"),
            (b"*ER\r", Refused, "refuses the command"),
        ):
            pmp.error = error
            with pytest.raises(kind, match=text):
                await pump.pump.apply(Dispense(5000.0, 10000.0, "d"))
        pmp.error = b""
        await pump.pump.apply(Dispense(5000.0, 10000.0, "d"))  # refused is not given: the same id may be asked again
        assert pmp.starts == ["D,5,0.5"]
