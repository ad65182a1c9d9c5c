"""Where a link of the rescue leads: to the guard's own rig, to another one, or that is not known. In virtual time."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from controller.guard import identities as identities_module
from controller.guard.guarding import guard_plan
from controller.guard.identities import Identities, KnownDevice
from controller.guard.plan import GuardPlan
from controller.guard.rescue import Rescue
from controller.guard.trust import CONTINUITY_S, GIVE_UP_S, OTHER_TIMES, is_local
from controller.rig.description import Rig
from drivers.commands import PumpStatus
from drivers.device import Device, Identity
from drivers.keller_bus import SERIAL, with_checksum
from drivers.registry import MODELS, build, open_link
from drivers.transport.claims import ClaimHeld, Holder
from drivers.transport.opener import Streams
from drivers.transport.url import LineSettings, LinkUrl
from sim.devices.modbus_coil_relay import ModbusCoilRelay
from sim.lab import SimulatedLab
from sim.serving import open_in_memory
from tests.guard.plants import BASAL_AIR, BASAL_CO2, RIG, Watched

pytestmark = pytest.mark.virtual_time

PUMPS = {"reglo.heart", "reglo.return"}
RELAYS = {"relay.heater", "relay.return_valve"}
GAS = {"gas_air.flow", "gas_co2.flow", "gas_o2.flow"}
BACK_S = 20.0
"""A lost link is opened again within five seconds, and may wait eight for others; then its devices are brought to rest."""
ALONE = {"gas_air": "1", "gas_co2": "2", "gas_o2": "3"}
"""The gas controllers of `NUMBERED`, and their nodes."""


NUMBERED = RIG.model_copy(
    update={
        "devices": dict(RIG.devices)
        | {
            name: RIG.devices[name].model_copy(update={"model": "bronkhorst-propar", "address": node})
            for name, node in ALONE.items()
        }
    }
)
"""The bench with gas controllers that report serial numbers."""


class Network:
    """Network addresses, and the laboratory that answers at all or some of them now. `received`: what was sent to it."""

    def __init__(self, plan: GuardPlan) -> None:
        self.ports = {link: f"tcp://192.0.2.1:{4001 + n}" for n, link in enumerate({d.link: 0 for d in plan.devices})}
        self.plan = replace(plan, devices=tuple(replace(each, link=self.ports[each.link]) for each in plan.devices))
        self.lab: SimulatedLab | None = None
        self.received: dict[str, list[bytes]] = {}
        self.opened: list[str] = []
        self.served: dict[str, str] = {}

    def connect(self, lab: SimulatedLab, *only: str) -> None:
        self.lab = lab
        self.opened.clear()
        self.served = {port: link for link, port in self.ports.items() if not only or link in only}
        self.received.clear()
        for port, link in self.served.items():
            line, got = lab.lines[link], self.received.setdefault(port, [])
            line.inward[:] = [lambda data, got=got: (got.append(data), data)[1]]  # type: ignore[misc]
            if not line.plugged:
                line.plug()

    def disconnect(self) -> None:
        assert self.lab is not None
        lab, self.lab = self.lab, None
        for line in lab.lines.values():
            line.unplug()

    async def opener(self, url: LinkUrl, line: LineSettings) -> Streams:
        self.opened.append(str(url))
        if self.lab is None or str(url) not in self.served:
            raise ConnectionRefusedError(f"nothing listens at {url}")
        return open_in_memory(self.lab.lines[self.served[str(url)]])

    def clients(self) -> int:
        assert self.lab is not None
        return sum(len(line.clients) for line in self.lab.lines.values())

    def commands(self) -> list[tuple[str, bytes]]:
        """What was sent to the present laboratory that is no query of a driver on that link."""
        queries: dict[str, list[re.Pattern[bytes]]] = {}
        for device in self.plan.devices:
            asked = MODELS[device.model].queries
            assert asked is not None
            queries.setdefault(device.link, []).append(asked)
        return [
            (link, data)
            for link, sent in self.received.items()
            for data in sent
            if not any(asked.fullmatch(data) for asked in queries.get(link, ()))
        ]


async def verified(network: Network, *, serials: bool = True) -> Identities:
    """What a controller has told its guard a moment ago; without `serials` as if no device reported one."""
    known = Identities(asyncio.get_running_loop().time)
    links = {each.link: [d.model for d in network.plan.devices if d.link == each.link] for each in network.plan.devices}
    for url, models in links.items():
        link = open_link(url, models, network.opener)
        devices: list[Device] = [build(d.model, link, d.config) for d in network.plan.devices if d.link == url]
        assert not await link.start()
        for device in devices:
            assert device.identity is not None
            found = device.identity if serials else Identity(device.identity.model)
            known.learn(device.config.name, url, found)
            for point, actuator in device.actuators.items():
                status = await actuator.status()
                if isinstance(status, PumpStatus) and not status.host_counted:
                    known.count(f"{device.config.name}.{point}", status.delivered_ul)
        await link.close()
    return known


@asynccontextmanager
async def laboratory(identity: str, rig: Rig = RIG) -> AsyncIterator[tuple[SimulatedLab, Watched]]:
    plant = Watched(rig)
    lab = SimulatedLab(rig, seed=5, plant=plant, identity=identity)
    try:
        yield lab, plant
    finally:
        await lab.close()


async def cared_for(lab: SimulatedLab, for_s: float) -> None:
    """Leave the heater of a laboratory on, and its heart above its basal flow, for some time."""
    relay, pump, plant = lab.devices["relay"], lab.devices["reglo"], lab.plant
    assert isinstance(relay, ModbusCoilRelay)
    assert isinstance(plant, Watched)
    relay.closed[0] = True
    plant.set_switch("relay.heater", True)
    for request in (b"1~1\r", b"1+0102\r", b"1M\r", b"1J\r", b"1f2000+0\r", b"1H\r"):
        pump.receive(request)
    await asyncio.sleep(for_s)
    assert plant.told["reglo.heart"] == pytest.approx(2000.0, rel=0.005)


class Guarded:
    """A rescue of the rig at the network, as the guard runs it."""

    def __init__(self, network: Network, known: Identities) -> None:
        self.said: list[str] = []
        self.rescue = Rescue(network.plan, network.opener, self.said.append, known)
        self.task = asyncio.create_task(self.rescue.run(3600.0))

    async def left(self, within_s: float) -> set[str]:
        """The outputs that it has left as they are, when it has ended."""
        return set(await asyncio.wait_for(self.task, within_s))

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def alarms(self) -> list[str]:
        return [each for each in self.said if each.startswith("ALARM")]


@pytest.mark.parametrize("away_s", [0.05, 1.0, 4.0, 20.0, 29.0, 31.0, 600.0])
@pytest.mark.parametrize("only", [(), ("sim:rs485",)], ids=["all", "relay"])
async def test_B4_a_guard_commands_nothing_in_another_laboratory_at_its_addresses(
    away_s: float, only: tuple[str, ...]
) -> None:
    """The controller is dead, the laboratory ends, and another one opens at the same addresses.

    The probes on the relay's line tell it, for the pump and the gas too.
    """
    network = Network(guard_plan(RIG))
    async with laboratory("A") as (first, _), laboratory("B") as (second, plant):
        network.connect(first)
        known = await verified(network)
        network.disconnect()
        guard = Guarded(network, known)
        await asyncio.sleep(away_s)
        network.connect(second, *only)
        await cared_for(second, 0.0)
        before = dict(plant.told)
        assert await guard.left(30.0) == PUMPS | RELAYS | GAS
        assert plant.told == before, "no output of it has changed"
        assert network.commands() == []
        assert network.clients() == 0, "its own controller can have the links"
        assert len(guard.alarms()) == 3
        assert any("another rig answers: p_" in each for each in guard.said)
        network.opened.clear()
        await asyncio.sleep(3600.0)
        assert network.opened == []


@pytest.mark.parametrize("away_s", [1.0, 10.0, 24.0])
@pytest.mark.parametrize("served_s", [0.0, 600.0])
async def test_B4_another_pump_of_the_same_model_is_told_by_what_it_has_counted(away_s: float, served_s: float) -> None:
    """It reports no serial number, and no other link of the rig answers: nothing else tells it from the rig's own."""
    network = Network(guard_plan(RIG))
    async with laboratory("A") as (first, _), laboratory("B") as (second, plant):
        await cared_for(first, 1200.0)
        await cared_for(second, served_s)
        before = dict(plant.told)
        network.connect(first)
        known = await verified(network)
        network.disconnect()
        guard = Guarded(network, known)
        await asyncio.sleep(away_s)
        network.connect(second, "sim:reglo")
        await asyncio.sleep(GIVE_UP_S + 10.0)
        assert plant.told == before
        assert network.commands() == []
        assert network.clients() == 0
        (alarm,) = (each for each in guard.alarms() if network.ports["sim:reglo"] in each)
        assert re.search(r"reglo: heart has counted \d+ µL, and had \d+ µL", alarm)
        await guard.end()


