"""Other people's client libraries, each in a virtual environment of its own: made once, kept next to pytest's cache.

None of them is a dependency of Choroid, some have licences that it could not take in, and their pins would quarrel.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent / "scripts"
KEPT = Path(__file__).resolve().parents[2] / ".pytest_cache" / "clients"
INSTALL_WITHIN_S = 300
ANSWER_WITHIN_S = 60.0


def environment(*requirements: str) -> Path:
    """The Python of an environment with exactly these packages."""
    name = hashlib.sha256("\n".join([sys.version, *requirements]).encode()).hexdigest()[:12]
    folder = KEPT / name
    python = folder / "bin" / "python"
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker of this test run may be making the same one
        if not (folder / "ready").exists():
            venv.create(folder, with_pip=True, clear=True)
            subprocess.run(
                [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements],
                check=True,
                timeout=INSTALL_WITHIN_S,
            )
            (folder / "ready").touch()
    return python


async def answer(python: Path, script: str, *words: str) -> Any:
    """What a client's script prints as JSON; it runs in a process of its own while the lab's loop goes on."""
    process = await asyncio.create_subprocess_exec(
        str(python),
        str(SCRIPTS / script),
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"},
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), ANSWER_WITHIN_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0, err.decode()
    return json.loads(out.decode().splitlines()[-1])
