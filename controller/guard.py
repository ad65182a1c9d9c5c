"""The guard: a second, small process that outlives the controller and brings its actuators to rest.

`choroid run` starts it with one end of a pipe. The controller writes a byte at each tick; when the pipe closes (the
controller is dead) or falls silent (it hangs), the guard opens the links itself, with the same drivers, and commands the
basal state of everything that cannot come to rest by itself. Finite doses and pulses end by their devices and are left
alone: a transfer that is under way stays measurable. A controller that hangs is killed first, because two masters on one
line are worse than none.

    python -m controller.guard RIG PID FD [SILENCE_S]
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from pathlib import Path

from controller.clock import Clock
from controller.connect import ConnectError, connect
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from controller.safety.limits import basal_states
from drivers.device import Actuator, Command, DeviceError, Run, Stop
from drivers.transport.opener import open_real

SILENCE_S = 5.0
"""A controller that has not ticked for so long is taken for dead; it ticks once a second."""
GOODBYE = b"q"
"""What a controller writes that ends in order: there is nothing left to guard."""


def guard_main(rig_path: Path, pid: int, pipe: int, log_path: Path, silence_s: float = SILENCE_S) -> int:
    """Watch the controller `pid` through `pipe`; returns when it has ended in order, or the rig is at rest."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the controller; the guard sees how it ends
    rig = load_rig(rig_path)  # before it is needed: the file may be gone or edited by then
    why = _watch(pipe, silence_s)
    if why is None:
        return 0
    if why == "silent":
        _kill(pid)
    asyncio.run(_bring_to_rest(rig, log_path, why))
    return 1


def _watch(pipe: int, silence_s: float) -> str | None:
    """Wait for the end: None when it was in order, else why the guard must act."""
    while True:
        ready, _, _ = select.select([pipe], [], [], silence_s)
        if not ready:
            return "silent"
        data = os.read(pipe, 4096)
        if not data:
            return "dead"
        if GOODBYE in data:
            return None


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it died by itself in between


async def _bring_to_rest(rig: Rig, log_path: Path, why: str) -> None:
    clock = Clock(follow_system=True)
    begun_s = clock.now_s()
    with log_path.open("a", encoding="utf-8") as log:

        def tell(text: str) -> None:
            log.write(f"{clock.utc_text()} guard: {text}\n")
            log.flush()

        tell(f"the controller is {why}; bringing rig {rig.name} to its basal state")
        try:
            connected = await connect(rig, open_real)
        except ConnectError as error:
            tell(f"NOTHING could be reached: {error}")
            return
        basal = basal_states(rig)
        work = []
        for name, device in connected.devices.items():
            for point, actuator in device.actuators.items():
                command = basal[f"{name}.{point}"]
                if isinstance(command, Stop):
                    continue  # transfer and dosing pumps: finite by their own doing
                work.append(_rest(f"{name}.{point}", actuator, command))
        for text in await asyncio.gather(*work):
            tell(text)
        tell(f"done after {clock.now_s() - begun_s:.2f} s")
        for link in connected.links.values():
            await link.close()


async def _rest(name: str, actuator: Actuator, command: Command) -> str:
    for attempt in (1, 2, 3):
        try:
            await actuator.apply(command)
            status = await actuator.status()
        except DeviceError as error:
            if attempt == 3:
                return f"{name}: FAILED: {error}"
        else:
            what = "circulates at its basal flow" if isinstance(command, Run) else "is at its basal state"
            return f"{name} {what}: {status}"
    return f"{name}: not reached"


if __name__ == "__main__":
    rig_file, controller_pid, pipe_fd, log_file = sys.argv[1:5]
    quiet_s = float(sys.argv[5]) if len(sys.argv) > 5 else SILENCE_S
    sys.exit(guard_main(Path(rig_file), int(controller_pid), int(pipe_fd), Path(log_file), quiet_s))
