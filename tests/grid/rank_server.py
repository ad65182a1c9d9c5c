"""Start ranks quickly: `python -m rank_server` in the training environment has loaded torch, and forks for each start.

A request is a line of JSON with `settings`, `environment` and `log`. It answers with the number of the process, and with its
exit status when that has ended; then the next request may come. On a busy machine the import of torch takes a minute.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from engines import rank

PR_SET_PDEATHSIG = 1


def become(request: dict[str, Any]) -> int:
    """Run a rank in this process; return its exit status."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.environ.update(request["environment"])
    with Path(request["log"]).open("ab") as log:
        for number in (1, 2):
            os.dup2(log.fileno(), number)
    try:
        rank.main(Path(request["settings"]))
    except SystemExit as ended:
        return int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Serve until standard input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            status = become(request)
            sys.stdout.flush()
            os._exit(status)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
