"""The controller's side of its parent (:mod:`choroid.running.parent`): what it reports, and why it was started again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os

from choroid.common.parent import LINK, RESTARTED
from controller.process.edges import Up

LOOK_S = 1.0


class ParentLink:
    """The link of this process to its parent, if it has one."""

    def __init__(self) -> None:
        """Take the link out of the environment, so that no child of this process inherits it."""
        self._descriptor = int(os.environ.pop(LINK, "-1"))
        self._parent = os.getppid()
        self.restarted = os.environ.pop(RESTARTED, "")
        """Why this controller was started again; empty at the first start."""

    @property
    def exists(self) -> bool:
        """Whether a parent starts this process again."""
        return self._descriptor >= 0

    def report(self, **message: object) -> None:
        """Tell the parent; it need not listen any more."""
        if self.exists:
            with contextlib.suppress(OSError):
                os.write(self._descriptor, json.dumps(message).encode() + b"\n")

    async def watch(self, up: Up) -> None:
        """Return only by an error: when the parent has ended."""
        if os.getppid() == self._parent:
            up()
        while os.getppid() == self._parent:  # noqa: ASYNC110  (the kernel sets no event)
            await asyncio.sleep(LOOK_S)
        raise OSError(
            "the process that starts this controller again has ended; care goes on. Likely cause: it was killed. Next: when"
            " it suits, end the controller in order and start `choroid run` again"
        )
