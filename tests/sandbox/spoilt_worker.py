"""A worker of the sandbox with one step of its lock left out. `python spoilt_worker.py STEP SOCKET LIFELINE LIMITS`."""

from __future__ import annotations

import sys
import threading
from typing import Any

from controller.sandbox import lock, worker

spoilt_worker: Any = worker
spoilt_lock: Any = lock

step = sys.argv.pop(1)
if step == "lock":
    spoilt_worker.lock = lambda limits: None
elif step == "require_one_thread":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    spoilt_lock.filter_calls = lambda machine, waits: None
    setattr(lock, step, lambda: None)
else:
    setattr(lock, step, lambda *_, **__: None)
worker.main()
