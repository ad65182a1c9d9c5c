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
from urllib.parse import urlencode

from choroid.client import calls, series
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
from choroid.client.calls import Dialogue
from choroid.client.errors import ClientError, ConnectionFailed
from choroid.client.live import LiveFeed, LiveUpdate
from choroid.client.methods import Asynchronous, Blocking, ClientRequest, answered, streamed
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
        token: A token from `choroid user add`; not needed where the address or `data` has one.
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
    """Connect to a running controller, for use with asyncio.

    Args:
        url: Its address, such as `http://127.0.0.1:8090`; with a token behind `#token=` no other is needed.
        token: A token from `choroid user add`; not needed where the address or `data` has one.
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
    client = AsyncControllerClient(_transport(url, token, data, timeout_s, context))
    try:
        await client.rig()
    except BaseException:
        await client.close()
        raise
    return client


class _ControllerMethods:
    """Declares the methods of both clients of a controller."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @property
    def url(self) -> str:
        """Address of the controller."""
        return self._transport.address.url

    @answered
    def rig(self) -> ApiCall[RigInfo]:
        """Return the rig that the controller runs, with the client's own user and role."""
        return calls.get("/api/rig", RigInfo)

    @answered
    def state(self) -> ApiCall[StateInfo]:
        """Return the latest snapshot: readings, actuators, volumes, interlocks that act, links."""
        return calls.get("/api/state", StateInfo)

    @answered
    def health(self) -> ApiCall[HealthInfo]:
        """Return whether the control loop runs. Needs no token."""
        return calls.get("/health", HealthInfo)

    @answered
    def recipes(self) -> ApiCall[list[RecipeInfo]]:
        """Return the recipes that can be started, with parameters, units and ranges."""
        return calls.get_list("/api/protocols", "protocols", RecipeInfo)

    @answered
    def runs(self) -> ApiCall[list[RunInfo]]:
        """Return the runs since the start of the controller and unfinished ones from before, oldest first."""
        return calls.get_list("/api/runs", "runs", RunInfo)

    @answered
    def run(self, run_id: str) -> ApiCall[RunInfo]:
        """Return one run with its steps.

        Args:
            run_id: The run's `id`.

        Returns:
            The run.
        """
        return calls.get(_run(run_id), RunInfo)

    @answered
    def start_run(
        self, recipe: str, params: Mapping[str, str] | None = None, *, reason: str = "", seen: str = ""
    ) -> ApiCall[RunInfo]:
        """Start a recipe.

        Args:
            recipe: Its name.
            params: Parameters as text with their units, such as `{"batch": "18 mL"}`; the others keep their defaults.
            reason: Why, for the record.
            seen: `utc` of the state on which this was decided.

        Returns:
            The run.
        """
        return calls.post(
            "/api/runs", {"protocol": recipe, "params": dict(params or {}), "reason": reason}, RunInfo, seen
        )

    @answered
    def pause_run(self, run_id: str, *, reason: str = "", seen: str = "") -> ApiCall[RunInfo]:
        """Hold a run: its actuators come to rest.

        Args:
            run_id: The run's `id`.
            reason: Why, for the record.
            seen: `utc` of the state on which this was decided.

        Returns:
            The run.
        """
        return calls.post(_run(run_id, "pause"), {"reason": reason}, RunInfo, seen)

    @answered
    def resume_run(self, run_id: str, *, reason: str = "", seen: str = "") -> ApiCall[RunInfo]:
        """Continue a held run with what remains of it.

        Args:
            run_id: The run's `id`.
            reason: Why, for the record.
            seen: `utc` of the state on which this was decided.

        Returns:
            The run.
        """
        return calls.post(_run(run_id, "resume"), {"reason": reason}, RunInfo, seen)

    @answered
    def answer_run(
        self, run_id: str, answer: str, *, step: int | None = None, reason: str = "", seen: str = ""
    ) -> ApiCall[RunInfo]:
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
        return calls.post(_run(run_id, "answer"), {"answer": answer, "step": step, "reason": reason}, RunInfo, seen)

    @answered
    def abort_run(self, run_id: str, *, reason: str = "", seen: str = "") -> ApiCall[RunInfo]:
        """End a run for good; it cannot be resumed.

        Args:
            run_id: The run's `id`.
            reason: Why, for the record.
            seen: `utc` of the state on which this was decided.

        Returns:
            The run.
        """
        return calls.post(_run(run_id, "abort"), {"reason": reason}, RunInfo, seen)

    @answered
    def alarms(self) -> ApiCall[AlarmsInfo]:
        """Return the alarms."""
        return calls.get("/api/alarms", AlarmsInfo)

    @answered
    def acknowledge_alarm(self, alarm_id: str, *, reason: str = "") -> ApiCall[AlarmInfo]:
        """Acknowledge an alarm: say that a person has seen it.

        Args:
            alarm_id: The alarm's `id`.
            reason: Why, for the record.

        Returns:
            The alarm.
        """
        return calls.post(_alarm(alarm_id, "acknowledge"), {"reason": reason}, AlarmInfo)

    @answered
    def shelve_alarm(self, alarm_id: str, duration: str, *, reason: str) -> ApiCall[AlarmsInfo]:
        """Shelve an alarm for a limited time. Interlocks act as before.

        Args:
            alarm_id: The alarm's `id`.
            duration: How long, with its unit, such as `"30 min"`.
            reason: Why, for the record.

        Returns:
            All alarms.
        """
        return calls.post(_alarm(alarm_id, "shelve"), {"for": duration, "reason": reason}, AlarmsInfo)

    @answered
    def return_alarm(self, alarm_id: str) -> ApiCall[AlarmsInfo]:
        """Return a shelved alarm to service.

        Args:
            alarm_id: The alarm's `id`.

        Returns:
            All alarms.
        """
        return calls.post(_alarm(alarm_id, "return"), {}, AlarmsInfo)

    @answered
    def emergency_stop(self, reason: str = "") -> ApiCall[str | None]:
        """Stop everything but the basal circulation, and all stimulation, until :meth:`reset_stop`.

        Args:
            reason: Why, for the record.

        Returns:
            Who stopped everything and why.
        """
        return ApiCall("POST", "/api/estop", _emergency, {"reason": reason})

    @answered
    def reset_stop(self, reason: str, *, seen: str = "") -> ApiCall[str | None]:
        """Reset an emergency stop.

        Args:
            reason: Why, for the record.
            seen: `utc` of the state on which this was decided.

        Returns:
            None, when no emergency stop stands any more.
        """
        return ApiCall("POST", "/api/estop/reset", _emergency, {"reason": reason}, seen)

    @answered
    def ledger(self) -> ApiCall[LedgerInfo]:
        """Return where the medium went (mL)."""
        return calls.get("/api/ledger", LedgerInfo)

    @answered
    def journal(self, limit: int = 50, *, everything: bool = False) -> ApiCall[list[EntryInfo]]:
        """Return the newest rows of the journal, newest first.

        Args:
            limit: Maximum number of rows, 1 to 500.
            everything: Whether to include the rows that record routine commands, such as heater pulses.

        Returns:
            The rows.
        """
        return calls.get_list(
            f"/api/audit?{urlencode({'limit': limit, 'rows': 'all' if everything else 'story'})}", "entries", EntryInfo
        )

    @answered
    def history(
        self,
        point: str,
        *,
        days: float | None = None,
        begin: datetime | str | None = None,
        end: datetime | str | None = None,
        every_s: float | None = None,
    ) -> Dialogue[HistorySeries]:
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
        return Dialogue(series.asked(point, days=days, begin=begin, end=end, every_s=every_s))

    @streamed
    def live(self, *, timeout_s: float = 30.0) -> ClientRequest[LiveUpdate]:
        """Yield the state about four times a second, until the connection ends.

        With asyncio, use `contextlib.aclosing` where the loop may be left early.

        Args:
            timeout_s: Longest silence (s) after which the connection counts as lost.

        Yields:
            The whole state as of each message.

        Raises:
            ConnectionFailed: The connection ended. Call this again to go on.
            MissingPackage: The package websockets is not installed.
        """
        return LiveFeed(self._transport, timeout_s)

    @answered
    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, seen: str = ""
    ) -> ApiCall[dict[str, Any]]:
        """Send any request of the API, for what has no method here.

        Args:
            method: GET, POST, PUT or DELETE.
            path: The path, such as `/api/vessels`; `GET /api/openapi.json` describes them all.
            body: JSON body.
            seen: `utc` of the state on which this was decided.

        Returns:
            The decoded answer.
        """
        return calls.anything(method, path, body, seen)


