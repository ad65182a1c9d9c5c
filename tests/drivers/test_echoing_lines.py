"""An adapter that echoes: named at verification, and no write is confirmed by bytes equal to the request (Q4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from choroid.tools.conformance.benches import _config
from controller.rig.description import DeviceChannel, DeviceSpec
from controller.rig.families import FAMILIES
from drivers.commands import Command, Dispense, Level, Run, Switch
from drivers.device import Actuator, Device, DeviceConfig
from drivers.errors import DeviceError, DeviceFault
from drivers.modbus_coil_relay import ModbusCoilRelay
from drivers.modbus_generic import ModbusGeneric
from drivers.registry import MODELS
from drivers.transport.link import Link
from drivers.transport.opener import Streams
from drivers.transport.url import LineSettings, LinkUrl
from sim.devices.catalogue import DEVICES
from sim.devices.wire import Bus, WireDevice
from sim.serving import open_in_memory
from tests.sim.bench import RecordingPlant

pytestmark = pytest.mark.virtual_time

DESCRIBED = Path(__file__).parents[2] / "examples" / "devices" / "pressure-transmitter.yaml"
ECHO_THEMSELVES = {"watson-marlow-ascii"}
"""The 323 repeats each request by itself, whatever the line does."""
NO_SHARED_LINE = {"roche-cedex-bio-ht"}
"""Analysers on RS-232 with both directions of their own; each block names its sender."""
DAISY_CHAINS = {"masterflex-ls"}
"""RS-232 from drive to drive: there is no adapter that could echo, and its one-byte answers are not told from an echo."""
LISTENERS = {"jobst-six"}
"""Nothing is sent to it, so nothing can come back."""
HALF_DUPLEX = sorted(set(MODELS) & set(DEVICES) - ECHO_THEMSELVES - NO_SHARED_LINE - LISTENERS)


class Plant(RecordingPlant):
    def sense(self, point: str) -> float:
        return self.values.get(point, 1.0)


@asynccontextmanager
async def on_an_echoing_line(
    model: str, options: str, *, echo: bool = True
) -> AsyncIterator[tuple[Device, WireDevice, Link]]:
    driver = MODELS[model]
    if model == ModbusGeneric.model.id:
        config = DeviceConfig("bench", "1", {"file": str(DESCRIBED)})
    else:
        config = _config(model, FAMILIES[model], FAMILIES[model].default_address)
    channels = {
        number: DeviceChannel(point=each.point, **({"tubing": "1.02 mm"} if "tubing_mm" in each.settings else {}))
        for number, each in config.channels.items()
    }
    spec = DeviceSpec(
        model=model, link="sim:t", address=config.address, channels=channels, settings=dict(config.settings)
    )
    sim = DEVICES[model](config.name, spec, Plant())
    line = Bus("sim:t", baud=sim.baud, echo=echo)
    line.attach(sim)
    sim.power_on()

    async def opener(_url: LinkUrl, _settings: LineSettings) -> Streams:
        return open_in_memory(line)

    url = LinkUrl.parse(f"sim:t{options}")
    link = Link(url, opener, line=url.line(driver.line))
    device = driver(link, config)
    await link.start()
    try:
        yield device, sim, link
    finally:
        await link.close()
        sim.power_off()


@pytest.mark.parametrize("model", HALF_DUPLEX)
async def test_Q4_verification_names_the_echo_and_its_fix(model: str) -> None:
    async with on_an_echoing_line(model, "") as (device, _, link):
        assert not device.conversation.verified
        (error,) = link.failures.values()
        assert isinstance(error, DeviceFault)
        assert "its line echoes what is sent" in str(error)
        assert "?echo=1" in str(error)


@pytest.mark.parametrize("model", sorted((set(HALF_DUPLEX) | ECHO_THEMSELVES) - DAISY_CHAINS))
async def test_Q4_with_the_option_each_model_is_verified_on_that_line(model: str) -> None:
    async with on_an_echoing_line(model, "?echo=1") as (device, _, link):
        assert link.failures == {}
        assert device.conversation.verified


@pytest.mark.parametrize("model", sorted(LISTENERS))
async def test_Q4_a_listener_comes_up_on_that_line_without_the_option(model: str) -> None:
    async with on_an_echoing_line(model, "") as (device, _, link):
        assert link.failures == {}
        assert device.conversation.verified


@pytest.mark.parametrize("options", ["", "?echo=1"])
async def test_Q4_a_dead_relay_is_not_confirmed_by_the_echo(options: str) -> None:
    async with on_an_echoing_line(ModbusCoilRelay.model.id, options) as (device, sim, _):
        sim.power_off()
        output = next(iter(device.actuators.values()))
        with pytest.raises(DeviceError):
            await output.apply(Switch(True))


COMMANDS: dict[str, Command] = {"pump": Run(100.0), "switch": Switch(True), "level": Level(1.0)}
LEVELS: dict[str, Command] = {"degC": Level(37.0), "position": Level(2.0)}
DOSE, ONLY_DOSES = Dispense(100.0, 1000.0, "a"), {"tecan-cavro"}
"""Commands that each output takes; on a sound line none of them fails."""


@pytest.mark.parametrize("model", sorted((set(HALF_DUPLEX) | ECHO_THEMSELVES) - DAISY_CHAINS))
async def test_Q4_on_a_line_without_an_echo_the_same_commands_and_readings_succeed(model: str) -> None:
    async with on_an_echoing_line(model, "", echo=False) as (device, _, link):
        assert link.failures == {}
        for output in device.actuators.values():
            await _as_the_gate_does(output, model)
        await asyncio.sleep(1.0)
        for sensor in device.sensors.values():
            await sensor.read()


@pytest.mark.parametrize("alive", [False, True], ids=["dead", "alive"])
@pytest.mark.parametrize("model", sorted((set(HALF_DUPLEX) | ECHO_THEMSELVES) - DAISY_CHAINS))
async def test_Q4_an_echo_that_begins_while_the_rig_runs_confirms_nothing(model: str, alive: bool) -> None:
    """The adapter was replaced, or its jumper moved: commands and readings fail, as the gate makes them."""
    async with on_an_echoing_line(model, "", echo=False) as (device, sim, link):
        assert link.failures == {}
        assert sim.line is not None
        sim.line.echo = True
        if not alive:
            sim.power_off()
        elif model in ECHO_THEMSELVES:
            return  # its own echo and that of the line are one
        for output in device.actuators.values():
            with pytest.raises(DeviceError):
                await _as_the_gate_does(output, model)
        await asyncio.sleep(1.0)  # one reading may serve for some tenths of a second
        for sensor in device.sensors.values():
            with pytest.raises(DeviceError):
                await sensor.read()


async def _as_the_gate_does(output: Actuator, model: str) -> None:
    command = DOSE if model in ONLY_DOSES else LEVELS.get(output.unit, COMMANDS[output.kind])
    await output.apply(output.nearest(command))
    await output.status()
