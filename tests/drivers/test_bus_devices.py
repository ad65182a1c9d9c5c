"""Keller, relay board, Alicat and the balance against golden frames."""

from __future__ import annotations

import asyncio
import contextlib
import math
import struct
from collections.abc import Callable

import pytest

from drivers.alicat_mfc import AlicatFlowController, AlicatMfc
from drivers.commands import Guarantee, Level, LevelStatus, Quality, Stop, Switch, SwitchStatus
from drivers.conformance.peer import Peer
from drivers.device import ChannelConfig, DeviceConfig
from drivers.errors import BadReply, DeviceError, DeviceFault, NoReply, Refused, WrongDevice
from drivers.keller_bus import with_checksum
from drivers.keller_x_line import KellerXLine
from drivers.mettler_sics import MettlerSics
from drivers.modbus_coil_relay import ModbusCoilRelay
from drivers.settings import BadSetting
from drivers.transport.link import Link
from drivers.transport.url import LinkUrl
from tests.drivers.facts import MODBUS_READS, DriverFacts
from tests.drivers.fakes import FakeAlicat, FakeBalance, FakeBus, crc
from tests.drivers.peer import linked, settings

FACTS = {
    "alicat-mfc": DriverFacts(
        line="19200 8N1", queries=frozenset({"AR122", "ALV", "A", "AVE", "AFPF 5", "A??M*", "A??D*"})
    ),
    "keller-x-line": DriverFacts(
        line="9600 8N1", functions=(1, (48, 69, *MODBUS_READS)), no_health="its faults are no number (NaN, infinite)"
    ),
    "mettler-sics": DriverFacts(
        line="9600 8N1", queries=frozenset({"I4", "SI"}), stored=({"identification": "SPENT"}, {"identification": ""})
    ),
    "modbus-coil-relay": DriverFacts(
        line="9600 8N1", functions=(1, MODBUS_READS), stored=({"address": 7}, {"address": 1})
    ),
}

pytestmark = pytest.mark.virtual_time

BOARD_AT_1 = DeviceConfig("relay", address="1", channels={str(n): ChannelConfig(f"r{n}") for n in (0, 1, 2, 3)})


# --- Keller -----------------------------------------------------------------------------------------------


async def test_golden_pressure() -> None:
    peer = Peer(FakeBus())
    async with linked(KellerXLine, peer, FakeBus.keller_config) as gauge:
        peer.answers = lambda request: bytes.fromhex("01 03 04 3F 7C D6 A1 A8 27")
        assert await gauge.sensors["pressure"].read() == pytest.approx(98.765, abs=1e-4)
        assert peer.sent == [bytes.fromhex("01 03 00 02 00 02 65 CB")]
        assert gauge.sensors["pressure"].unit == "kPa"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
async def test_C2_nan_and_infinity_are_faults(value: float) -> None:
    bus = FakeBus()
    async with linked(KellerXLine, Peer(bus), FakeBus.keller_config) as gauge:
        bus.p1 = struct.pack(">f", value)
        with pytest.raises(DeviceFault):
            await gauge.read()
        bus.p1 = struct.pack(">f", 0.5)
        assert await gauge.read() == 50.0


async def test_golden_keller_bus_identity() -> None:
    bus = FakeBus()
    peer = Peer(bus)
    async with linked(KellerXLine, peer, FakeBus.keller_config, verified=False) as gauge:
        assert peer.sent[0] == bytes.fromhex("01 30 34 00")
        assert gauge.identity is not None
        assert gauge.identity.firmware == "5.20-12.40"
    assert with_checksum(bytes((1, 69))) == bytes.fromhex("01 45 D3 C1")
    assert with_checksum(bytes((1, 73, 1))) == bytes.fromhex("01 49 01 50 D6")


async def test_a_gateway_that_passes_only_modbus_will_do_but_another_class_will_not() -> None:
    bus = FakeBus()
    bus.keller_identity = None
    async with linked(KellerXLine, Peer(bus), FakeBus.keller_config) as gauge:
        assert await gauge.read() == pytest.approx(98.765, abs=1e-3)
    bus.keller_identity = with_checksum(bytes.fromhex("01 30 01 01 0C 28 08 01"))
    async with linked(KellerXLine, Peer(bus), FakeBus.keller_config, verified=False) as gauge:
        assert isinstance(gauge.link.failures["p_heart"], WrongDevice)


