"""A rig of real processes to strike: lab over TCP, guard as a service, `choroid run` with its engine.

This process is the service manager: it restarts guard and controller as soon as they have ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from choroid.common.child import python
from choroid.common.failure import UserError
from choroid.operating.remote import call
from choroid.running.data_folder import ENDPOINT
from choroid.running.guarding import write_plan
from choroid.simulation.lab import lab
from controller.children.accounts import family_of
from controller.core.database import open_to_read
from controller.guard.plan import GuardPlan
from controller.guard.wire import LOG
from controller.hazards.loading import load_checked_rig
from controller.rig.description import required
from drivers.commands import Level, Run, Stop, Switch
from drivers.registry import MODELS
from drivers.strict_yaml import load_yaml
from protocols.organs import Liver
from verification.kills.processes import Process, comes_true

SEED = 5
START_S = 60.0
LOOK_S = 0.04
"""Interval at which the lab is asked for its truth (s)."""
KILL_AFTER_S = 2.0
"""Time between SIGTERM and SIGKILL of a service manager (s)."""
CONTROLLER_AGAIN_S = 1.0
"""Delay before a service manager restarts a controller (s)."""
WATCHDOG_S = 5.0
"""Time after which a service manager ends a guard that shows no life, one that stands by included (s): as its unit says."""
RECIPE = "one-dose"
REQUESTED_UL = 500.0
LINE = "glucose"
FLOW_TOLERANCE = 0.03


class RigFailed(Exception):
    """A process failed; the text names it and its log."""


def now_s() -> float:
    """Return real monotonic time (s)."""
    return time.monotonic()  # noqa: TID251  (real processes)


def pause(seconds: float) -> None:
    """Wait in real time."""
    time.sleep(seconds)  # noqa: TID251  (real processes)


class Rigged:
    """The processes of one rig, in `folder`."""

    def __init__(self, rig: Path, folder: Path, *, first_port: int) -> None:
        """Start lab, guard and controller; raise :class:`RigFailed` if one does not come up."""
        self.folder, self.data = folder, folder / "data"
        self.served = folder / "served.yaml"
        self.truth: dict[str, Any] = {}
        """The lab's latest truth, with `at_s`."""
        self.stopped: set[int] = set()
        self._ending = threading.Event()
        self._lock = threading.RLock()
        self._services: dict[str, subprocess.Popen[bytes]] = {}
        self._ended_s: dict[str, float] = {}
        self._silent_s = now_s()
        """When the service of the guard last showed life (s)."""
        self.namespace = False
        """Whether the next controller gets its own PID namespace."""
        self.page_port = 0
        """The port of the next controller's page; 0 for any that is free."""
        self._taken: socket.socket | None = None
        self._own = folder / "rig.yaml"
        (self.data / "recipes").mkdir(parents=True)
        step = f"{Liver.add_glucose.name}: {REQUESTED_UL:g} uL"
        recipe = f"recipe: 1\nname: {RECIPE}\ntitle: One small dose\nsteps:\n  - {step}\n"
        (self.data / "recipes" / f"{RECIPE}.yaml").write_text(recipe, encoding="utf-8")
        description: dict[str, Any] = load_yaml(rig.read_text(encoding="utf-8"))
        balance = required(load_checked_rig(rig, models=MODELS).organs.kidney, "a kidney").mass.partition(".")[0]
        description["devices"][balance]["every"] = "1 s"  # weighing would otherwise take most of the time
        self._own.write_text(yaml.safe_dump(description, sort_keys=False, allow_unicode=True), encoding="utf-8")
        self._port = _free_ports(first_port)
        self._start_lab()
        self.plan = GuardPlan.from_json(write_plan(load_checked_rig(self.served, models=MODELS), self.data))
        self._looking = threading.Thread(target=self._look, daemon=True)
        self._looking.start()
        self._manager = threading.Thread(target=self._manage, daemon=True)
        self._manager.start()
        self.until(self.answers, "the controller answers", START_S)

    # --- state ------------------------------------------------------------------------------------------

    def answers(self) -> bool:
        """Return whether the controller's page answers and its loop is healthy."""
        with contextlib.suppress(OSError, ValueError, UserError):
            return bool(call(self.endpoint(), "GET", "/health")["ok"])
        return False

    def endpoint(self) -> dict[str, str]:
        """Return where the controller answers."""
        found: dict[str, str] = json.loads((self.data / ENDPOINT).read_text(encoding="utf-8"))
        return found

    def has_all_readings(self) -> bool:
        """Return whether the controller has a reading of every device."""
        with contextlib.suppress(OSError, ValueError, UserError):
            state = call(self.endpoint(), "GET", "/api/state")
            return all(output["status"] is not None for output in state["actuators"].values()) and all(
                reading["quality"] == "good" for reading in state["readings"].values()
            )
        return False

    def pids(self, role: str) -> list[int]:
        """Return the process ids of one role: `controller`, `guard`, `engine` or `lab`."""
        if role == "lab":
            return [] if self._lab.pid is None else [self._lab.pid]
        marks = {
            "controller": b"choroid\0run\0",
            "guard": b"controller.guard\0",
            "engine": b"choroid.running.nerves_process",
        }
        with self._lock:
            own = [service.pid for service in self._services.values() if service.poll() is None]
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (path / "cmdline").read_bytes()
                if marks[role] not in words or words.startswith(b"unshare"):
                    continue
                if os.fsencode(str(self.data)) in words or _ancestors(int(path.name)) & set(own):
                    found.append(int(path.name))
        return found

    def watches(self) -> int:
        """Return how often a guard has started to watch a controller."""
        with contextlib.suppress(OSError):
            return (self.data / LOG).read_bytes().count(b"watching the controller")
        return 0

    def rows(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the journal's rows of these kinds."""
        with contextlib.closing(open_to_read(self.data / "journal.db")) as database:
            marks = ",".join("?" * len(kinds))
            query = f"SELECT body FROM entries WHERE kind IN ({marks}) ORDER BY seq"  # noqa: S608  (question marks)
            return [json.loads(body) for (body,) in database.execute(query, kinds)]

    def rows_of(self, run: str, kind: str) -> list[dict[str, Any]]:
        """Return the rows of one kind of one run."""
        with contextlib.closing(open_to_read(self.data / "journal.db")) as database:
            query = "SELECT body FROM entries WHERE run = ? AND kind = ? ORDER BY seq"
            return [json.loads(body) for (body,) in database.execute(query, (run, kind))]

    def basal(self, truth: Mapping[str, Any]) -> bool:
        """Return whether every output is in its basal state; a pump that ends its dose by itself may do so."""
        return "outputs" in truth and not self.restless(truth)

    def restless(self, truth: Mapping[str, Any]) -> list[str]:
        """Return the outputs that are not in their basal state."""
        outputs = truth["outputs"]
        return [name for name, command in self.plan.rest.items() if not _rests(command, outputs.get(name, 0.0))]

    # --- actions ----------------------------------------------------------------------------------------

    def signal(self, role: str, number: signal.Signals) -> None:
        """Send a signal to every process of a role."""
        for pid in self.pids(role):
            if number is signal.SIGSTOP:
                self.stopped.add(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop_service(self, name: str) -> None:
        """Stop a service as its manager does: SIGTERM to the whole group, then SIGKILL."""
        with self._lock:
            service = self._services[name]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(service.pid, signal.SIGTERM)

        def kill() -> None:
            pause(KILL_AFTER_S)
            if service.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(service.pid, signal.SIGKILL)

        threading.Thread(target=kill, daemon=True).start()

    def free_port(self) -> int:
        """Return a port that no program has."""
        return _free_ports(self._port + 24, 1)

    def take_port(self) -> None:
        """Take the port of the page as another program would, once the controller is gone."""
        taken = socket.socket()
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def bound() -> bool:
            try:
                taken.bind(("127.0.0.1", self.page_port))
            except OSError:
                return False
            return True

        self.until(bound, "the port of the page is free", KILL_AFTER_S)
        taken.listen()
        self._taken = taken

    def give_port_back(self) -> None:
        """Close the port that was taken."""
        if self._taken is not None:
            self._taken.close()
            self._taken = None

    def start_lab_again(self) -> None:
        """Serve a new lab at the same ports: every device has lost its power."""
        self._lab.end()
        self._start_lab()

    def let_go_on(self) -> None:
        """Continue every stopped process that still exists."""
        for pid in self.stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.stopped.clear()

    def until(self, true: Callable[[], bool], what: str, seconds: float, every_s: float = 0.05) -> None:
        """Wait until `true()`; raise :class:`RigFailed` when the rig's processes could run for `seconds` without that."""
        if not comes_true(true, seconds, self._family, every_s=every_s):
            raise RigFailed(f"it did not come to pass within {seconds:g} s: {what}; see {self.folder.name}")

    def end(self) -> None:
        """End every process."""
        self._ending.set()
        self._manager.join(5.0)
        self.give_port_back()
        self.let_go_on()
        with self._lock:
            services = list(self._services.values())
        for role in ("engine", "controller", "guard"):
            self.signal(role, signal.SIGKILL)
        for service in services:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(service.pid, signal.SIGKILL)
            service.wait()
        self._lab.end()
        self._looking.join(5.0)

    def _family(self) -> list[int]:
        """Return the processes of the rig, without those that a strike has stopped."""
        with self._lock:
            leaders = [service.pid for service in self._services.values() if service.poll() is None]
        return [pid for leader in [*leaders, *self.pids("lab")] for pid in family_of(leader) if pid not in self.stopped]

    # --- internal ---------------------------------------------------------------------------------------

    def _start_lab(self) -> None:
        (self.folder / "lab.log").unlink(missing_ok=True)
        self.served.unlink(missing_ok=True)
        serve = partial(lab, self._own, host="127.0.0.1", base_port=self._port, pty=False, speed=1.0, seed=SEED)
        serve = partial(serve, write=self.served, duration_s=None, as_json=False, by_hand=True)
        self._lab = Process("lab", serve, self.folder)
        self.until(lambda: self.served.exists() and self.served.stat().st_size > 0, "the lab serves", START_S)

    def _look(self) -> None:
        """Ask the lab for its truth repeatedly."""
        read, rest = 0, b""
        log = self.folder / "lab.log"
        while not self._ending.is_set():
            with contextlib.suppress(OSError, ValueError):
                self._lab.tell("truth")
                with log.open("rb") as file:
                    size = file.seek(0, 2)
                    read = 0 if size < read else read
                    file.seek(read)
                    data = file.read()
                read += len(data)
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    if line.startswith(b"{"):
                        self.truth = {**json.loads(line), "at_s": now_s()}
            pause(LOOK_S)

    def _manage(self) -> None:
        """Act as service manager of guard and controller."""
        while not self._ending.is_set():
            self._watchdog()
            for name, again_s in (("guard", 0.0), ("controller", CONTROLLER_AGAIN_S)):
                with self._lock:
                    service = self._services.get(name)
                    if service is not None and service.poll() is None:
                        self._ended_s.pop(name, None)
                        continue
                    since_s = self._ended_s.setdefault(name, now_s())
                    if service is None or now_s() >= since_s + again_s:
                        self._services[name] = self._serve(name)
            pause(0.05)

    def _watchdog(self) -> None:
        """End a guard that has been stopped for longer than its service may show no life."""
        with self._lock:
            guard = self._services.get("guard")
            if guard is None or guard.pid not in self.stopped or guard.poll() is not None:
                self._silent_s = now_s()
            elif now_s() > self._silent_s + WATCHDOG_S:
                guard.kill()

    def _serve(self, name: str) -> subprocess.Popen[bytes]:
        data = ("--data", str(self.data))
        words = python("choroid", "guard", str(self.served), *data)
        if name == "controller":
            words = python("choroid", "run", str(self.served), *data, "--port", str(self.page_port), "--no-restart")
            if self.namespace:
                words = ["unshare", "--pid", "--fork", "--mount-proc", *words]
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603  (our own program)
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )


def _rests(command: object, value: float) -> bool:
    match command:
        case Run(flow_ul_min=flow):
            return abs(value - flow) <= FLOW_TOLERANCE * flow
        case Level(value=level):
            return abs(value - level) <= FLOW_TOLERANCE * max(level, 1.0)
        case Switch(on=on):
            return bool(value) is on
        case Stop():
            return value == 0.0
    raise TypeError(f"{command} is no state to rest in")


def _ancestors(pid: int) -> set[int]:
    found: set[int] = set()
    with contextlib.suppress(OSError, ValueError):
        while pid > 1 and pid not in found:
            found.add(pid)
            pid = int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def _free_ports(first: int, count: int = 24) -> int:
    """Return the first of `count` free ports in a row, from `first` on."""
    for base in range(first, 60_000, count):
        try:
            for port in range(base, base + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise RigFailed("no free ports are left")
