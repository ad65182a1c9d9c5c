"""`choroid protocol …`: speak to a running controller through its HTTP API, like any other client.

`choroid run` leaves `endpoint.json` (address and a command-line token, readable by its owner alone) in its data
directory; whoever may read that directory may command the rig.
"""

from __future__ import annotations

import http.client
import json
import secrets
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

from choroid.common.failure import UserError
from choroid.running.data_folder import ENDPOINT, folders_of
from controller.recipes.catalogue import of_file


def act(
    verb: str,
    *,
    data: Path,
    run: str | None,
    protocol: str | None,
    params: dict[str, str],
    reason: str,
) -> dict[str, Any]:
    """Carry out one verb and return the run as the API shows it; raises :class:`UserError` with the API's own words."""
    endpoint = endpoint_of(data)
    if verb == "start":
        if protocol is not None and protocol.endswith((".yaml", ".yml")):
            protocol = _installed(Path(protocol), data, endpoint)
        body = {"protocol": protocol, "params": params, "reason": reason or "from the command line"}
        return call(endpoint, "POST", "/api/runs", body)
    path = f"/api/runs/{quote(run or _chosen(endpoint), safe='')}"
    if verb == "status":
        return call(endpoint, "GET", path)
    return call(endpoint, "POST", f"{path}/{verb}", {"reason": reason or "from the command line"})


def as_text(answer: dict[str, Any]) -> str:
    """One run for people: state, then each step."""
    lines = [f"{answer['id']}  {answer['protocol']}  {answer['state']}  since {answer.get('started_utc', '')}"]
    for step in answer.get("progress", [])[-12:]:
        lines.append(f"  {step['n']:>4}  {step['verb']:<22}{step['state']}")
    lines += [f"  {message}" for message in answer.get("messages", [])[-5:]]
    return "\n".join(lines)


def _installed(path: Path, data: Path, endpoint: dict[str, str]) -> str:
    """Check a recipe file and make it known to the controller by its name: a link in the data directory's `recipes`.

    The file itself stays where it is, so that a run of it is held when somebody edits it.
    """
    recipe = of_file(path)
    over = {"complete", "stopped", "aborted"}
    active = [run for run in call(endpoint, "GET", "/api/runs")["runs"] if run["state"] not in over]
    if active:
        raise UserError(
            f"run {active[-1]['id']} ({active[-1]['protocol']}) is {active[-1]['state']}. Likely cause: it was started"
            " before. Next: wait until it has ended, or abort it"
        )
    link = data / "recipes" / f"{recipe.name}.yaml"
    link.parent.mkdir(exist_ok=True)
    made = link.with_suffix(".new")
    made.unlink(missing_ok=True)
    made.symlink_to(path.resolve())
    made.replace(link)
    return recipe.name


def endpoint_of(data: Path) -> dict[str, str]:
    """Where the controller of this data directory answers; raises :class:`UserError` when none runs."""
    left = next((folder for folder in folders_of(data) if (folder / ENDPOINT).exists()), data)
    try:
        found = json.loads((left / ENDPOINT).read_text(encoding="utf-8"))
        return {"url": _address(found["url"]), "token": str(found["token"])}
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
    """One request to the API; raises :class:`UserError` with the API's own words."""
    request = urllib.request.Request(  # noqa: S310  (the address comes from our own endpoint file, always http)
        endpoint["url"] + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {endpoint['token']}",
            "Content-Type": "application/json",
            "Choroid-Command-Id": secrets.token_hex(16),
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as reply:  # noqa: S310
            answer: dict[str, Any] = {} if reply.status == 204 else json.load(reply)
            return answer
    except urllib.error.HTTPError as error:
        raise UserError(_words(error.read())) from None
    except (ValueError, http.client.HTTPException) as error:
        raise UserError(
            f"what answers at {endpoint['url']} is no controller ({type(error).__name__}). Likely cause: it has ended, and"
            " another program has its port. Next: start `choroid run` again, with another --port"
        ) from None
    except urllib.error.URLError as error:
        raise UserError(
            f"the controller at {endpoint['url']} does not answer ({error.reason}). Likely cause: it has ended."
            " Next: start `choroid run` again; it resumes by itself"
        ) from None


def _words(body: bytes) -> str:
    try:
        detail = json.loads(body)
    except ValueError:
        return body.decode(errors="replace")[:500]
    if isinstance(detail, dict):
        error = detail.get("error", detail.get("detail", detail))
        if isinstance(error, dict):
            where = f" ({error['where']})" if error.get("where") else ""
            cause = f". Likely cause: {error['cause']}" if error.get("cause") else ""
            action = f". Next: {error['action']}" if error.get("action") else ""
            return f"{error.get('what', error)}{where}{cause}{action}"
        return str(error)
    return str(detail)