async def test_the_zero_setting_is_taken_off() -> None:
    config = DeviceConfig("p", address="1", settings=settings(zero_kpa=98.0))
    async with linked(KellerXLine, Peer(FakeBus()), config) as gauge:
        assert await gauge.read() == pytest.approx(0.765, abs=1e-4)


GOOD = crc(bytes([1, 3, 4, 0x3F, 0x7C, 0xD6, 0xA1]))


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (GOOD[:-1] + b"\x00", BadReply),  # checksum
        (GOOD[:-3], BadReply),  # truncated
        (crc(bytes([2, 3, 4, 0x3F, 0x7C, 0xD6, 0xA1])), BadReply),  # another address
        (crc(bytes([1, 4, 4, 0x3F, 0x7C, 0xD6, 0xA1])), BadReply),  # another function
        (crc(bytes([1, 3, 2, 0x3F, 0x7C])), BadReply),  # another length
        (crc(bytes([1, 0x83, 2])), Refused),  # exception
        (b"\x00" * 300, BadReply),
    ],
)
async def test_C2_frames_that_are_no_answer(reply: bytes, error: type[DeviceError]) -> None:
    bus = FakeBus()
    peer = Peer(bus)
    async with linked(KellerXLine, peer, FakeBus.keller_config) as gauge:
        peer.answers = lambda request: reply
        with pytest.raises(error):
            await gauge.read()
        peer.answers = bus
        assert await gauge.read() == pytest.approx(98.765, abs=1e-4)


@pytest.mark.parametrize(
    "noise",
    [
        b"\xff\x00\x55",
        crc(bytes([2, 3, 4, 1, 2, 3, 4])),
        crc(bytes([1, 3, 2, 1, 2])),
        bytes([1, 3, 4]),
        GOOD[:5],
    ],
)
async def test_C2_the_true_frame_is_found_after_noise(noise: bytes) -> None:
    peer = Peer(FakeBus())
    async with linked(KellerXLine, peer, FakeBus.keller_config) as gauge:
        peer.answers = lambda request: [(0.01, noise), (0.02, GOOD[:4]), (0.03, GOOD[4:])]
        assert await gauge.read() == pytest.approx(98.765, abs=1e-4)


@pytest.mark.parametrize("late_s", [0.31, 0.36, 0.5, 0.9, 2.1])
async def test_C2_a_late_pressure_is_not_the_next_pressure(late_s: float) -> None:
    bus = FakeBus()
    peer = Peer(bus)
    async with linked(KellerXLine, peer, FakeBus.keller_config) as gauge:
        peer.answers = lambda request: [(late_s, GOOD)]
        with pytest.raises(NoReply):
            await gauge.read()
        bus.p1 = struct.pack(">f", 0.1)
        free_at = asyncio.get_running_loop().time() - 0.3 + late_s

        def in_order(request: bytes) -> list[tuple[float, bytes]]:
            wait_s = max(0.01, free_at - asyncio.get_running_loop().time() + 0.01)
            return [(wait_s, bus(request) or b"")]

        peer.answers = in_order
        for _ in range(6):
            try:
                assert await gauge.read() == pytest.approx(10.0)
            except DeviceError:
                await asyncio.sleep(0.2)


# --- relay board ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "command", "wire"),
    [
        ("r0", Switch(True), "01 05 00 00 FF 00 8C 3A"),
        ("r1", Switch(True), "01 05 00 01 FF 00 DD FA"),
        ("r3", Switch(True), "01 05 00 03 FF 00 7C 3A"),
        ("r0", Switch(False), "01 05 00 00 00 00 CD CA"),
        ("r0", Stop(), "01 05 00 00 00 00 CD CA"),
        ("r0", Switch(True, for_s=0.7), "01 05 02 00 00 07 8D B0"),
        ("r1", Switch(True, for_s=0.8), "01 05 02 01 00 08 9C 74"),
    ],
)
async def test_golden_relay_commands(point: str, command: Switch | Stop, wire: str) -> None:
    bus = FakeBus()
    peer = Peer(lambda request: _as_unit_1(bus, request))
    async with linked(ModbusCoilRelay, peer, BOARD_AT_1) as board:
        await asyncio.sleep(1)
        await board.actuators[point].apply(command)
        assert bytes.fromhex(wire) in peer.sent
        assert bytes.fromhex("01 01 00 00 00 08 3D CC") in peer.sent


