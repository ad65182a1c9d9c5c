"""A connection to a running controller over its HTTP API: :class:`ControllerClient`, and the same with asyncio."""

from __future__ import annotations

import asyncio
import functools
import json
import ssl
from collections.abc import AsyncGenerator, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from choroid.client import calls, live, series
from choroid.client.answers import (
    AlarmInfo,
    AlarmsInfo,
    EntryInfo,
    HealthInfo,
    LedgerInfo,
    RecipeInfo,
    RigInfo,
    RunInfo,
    StateInfo,
)
from choroid.client.errors import ClientError, ConnectionFailed
from choroid.client.live import LiveUpdate
from choroid.client.series import HistorySeries
from choroid.client.transport import Address, ApiCall, Transport, local_socket

T = TypeVar("T")

TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 30.0
"""A command is answered when its rows are on the disk; the controller waits up to 20 s for a slow one."""
THREADS = 16
"""Requests of one asynchronous client at a time."""
NO_PAGE = (
    "the controller of {path} has no page at present. Likely cause: the page's port is taken; it is tried again within a"
    " minute, and the care goes on. Next: see the alarm edge_lost in its log, then try again"
)
"""What is said when a controller has left no address of its page."""
ENDPOINT = "endpoint.json"
"""What `choroid run` leaves in its data folder: its address and a token, readable by their owner alone."""


def connect(
    url: str = "",
    *,
    token: str = "",
    data: Path | str | None = None,
    timeout_s: float = TIMEOUT_S,
    context: ssl.SSLContext | None = None,
) -> ControllerClient:
    """Connect to a running controller.

    Args:
        url: Its address, such as `http://127.0.0.1:8090`; with a token behind `#token=` no other is needed.
        token: A token from `choroid users add`; not needed where the address or `data` has one.
        data: The data folder of `choroid run` on this machine, instead of `url`.
        timeout_s: How long to wait for an answer (s).
        context: TLS settings for an address with https.

    Returns:
        The client. One request has been answered, so the address and the token are right.

    Raises:
        ConnectionFailed: No controller answers there.
        RequestRefused: The token is not known there.
        ClientError: The address cannot be used.
    """
    client = ControllerClient(_transport(url, token, data, timeout_s, context))
    client.rig()
    return client


async def connect_async(
    url: str = "",
    *,
    token: str = "",
    data: Path | str | None = None,
    timeout_s: float = TIMEOUT_S,
    context: ssl.SSLContext | None = None,
) -> AsyncControllerClient:
    """Connect to a running controller, for use with asyncio. Arguments and errors as :func:`connect`."""
    client = AsyncControllerClient(_transport(url, token, data, timeout_s, context))
    try:
        await client.rig()
    except BaseException:
        await client.close()
        raise
    return client


