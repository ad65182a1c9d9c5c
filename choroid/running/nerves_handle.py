"""The electrode engine's process as its parent sees it: start it, give it orders, end it.

Nothing that only the engine needs is imported here: the controller compiles no detector.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from choroid.common.array_geometry import declared_geometry
from choroid.common.child import python
from controller.children.patience import ChildSilent, Patience, patiently
from controller.rig.card import CardOptions
from nerves.cards.contract import CardRefused
from nerves.ledger_head import LedgerRefused
from nerves.recording.quota import RecordingRefused
from nerves.summary import life_s

if TYPE_CHECKING:
    from controller.rig.description import Nerves, Rig, TissueSpec
    from nerves.recording.layout import RecordingPlan
    from sim.neurons.conditions import TissueConditions

logger = logging.getLogger(__name__)

LEDGER = "stimulation.db"
MAX_REASON = 500
END_WITHIN_S = 5.0
STOPPED_WITHIN_S = 0.15
"""An engine that has not confirmed a stop after this real time (s) is killed: what it delivers is unknown."""
DIES_WITHIN_S = 1.0
"""Maximum wait of an emergency stop for a killed engine (s of real time); a hung disk can hold one for ever."""
COMPILE_WITHIN_S = 900.0
"""Longest compilation and opening of the card (s in which engine and card could run). The first start of a release compiles:
20 s of CPU time on a PC, several times as much on a single-board computer, and what is not finished is compiled again at the
next start.
"""
START_WITHIN_S = 60.0
"""Longest start once everything is compiled and the card is open (s in which the engine could run)."""
RECORDED_WITHIN_S = 40.0
"""Longest wait for the begin or the end of a recording (s in which engine and writer could run)."""
CONFIRMED_WITHIN_S = 5.0
"""An engine that has not confirmed an order other than a stop hangs when it could run for this time (s)."""


@dataclass
class EngineHandle:
    """A running engine: the address of its API, and the channel to its tissue.

    `token` may read and audit (the controller's); `agent_token` may read and stimulate (a remote agent's).
    """

    address: str
    token: str
    agent_token: str
    pid: int
    _process: asyncio.subprocess.Process
    _orders: int = 0
    _waiting: dict[int, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._receiving = asyncio.create_task(self._receive(), name="electrode engine's confirmations")

    def set_conditions(self, conditions: TissueConditions) -> None:
        """Set what the simulated tissue lives in. Never waits; a dead engine is ignored."""
        self._tell({"conditions": {name: round(value, 5) for name, value in asdict(conditions).items()}})

    async def stop(self, why: str) -> bool:
        """Stop stimulation for the reason `why`.

        Returns whether the engine has confirmed it. One that does not confirm within :data:`STOPPED_WITHIN_S`, busy machine
        or not, is killed. It is dead when this returns, or a disk holds it in the kernel, where it delivers nothing
        (:attr:`dead`).
        """
        return await self._ordered("order", {"stopped": why[:MAX_REASON]}, STOPPED_WITHIN_S)

    async def order(self, stopped: str) -> bool:
        """Give the reason for which stimulation is stopped, or allow it if that is empty. Nothing is delivered before.

        Returns whether the engine has confirmed it. One that could run for :data:`CONFIRMED_WITHIN_S` and does not is killed.
        """
        return await self._ordered("order", {"stopped": stopped[:MAX_REASON]})

    async def apply_agents(self) -> bool:
        """Put the credentials on file into force; answer and consequences as :meth:`order`."""
        return await self._ordered("agents", {})

    async def end_leases(self, requester: str, why: str) -> bool:
        """End an agent's leases and cancel its waiting pulses; answer and consequences as :meth:`order`."""
        return await self._ordered("end_leases", {"requester": requester, "why": why[:MAX_REASON]})

    async def _ordered(self, kind: str, body: dict[str, Any], within_s: float | None = None) -> bool:
        """Send an order and wait for its confirmation, at most `within_s` (s of real time) if that is given."""
        self._orders += 1
        number = self._orders
        done = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._tell({kind: number} | body)
            if within_s is None:
                confirmed = await patiently(done, self._patience(CONFIRMED_WITHIN_S))
            else:
                async with asyncio.timeout(life_s(within_s)):
                    confirmed = await done
            if confirmed:
                return True
        except TimeoutError:
            logger.error("the electrode engine did not confirm an order; it is killed")
        finally:
            del self._waiting[number]
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(life_s(DIES_WITHIN_S)):
                await self._process.wait()
        return False

    async def record(self, verb: str, **body: str) -> dict[str, Any]:
        """Begin (`start`) or end (`stop`) a recording, or ask for its `status`; return the status.

        Raises:
            RecordingRefused: The engine refuses, has ended or does not answer.
        """
        self._orders += 1
        number = self._orders
        done = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._tell({"record": number, "verb": verb, "body": body})
            answer = await patiently(done, self._patience(RECORDED_WITHIN_S))
        except TimeoutError:
            answer = {}
        finally:
            del self._waiting[number]
        if "refused" in answer:
            raise RecordingRefused(answer["refused"])
        if "status" not in answer:
            raise RecordingRefused(
                "the electrode engine does not answer. Likely cause: it has just ended, or the machine is overloaded. Next:"
                " try again in some seconds"
            )
        status: dict[str, Any] = answer["status"]
        return status

    def _patience(self, limit_s: float) -> Patience:
        return Patience.of_family(self.pid, limit_s)

    @property
    def dead(self) -> bool:
        """Whether the process has ended."""
        return self._process.returncode is not None

    def _tell(self, message: dict[str, Any]) -> None:
        stdin = self._process.stdin
        if stdin is not None and not stdin.is_closing() and self._process.returncode is None:
            stdin.write(json.dumps(message).encode() + b"\n")

    async def _receive(self) -> None:
        """Receive the engine's confirmations until it ends; later ones can no longer come."""
        assert self._process.stdout is not None  # noqa: S101  (a pipe was asked for)
        try:
            while line := await self._process.stdout.readline():
                said = json.loads(line)
                done = self._waiting.get(said["done"])
                if done is not None and not done.done():
                    done.set_result(said)
        except (ValueError, KeyError, TypeError):
            logger.exception("the electrode engine sent an unknown message")
        finally:
            for done in self._waiting.values():
                if not done.done():
                    done.set_result({})

    async def ended(self) -> int:
        """Wait until the process is dead for any reason; return its exit status (negative: the signal)."""
        return await self._process.wait()

    async def close(self) -> None:
        """End the engine: by request, and after 5 s of real time by force."""
        process = self._process
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), life_s(END_WITHIN_S))
        except TimeoutError:
            process.kill()
            await process.wait()
        self._receiving.cancel()
        await asyncio.gather(self._receiving, return_exceptions=True)