async def test_B4_one_garbled_count_is_no_other_pump() -> None:
    network = Network(guard_plan(RIG))
    async with laboratory("A") as (lab, plant):
        await cared_for(lab, 1200.0)
        network.connect(lab)
        known = await verified(network)
        network.disconnect()
        guard = Guarded(network, known)
        await asyncio.sleep(5.0)
        garbled = iter((True, False))
        lab.lines["sim:reglo"].tamper = lambda data: (
            b"0" + data[1:] if re.fullmatch(rb"[1-9]\d*\r\n", data) and next(garbled, False) else data
        )
        network.connect(lab)
        assert await guard.left(BACK_S) == set()
        assert plant.told["reglo.heart"] == pytest.approx(1600.0, rel=0.005)
        assert next(garbled, None) is None, "it was asked for its count"


@pytest.mark.parametrize("serials", [True, False])
@pytest.mark.parametrize("away_s", [0.0, 5.0, 20.0])
async def test_B4_the_same_laboratory_after_a_short_loss_is_brought_to_rest(away_s: float, serials: bool) -> None:
    """Its heart goes on meanwhile, and counts."""
    network = Network(guard_plan(RIG))
    async with laboratory("A") as (lab, plant):
        await cared_for(lab, 600.0)
        network.connect(lab)
        known = await verified(network, serials=serials)
        if away_s:
            network.disconnect()
        guard = Guarded(network, known)
        if away_s:
            await asyncio.sleep(away_s)
            network.connect(lab)
        assert await guard.left(BACK_S if away_s else 2.0) == set()
        assert plant.at_basal(), plant.told
        assert guard.alarms() == []


