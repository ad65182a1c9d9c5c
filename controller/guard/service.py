"""The guard as a running process: it watches a controller and acts when that is lost.

One controller at a time connects to the guard's socket, before it opens any device. From then on the guard receives its
beats and checks it ten times a second. It kills a controller that is stopped or hung, because two masters on one line are
worse than none, and brings the rig to its basal state. A controller that returns is accepted once the guard has released the
links. SIGTERM makes the guard bring the rig to its basal state, then exit.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from controller.core.clock import Clock
from controller.gate.latch import Latch, SecondPlace
from controller.guard.identities import Identities, boot_s
from controller.guard.liveness import SILENCE_S, Liveness, ProcessFault
from controller.guard.notify import notify
from controller.guard.plan import GuardPlan
from controller.guard.processes import WatchedProcess
from controller.guard.rescue import Rescue
from controller.guard.watched import StopOrder, Watched, born_of, settle
from controller.guard.wire import SEEN, SOCKET, Message, SocketPeer, digest, listen, login_of, peer_of, receive, send
from controller.links.ownership import OWNER, holders
from drivers.device import Identity
from drivers.transport.opener import Opener

POLL_S = 0.1
"""Time between two checks of the controller (s)."""
LATE_S = 0.2
"""Delay of a beat (s) after which the controller gets a higher priority for the processor."""
ATTACH_S = 5.0
"""Time that a newly started guard waits for a controller that is running already (s)."""
ABSENT_S = 0.5
"""The same if no process holds the journal: then no controller is running."""
RECONNECT_S = 0.5
"""Time that a controller that has dropped its connection and still runs gets to connect again (s)."""
EXIT_S = 0.05
"""A killed process closes its connection a moment before it has ended (s)."""
CONFIRM_S = 0.5
"""Time that the controller gets to confirm that it has begun an emergency stop (s)."""
CARRIED_OUT_S = 3.0
"""Time that the requester waits for the confirmation of every output (s)."""
END_S = 20.0
"""Time that the controller gets to end in order when the guard is ordered to end (s)."""
PATIENCE_S = 3600.0
"""Time for which unreachable outputs are retried (s); a guard that is a service then begins again."""
END_PATIENCE_S = 60.0
"""The same if the guard was ordered to end (s)."""
KEEP_S = 0.9
"""Time between two records of the verified devices for the next guard (s)."""
WATCHDOG_S = 0.5

EXIT_DONE, EXIT_RESCUED, EXIT_LEFT = 0, 1, 2
"""The controller ended in order; the guard brought the rig to rest; the guard could not bring everything to rest."""


class GuardService:
    """Watches the controllers of one data directory, one after the other."""

    def __init__(
        self,
        plan_path: Path,
        *,
        own: bool,
        opener: Opener,
        write: Callable[[str], None],
        keep: Callable[[Path, str], None],
        silence_s: float = SILENCE_S,
    ) -> None:
        """Read the plan.

        Args:
            plan_path: the plan, in the data directory.
            own: whether a controller started this guard, which then ends with it.
            opener: opens the links.
            write: takes lines for the log.
            keep: replaces the content of a file, without waiting for it.
            silence_s: maximum time without a beat (s).

        Raises:
            OSError, ValueError, KeyError, TypeError: the plan cannot be read.
        """
        self._data = plan_path.parent
        self._plan_path = plan_path
        self._own = own
        self._opener = opener
        self._silence_s = silence_s
        self._clock = Clock(follow_system=True)
        self._write = write
        self._keep = keep
        self._identities = Identities(boot_s)
        self._seen: Message = {}
        """The controller that was under watch last: process number and kernel's start time."""
        self._kept_s = -math.inf
        self._recall()
        self._digest = ""
        self._plan = self._read_plan()
        self._loop = asyncio.get_running_loop()
        self._begun_s = self._loop.time()
        self._watched: Watched | None = None
        self._visitors: set[socket.socket] = set()
        self._admitting = False
        self._rescue: asyncio.Task[list[str]] | None = None
        self._at_rest = False
        self._left: list[str] = []
        self._ending_s: float | None = None
        self._exit: int | None = None
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[object]] = set()
        self._notified_s = 0.0

    async def run(self, *, ready: Callable[[], None]) -> int:
        """Watch until nothing is left to do, or until ordered to end. Return the exit status."""
        listening = listen(self._data)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._loop.add_signal_handler(number, self._end, signal.Signals(number).name)
        self._loop.add_signal_handler(signal.SIGUSR1, self._stop_by_signal)
        self._loop.add_reader(listening, self._accept, listening)
        notify(f"READY=1\nSTATUS=watching for the controller of rig {self._plan.rig}")
        ready()
        try:
            due_s = self._loop.time()
            while self._exit is None:
                due_s += POLL_S
                await asyncio.sleep(max(0.0, due_s - self._loop.time()))
                lag_s = max(0.0, self._loop.time() - due_s)
                due_s += lag_s
                self._poll(lag_s)
        finally:
            self._loop.remove_reader(listening)
            listening.close()
            with suppress(OSError):
                (self._data / SOCKET).unlink()
            await self._let_go()
            for visitor in list(self._visitors):
                self._dismiss(visitor)
            if self._watched is not None:
                self._forget(self._watched)
        return self._exit

    # --- the watch --------------------------------------------------------------------------------------

    def _poll(self, lag_s: float) -> None:
        """Check everything once; the guard's own timer came `lag_s` late."""
        if self._exit is not None:
            return
        now_s = self._loop.time()
        if now_s - self._notified_s > WATCHDOG_S:
            self._notified_s = now_s
            notify("WATCHDOG=1")
        watched = self._watched
        if watched is not None:
            self._receive(watched)
            self._look(watched, now_s, lag_s)
        elif self._rescue is None and not self._admitting:
            self._unwatched(now_s)
        if self._ending_s is not None and self._exit is None and now_s > self._ending_s + END_PATIENCE_S:
            self.tell("gives up: not everything could be brought to rest in time; look at the rig yourself")
            self._exit = EXIT_LEFT

    def _look(self, watched: Watched, now_s: float, lag_s: float) -> None:
        if watched is not self._watched:
            return  # it has said goodbye, or was lost, while its messages were read
        verdict = watched.liveness.judge(watched.process.observe(now_s, lag_s))
        late = watched.liveness.running and now_s - watched.beat_s > LATE_S
        if late or watched.dropped_s is not None:
            watched.process.hasten()
        else:
            watched.process.calm()
        if verdict is not None:
            self._lose(watched, verdict)
        elif watched.dropped_s is not None and now_s > watched.dropped_s + RECONNECT_S:
            self._lose(watched, "not connected any more")
        elif self._ending_s is not None and now_s > self._ending_s + END_S:
            self._lose(watched, "not ending, though it was asked to")

    def _unwatched(self, now_s: float) -> None:
        """Act without a controller: make sure that the rig is at rest, or wait for one."""
        if not self._at_rest:
            waited_s = now_s - self._begun_s
            running = bool(holders(self._data / OWNER))
            if waited_s < (ATTACH_S if running else ABSENT_S) and self._ending_s is None:
                return
            self._end_unknown()
            self._begin_rescue("no controller is connected")
        elif self._ending_s is not None:
            self._exit = EXIT_DONE
        elif self._own:
            self._exit = EXIT_LEFT if self._left else EXIT_RESCUED

    def _lose(self, watched: Watched, why: str) -> None:
        """Kill the controller if it still runs, and bring the rig to rest."""
        now_s = self._loop.time()
        gone = watched.process.kill()
        took_s = self._loop.time() - now_s
        self._forget(watched)
        report = f"the controller ({watched.process.pid}) is {why}; last beat {now_s - watched.beat_s:.2f} s ago"
        if why != ProcessFault.DEAD:
            report += (
                f"; killed in {took_s:.2f} s" if gone else "; killed, and not gone yet: it waits for a disk or a device"
            )
        self._begin_rescue(report)

    def _forget(self, watched: Watched) -> None:
        self._watched = None
        self._close(watched.connection)
        watched.process.close()
        for order in watched.orders.values():
            settle(order.begun, False)
            settle(order.done, False)

    def _end_unknown(self) -> None:
        """Kill a controller that an earlier guard watched and that does not connect to this one: it hangs."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            seen = self._seen
            if int(seen["pid"]) in holders(self._data / OWNER) and born_of(int(seen["pid"])) == seen["born"]:
                process = WatchedProcess(int(seen["pid"]))
                self.tell(f"the controller ({process.pid}) does not connect; killed")
                process.kill()
                process.close()

    # --- messages ---------------------------------------------------------------------------------------

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listening.accept()
            connection.setblocking(False)
            peer = peer_of(connection)
            if peer.uid not in (0, os.geteuid()):
                send(connection, {"refused": "the guard obeys only its own user and root"})
                connection.close()
                return
            self._visitors.add(connection)
            self._loop.add_reader(connection, self._visited, connection, peer)

    def _visited(self, connection: socket.socket, peer: SocketPeer) -> None:
        """Process the first messages of a connection: from a controller, or a command."""
        messages = receive(connection)
        if messages is None:
            self._dismiss(connection)
            return
        for message in messages:
            if "hello" in message:
                self._visitors.discard(connection)
                self._loop.remove_reader(connection)
                self._spawn(self._admit(connection, peer, message))
                return
            if "stop" in message:
                self._spawn(self._stop_for(connection, login_of(peer), str(message["stop"])))
            elif "status" in message:
                self._reply(connection, {"status": self.status()})

    def _receive(self, watched: Watched) -> None:
        """Process all messages of the controller."""
        if watched.dropped_s is not None or watched is not self._watched:
            return
        messages = receive(watched.connection)
        if messages is None:
            self._dropped(watched)
            return
        for message in messages:
            match message:
                case {"beat": int(number), "tick": int(tick)}:
                    self._beat(watched, number, tick)
                case {"counted": dict(volumes_ul)}:
                    self._count(volumes_ul)
                case {"verified": dict(devices)}:
                    self._learn(devices)
                case {"goodbye": _}:
                    self._at_rest, self._left = True, []
                    self._forget(watched)
                    if self._own:
                        self._exit = EXIT_DONE
                    return
                case {"leave": _}:
                    self._forget(watched)
                    self._begin_rescue("the controller has ended and could not bring everything to rest")
                    return
                case _:
                    watched.confirm(message)

    def _dropped(self, watched: Watched) -> None:
        """Handle the end of the controller's connection."""
        self._close(watched.connection)
        watched.process.hasten()  # a killed process needs a processor to end
        if watched.process.ended(EXIT_S):
            self._lose(watched, ProcessFault.DEAD)
        else:
            watched.dropped_s = self._loop.time()

    def _beat(self, watched: Watched, number: int, tick: int) -> None:
        """Record a beat and answer it."""
        now_s = self._loop.time()
        if watched.liveness.running:
            watched.longest_s = max(watched.longest_s, now_s - watched.beat_s)
        watched.beat_s = now_s
        watched.liveness.beat(watched.beat_s, tick)
        self._reply(watched.connection, {"beat": number})

    async def _admit(self, connection: socket.socket, peer: SocketPeer, message: Message) -> None:
        """Take a controller under watch, or refuse it with the reason."""
        why = self._refusal(peer, message)
        process: WatchedProcess | None = None
        if not why:
            try:
                process = WatchedProcess(peer.pid)
            except OSError as error:
                why = f"the controller's process {peer.pid} cannot be watched: {error}"
        if why or process is None:
            self._reply(connection, {"refused": why})
            connection.close()
            return
        self._admitting = True
        try:
            if self._watched is not None:
                self._forget(self._watched)  # the same process has connected again
            await self._let_go()
            now_s = self._loop.time()
            watched = self._watched = Watched(
                connection, process, Liveness(now_s, silence_s=self._silence_s), beat_s=now_s
            )
            self._at_rest = False
            with suppress(OSError):
                self._seen = {"pid": peer.pid, "born": born_of(peer.pid)}
            self._loop.add_reader(connection, self._receive, watched)
            # What no controller had ever verified was never cared for: leaving it alone is no news.
            given_up = {link: why for link, why in self._identities.given_up.items() if self._identities.known(link)}
            self._identities.given_up = {}
            welcome = {"service": not self._own, "rig": self._plan.rig, "given_up": given_up}
            self._reply(connection, {"welcome": welcome})
            self._record()
            self.tell(f"watching the controller ({peer.pid}) of rig {self._plan.rig}")
        finally:
            self._admitting = False

    def _refusal(self, peer: SocketPeer, message: Message) -> str:
        """Return why a controller cannot be taken under watch; "" if it can."""
        if self._ending_s is not None:
            return "the guard is ending"
        if self._admitting:
            return "the guard is busy with another controller"
        if peer.pid == 0:
            return (
                "the guard cannot see the controller's process, so it could not end it. Likely cause: they are in"
                " containers that do not share their processes. Next: run the guard with `pid: host`"
            )
        watched = self._watched
        if watched is not None and watched.process.pid != peer.pid and not watched.process.gone:
            return f"another controller ({watched.process.pid}) is under watch"
        try:
            if message.get("plan") != self._digest:
                self._plan = self._read_plan()
        except (OSError, ValueError, KeyError, TypeError) as error:
            return f"{self._plan_path} cannot be read: {error!r}"
        if message.get("plan") != self._digest:
            return f"{self._plan_path} is not what the controller runs. Next: restart the controller"
        return ""

    # --- what is known of the devices -------------------------------------------------------------------

    def _recall(self) -> None:
        """Take up what an earlier guard has kept of its controller and its devices."""
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            kept = json.loads((self._data / SEEN).read_text(encoding="utf-8"))
            self._seen = {"pid": kept["pid"], "born": kept["born"]}
            self._identities.restore(kept)

    def _record(self) -> None:
        """Keep the same for the next guard."""
        self._kept_s = self._loop.time()
        self._keep(self._data / SEEN, json.dumps(self._seen | self._identities.to_json()))

    def _learn(self, devices: Message) -> None:
        """Record which devices the controller has verified."""
        links = {device.name: device.link for device in self._plan.devices}
        news = False
        for name, told in devices.items():
            match told:
                case [str(model), str(serial)] if name in links:
                    news |= self._identities.learn(name, links[name], Identity(model, serial))
        if news or self._loop.time() > self._kept_s + KEEP_S:
            self._record()

    def _count(self, volumes_ul: Message) -> None:
        """Record what the pumps have counted; it is kept with the next record of the devices."""
        for output, volume_ul in volumes_ul.items():
            if isinstance(volume_ul, int | float):
                self._identities.count(output, volume_ul)

    # --- emergency stop and end -------------------------------------------------------------------------

    def _stop_by_signal(self) -> None:
        self._spawn(self.stop("SIGUSR1", "a signal to the guard"))

    async def _stop_for(self, connection: socket.socket, who: str, reason: str) -> None:
        self._reply(connection, {"done": await self.stop(who, reason)})

    async def stop(self, who: str, reason: str) -> str:
        """Stop the rig: by its controller, or by the guard if that does not confirm at once. Return what was done."""
        self.tell(f"emergency stop by {who}: {reason}")
        watched = self._watched
        if watched is not None and (confirmed := await self._order(watched, who, reason)):
            return confirmed
        if watched is not None and watched is self._watched:
            self._lose(watched, "not confirming the emergency stop")
        elif self._rescue is None:
            self._begin_rescue("emergency stop without a controller")
        # The next controller must find the stop. A thread writes it: a hanging disk delays nothing here.
        Thread(target=self._latch, args=(who, reason), name="latch", daemon=True).start()
        return "the guard brings the rig to its basal state; the next controller starts with the emergency stop set"

    async def _order(self, watched: Watched, who: str, reason: str) -> str:
        """Tell the controller to stop. Return what it confirms, or "" if it does not confirm in time."""
        number = next(self._numbers)
        order = watched.orders[number] = StopOrder(self._loop.create_future(), self._loop.create_future())
        self._reply(watched.connection, {"stop": reason, "who": who, "number": number})
        await asyncio.wait((order.begun,), timeout=CONFIRM_S)
        if order.begun.done() and order.begun.result():
            await asyncio.wait((order.done,), timeout=CARRIED_OUT_S)
        watched.orders.pop(number, None)
        if order.done.done():
            return "the controller has stopped the rig" if order.done.result() else ""
        if order.begun.done():
            return "the controller is stopping the rig; not every device has confirmed yet, see its alarms"
        return ""

    def _latch(self, who: str, reason: str) -> None:
        try:
            Latch(self._data, SecondPlace(self._data)).set(who, reason)
        except OSError as error:
            self.tell(f"the emergency stop could not be kept for the next controller: {error}")

    def _end(self, why: str) -> None:
        """Bring the rig to its basal state, then exit."""
        if self._ending_s is not None:
            return
        self._ending_s = self._loop.time()
        self.tell(f"{why}: bringing the rig to its basal state, then exit")
        notify(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={round((END_S + END_PATIENCE_S) * 1e6)}")
        if self._watched is not None:
            self._reply(self._watched.connection, {"end": f"the guard received the order to end ({why})"})

    # --- the rescue -------------------------------------------------------------------------------------

    def _begin_rescue(self, why: str) -> None:
        self._at_rest = False
        self.tell(f"{why}; bringing rig {self._plan.rig} to its basal state")
        self._rescue = asyncio.create_task(self._bring_to_rest(), name="rescue")
        self._rescue.add_done_callback(self._rescued)

    async def _bring_to_rest(self) -> list[str]:
        begun_s = self._loop.time()
        left = await Rescue(self._plan, self._opener, self.tell, self._identities).run(PATIENCE_S)
        for name in left:
            self.tell(f"{name}: FAILED, not at rest; look at it yourself")
        self.tell(f"done after {self._loop.time() - begun_s:.2f} s")
        return left

    def _rescued(self, task: asyncio.Task[list[str]]) -> None:
        if self._rescue is task:
            self._rescue = None
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            self.tell(f"the rescue failed and begins again: {error!r}")
            self._begun_s = self._loop.time()
            return
        self._left = task.result()
        links = {device.name: device.link for device in self._plan.devices}
        retried = [name for name in self._left if links[name.partition(".")[0]] not in self._identities.given_up]
        self._at_rest = not retried or self._own
        self._record()

    async def _let_go(self) -> None:
        """Cancel a rescue that is underway, and wait until its links are closed."""
        task, self._rescue = self._rescue, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # --- helpers ----------------------------------------------------------------------------------------

    def status(self) -> Message:
        """Return the guard's state, for people and programs."""
        watched = self._watched
        state = (
            "watching" if watched else "bringing to rest" if self._rescue else "at rest" if self._at_rest else "waiting"
        )
        return {
            "rig": self._plan.rig,
            "state": state,
            "guard": os.getpid(),
            "controller": watched.process.pid if watched else None,
            "starved_s": round(watched.liveness.starved_s, 3) if watched else 0.0,
            "longest_silence_s": round(watched.longest_s, 3) if watched else 0.0,
            "not_at_rest": self._left,
            "given_up": self._identities.given_up,
        }

    def _read_plan(self) -> GuardPlan:
        text = self._plan_path.read_text(encoding="utf-8")
        plan = GuardPlan.from_json(text)
        # Import every driver and check every setting now, not in an emergency.
        Rescue(plan, self._opener, self.tell)
        self._digest = digest(text)
        return plan

    def tell(self, text: str) -> None:
        """Add a line to the log."""
        self._write(f"{self._clock.utc_text()} guard: {text}")

    def _reply(self, connection: socket.socket, message: Message) -> None:
        with suppress(OSError):
            send(connection, message)

    def _close(self, connection: socket.socket) -> None:
        if connection.fileno() >= 0:
            self._loop.remove_reader(connection)
            connection.close()

    def _dismiss(self, connection: socket.socket) -> None:
        self._visitors.discard(connection)
        self._close(connection)

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
