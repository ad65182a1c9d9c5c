"""`choroid protocol …`: control a running controller through its HTTP API, like any other client.

`choroid run` writes `endpoint.json` (address, local socket and a token for programs, readable by its owner only) into its
data directory: a user who can read that directory can command the rig. Commands act through the socket, under their user's
name.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from choroid.client.calls import anything
from choroid.client.connection import NO_PAGE
from choroid.client.errors import ClientError
from choroid.client.transport import Address, ApiCall, Transport, local_socket
from choroid.common.failure import UserError
from choroid.running.data_folder import ENDPOINT, folders_of
from controller.recipes.catalogue import FILES, of_file, require_own_name
from controller.runs.python_text import PythonText
from protocols.answers import MAX_FILE_BYTES

TOKEN = "CHOROID_TOKEN"  # noqa: S105  (the name of a variable)
"""Environment variable with a person's own token, for reviews and decisions that take one."""

START_S = 120.0
"""Maximum time (s) for the answer to a start: the controller rehearses the protocol first, and a Python protocol may compute
for :data:`controller.runs.python_wire.PATIENCE_S` between two verbs."""


def act(
    verb: str,
    *,
    data: Path,
    run: str | None,
    protocol: str | None,
    params: dict[str, str],
    reason: str,
    answer: str | None = None,
    file: Path | None = None,
    taken: str = "",
    sure: bool = False,
) -> dict[str, Any]:
    """Execute one verb and return the run as the API shows it; raise :class:`UserError` with the API's message."""
    endpoint = endpoint_of(data)
    if verb == "start":
        if protocol is not None and protocol.endswith(FILES):
            protocol = _installed(Path(protocol), data, endpoint)
        body = {"protocol": protocol, "params": params, "reason": reason or "from the command line"}
        return call(endpoint, "POST", "/api/runs", body, timeout_s=START_S)
    path = f"/api/runs/{quote(run or _chosen(endpoint), safe='')}"
    if verb == "status":
        return call(endpoint, "GET", path)
    said = reason or "from the command line"
    if verb == "answer" and file is not None:
        return _uploaded(endpoint, path, file, said)
    if verb == "answer":
        given: dict[str, Any] = {"answer": str(answer), "taken": taken, "sure": sure, "reason": said}
        return call(endpoint, "POST", f"{path}/answer", {**given, "step": _step_asked(endpoint, path)})
    if verb in ("approve", "reject"):
        decision = {"approve": verb == "approve", "reason": reason, "step": _step_asked(endpoint, path)}
        return call(endpoint, "POST", f"{path}/decision", decision)
    return call(endpoint, "POST", f"{path}/{verb}", {"reason": said})


def _step_asked(endpoint: dict[str, str], path: str) -> int | None:
    """Return the step of the question that is open now; the controller refuses the answer if another is open by then."""
    question = call(endpoint, "GET", path).get("question")
    return None if question is None else int(question["step"])


def _uploaded(endpoint: dict[str, str], path: str, file: Path, reason: str) -> dict[str, Any]:
    """Answer the question that is open now with a photo or a file."""
    query: dict[str, Any] = {"name": file.name, "reason": reason}
    step = _step_asked(endpoint, path)
    if step is not None:
        query["step"] = step
    if file.stat().st_size > MAX_FILE_BYTES:
        raise UserError(f"{file} has more than {MAX_FILE_BYTES / 1e6:g} MB. Next: choose a smaller file")
    return _sent(endpoint, ApiCall("POST", f"{path}/upload?{urlencode(query)}", dict, content=file.read_bytes()))


def as_text(answer: dict[str, Any]) -> str:
    """Return one run as text: state, then each step, the latest messages and the open question."""
    lines = [f"{answer['id']}  {answer['protocol']}  {answer['state']}  since {answer.get('started_utc', '')}"]
    for step in answer.get("progress", [])[-12:]:
        lines.append(f"  {step['n']:>4}  {step['verb']:<22}{step['state']}")
    lines += [f"  {message}" for message in answer.get("messages", [])[-5:]]
    question = answer.get("question")
    if question is not None and question["kind"]:
        lines.append(f"  waits for an answer to step {question['step']}: {question['wants']}")
        next_ = "approve | reject --reason WHY" if question["kind"] == "approval" else f"answer {_example(question)}"
        lines.append(f"  next: choroid protocol {next_}")
    return "\n".join(lines)