async def test_B4_after_ten_minutes_a_serial_number_is_needed() -> None:
    """Probes on the relay's line that report theirs are enough for the relay. Pump and gas have none."""
    network = Network(guard_plan(RIG))
    async with laboratory("A") as (lab, plant):
        await cared_for(lab, 600.0)
        network.connect(lab)
        known = await verified(network)
        before = plant.told["reglo.heart"]
        network.disconnect()
        guard = Guarded(network, known)
        await asyncio.sleep(600.0)
        assert len(guard.alarms()) == 2
        network.connect(lab)
        assert await guard.left(BACK_S) == PUMPS | GAS | {"relay.return_valve"}, "the valve waits for its pump"
        assert plant.told["relay.heater"] == 0.0
        assert plant.told["reglo.heart"] == before
        assert network.opened == [network.ports["sim:rs485"]]


async def test_B4_an_output_that_reports_its_serial_number_is_brought_to_rest_after_ten_minutes() -> None:
    network = Network(guard_plan(NUMBERED))
    async with laboratory("A", NUMBERED) as (lab, plant):
        network.connect(lab)
        known = await verified(network)
        network.disconnect()
        guard = Guarded(network, known)
        await asyncio.sleep(600.0)
        network.connect(lab)
        assert await guard.left(BACK_S) == PUMPS | {"relay.return_valve"}
        assert plant.told["gas_air.flow"] == pytest.approx(BASAL_AIR, abs=0.1)
        assert plant.told["gas_co2.flow"] == pytest.approx(BASAL_CO2, abs=0.1)


async def test_B4_after_ten_minutes_without_serial_numbers_it_gives_way() -> None:
    network = Network(guard_plan(RIG))
    async with laboratory("A") as (lab, plant):
        await cared_for(lab, 0.0)
        network.connect(lab)
        known = await verified(network, serials=False)
        network.disconnect()
        guard = Guarded(network, known)
        await asyncio.sleep(CONTINUITY_S + 1.0)
        assert len(guard.alarms()) == 3
        assert await guard.left(1.0) == PUMPS | RELAYS | GAS
        before = dict(plant.told)
        network.connect(lab)
        await asyncio.sleep(600.0)
        assert network.opened == []
        assert plant.told == before
        again = Guarded(network, known)
        assert await again.left(1.0) == PUMPS | RELAYS | GAS, "for good, until the next controller"
        assert network.opened == []


async def test_B4_a_guard_that_knows_no_device_leaves_network_links_alone() -> None:
    network = Network(guard_plan(RIG))
    async with laboratory("A") as (lab, _):
        network.connect(lab)
        guard = Guarded(network, Identities(asyncio.get_running_loop().time))
        assert await guard.left(1.0) == PUMPS | RELAYS | GAS
        assert network.opened == []