def tissue_said(tissues: Collection[TissueSpec]) -> dict[str, Any]:
    """Return the rig file's data on the tissue's age and review, in the engine's format.

    One array is permitted what the strictest case permits: the oldest tissue, advanced capacity if any has it, and the review
    that ends first; none if a tissue has none.
    """
    day = max((tissue.age_on for tissue in tissues if tissue.age_on is not None), default=None)

    def age_d(tissue: TissueSpec) -> float:
        return tissue.age_d + (0.0 if day is None or tissue.age_on is None else (day - tissue.age_on).days)

    oldest = max(tissues, key=age_d)
    reviews = [tissue.review for tissue in tissues]
    review = (
        None if None in reviews else min(filter(None, reviews), key=lambda each: each.on.toordinal() + each.valid_d)
    )
    return {
        "age_d": oldest.age_d,
        "age_on": None if oldest.age_on is None else oldest.age_on.isoformat(),
        "capacity": "advanced" if any(tissue.capacity == "advanced" for tissue in tissues) else "ordinary",
        "review": None if review is None else {"by": review.by, "on": review.on.isoformat(), "valid_d": review.valid_d},
    }


async def spawn_engine(
    rig: Rig,
    data_dir: Path,
    seed: int,
    stopped: str = "",
    remote: tuple[str, int] | None = None,
    recording: RecordingPlan | None = None,
) -> EngineHandle:
    """Start the engine of a rig with an electrode array, and return when its API is open.

    Its API has the port of the engine before, on loopback, if that is free; `remote` is an address for agents on other
    machines, with mutual TLS. With a reason in `stopped` it refuses all stimulation until :meth:`EngineHandle.order` allows
    it. Recordings go by the plan `recording`; None makes them impossible. Writes `nerves.json` (address and the token of the
    agent on this machine, for its owner's eyes only) into `data_dir`.
    Takes about 3 s, 10 s the first time; await it in the background. Raises ValueError for a rig without an array,
    LedgerRefused when the stimulation ledger cannot be used, CardRefused when the electrode card cannot, and RuntimeError
    when the engine ends before it is ready for any other reason.
    """
    nerves = rig.nerves
    if nerves is None:
        raise ValueError(f"rig {rig.name} has no electrode array; give it nerves")
    config = {
        "card": card_config(nerves, seed, data_dir),
        "detection": [
            nerves.mains,
            nerves.reference,
            nerves.artefact_share_pct,
            nerves.pitch_um,
            nerves.reflex_filter,
            nerves.stimulation_artefacts,
        ],
        "data_dir": str(data_dir),
        "tissue": tissue_said(rig.tissue.values()),
        "stopped": stopped[:MAX_REASON],
        "remote": remote,
        "recording": None if recording is None else recording.as_dict(),
    }
    process = await asyncio.create_subprocess_exec(
        *python("choroid.running.nerves_process"),
        "--config",
        json.dumps(config),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is the parent's to handle; it closes our standard input
    )
    try:
        said = await _said_at_start(process)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if "refused" in said:
        await process.wait()
        raise (CardRefused if said["of"] == "card" else LedgerRefused)(said["refused"])
    if not said:
        status = await process.wait()
        raise RuntimeError(
            f"the electrode engine ended with status {status} before it was ready;"
            " likely cause: as standard error says above; next: run `python -m choroid.running.nerves_process` by hand"
        )
    return EngineHandle(said["address"], said["token"], said["agent_token"], process.pid, process)


