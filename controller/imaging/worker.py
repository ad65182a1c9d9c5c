"""The process that holds the cameras: `python -m controller.imaging.worker`, one JSON line in and out for each image.

A maker's library that hangs or crashes ends or blocks this process, and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Protocol

from controller.imaging.take import Taker
from drivers.cameras.camera import Camera, Settings
from drivers.cameras.registry import open_camera

NICENESS = 10


class Takes(Protocol):
    """Declares the methods by which a worker takes images; :class:`Taker` has them."""

    def take(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Take the image of a request."""

    def close(self) -> None:
        """Release the cameras."""


def open_real(model: str, settings: Settings, request: Mapping[str, Any]) -> Camera:
    """Open a camera of the catalogue."""
    return open_camera(model, settings)


def serve(taker: Takes) -> None:
    """Answer requests on standard input until it ends. What libraries print goes to standard error."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            answer = taker.take(json.loads(line))
        except Exception as error:  # a defect must cost one image
            answer = {"error": f"the analysis of images failed ({type(error).__name__}: {error}). Next: report this"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    with contextlib.suppress(Exception):
        taker.close()
    answers.flush()
    os._exit(0)  # a library's threads may abort an ordinary end


if __name__ == "__main__":
    serve(Taker(open_real))