class ControllerClient(_ControllerMethods, Blocking):
    """Sends requests to a running controller over its API. Made by :func:`connect`; may be used from several threads.

    Every command takes a `reason` for the record. Commands on a run also take `seen`, the `utc` of the state on which they
    were decided: the controller refuses a command whose state is more than 30 s old.

    Every method raises :class:`ConnectionFailed` when no controller answers, and :class:`RequestRefused` when the
    controller refuses, in its own words.
    """

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Do nothing: each request has a connection of its own."""

    def _ask(self, request: ApiCall[T] | Dialogue[T]) -> T:
        if isinstance(request, ApiCall):
            return self._transport.do(request, timeout_s=_patience_s(request))
        try:
            call = next(request.steps)
            while True:
                call = request.steps.send(self._ask(call))
        except StopIteration as done:
            found: T = done.value
            return found

    def _listen(self, request: LiveFeed) -> Generator[LiveUpdate]:
        return request.updates()


class AsyncControllerClient(_ControllerMethods, Asynchronous):
    """Sends requests to a running controller over its API, for use with asyncio. Made by :func:`connect_async`.

    The methods are those of :class:`ControllerClient`. Each request runs in a worker thread of this client, so the event
    loop is never held up; a cancelled call may still be carried out by the controller.
    """

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
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

    async def _ask(self, request: ApiCall[T] | Dialogue[T]) -> T:
        if isinstance(request, ApiCall):
            send = functools.partial(self._transport.do, request, timeout_s=_patience_s(request))
            return await asyncio.get_running_loop().run_in_executor(self._threads, send)
        try:
            call = next(request.steps)
            while True:
                call = request.steps.send(await self._ask(call))
        except StopIteration as done:
            found: T = done.value
            return found

    def _listen(self, request: LiveFeed) -> AsyncGenerator[LiveUpdate]:
        return request.updates_async()


def _run(run_id: str, verb: str = "") -> str:
    """Return the path of a run, or of a command on it."""
    return f"/api/runs/{calls.quoted(run_id)}" + (f"/{verb}" if verb else "")


def _alarm(alarm_id: str, verb: str) -> str:
    """Return the path of a command on an alarm."""
    return f"/api/alarms/{calls.quoted(alarm_id)}/{verb}"


def _emergency(answer: Any) -> str | None:
    told: str | None = answer["emergency"]
    return told


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
            " address and a token from `choroid user add`"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ClientError(
            f"{path} cannot be read ({type(error).__name__}: {error}). Likely cause: the disk was full when `choroid run`"
            " began, or the file was edited. Next: start `choroid run` again; it resumes by itself"
        ) from None
    if not where[0]:
        raise ConnectionFailed(NO_PAGE.format(path=path))
    return where