async def _said_at_start(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """Return what an engine says when it is ready or refuses; an empty answer when it has ended.

    Raises:
        RuntimeError: It could run for long enough, and hangs.
    """
    assert process.stdout is not None  # noqa: S101  (a pipe was asked for)
    said: dict[str, Any] = {}
    for doing, limit_s in (("compile", COMPILE_WITHIN_S), ("start", START_WITHIN_S)):
        try:
            line = await patiently(process.stdout.readline(), Patience.of_family(process.pid, limit_s))
        except ChildSilent:
            raise RuntimeError(
                f"the electrode engine could run for {limit_s:g} s and did not {doing}. Likely cause: its card or its disk"
                " hangs. Next: look at its lines in the log; it is started again"
            ) from None
        said = json.loads(line or b"{}")
        if "compiled" not in said:
            break
    return said


def card_config(nerves: Nerves, seed: int, data_dir: Path) -> dict[str, Any]:
    """Return what the card process must know of the rig file, as JSON; `data_dir` is where relative files lie."""
    geometry = declared_geometry(nerves)
    return {
        "card": nerves.card,
        "link": nerves.link,
        "options": (nerves.options or CardOptions()).model_dump(mode="json"),
        "electrodes": nerves.electrodes,
        "sample_rate_hz": nerves.sample_rate_hz,
        "material": nerves.material,
        "diameter_um": nerves.diameter_um,
        "geometry": None if geometry is None else geometry.packed(),
        "seed": seed,
        "data_dir": str(data_dir),
    }
