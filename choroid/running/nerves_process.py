"""The electrode engine as a process of its own: `python -m choroid.running.nerves_process`, started by
:func:`choroid.running.nerves_handle.spawn_engine`.

The child writes the address of its API to standard
output, as one JSON line. It reads what the tissue lives in from standard input (a channel of the simulator) and ends when
that closes, so that it never outlives its parent. The parent stops stimulation over the same pipe (A9), which no
other process can fill, and the child confirms on standard output.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from choroid.running.card_process import CardProcess
from choroid.running.local_agent import ENDPOINT, former_port, keep_port
from choroid.running.nerves_handle import END_WITHIN_S, LEDGER
from choroid.running.nerves_orders import Orders, first_agents
from choroid.running.tls_folder import tls_files
from controller.core.clock import Clock
from nerves.brake import Brake
from nerves.cards.contract import CardRefused
from nerves.credentials import AgentCredentials
from nerves.detector import Detection
from nerves.engine import EngineConfig, compile_engine, serve
from nerves.envelope import Envelope
from nerves.ledger_head import LedgerRefused
from nerves.recording.layout import RecordingPlan
from nerves.server import RemoteAddress
from nerves.tokens import Grant, Keyring, TokenScope, new_token
from sim.neurons.conditions import TissueConditions

logger = logging.getLogger(__name__)

REFUSED = 3
"""Exit status of an engine that does not start because its stimulation ledger or its card cannot be used."""


def main(arguments: list[str] | None = None) -> int:
    """Run the child; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m choroid.running.nerves_process",
        description="The electrode engine of a rig, as a child process.",
    )
    parser.add_argument("--config", required=True, help="JSON: card, data_dir, and more")
    config = json.loads(parser.parse_args(arguments).config)
    Path(config["data_dir"]).mkdir(parents=True, exist_ok=True)
    logging.basicConfig(level=logging.WARNING, format="choroid nerves: %(levelname)s: %(message)s")
    try:
        asyncio.run(_child(config))
    except (LedgerRefused, CardRefused) as error:
        logger.error("%s", error)
        of = "card" if isinstance(error, CardRefused) else "ledger"
        print(json.dumps({"refused": str(error), "of": of}), flush=True)
        return REFUSED
    return 0


def end_with(main: Callable[[], int]) -> NoReturn:
    """Run `main` and end the process with its status, at once.

    By then ledger, card and recordings are closed. Python would still tear down every module of the process: half a second
    of CPU time, which takes more than :data:`END_WITHIN_S` on a busy machine.
    """
    status = 1
    try:
        status = main()
    except SystemExit as usage:
        status = usage.code if isinstance(usage.code, int) else 1
    except Exception:
        logger.exception("the electrode engine has failed")
    finally:
        logging.shutdown()
        with contextlib.suppress(OSError):  # the parent is gone
            sys.stdout.flush()
        os._exit(status)


async def _child(config: dict[str, Any]) -> None:
    data_dir = Path(config["data_dir"])
    token = new_token()
    keyring = Keyring({token: Grant("controller", frozenset({TokenScope.READ, TokenScope.AUDIT}))})
    credentials = AgentCredentials(data_dir, Clock(follow_system=True).utc_text)
    agent_token = first_agents(data_dir, credentials, keyring)
    card = CardProcess(config["card"])
    detection = Detection.of(*config.get("detection", ("50 Hz", "ground")), geometry=card.info.geometry)
    compile_engine(card.info, detection)
    print(json.dumps({"compiled": True}), flush=True)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    def ready(address: str) -> None:
        keep_port(data_dir, int(address.rpartition(":")[2]))
        said = {"address": address, "token": agent_token}
        if config.get("remote"):
            said["remote"] = "{}:{}".format(*config["remote"])
        _leave_endpoint(data_dir / ENDPOINT, said)
        print(json.dumps({"ready": True, "address": address, "token": token, "agent_token": agent_token}), flush=True)

    def set_conditions(conditions: TissueConditions) -> None:
        card.configure({"conditions": asdict(conditions)})

    brake = Brake(config.get("stopped", ""))
    orders = Orders(set_conditions, brake, credentials)
    listening = asyncio.create_task(orders.follow(stop))
    engine = EngineConfig(
        ledger=data_dir / LEDGER,
        port=former_port(data_dir),
        remote=_remote(config, data_dir),
        envelope=Envelope.of(config["card"]["material"]),
        tissue=config.get("tissue"),
        detection=detection,
        recording=RecordingPlan(**config["recording"]) if config.get("recording") else None,
    )
    try:
        await serve(card, engine, keyring, ready=ready, control=orders.connect, stop=stop, brake=brake)
    finally:
        signal.setitimer(signal.ITIMER_REAL, END_WITHIN_S)  # an engine that cannot end is ended
        with contextlib.suppress(OSError):  # the disk may have turned read-only
            (data_dir / ENDPOINT).unlink(missing_ok=True)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


def _remote(config: dict[str, Any], data_dir: Path) -> RemoteAddress | None:
    """Return the address for agents on other machines, if the parent gave one."""
    if not config.get("remote"):
        return None
    host, port = config["remote"]
    return RemoteAddress(str(host), int(port), tls_files(data_dir))


def _leave_endpoint(path: Path, content: dict[str, str]) -> None:
    """Write the address of the API for this user's agents; readable by the owner only."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)


if __name__ == "__main__":
    end_with(main)