def _as_unit_1(bus: FakeBus, request: bytes) -> bytes | None:
    answer = bus(crc(b"\x03" + request[1:-2]))
    return None if answer is None else crc(b"\x01" + answer[1:-2])


async def test_golden_coil_readback() -> None:
    bus = FakeBus()
    peer = Peer(lambda request: _as_unit_1(bus, request))
    async with linked(ModbusCoilRelay, peer, BOARD_AT_1) as board:
        await asyncio.sleep(1)
        peer.answers = lambda request: bytes.fromhex("01 01 01 01 90 48")
        assert [await board.actuators[f"r{n}"].status() for n in (0, 1)] == [
            SwitchStatus(True),
            SwitchStatus(False),
        ]
        assert len(peer.sent) == 1  # one reading of the coils served both


async def test_golden_several_coils_at_once() -> None:
    peer = Peer(FakeBus())
    async with linked(KellerXLine, peer, FakeBus.keller_config) as gauge:
        peer.answers = lambda request: crc(request[:6])
        await gauge._unit.write_coils(0, [True] * 8)
        assert peer.sent == [crc(bytes.fromhex("01 0F 00 00 00 08 01 FF"))]
        peer.answers = lambda request: crc(request[:5] + b"\x07")
        with pytest.raises(BadReply, match="confirmation"):
            await gauge._unit.write_coils(0, [True] * 8)


async def test_A1_a_timed_closure_is_kept_by_the_board_itself() -> None:
    bus = FakeBus()
    async with linked(ModbusCoilRelay, Peer(bus), FakeBus.relay_config) as board:
        heater = board.actuators["heater"]
        await heater.apply(Switch(True, for_s=20.0))
        assert bus.flashes == [200]
        assert heater.guarantee_for(Switch(True, for_s=20.0)) is Guarantee.DEVICE
        assert heater.guarantee_for(Switch(True)) is Guarantee.GUARD
        for impossible in (0.0, 0.04, 3276.8, -1.0):
            with pytest.raises(Refused, match="not a time this board can keep"):
                await heater.apply(Switch(True, for_s=impossible))


async def test_a_board_without_timed_closure_says_who_ends_it() -> None:
    bus = FakeBus()
    config = DeviceConfig("relay", "3", settings(flash=False), {"0": ChannelConfig("heater")})
    async with linked(ModbusCoilRelay, Peer(bus), config) as board:
        heater = board.actuators["heater"]
        await heater.apply(Switch(True, for_s=20.0))
        assert bus.on
        assert bus.flashes == []
        assert heater.guarantee_for(Switch(True, for_s=20.0)) is Guarantee.GUARD


async def test_A7_a_wrong_echo_is_an_error_and_the_relay_is_opened() -> None:
    bus = FakeBus()

    def lies_once(request: bytes) -> bytes | None:
        answer = bus(request)
        return crc(request[:4] + b"\x00\x01") if request[1] == 5 and request[4] == 0xFF else answer

    async with linked(ModbusCoilRelay, Peer(lies_once), FakeBus.relay_config) as board:
        with pytest.raises(BadReply, match="confirmation"):
            await board.actuators["heater"].apply(Switch(True))
        assert not bus.on


async def test_A7_a_relay_that_stays_closed_is_a_fault() -> None:
    bus = FakeBus()

    def stuck(request: bytes) -> bytes | None:
        answer = bus(request)
        bus.coils[0] = True
        return answer

    async with linked(ModbusCoilRelay, Peer(stuck), FakeBus.relay_config) as board:
        with pytest.raises(DeviceFault, match="still closed"):
            await board.actuators["heater"].apply(Stop())


# --- Alicat -----------------------------------------------------------------------------------------------


