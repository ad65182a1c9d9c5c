"""The task process of a grader: `python -m grid.tasks`."""

from __future__ import annotations

import os
import sys

from grid.tasks.catalogue import TASKS
from grid.tasks.serve import serve

if __name__ == "__main__":
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not reach the frames
    serve(sys.stdin.buffer, answers, TASKS)