class ControllerClient:
    """A running controller, as seen over its API. Made by :func:`connect`; may be used from several threads.

    Every command takes a `reason` for the record. Commands on a run also take `seen`, the `utc` of the state on which they
    were decided: the controller refuses a command whose state is more than 30 s old.

    Every method raises :class:`ConnectionFailed` when no controller answers, and :class:`RequestRefused` when the
    controller refuses, in its own words.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Do nothing: each request has a connection of its own."""

    @property
    def url(self) -> str:
        """Address of the controller."""
        return self._transport.address.url

    def rig(self) -> RigInfo:
        """Return the rig that the controller runs, with the client's own user and role."""
        return self._do(calls.rig())

    def state(self) -> StateInfo:
        """Return the latest snapshot: readings, actuators, volumes, interlocks that act, links."""
        return self._do(calls.state())

    def health(self) -> HealthInfo:
        """Return whether the control loop runs. Needs no token."""
        return self._do(calls.health())

    def recipes(self) -> list[RecipeInfo]:
        """Return the recipes that can be started, with parameters, units and ranges."""
        return self._do(calls.recipes())

    def runs(self) -> list[RunInfo]:
        """Return the runs since the start of the controller and unfinished ones from before, oldest first."""
        return self._do(calls.runs())

    def run(self, run_id: str) -> RunInfo:
        """Return one run with its steps."""
        return self._do(calls.run(run_id))

    def start_run(
        self, recipe: str, params: Mapping[str, str] | None = None, *, reason: str = "", seen: str = ""
    ) -> RunInfo:
        """Start a recipe.

        Args:
            recipe: Its name.
            params: Parameters as text with their units, such as `{"batch": "18 mL"}`; the others keep their defaults.
            reason: Why, for the record.
            seen: `utc` of the state on which this was decided.

        Returns:
            The run.
        """
        return self._do(calls.start_run(recipe, params or {}, reason, seen))

    def pause_run(self, run_id: str, *, reason: str = "", seen: str = "") -> RunInfo:
        """Hold a run: its actuators come to rest."""
        return self._do(calls.change_run(run_id, "pause", reason, seen))

    def resume_run(self, run_id: str, *, reason: str = "", seen: str = "") -> RunInfo:
        """Continue a held run with what remains of it."""
        return self._do(calls.change_run(run_id, "resume", reason, seen))

    def answer_run(
        self, run_id: str, answer: str, *, step: int | None = None, reason: str = "", seen: str = ""
    ) -> RunInfo:
        """Answer the open question of a held run; the run goes on if nothing else holds it.

        Args:
            run_id: The run.
            answer: Text with its unit, such as `"8.2 mM"`, or one of the choices.
            step: Number of the question's step: the answer is refused if another question is open by now.
            reason: Why, for the record.
            seen: `utc` of the state on which this was decided.

        Returns:
            The run; its `question` is the next one, if it asks already.

        Raises:
            RequestRefused: The answer is not valid; the run goes on waiting.
        """
        return self._do(calls.answer_run(run_id, answer, step, reason, seen))

    def abort_run(self, run_id: str, *, reason: str = "", seen: str = "") -> RunInfo:
        """End a run for good."""
        return self._do(calls.change_run(run_id, "abort", reason, seen))

    def alarms(self) -> AlarmsInfo:
        """Return the alarms."""
        return self._do(calls.alarms())

    def acknowledge_alarm(self, alarm_id: str, *, reason: str = "") -> AlarmInfo:
        """Acknowledge an alarm."""
        return self._do(calls.acknowledge_alarm(alarm_id, reason))

    def shelve_alarm(self, alarm_id: str, duration: str, *, reason: str) -> AlarmsInfo:
        """Shelve an alarm for a limited time, such as `"30 min"`. Interlocks act as before."""
        return self._do(calls.shelve_alarm(alarm_id, duration, reason))

    def return_alarm(self, alarm_id: str) -> AlarmsInfo:
        """Return a shelved alarm to service."""
        return self._do(calls.return_alarm(alarm_id))

    def emergency_stop(self, reason: str = "") -> str | None:
        """Stop everything but the basal circulation, and all stimulation, until :meth:`reset_stop`.

        Returns:
            Who stopped everything and why.
        """
        return self._do(calls.stop_all(reason))

    def reset_stop(self, reason: str, *, seen: str = "") -> str | None:
        """Reset an emergency stop.

        Returns:
            None, when no emergency stop stands any more.
        """
        return self._do(calls.reset_stop(reason, seen))

    def ledger(self) -> LedgerInfo:
        """Return where the medium went (mL)."""
        return self._do(calls.ledger())

    def journal(self, limit: int = 50, *, everything: bool = False) -> list[EntryInfo]:
        """Return the newest rows of the journal, newest first.

        Args:
            limit: Maximum number of rows, 1 to 500.
            everything: Whether to include the rows that record routine commands, such as heater pulses.
        """
        return self._do(calls.journal(limit, everything=everything))

    def history(
        self,
        point: str,
        *,
        days: float | None = None,
        begin: datetime | str | None = None,
        end: datetime | str | None = None,
        every_s: float | None = None,
    ) -> HistorySeries:
        """Read a series of the history.

        Args:
            point: Name of the series: a reading (`ph_loop.ph`), a pump's flow (`reglo.heart.flow`) or a switch's duty.
            days: Length of the period (d), 1 by default; not together with `begin`.
            begin: Begin of the period, a datetime with its zone or ISO 8601 text.
            end: End of the period; by default the controller's present.
            every_s: Time between two rows (s). By default the period comes in at most 4000 rows, each with mean, min and
                max of its readings, so that no peak is lost. Shorter than the time between readings: every reading.

        Returns:
            The series; see :meth:`HistorySeries.to_pandas` and :meth:`HistorySeries.to_arrow`.
        """
        return self._drive(series.asked(point, days=days, begin=begin, end=end, every_s=every_s))

    def live(self, *, timeout_s: float = 30.0) -> Generator[LiveUpdate]:
        """Yield the state about four times a second, until the connection ends.

        Args:
            timeout_s: Longest silence (s) after which the connection counts as lost.

        Raises:
            ConnectionFailed: The connection ended. Call this again to go on.
            MissingPackage: The package websockets is not installed.
        """
        return live.updates(self._transport, timeout_s)

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, seen: str = ""
    ) -> dict[str, Any]:
        """Send any request of the API, for what has no method here.

        Args:
            method: GET, POST, PUT or DELETE.
            path: The path, such as `/api/vessels`; `GET /api/openapi.json` describes them all.
            body: JSON body.
            seen: `utc` of the state on which this was decided.

        Returns:
            The decoded answer.
        """
        return self._do(calls.anything(method, path, body, seen))

    def _do(self, call: ApiCall[T]) -> T:
        return self._transport.do(call, timeout_s=_patience_s(call))

    def _drive(self, steps: Generator[ApiCall[Any], Any, T]) -> T:
        try:
            call = next(steps)
            while True:
                call = steps.send(self._do(call))
        except StopIteration as done:
            found: T = done.value
            return found


