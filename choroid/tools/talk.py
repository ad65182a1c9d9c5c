"""`choroid device talk DEVICE`: send commands to one device of a rig, and show every byte with its meaning.

The commands `id`, `read`, `status` and `stop` use the driver. None of them can start anything: all motion goes
through the safety gate of a running rig. With `--raw`, other lines are sent as typed, without any limit; the user
must stand at the device, and its outputs are turned off at the end.

While a controller runs the same rig, or another device on the same link, talking is refused; `--read-only` allows
queries, and `--ignore-controller` everything.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

from pymodbus.framer import FramerRTU

from choroid.common.failure import UserError
from choroid.tools.meaning import meaning
from controller.guard.plan import GuardPlan
from controller.links.connect import device_config
from controller.links.ownership import OWNER, holders
from controller.rig.description import DeviceSpec, Rig
from controller.rig.loading import load_rig
from drivers.commands import Stop
from drivers.device import Device
from drivers.errors import DeviceError
from drivers.registry import MODELS, build, line_settings, load_third_party
from drivers.transport import claims
from drivers.transport.capture import Capture, Direction, printable
from drivers.transport.link import Link
from drivers.transport.opener import Opener, open_real, open_unclaimed
from drivers.transport.url import LinkUrl
from sim.lab import SimulatedLab

PLAN = "guard.json"
"""File of a controller for its guard: the rig, and the links of everything that it commands."""


def require_free(name: str, rig: Rig, data: Path) -> None:
    """Raise :class:`UserError` if a controller that keeps its journal in `data` uses device `name` of `rig`.

    It uses the device when it runs a rig of the same name, or one with an output on the same link, or when its rig
    is unknown. A simulated link is never occupied: each process has its own lab.
    """
    link = rig.devices[name].link
    pids = holders(data / OWNER)
    if link.startswith("sim:") or not pids:
        return
    why = _common(name, link, rig.name, data / PLAN)
    if why is None:
        return
    who = " and ".join(f"process {pid}" if pid else "a process of another container" for pid in pids)
    raise UserError(
        f"{name} ({link}) is in use: a controller runs with its data in {data} ({who}), and {why}. Likely cause:"
        " `choroid run` is at work; two masters on one line take each other's answers for their own. Next: look at the"
        " device on the controller's page, or stop the controller first; --read-only asks and sets nothing,"
        " --ignore-controller continues at your own risk"
    )


def _common(name: str, link: str, rig: str, plan_path: Path) -> str | None:
    """Return what the controller has in common with this device, as text; None if nothing."""
    try:
        plan = GuardPlan.from_json(plan_path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return f"{plan_path} does not name its rig"
    if plan.rig == rig:
        return f"it runs this rig ({rig})"
    if shared := [device.name for device in plan.devices if device.link == link]:
        return f"its rig {plan.rig} has {', '.join(shared)} on the same link"
    return None


Say = Callable[[str], None]
HELP = """\
id               who answers
read [POINT]     every sensor, or one
status [POINT]   what every output says of itself, or one
stop [POINT]     turn every output off, or one
quit             end; outputs that raw lines may have turned on are turned off
with --raw:  any other line is sent with the device's line end; `hex 01 03 …` is sent as bytes,
             `modbus 01 03 …` as bytes with their checksum"""


class _Shown(Capture):
    """A capture that prints each piece at once."""

    def __init__(self, driver: type[Device], say: Say) -> None:
        super().__init__()
        self._driver = driver
        self._say = say
        self._began_s: float | None = None

    def add(self, at_s: float, direction: Direction, data: bytes) -> None:
        """Record and print a piece."""
        super().add(at_s, direction, data)
        self._began_s = at_s if self._began_s is None else self._began_s
        told = meaning(self._driver, direction, data)
        shown = f"{at_s - self._began_s:9.3f} {direction} {data.hex(' ')}  {printable(data)}"
        self._say(f"{shown}  — {told}" if told else shown)


class Talk:
    """One session with one device, on its own link."""

    def __init__(
        self, name: str, spec: DeviceSpec, opener: Opener, say: Say, *, raw: bool, read_only: bool = False
    ) -> None:
        driver = MODELS[spec.model]
        url = LinkUrl.parse(spec.link)
        capture = _Shown(driver, say)
        self.link = Link(url, opener, line=line_settings(url, [spec.model]), capture=capture)
        self.device = build(spec.model, self.link, device_config(name, spec))
        if read_only:
            if driver.queries is None:
                raise UserError(
                    f"the driver of {spec.model} does not declare its queries, so nothing can be asked read-only. Next: stop"
                    " the controller and talk without --read-only"
                )
            self.link.only_asks = driver.queries
        self._say = say
        self._raw = raw
        self._read_only = read_only
        self._raw_sent = False

    async def begin(self) -> None:
        """Open the line and verify the device; a failure is printed, and queries stay possible."""
        failures = await self.link.start()
        for error in failures.values():
            self._say(f"! {error}")
        if not failures:
            self._say(f"= {self.device.identity}")

    async def line(self, text: str) -> bool:
        """Execute one line; return whether the session continues."""
        words = text.split()
        if not words:
            return True
        verb, points = words[0].lower(), words[1:]
        if verb in ("quit", "exit"):
            return False
        try:
            await self._execute(verb, points, text)
        except DeviceError as error:
            self._say(f"! {error}")
        return True

    async def _execute(self, verb: str, points: list[str], text: str) -> None:
        match verb:
            case "help" | "?":
                self._say(HELP)
            case "id":
                self._say(f"= {await self.device.verify()}")
            case "read":
                await self._read(points)
            case "status":
                await self._each({point: each.status for point, each in self.device.actuators.items()}, points)
            case "stop":
                await self._stop(points)
            case _ if self._raw:
                await self._send(text)
            case _:
                self._say(f"! “{verb}” is none of id, read, status, stop, quit; other lines need --raw")

    async def _read(self, points: list[str]) -> None:
        sensors = {point: sensor.read for point, sensor in self.device.sensors.items()}
        units = {point: sensor.unit for point, sensor in self.device.sensors.items()}
        await self._each(sensors, points, units)

    async def _stop(self, points: list[str]) -> None:
        if self._read_only:
            self._say("! “stop” is a command, and --read-only allows only queries")
            return
        await self._each({point: self._stopping(point) for point in self.device.actuators}, points)

    def _stopping(self, point: str) -> Callable[[], Awaitable[object]]:
        async def stop() -> str:
            await self.device.actuators[point].apply(Stop())
            return "at rest"

        return stop

    async def _each(
        self,
        works: Mapping[str, Callable[[], Awaitable[object]]],
        points: list[str],
        units: Mapping[str, str] | None = None,
    ) -> None:
        for point in points or list(works):
            if point not in works:
                self._say(f"! there is no {point} to ask; there is {', '.join(works) or 'nothing of the kind'}")
                continue
            try:
                told = await works[point]()
            except DeviceError as error:
                self._say(f"! {error}")
            else:
                self._say(f"= {point}: {told} {(units or {}).get(point, '')}".rstrip())

    async def _send(self, text: str) -> None:
        word, _, rest = text.strip().partition(" ")
        try:
            if word == "hex":
                request = bytes.fromhex(rest)
            elif word == "modbus":
                frame = bytes.fromhex(rest)
                request = frame + FramerRTU.compute_CRC(frame).to_bytes(2, "big")
            else:
                request = text.strip().encode("ascii") + self._line_end()
        except ValueError:
            self._say("! that is not hexadecimal, or not ASCII")
            return
        conversation = self.device.conversation
        self._raw_sent = True
        with suppress(DeviceError):  # every byte is printed as it arrives; no driver waits for it
            await self.link.exchange(
                request, lambda _: None, timeout_s=conversation.timeout_s, where=conversation.where
            )
        conversation.doubt()

    def _line_end(self) -> bytes:
        barrier = self.device.conversation.barrier
        return b"\r\n" if barrier is not None and barrier.request.endswith(b"\r\n") else b"\r"

    async def end(self) -> None:
        """Turn off what raw lines may have turned on, and close the line."""
        try:
            if self._raw_sent and self.device.conversation.verified:
                self._say("turning every output off")
                await self.device.close()
        except DeviceError as error:
            self._say(f"! {error}")
        finally:
            await self.link.close()


def talk(
    name: str, path: Path, *, raw: bool, data: Path, read_only: bool = False, ignore_controller: bool = False
) -> int:
    """Run a session until the input ends; return the exit status.

    Args:
        name: Device in the rig file.
        path: The rig file.
        raw: Send unknown lines as typed.
        data: Where a controller of this rig would keep its journal.
        read_only: Send queries only.
        ignore_controller: Talk even if a controller uses the device.

    Raises:
        UserError: There is no such device, or a controller uses it.
    """
    if raw and read_only:
        raise UserError("--raw can send commands, and --read-only forbids these. Next: leave out one of the two")
    load_third_party()
    rig = load_rig(path, models=MODELS)
    if name not in rig.devices:
        raise UserError(f"{path} has no device {name}. Next: choose one of {', '.join(rig.devices)}")
    if not (read_only or ignore_controller):
        require_free(name, rig, data)
    return asyncio.run(_talk(name, rig, raw, read_only, read_only or ignore_controller))


async def _talk(name: str, rig: Rig, raw: bool, read_only: bool, allow_occupied: bool) -> int:
    spec = rig.devices[name]
    lab = SimulatedLab(rig, seed=1) if spec.link.startswith("sim:") else None
    claims.introduce("choroid device talk")
    opener = lab.opener if lab else open_unclaimed if allow_occupied else open_real
    conversation = Talk(name, spec, opener, _print, raw=raw, read_only=read_only)
    if raw:
        _print("! raw lines bypass all limits and interlocks: stay at the device. `help` lists the commands")
    loop = asyncio.get_running_loop()
    try:
        await conversation.begin()
        while (text := await loop.run_in_executor(None, sys.stdin.readline)) and await conversation.line(text):
            pass
    finally:
        await conversation.end()
        if lab is not None:
            await lab.close()
    return 0


def _print(text: str) -> None:
    print(text, flush=True)
