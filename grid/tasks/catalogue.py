"""The tasks that boards can name."""

from __future__ import annotations

from collections.abc import Mapping

from grid.tasks.decode import DECODE
from grid.tasks.held_out import HELD_OUT
from grid.tasks.recycling import RECYCLING
from grid.tasks.steering import STEERING
from grid.tasks.task import BoardTask

TASKS: Mapping[str, BoardTask] = {
    "decode-stimulus": DECODE,
    "held-out-spikes": HELD_OUT,
    "steering": STEERING,
    "recycle-medium": RECYCLING,
}