async def test_B4_devices_that_had_lost_their_power_are_known_by_their_serial_numbers() -> None:
    """A probe that has lost its power answers nothing before it is initialised, and gas controllers have forgotten all."""
    network = Network(guard_plan(NUMBERED))
    async with laboratory("A", NUMBERED) as (lab, plant):
        await cared_for(lab, 0.0)
        network.connect(lab)
        known = await verified(network)
        network.disconnect()
        for device in lab.devices.values():
            device.power_off()
        guard = Guarded(network, known)
        await asyncio.sleep(600.0)
        for device in lab.devices.values():
            device.power_on()
        network.connect(lab)
        assert await guard.left(BACK_S) == PUMPS | {"relay.return_valve"}
        assert plant.told["relay.heater"] == 0.0
        assert plant.told["gas_air.flow"] == pytest.approx(BASAL_AIR, abs=0.1)


async def test_B4_a_pump_that_had_lost_its_power_cannot_be_told_from_another_one() -> None:
    """It counts from zero, as one of another rig does that was just switched on."""
    network = Network(guard_plan(RIG))
    async with laboratory("A") as (lab, plant):
        await cared_for(lab, 600.0)
        network.connect(lab)
        known = await verified(network)
        network.disconnect()
        lab.devices["reglo"].power_off()
        guard = Guarded(network, known)
        await asyncio.sleep(10.0)
        lab.devices["reglo"].power_on()
        network.connect(lab)
        assert await guard.left(GIVE_UP_S + 10.0) == PUMPS | {"relay.return_valve"}
        assert plant.told["reglo.heart"] == 0.0
        assert [network.ports["sim:reglo"] in each for each in guard.alarms()] == [True]


async def test_B4_one_garbled_serial_number_is_no_other_rig() -> None:
    """Two answers of each probe, with right checksums: a gateway may mix up what it keeps."""
    network = Network(guard_plan(RIG))
    async with laboratory("A") as (lab, plant):
        await cared_for(lab, 0.0)
        network.connect(lab)
        known = await verified(network)
        network.disconnect()
        guard = Guarded(network, known)
        await asyncio.sleep(120.0)
        garbled: Counter[int] = Counter()

        def garble(data: bytes) -> bytes:
            if data[1] != SERIAL or garbled[data[0]] == OTHER_TIMES - 1:
                return data
            garbled[data[0]] += 1
            return with_checksum(data[:2] + b"\x00\x00\x47\x11")

        lab.lines["sim:rs485"].tamper = garble
        network.connect(lab)
        assert await guard.left(BACK_S) == PUMPS | GAS | {"relay.return_valve"}
        assert plant.told["relay.heater"] == 0.0
        assert garbled.total() == 2 * (OTHER_TIMES - 1)


async def test_B4_an_exchanged_probe_is_no_other_rig_where_another_one_on_its_line_is_known() -> None:
    network = Network(guard_plan(RIG))
    async with laboratory("A") as (lab, plant):
        await cared_for(lab, 0.0)
        network.connect(lab)
        known = await verified(network)
        network.disconnect()
        lab.devices["p_heart"].belong_to(4711)
        guard = Guarded(network, known)
        await asyncio.sleep(120.0)
        network.connect(lab)
        assert await guard.left(BACK_S) == PUMPS | GAS | {"relay.return_valve"}
        assert plant.told["relay.heater"] == 0.0


async def test_B4_an_exchanged_device_is_left_alone_and_the_other_links_are_brought_to_rest() -> None:
    """The controller had refused it, and had an answer from all others until it died."""
    network = Network(guard_plan(NUMBERED))
    async with laboratory("A", NUMBERED) as (lab, plant):
        await cared_for(lab, 0.0)
        network.connect(lab)
        known = await verified(network)
        for name in ALONE:
            lab.devices[name].belong_to(4711)
        before = {name: value for name, value in plant.told.items() if name in GAS}
        guard = Guarded(network, known)
        assert await guard.left(10.0) == GAS
        assert plant.told["relay.heater"] == 0.0
        assert plant.told["reglo.heart"] == pytest.approx(1600.0, rel=0.005)
        assert {name: value for name, value in plant.told.items() if name in GAS} == before
        (alarm,) = guard.alarms()
        assert "another rig answers: gas_" in alarm


@pytest.mark.parametrize(
    ("rig", "link", "after_s", "outputs"),
    [(RIG, "sim:reglo", CONTINUITY_S, PUMPS | {"relay.return_valve"}), (NUMBERED, "sim:gas", GIVE_UP_S, GAS)],
)
async def test_B4_it_gives_way_to_another_program_that_keeps_a_link(
    rig: Rig, link: str, after_s: float, outputs: set[str]
) -> None:
    network = Network(guard_plan(rig))
    async with laboratory("A", rig) as (lab, _):
        network.connect(lab)
        known = await verified(network)
        held = network.ports[link]
        opener = network.opener

        async def claimed(url: LinkUrl, line: LineSettings) -> Streams:
            if str(url) == held:
                raise ClaimHeld(f"link {url}", Holder("run", "/b", 77), "process 77 (run, with its data in /b)")
            return await opener(url, line)

        said: list[str] = []
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        assert set(await Rescue(network.plan, claimed, said.append, known).run(3600.0)) == outputs
        assert after_s - 3.0 < loop.time() - begun_s < after_s + 10.0
        assert sum("another program has held it" in each for each in said) == 1