class AsyncControllerClient:
    """A running controller, as seen over its API, for use with asyncio. Made by :func:`connect_async`.

    The methods are those of :class:`ControllerClient`. Each request runs in a worker thread of this client, so the event
    loop is never held up; a cancelled call may still be carried out by the controller.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        # Threads of its own: an emergency stop must not wait behind other work in the loop's default executor.
        self._threads = ThreadPoolExecutor(THREADS, "choroid client")

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close the client."""
        await self.close()

    async def close(self) -> None:
        """End the worker threads; a request that is under way is finished first, in the background."""
        self._threads.shutdown(wait=False)

    @property
    def url(self) -> str:
        """Address of the controller."""
        return self._transport.address.url

    async def rig(self) -> RigInfo:
        """See :meth:`ControllerClient.rig`."""
        return await self._do(calls.rig())

    async def state(self) -> StateInfo:
        """See :meth:`ControllerClient.state`."""
        return await self._do(calls.state())

    async def health(self) -> HealthInfo:
        """See :meth:`ControllerClient.health`."""
        return await self._do(calls.health())

    async def recipes(self) -> list[RecipeInfo]:
        """See :meth:`ControllerClient.recipes`."""
        return await self._do(calls.recipes())

    async def runs(self) -> list[RunInfo]:
        """See :meth:`ControllerClient.runs`."""
        return await self._do(calls.runs())

    async def run(self, run_id: str) -> RunInfo:
        """See :meth:`ControllerClient.run`."""
        return await self._do(calls.run(run_id))

    async def start_run(
        self, recipe: str, params: Mapping[str, str] | None = None, *, reason: str = "", seen: str = ""
    ) -> RunInfo:
        """See :meth:`ControllerClient.start_run`."""
        return await self._do(calls.start_run(recipe, params or {}, reason, seen))

    async def pause_run(self, run_id: str, *, reason: str = "", seen: str = "") -> RunInfo:
        """See :meth:`ControllerClient.pause_run`."""
        return await self._do(calls.change_run(run_id, "pause", reason, seen))

    async def resume_run(self, run_id: str, *, reason: str = "", seen: str = "") -> RunInfo:
        """See :meth:`ControllerClient.resume_run`."""
        return await self._do(calls.change_run(run_id, "resume", reason, seen))

    async def answer_run(
        self, run_id: str, answer: str, *, step: int | None = None, reason: str = "", seen: str = ""
    ) -> RunInfo:
        """See :meth:`ControllerClient.answer_run`."""
        return await self._do(calls.answer_run(run_id, answer, step, reason, seen))

    async def abort_run(self, run_id: str, *, reason: str = "", seen: str = "") -> RunInfo:
        """See :meth:`ControllerClient.abort_run`."""
        return await self._do(calls.change_run(run_id, "abort", reason, seen))

    async def alarms(self) -> AlarmsInfo:
        """See :meth:`ControllerClient.alarms`."""
        return await self._do(calls.alarms())

    async def acknowledge_alarm(self, alarm_id: str, *, reason: str = "") -> AlarmInfo:
        """See :meth:`ControllerClient.acknowledge_alarm`."""
        return await self._do(calls.acknowledge_alarm(alarm_id, reason))

    async def shelve_alarm(self, alarm_id: str, duration: str, *, reason: str) -> AlarmsInfo:
        """See :meth:`ControllerClient.shelve_alarm`."""
        return await self._do(calls.shelve_alarm(alarm_id, duration, reason))

    async def return_alarm(self, alarm_id: str) -> AlarmsInfo:
        """See :meth:`ControllerClient.return_alarm`."""
        return await self._do(calls.return_alarm(alarm_id))

    async def emergency_stop(self, reason: str = "") -> str | None:
        """See :meth:`ControllerClient.emergency_stop`."""
        return await self._do(calls.stop_all(reason))

    async def reset_stop(self, reason: str, *, seen: str = "") -> str | None:
        """See :meth:`ControllerClient.reset_stop`."""
        return await self._do(calls.reset_stop(reason, seen))

    async def ledger(self) -> LedgerInfo:
        """See :meth:`ControllerClient.ledger`."""
        return await self._do(calls.ledger())

    async def journal(self, limit: int = 50, *, everything: bool = False) -> list[EntryInfo]:
        """See :meth:`ControllerClient.journal`."""
        return await self._do(calls.journal(limit, everything=everything))

    async def history(
        self,
        point: str,
        *,
        days: float | None = None,
        begin: datetime | str | None = None,
        end: datetime | str | None = None,
        every_s: float | None = None,
    ) -> HistorySeries:
        """See :meth:`ControllerClient.history`."""
        return await self._drive(series.asked(point, days=days, begin=begin, end=end, every_s=every_s))

    def live(self, *, timeout_s: float = 30.0) -> AsyncGenerator[LiveUpdate]:
        """See :meth:`ControllerClient.live`; use `contextlib.aclosing` where the loop may be left early."""
        return live.updates_async(self._transport, timeout_s)

    async def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, seen: str = ""
    ) -> dict[str, Any]:
        """See :meth:`ControllerClient.request`."""
        return await self._do(calls.anything(method, path, body, seen))

    async def _do(self, call: ApiCall[T]) -> T:
        send = functools.partial(self._transport.do, call, timeout_s=_patience_s(call))
        return await asyncio.get_running_loop().run_in_executor(self._threads, send)

    async def _drive(self, steps: Generator[ApiCall[Any], Any, T]) -> T:
        try:
            call = next(steps)
            while True:
                call = steps.send(await self._do(call))
        except StopIteration as done:
            found: T = done.value
            return found


