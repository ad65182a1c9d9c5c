"""The engine's end of the pipe from its parent, and the agents that it admits at its start."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from choroid.running.local_agent import LOCAL_AGENT, local_token
from nerves.brake import Brake, BrakeOrder
from nerves.credentials import SCOPES_OF, AgentCredentials, AgentRole, CredentialsProblem
from nerves.engine import EngineControl
from nerves.recording.quota import RecordingRefused
from nerves.tokens import Grant, Keyring, new_token, token_digest
from sim.neurons.conditions import TissueConditions

logger = logging.getLogger(__name__)


def first_agents(data_dir: Path, credentials: AgentCredentials, keyring: Keyring) -> str:
    """Admit the agents on file; return the token of the one on this machine, empty where it has none.

    Without a readable file no agent is admitted. One that cannot be written has an agent on this machine until the end of
    this process only.
    """
    try:
        token = local_token(data_dir, credentials)
        keyring.set_agents(credentials.grants())
    except CredentialsProblem as error:
        logger.error("%s", error)
        if credentials.path.exists():
            return ""
        token = new_token()
        keyring.set_agents({token_digest(token): Grant(LOCAL_AGENT, SCOPES_OF[AgentRole.AGENT])})
    return token


class Orders:
    """What the parent says on standard input: stops, ended leases, credentials, recordings, conditions of the tissue."""

    def __init__(
        self, set_conditions: Callable[[TissueConditions], None], brake: Brake, credentials: AgentCredentials
    ) -> None:
        self._set_conditions = set_conditions
        self._brake = brake
        self._credentials = credentials
        self._control: EngineControl | None = None
        self._recording: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    def connect(self, control: EngineControl) -> None:
        """Take the engine that serves from now on; the credentials may have changed since it was started."""
        self._control = control
        self._read_agents(lambda: None)

    async def follow(self, stop: asyncio.Event) -> None:
        """Follow the parent until it closes the pipe; ignore unknown lines."""
        reader = asyncio.StreamReader(limit=4096)
        transport, _ = await self._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        try:
            while line := await reader.readline():
                try:
                    self._obey(json.loads(line))
                except (ValueError, KeyError, TypeError):
                    logger.warning("a line on standard input was not understood")
        finally:
            transport.close()
            stop.set()

    def _obey(self, said: dict[str, Any]) -> None:
        if "order" in said:
            done = functools.partial(self._confirm, int(said["order"]))
            self._brake.order(BrakeOrder(str(said["stopped"]), done))
        elif "agents" in said:
            self._read_agents(functools.partial(self._confirm, int(said["agents"])))
        elif "record" in said:
            task = self._loop.create_task(self._record(int(said["record"]), str(said["verb"]), dict(said["body"])))
            self._recording.add(task)
            task.add_done_callback(self._recording.discard)
        elif "end_leases" in said:
            self._end_leases(str(said["requester"]), str(said["why"]), int(said["end_leases"]))
        else:
            self._set_conditions(TissueConditions(**said["conditions"]))

    def _read_agents(self, done: Callable[[], None]) -> None:
        """Put the credentials on file into force. A file that cannot be read admits no one."""
        try:
            grants = self._credentials.grants()
        except CredentialsProblem as error:
            logger.error("%s", error)
            grants = {}
        if self._control is None:
            done()  # they are read again when the engine serves
        else:
            self._control.set_agents(grants, done)

    async def _record(self, number: int, verb: str, body: dict[str, str]) -> None:
        """Begin or end a recording, and answer with the status or the refusal."""
        recording = None if self._control is None else self._control.recording
        try:
            if recording is None:
                raise RecordingRefused("the engine is starting, or was started without recordings. Next: try again")
            if verb == "start":
                status = await recording.start(body["name"], body["requester"], body["reason"])
            elif verb == "stop":
                status = await recording.stop(body["reason"])
            else:
                status = recording.view()
        except RecordingRefused as refused:
            _say({"done": number, "refused": str(refused)})
        else:
            _say({"done": number, "status": status})

    def _end_leases(self, requester: str, why: str, number: int) -> None:
        done = functools.partial(self._confirm, number)
        if self._control is None:
            done()  # it serves no one yet
        else:
            self._control.end_leases(requester, why, done)

    def _confirm(self, number: int) -> None:
        """Tell the parent; called on the real-time thread, which writes nothing itself."""
        self._loop.call_soon_threadsafe(_say, {"done": number})


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)