async def test_B4_a_link_that_the_ended_controller_still_holds_for_a_moment_was_not_lost() -> None:
    """None of its devices reports a serial number, and it is not needed."""
    network = Network(guard_plan(RIG))
    async with laboratory("A") as (lab, plant):
        network.connect(lab)
        known = await verified(network, serials=False)
        loop = asyncio.get_running_loop()
        free_s = loop.time() + 1.0

        async def claimed(url: LinkUrl, line: LineSettings) -> Streams:
            if loop.time() < free_s:
                raise ClaimHeld(f"link {url}", Holder("run", "/a", 76), "process 76 (run, with its data in /a)")
            return await network.opener(url, line)

        assert await asyncio.wait_for(Rescue(network.plan, claimed, print, known).run(3600.0), 4.0) == []
        assert plant.at_basal()


async def test_B4_a_port_that_answers_with_nothing_of_the_rig_is_given_up() -> None:
    """A serial server is there, its devices are not: nothing proves where it leads, and others may need it."""
    network = Network(guard_plan(RIG))
    async with laboratory("A") as (lab, _):
        network.connect(lab)
        known = await verified(network)
        network.disconnect()
        for device in lab.devices.values():
            device.power_off()
        guard = Guarded(network, known)
        await asyncio.sleep(60.0)
        network.connect(lab)
        assert await guard.left(GIVE_UP_S + 10.0) == PUMPS | RELAYS | GAS
        assert network.clients() == 0
        assert network.commands() == []


@pytest.mark.parametrize(
    ("link", "local"),
    [
        ("serial:usb-serial=FT4XYZ", True),
        ("serial:///dev/serial/by-id/usb-ISMATEC_Reglo_ICC-if00", True),
        ("serial:///dev/pump", True),
        ("serial:///dev/ttyS0", True),
        ("serial:///dev/ttyUSB0", False),
        ("serial:///dev/ttyACM11?baud=9600", False),
        ("serial:///dev/pts/3", False),
        ("tcp://127.0.0.1:4001", False),
        ("sim:reglo", True),
    ],
)
async def test_B4_which_links_the_operating_system_knows(link: str, local: bool) -> None:
    assert is_local(LinkUrl.parse(link)) is local


# --- what is kept -----------------------------------------------------------------------------------------


async def test_what_is_known_outlives_the_guard_and_its_times_the_boot_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = asyncio.get_running_loop().time
    known = Identities(now_s)
    known.learn("reglo", "tcp://192.0.2.1:4001", Identity("Reglo ICC", "14000512", "0208"))
    await asyncio.sleep(2.0)
    known.learn("relay", "tcp://192.0.2.1:4002", Identity("8-relay board"))
    known.given_up["tcp://192.0.2.1:4003"] = "another rig answers"
    known.count("reglo.heart", 12_000.0)
    kept: Mapping[str, object] = json.loads(json.dumps(known.to_json()))
    await asyncio.sleep(5.0)
    later = Identities(now_s)
    later.restore(kept)
    assert later.age_s("tcp://192.0.2.1:4001") == pytest.approx(7.0)
    assert later.given_up == known.given_up
    volume_ul, age_s = later.counted("reglo.heart") or (0.0, 0.0)
    assert volume_ul == 12_000.0
    assert age_s == pytest.approx(5.0)
    assert later.counted("reglo.draw") is None
    assert later.witnesses("tcp://192.0.2.1:4001") == ("reglo",)
    assert later.witnesses("tcp://192.0.2.1:4002") == ()
    monkeypatch.setattr(identities_module, "boot_id", lambda: "another start")
    booted = Identities(now_s)
    booted.restore(kept)
    assert booted.age_s("tcp://192.0.2.1:4001") == math.inf
    assert booted.of("reglo", "tcp://192.0.2.1:4001") == KnownDevice(
        "tcp://192.0.2.1:4001", "Reglo ICC", "14000512", -math.inf
    )
    assert booted.of("reglo", "tcp://192.0.2.9:1") is None, "another link is another place"
    again = Identities(now_s)
    again.restore(json.loads(json.dumps(booted.to_json())))
    assert again.to_json() == booted.to_json()