def _patience_s(call: ApiCall[Any]) -> float | None:
    """Return how long to wait for a command's answer (s); None for a question: the client's own timeout."""
    return None if call.method == "GET" else COMMAND_TIMEOUT_S


def _transport(
    url: str, token: str, data: Path | str | None, timeout_s: float, context: ssl.SSLContext | None
) -> Transport:
    if bool(url) == (data is not None):
        raise ClientError("connect takes either the address of a controller or its data folder (data=…)")
    pid = 0
    if data is not None:
        url, found, pid = _endpoint(Path(data) / ENDPOINT)
        token = token or found
    address, in_link = Address.parse(url)
    return Transport(address, token or in_link, timeout_s=timeout_s, context=context, pid=pid)


def _endpoint(path: Path) -> tuple[str, str, int]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        pid = int(found.get("pid", 0))
        local = local_socket(path.parent, found) if found["url"] else None
        where = (str(found["url"]), str(found["token"]), pid) if local is None else (local, "", pid)
    except FileNotFoundError:
        raise ClientError(
            f"there is no {path}. Likely cause: `choroid run` is not running with this data folder. Next: start it, or name"
            " its data folder"
        ) from None
    except OSError as error:
        raise ClientError(
            f"{path} cannot be read ({error.strerror}). Likely cause: it belongs to another user. Next: connect with the"
            " address and a token from `choroid users add`"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ClientError(
            f"{path} cannot be read ({type(error).__name__}: {error}). Likely cause: the disk was full when `choroid run`"
            " began, or the file was edited. Next: start `choroid run` again; it resumes by itself"
        ) from None
    if not where[0]:
        raise ConnectionFailed(NO_PAGE.format(path=path))
    return where
