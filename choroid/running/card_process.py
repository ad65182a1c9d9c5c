"""The electrode card in a process of its own: `CardProcess` for the engine, the module as a program for the child.

The child holds the hardware and the second limiter of stimulation. It cancels what has not begun when the engine is
silent for 5 ms, and ends with the engine; a line on standard error then says which pulse was the last.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from choroid.common.child import python
from choroid.running.cards import open_card
from controller.children.patience import LOOK_S, ChildSilent, Patience
from nerves.cards.contract import CardRefused
from nerves.cards.host import CardHost
from nerves.cards.remote import RemoteCard, socket_pair
from nerves.precedence import PRIORITY
from sim.neurons.conditions import TissueConditions

logger = logging.getLogger(__name__)

SWITCH_S = 0.0002
END_WITHIN_S = 2.0
REFUSED = 3
"""Exit status of a card process that cannot open its card."""
"""Above ordinary processes: the card needs little time, but at once, or the hardware loses frames."""


class CardProcess(RemoteCard):
    """A card in a process of its own. `process` ends by itself when this is closed or dies."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        pulses, child_pulses = socket_pair()
        calls, child_calls = socket_pair()
        descriptors = (child_pulses.fileno(), child_calls.fileno())
        words = ["--config", json.dumps(dict(config)), "--sockets", *map(str, descriptors)]
        command = python("choroid.running.card_process", *words)
        self.process = subprocess.Popen(  # noqa: S603  (our own module)
            command, pass_fds=descriptors, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        child_pulses.close()
        child_calls.close()
        try:
            super().__init__(pulses, calls, self.process.pid)
        except BaseException:
            pulses.close()
            calls.close()
            self.process.wait()
            raise

    def close(self) -> None:
        """End the process: by request, and by force when it could have ended for 2 s and has not."""
        super().close()
        patience = Patience(self.process.pid, END_WITHIN_S)
        try:
            while self.process.poll() is None:
                patience.update()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(LOOK_S)
        except ChildSilent:
            self.process.kill()
            self.process.wait()


def main(arguments: list[str] | None = None) -> int:
    """Run the child; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m choroid.running.card_process", description="An electrode card, as a child of the engine."
    )
    parser.add_argument("--config", required=True, help="JSON: what the rig file says of the nerves")
    parser.add_argument("--sockets", required=True, nargs=2, type=int, help="descriptors of the two connections")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="choroid card: %(levelname)s: %(message)s")
    pulses, calls = (socket.socket(fileno=descriptor) for descriptor in options.sockets)
    try:
        opened = open_card(json.loads(options.config))
    except CardRefused as refused:
        calls.send(json.dumps({"refused": str(refused)}).encode())
        return REFUSED

    def configure(setting: Mapping[str, Any]) -> None:
        opened.set_conditions(TissueConditions(**setting["conditions"]))

    host = CardHost(opened.card, pulses, calls, configure, geometry=opened.geometry)
    signal.signal(signal.SIGTERM, lambda *_: host.stop())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # where the user may not, the card runs as any other process
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH_S)
    host.serve()
    opened.close()
    logger.warning("the engine has ended; the last pulse began at frame %s", host.last_begun)
    return 0


if __name__ == "__main__":
    sys.exit(main())
