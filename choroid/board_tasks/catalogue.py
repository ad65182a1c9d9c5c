"""The tasks that boards can name."""

from __future__ import annotations

from collections.abc import Mapping

from choroid.board_tasks.decode import DECODE
from choroid.board_tasks.held_out import HELD_OUT
from choroid.board_tasks.recycling import RECYCLING
from choroid.board_tasks.steering import STEERING
from choroid.board_tasks.task import BoardTask

TASKS: Mapping[str, BoardTask] = {
    "decode-stimulus": DECODE,
    "held-out-spikes": HELD_OUT,
    "steering": STEERING,
    "recycle-medium": RECYCLING,
}