def _example(question: dict[str, Any]) -> str:
    number = f'"NUMBER {question["unit"]}"' if question["unit"] else "NUMBER"
    kinds = {"number": number, "assay": number, "choice": "|".join(question["choices"])}
    kinds |= {"photo": "--file PHOTO", "file": "--file FILE"}
    return kinds.get(question["kind"], "TEXT")


def _installed(path: Path, data: Path, endpoint: dict[str, str]) -> str:
    """Check a recipe file and link it into the data directory's `recipes`, so that the controller knows its name.

    The file itself stays where it is: an edit holds a run of it.
    """
    name = _checked(path)
    over = {"complete", "stopped", "aborted"}
    active = [run for run in call(endpoint, "GET", "/api/runs")["runs"] if run["state"] not in over]
    if active:
        raise UserError(
            f"run {active[-1]['id']} ({active[-1]['protocol']}) is {active[-1]['state']}. Likely cause: it was started"
            " before. Next: wait until it has ended, or abort it"
        )
    link = data / "recipes" / f"{name}{'.py' if path.suffix == '.py' else '.yaml'}"
    link.parent.mkdir(exist_ok=True)
    for other in (".py", ".yaml"):
        if other != link.suffix:
            link.with_suffix(other).unlink(missing_ok=True)
    made = link.with_suffix(".new")
    made.unlink(missing_ok=True)
    made.symlink_to(path.resolve())
    made.replace(link)
    return name


def _checked(path: Path) -> str:
    """Check a file of a recipe or of a Python protocol, and return its name; nothing of the latter's text runs."""
    if path.suffix != ".py":
        return of_file(path).name
    name, _ = PythonText.read(path).declared()
    require_own_name(path, name)
    return name


def endpoint_of(data: Path) -> dict[str, str]:
    """Return where the controller of this data directory answers; raise :class:`UserError` if none runs."""
    left = next((folder for folder in folders_of(data) if (folder / ENDPOINT).exists()), data)
    try:
        found = json.loads((left / ENDPOINT).read_text(encoding="utf-8"))
        if found["url"] == "":
            raise UserError(NO_PAGE.format(path=left / ENDPOINT))
        pid, person = str(found.get("pid", 0)), os.environ.get(TOKEN, "")
        if (local := local_socket(left, found)) is not None:
            return {"url": local, "pid": pid, "token": person}  # the socket tells which user of this machine acts
        return {"url": _address(found["url"]), "pid": pid, "token": person or str(found["token"])}
    except FileNotFoundError:
        raise UserError(
            f"no running controller is known in {data}. Likely cause: `choroid run` is not running, or with another"
            f" --data. Next: start `choroid run RIG --data {data}`, or name its directory with --data"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{left / ENDPOINT} cannot be read ({type(error).__name__}: {error}). Likely cause: the disk was full when"
            " `choroid run` began, or the file was edited. Next: free some space and start `choroid run` again; it"
            " resumes by itself"
        ) from None


def _address(url: Any) -> str:
    if not isinstance(url, str) or not url.startswith("http://"):
        raise ValueError(f"url is {url!r}")
    return url


def _chosen(endpoint: dict[str, str]) -> str:
    answer = call(endpoint, "GET", "/api/runs")
    runs: list[dict[str, Any]] = answer["runs"]
    if not runs:
        raise UserError("no protocol has been started on this rig. Next: `choroid protocol start recycle`")
    over = {"complete", "stopped", "aborted"}
    active = [entry for entry in runs if entry["state"] not in over]
    return str((active or runs)[-1]["id"])


def call(
    endpoint: dict[str, str], method: str, path: str, body: dict[str, Any] | None = None, *, timeout_s: float = 10.0
) -> dict[str, Any]:
    """Send one request to the API and return its answer.

    Raises:
        UserError: No controller answers, or it refuses, in its own words.
    """
    return _sent(endpoint, anything(method, path, body, ""), timeout_s=timeout_s)


def _sent(endpoint: dict[str, str], request: ApiCall[dict[str, Any]], *, timeout_s: float = 10.0) -> dict[str, Any]:
    try:
        address, _ = Address.parse(endpoint["url"])
        pid = int(endpoint.get("pid", 0))
        transport = Transport(address, endpoint["token"], timeout_s=timeout_s, pid=pid)
        return transport.do(request)
    except ClientError as error:
        raise UserError(str(error)) from None
