"""Faults of addresses and of worn memory on every simulated model that a real one could have them on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import pytest

from controller.rig.description import DeviceSpec, Rig
from drivers.registry import MODELS
from sim.devices.catalogue import DEVICES
from sim.devices.longer import packed
from sim.devices.modbus_slave import crc16, sealed
from sim.devices.wire import WireDevice, forgetting
from sim.faults.injector import Injector
from sim.faults.schedule import Fault
from sim.faults.targets import ACTING, ADDRESSED, SIGNING, address_of, next_on_bus, targets
from sim.lab import SimulatedLab
from tests.drivers.facts import all_facts
from tests.sim.bench import RecordingPlant
from tests.sim.faults.bench import RIG, listener_on

pytestmark = pytest.mark.virtual_time

DESCRIPTION = "points:\n  value: {function: 3, register: 7, type: u16, unit: mV, example: 5}\n"
SETTINGS: dict[str, dict[str, float | str | bool]] = {"modbus-generic": {"description": DESCRIPTION}}
ADDRESSES = {"alicat-mfc": ("F", "G")}
"""Where the two devices of a model stand, if not at 5 and 6."""


def _read(register: int, count: int, function: int = 3) -> Callable[[str], bytes]:
    return lambda address: sealed(bytes((int(address), function, *register.to_bytes(2, "big"), 0, count)))


def _keller(address: str) -> bytes:
    begin = bytes((int(address), 48))
    return begin + crc16(begin).to_bytes(2, "big")


def _shdlc(address: str) -> bytes:
    plain = bytes((int(address), 0xD1, 0))
    return b"\x7e" + plain + bytes((~sum(plain) & 0xFF,)) + b"\x7e"


QUESTIONS: dict[str, Callable[[str], bytes]] = {
    "alicat-mfc": lambda unit: f"{unit}VE\r".encode(),
    "bronkhorst-propar": lambda node: b":07%02X047166716600\r\n" % int(node),
    "eurotherm-3200": _read(1, 5),
    "hamilton-ph-arc": _read(4287, 4),
    "hamilton-visiferm-do": _read(4287, 4),
    "ismatec-reglo-digital": lambda address: f"{address}#\r".encode(),
    "julabo": lambda address: b"A%03d_version\r" % int(address),
    "keller-bus": _keller,
    "keller-x-line": _read(8, 2),
    "longer-0xe9": lambda address: packed(int(address), b"RJ"),
    "masterflex-usb": lambda address: f"{address}RE1\r".encode(),
    "modbus-coil-relay": _read(0, 8, function=1),
    "modbus-generic": _read(7, 1),
    "sensirion-slf3x": _shdlc,
    "tecan-cavro": lambda address: f"/{address}&\r".encode(),
    "vaisala-gmp25x": _read(2048, 2),
    "watson-marlow-ascii": lambda number: f"{number}ZY\r".encode(),
    **{model: facts.question for model, facts in all_facts().items() if facts.question is not None},
}
"""Model → a question with a constant answer: the same for all devices, clients and states of the plant."""


def _rig(model: str) -> Rig:
    """The bench with two devices of a model on one more line."""
    one, two = ADDRESSES.get(model, ("5", "6"))
    more = {
        name: DeviceSpec(
            model=model, link="sim:more", address=address, every="1 s", settings=SETTINGS.get(model, {}), channels={}
        )
        for name, address in (("one", one), ("two", two))
    }
    return RIG.model_copy(update={"devices": {**RIG.devices, **more}})


@asynccontextmanager
async def two_of(model: str) -> AsyncIterator[tuple[SimulatedLab, Injector]]:
    lab = SimulatedLab(_rig(model), seed=1)
    try:
        yield lab, Injector(lab, [], seed=1)
    finally:
        await lab.close()


def test_every_model_that_is_addressed_and_shares_a_line_is_tried() -> None:
    assert set(QUESTIONS) == set(ADDRESSED)
    for model in ADDRESSED:
        rig = _rig(model)
        assert set(targets("other_address", rig)) >= {"one", "two"}
        assert ("sim:more" in targets("wrong_address", rig)) == (model in SIGNING)
        assert next_on_bus(rig, "one") == "two"


def test_what_acts_is_what_has_more_to_do_than_read() -> None:
    assert set(ACTING) == {name for name, driver in MODELS.items() if driver.model.capabilities != ("read",)}


@pytest.mark.parametrize("model", sorted(DEVICES))
async def test_the_factorys_address_is_that_of_the_rig_file(model: str) -> None:
    """A device without an address in the rig file answers to the one that the faults believe it has."""
    settings = SETTINGS.get(model, {})
    spec = DeviceSpec(model=model, link="sim:more", address="", every="1 s", settings=settings, channels={})
    device = DEVICES[model]("one", spec, RecordingPlant())
    rig = RIG.model_copy(update={"devices": {"one": spec}})
    if device.answers_to is None:
        assert model not in ADDRESSED or model == "julabo", "a Julabo without an address is alone on its line"
        if model != "julabo":
            with pytest.raises(ValueError, match="no address"):
                device.readdress("2")
    else:
        assert device.answers_to == address_of(rig, "one")


@pytest.mark.parametrize("model", ADDRESSED)
async def test_it_answers_for_its_neighbour_until_it_is_set_right(model: str) -> None:
    async with two_of(model) as (lab, injector):
        client = await listener_on(lab, "more")
        requests = [QUESTIONS[model](address_of(lab.rig, name)) for name in ("one", "two")]
        for request in requests:
            await client.ask(request)  # some devices answer the first request differently
        healthy = [await client.ask(request) for request in requests]
        assert all(healthy)
        injector.inject(Fault("other_address", "one", 0.0, 30.0))
        assert await client.ask(requests[0]) == b""
        assert len(await client.ask(requests[1])) == 2 * len(healthy[1]), "both answer"
        await asyncio.sleep(30.0)
        assert [await client.ask(request) for request in requests] == healthy


@pytest.mark.parametrize("model", SIGNING)
async def test_its_answers_bear_the_neighbours_address_and_are_intact(model: str) -> None:
    async with two_of(model) as (lab, injector):
        client = await listener_on(lab, "more")
        first, second = (address_of(lab.rig, name) for name in ("one", "two"))
        request = QUESTIONS[model](first)
        await client.ask(request)
        healthy = await client.ask(request)
        injector.inject(Fault("wrong_address", "sim:more", 0.0, 30.0))
        forged = await client.ask(request)
        assert len(forged) == len(healthy)
        assert forged != healthy
        assert lab.devices["one"].forged(forged, second) is None, "it would not know it for its own"
        assert lab.devices["two"].forged(forged, first) == healthy, "the other one would"
        assert lab.devices["two"].forged(forged[:-1] + b"\x00", first) != healthy or model in ("alicat-mfc", "julabo")
        await asyncio.sleep(30.0)
        assert await client.ask(request) == healthy


STORED = {model: facts.stored for model, facts in all_facts().items() if facts.stored is not None}


def test_every_model_that_stores_something_is_tried() -> None:
    """Compare with those that can forget something; what is stored in the rest is tried in test_devices.py."""
    elsewhere = {name for name, driver in MODELS.items() if name.startswith("atlas-ezo-")}
    elsewhere |= {
        "alicat-mfc",
        "ismatec-reglo-icc",
        "keller-x-line",
        "keller-bus",
    }
    forgetful = {model for model, device in DEVICES.items() if device.forget is not WireDevice.forget}
    assert set(STORED) == forgetful - elsewhere


@pytest.mark.parametrize("model", sorted(STORED))
async def test_a_worn_memory_holds_what_the_factory_put_there_until_it_is_stored_again(model: str) -> None:
    users, factory = STORED[model]
    async with two_of(model) as (lab, injector):
        device = lab.devices["one"]
        forgetting(device, users)
        device.power_cycle()
        boots = device.boots
        assert _held(device, users) == users, "it keeps what a user stored over a power cut"
        injector.inject(Fault("eeprom", "one", 0.0, 100.0))
        assert device.boots == boots + 1
        assert _held(device, factory) == factory
        await asyncio.sleep(100.5)
        assert _held(device, users) == users
        assert device.boots == boots + 2


def _held(device: WireDevice, names: Mapping[str, object]) -> dict[str, object]:
    return {name: getattr(device, name) for name in names}