OLD_ALICAT = b"5v12.0-R22 Aug 14 2015,10:21:36"
ALICAT_QUESTIONS = {
    b"10v05.0-R24 Nov 30 2022,16:04:20": [b"A\r", b"AVE\r", b"ALV\r", b"AFPF 5\r"],
    b"8v30.0-R23 Jan 17 2020,09:12:44": [b"A\r", b"AVE\r", b"AR122\r", b"AFPF 5\r"],
    OLD_ALICAT: [b"A\r", b"AVE\r", b"AR122\r"],
}


@pytest.mark.parametrize("firmware", list(ALICAT_QUESTIONS))
async def test_an_alicat_is_asked_what_its_firmware_understands(firmware: bytes) -> None:
    peer = Peer(FakeAlicat(firmware))
    async with linked(AlicatMfc, peer, FakeAlicat.config, verified=False) as controller:
        assert peer.sent == ALICAT_QUESTIONS[firmware]
        assert controller.identity is not None
        assert controller.identity.firmware == firmware.decode()
        peer.sent.clear()
        await controller.set(4.999)
        assert peer.sent == [b"ALS 5.00\r" if firmware.startswith(b"10v") else b"AS5.00\r"]


async def test_an_alicat_that_does_not_answer_VE_is_spoken_to_as_an_old_one() -> None:
    """Firmware 8v17 was seen to leave VE unanswered."""
    fake = FakeAlicat(b"8v17.0-R23")
    peer = Peer(lambda request: None if request == b"AVE\r" else fake(request))
    async with linked(AlicatMfc, peer, FakeAlicat.config) as controller:
        await controller.set(5.0)
        assert peer.sent[-1] == b"AS5.00\r"


@pytest.mark.parametrize(
    ("frame", "sent"),
    [
        (b"A +014.70 +025.00 +00.000 +01.250 000.00    Air\r", b"AS0.00\r"),
        (b"A +014.70 +025.00 +00.000 +01.250 005.00    Air\r", b"AS5.00\r"),
        (b"A +014.52 +021.50 +0000.1 +0001.3 0116.3      N2\r", b"AS116.3\r"),
        (b"A +014.70 +025.00 +00.000 +01.250 07.125    Air\r", b"AS7.125\r"),
        (b"A +014.70 +025.00 +00012 +00012 00150    Air\r", b"AS150\r"),
    ],
)
async def test_A7_an_alicat_set_point_has_the_decimals_of_its_data_frame(frame: bytes, sent: bytes) -> None:
    """Two decimals were sent whatever the full scale: 7.125 became 7.12 or 7.13, and the step told was wrong."""
    async with linked(AlicatMfc, peer := Peer(told(frame)), FakeAlicat.config) as controller:
        peer.sent.clear()
        setpoint = frame.split()[5]
        await controller.set(float(setpoint))
        assert peer.sent == [sent]
        actuator = controller.actuators["flow"]
        assert isinstance(actuator, AlicatFlowController)
        assert actuator.step_ml_min == pytest.approx(10.0 ** -len(setpoint.partition(b".")[2]))


@pytest.mark.parametrize(
    ("unit", "full_scale", "told"),
    [
        (b"7 SLPM", b"+0.2000", "counts flows in SLPM, and the rig file says SCCM"),
        (b"12 SCCM", b"+020.00", "full scale is 20 mL/min, and the rig file says 200"),
    ],
)
async def test_A6_an_alicat_of_another_unit_or_full_scale_is_not_trusted(
    unit: bytes, full_scale: bytes, told: str
) -> None:
    fake = FakeAlicat(unit=unit)
    fake.full_scale = full_scale
    async with linked(AlicatMfc, Peer(fake), FakeAlicat.config, verified=False) as controller:
        assert isinstance(controller.link.failures["gas"], WrongDevice)
        assert told in str(controller.link.failures["gas"])


async def test_A6_an_alicat_whose_unit_is_changed_in_operation_is_refused() -> None:
    fake = FakeAlicat()
    async with linked(AlicatMfc, Peer(fake), FakeAlicat.config) as controller:
        await controller.set(0.05)
        fake.unit = b"7 SLPM"
        with pytest.raises(BadReply, match="a set-point in SCCM"):
            await controller.set(0.05)
        await asyncio.sleep(10)
        assert not controller.conversation.verified
        assert "counts flows in SLPM" in str(controller.link.failures["gas"])


