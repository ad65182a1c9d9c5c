"""A simulated laboratory in a process of its own, for tests of drivers and clients: :func:`serve_lab`."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from choroid.common.child import python
from choroid.common.failure import UserError

END_WITHIN_S = 10.0


class ServedLab:
    """Serves each link of a rig over TCP from a simulated laboratory. Use it in a `with` block, or close it.

    Attributes:
        endpoints: Link of the rig file → address, such as `tcp://127.0.0.1:40001`.
        rig: A rig file with those addresses in place of the simulated links, for `choroid run`. It is removed with the lab.
    """

    def __init__(self, process: subprocess.Popen[str], endpoints: dict[str, str], folder: str) -> None:
        self.endpoints = endpoints
        self.rig = Path(folder) / "rig.yaml"
        self._process = process

    def __enter__(self) -> Self:
        """Return the lab."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the lab."""
        self.close()

    def close(self) -> None:
        """End the process and remove the rig file."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self.rig.unlink(missing_ok=True)
        if self.rig.parent.is_dir():
            self.rig.parent.rmdir()


def serve_lab(rig: Path | str, *, seed: int = 1, speed: float = 1.0) -> ServedLab:
    """Start a simulated laboratory in a process of its own, as `choroid lab serve` does.

    Args:
        rig: A rig file whose links are simulated (`sim:`).
        seed: Seed of everything that is drawn at random.
        speed: Speed of its time, 1 to 600 times real time.

    Returns:
        The lab; its devices answer.

    Raises:
        UserError: It cannot be started; standard error says why.
    """
    folder = tempfile.mkdtemp(prefix="choroid-lab-")
    words = ["lab", "serve", str(rig), "--seed", str(seed), "--speed", f"{speed:g}", "--json"]
    words += ["--write", str(Path(folder) / "rig.yaml")]
    process = subprocess.Popen(python("choroid", *words), stdout=subprocess.PIPE, text=True)  # noqa: S603  (our own)
    lab = ServedLab(process, {}, folder)
    line = process.stdout.readline() if process.stdout is not None else ""
    if not line:
        status = process.wait()
        lab.close()
        raise UserError(
            f"the simulated laboratory of {rig} ended with status {status} before it served anything. Likely cause: see its"
            f" message above. Next: `choroid check {rig}`"
        )
    lab.endpoints.update(json.loads(line)["endpoints"])
    return lab
