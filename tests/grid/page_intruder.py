"""The page's process, taken over: as `choroid grid page serve`, but /health answers what it could open."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from choroid.cli import main
from grid.page import app


async def health(_: object, request: Request) -> Response:
    """Return for each file that is asked for what came of reading it, and of writing it."""
    return JSONResponse({path: [_attempt(path, "rb"), _attempt(path, "ab")] for path in request.query_params.values()})


def _attempt(path: str, mode: str) -> str:
    try:
        if Path(path).is_dir():
            os.listdir(path)
        else:
            with Path(path).open(mode):
                pass
    except OSError as error:
        return type(error).__name__
    return "done"


if __name__ == "__main__":
    app.HubPage.health = health  # type: ignore[method-assign, assignment]
    print(json.dumps({"threads": len(os.listdir("/proc/self/task"))}), flush=True)
    sys.exit(main(sys.argv[1:]))