def told(frame: bytes) -> Callable[[bytes], bytes | None]:
    """An old controller that answers each question for its data, and each set-point, with one golden frame."""
    healthy = FakeAlicat(OLD_ALICAT)
    return lambda request: healthy(request) if request in (b"AR122\r", b"AVE\r") else frame


@pytest.mark.parametrize(
    "frame",
    [
        b"A +014.70 +025.00 +046.84 +06.84 050.00    Air\r",
        b"A +014.70 +025.00 +046.84 +0046.84 050.00    Air\r",
        b"A +014.70 +025.00 +046.84 +046.844 050.00    Air\r",
        b"A +14.70 +025.00 +046.84 +046.84 050.00    Air\r",
    ],
)
async def test_C2_I9_a_frame_with_a_lost_or_doubled_character_is_refused(frame: bytes) -> None:
    """A lost character made 46.84 mL/min 6.84, a doubled one 446.84: each number of a frame has a fixed width."""
    peer = Peer(told(b"A +014.70 +025.00 +046.84 +046.84 050.00    Air\r"))
    async with linked(AlicatMfc, peer, FakeAlicat.config) as controller:
        assert await controller.sensors["flow"].read() == 46.84
        peer.answers = told(frame)
        await asyncio.sleep(1)
        with pytest.raises(BadReply, match="usual form"):
            await controller.sensors["flow"].read()


async def test_set_point_and_flow_come_from_one_frame() -> None:
    peer = Peer(FakeAlicat())
    async with linked(AlicatMfc, peer, FakeAlicat.config) as controller:
        await controller.actuators["flow"].apply(Level(47.5))
        await asyncio.sleep(1)
        peer.sent.clear()
        assert await controller.sensors["flow"].read() == 47.5
        assert await controller.actuators["flow"].status() == LevelStatus(47.5, 47.5)
        assert peer.sent == [b"A\r"]


async def test_two_controllers_on_one_line_keep_apart() -> None:
    fake = FakeAlicat()

    def both(request: bytes) -> bytes:  # the other one's frame comes first
        other = b"B" if request[:1] == b"A" else b"A"
        return fake.frame(other) + (fake(request) or b"")

    link = Link(LinkUrl.parse("sim:gas"), Peer(both).open, line=AlicatMfc.line)
    a = AlicatMfc(link, FakeAlicat.config)
    b = AlicatMfc(link, DeviceConfig("gas_b", "B", settings(full_scale_ml_min=20.0)))
    assert await link.start() == {}
    await a.actuators["flow"].apply(Level(10.0))
    await b.actuators["flow"].apply(Level(2.5))
    await asyncio.sleep(1)
    assert [await a.sensors["flow"].read(), await b.sensors["flow"].read()] == [10.0, 2.5]
    with pytest.raises(Refused, match="outside 0 to 20"):
        await b.actuators["flow"].apply(Level(20.1))
    await link.close()


async def test_A7_a_set_point_that_is_not_taken_is_refused() -> None:
    fake = FakeAlicat()
    async with linked(AlicatMfc, Peer(fake), FakeAlicat.config) as controller:
        fake.deaf = True
        with pytest.raises(Refused, match=r"was set to 5\.00 and says 0"):
            await controller.actuators["flow"].apply(Level(5.0))


@pytest.mark.parametrize("level", [-1.0, 200.1, math.nan, math.inf])
async def test_levels_beyond_the_full_scale_are_refused(level: float) -> None:
    async with linked(AlicatMfc, Peer(FakeAlicat()), FakeAlicat.config) as controller:
        with pytest.raises(Refused, match="outside 0 to 200"):
            await controller.actuators["flow"].apply(Level(level))


async def test_status_words_are_faults_or_harmless() -> None:
    fake = FakeAlicat()
    async with linked(AlicatMfc, Peer(fake), FakeAlicat.config) as controller:
        for words, fault in ((b" LCK", False), (b" MOV", True), (b"   LCK HLD", True), (b" XYZ", True)):
            await asyncio.sleep(1)
            fake.status = words
            if fault:
                with pytest.raises(DeviceFault):
                    await controller.sensors["flow"].read()
            else:
                await controller.sensors["flow"].read()


async def test_litres_are_understood_by_setting() -> None:
    fake = FakeAlicat(unit=b"7 SLPM")
    config = DeviceConfig("gas", "A", settings(full_scale_ml_min=20000.0, units="slpm"))
    async with linked(AlicatMfc, Peer(fake), config) as controller:
        await controller.actuators["flow"].apply(Level(1500.0))
        assert fake.setpoint[b"A"] == 1.5
        await asyncio.sleep(1)
        assert await controller.sensors["flow"].read() == 1500.0


async def test_a_pressure_controller_or_a_meter_is_not_trusted() -> None:
    fake = FakeAlicat()
    fake.variable = 34
    async with linked(AlicatMfc, Peer(fake), FakeAlicat.config, verified=False) as controller:
        assert isinstance(controller.link.failures["gas"], WrongDevice)
    fake.variable = 37

    def meter(request: bytes) -> bytes | None:
        return b"A +014.70 +025.00 +00.000 +00.000    Air\r" if request == b"A\r" else fake(request)

    async with linked(AlicatMfc, Peer(meter), FakeAlicat.config, verified=False) as controller:
        assert isinstance(controller.link.failures["gas"], WrongDevice)


async def test_the_full_scale_must_be_in_the_rig() -> None:
    with pytest.raises(BadSetting, match="full_scale_ml_min is missing"):
        async with linked(AlicatMfc, Peer(FakeAlicat()), DeviceConfig("gas", "A")):
            pass


# --- balance ----------------------------------------------------------------------------------------------


async def test_B4_a_first_serial_number_that_was_garbled_locks_no_device_out() -> None:
    """Its replies have no checksum, and each later number is compared with the first."""
    fake = FakeBalance()
    answers = [b'I4 A "B02100\x3259X"\r\n']
    peer = Peer(lambda request: answers.pop() if request.startswith(b"I4") and answers else fake(request))
    async with linked(MettlerSics, peer, FakeBalance.config, verified=False) as balance:
        with contextlib.suppress(BadReply):
            await balance.verify()
        assert not answers
        await balance.verify()
        assert balance.identity is not None
        assert balance.identity.serial == "B021002593"


async def test_a_dynamic_weight_is_good_and_not_stable() -> None:
    fake = FakeBalance()
    peer = Peer(fake)
    async with linked(MettlerSics, peer, FakeBalance.config) as balance:
        assert balance.identity is not None
        assert balance.identity.serial == "B021002593"
        mass = balance.sensors["mass"]
        assert (await mass.read(), mass.quality, mass.stable, mass.unit) == (90.0, Quality.GOOD, True, "g")
        assert peer.sent == [b"SI\r\n"]
        fake.answer = b"S D    -0.6800 g\r\n"
        assert await mass.read() == pytest.approx(-10.68)
        assert (mass.quality, mass.stable) == (Quality.GOOD, False)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"S +\r\n", DeviceFault),
        (b"S -\r\n", DeviceFault),
        (b"S I\r\n", DeviceFault),
        (b"S S Error 10b\r\n", DeviceFault),
        (b"S S     100.00 kg\r\n", DeviceFault),
        (b"ES\r\n", Refused),
        (b"ET\r\n", DeviceFault),
        (b"EL\r\n", DeviceFault),
        (b"S S     1\xb000.00 g\r\n", BadReply),
        (b"S S     nan g\r\n", BadReply),
        (b"S S     100.00 g", BadReply),
        (b'I4 A "late"\r\n', BadReply),
    ],
)
async def test_C2_what_is_no_weight_is_no_number(answer: bytes, error: type[DeviceError]) -> None:
    fake = FakeBalance()
    async with linked(MettlerSics, Peer(fake), FakeBalance.config) as balance:
        good, fake.answer = fake.answer, answer
        with pytest.raises(error):
            await balance.mass.read()
        fake.answer = good
        assert await balance.mass.read() == 90.0
