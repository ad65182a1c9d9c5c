"""The server of a federation at rank 0: it registers the nodes' keys, and averages their updates (Flower's Grid)."""

from __future__ import annotations

import hashlib
import io
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from engines.reports import Reports
from engines.settings import RankSettings, read_settings
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.app.message import Array
from flwr.common.serde import run_from_proto
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest
from flwr.proto.fab_pb2 import Fab
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor, SuperExecAuthHttpInterceptor
from flwr.supercore.interceptors.http.utils import add_headers
from flwr.supercore.primitives.asymmetric import bytes_to_public_key, public_key_to_bytes
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from .averaging import MAX_REASON, VOID_S, Common, NodeFigures, RoundWait, figures_of, over_budget, refused
from .files import FIRST, UPDATE, end_with, write_whole
from .superlink import LOOPBACK, PASSWORD_HEADER

COMMON = "common.safetensors"
POLL_S = 0.2
MAX_HEADER = 4096
"""Bytes of an update in addition to its numbers."""
APP = """
[project]
name = "federated"
version = "1.0.0"
[tool.flwr.app]
publisher = "choroid"
fab-format-version = 0
[tool.flwr.app.components]
serverapp = "none:app"
clientapp = "none:app"
"""
"""Flower wants an app for a run. This one has no code, and no process runs it."""


class FederationOverError(Exception):
    """The job ends before its last round; the message says why."""


class Password:
    """Adds the password of the control interface to requests."""

    def __init__(self, password: str) -> None:
        self._header = {PASSWORD_HEADER.decode(): password}

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        """Add it."""
        add_headers(context.request, self._header)
        response: httpx.Response = call_next(context)
        return response


def app_bundle() -> bytes:
    """Return an app without code, the same bytes each time."""
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w") as bundle:
        bundle.writestr(zipfile.ZipInfo("pyproject.toml"), APP)
    return found.getvalue()


class Aggregator:
    """One federation: its nodes, its common weights, its rounds."""

    def __init__(self, settings: RankSettings, port: int) -> None:
        self._settings = settings
        self._plain = settings.manifest
        self._keys = Path(settings.federated["keys"])
        self._reports = Reports(settings.folder, settings.rank)
        self._address = f"{LOOPBACK}:{port}"
        self._certificate = (self._keys / "tls.pem").read_bytes()
        self._ranks: dict[int, int] = {}
        """Rank of each node."""
        self._used: dict[int, tuple[int, float]] = {}
        """Bytes and processor time (s) of each rank, as it has said."""
        self._sent = 0
        self._void_s = VOID_S
        self._began = time.monotonic()
        self._common = self._resumed()
        self._grid = self._joined()

    def run(self) -> None:
        """Go on until the last round, or until the budget is used; then give all nodes the model."""
        reason = "all outer steps are done"
        try:
            while self._common.outer < self._plain["outer_steps"]:
                self._require_budget()
                self._round()
        except FederationOverError as over:
            reason = str(over)
        self._ask(self._online(), "query", reason)

    def _resumed(self) -> Common:
        path = self._settings.folder / COMMON
        try:
            found = load_file(path)
            if not all(np.isfinite(each).all() for each in found.values()):
                raise ValueError("it is not finite")
            common = Common(int(found["outer"][0]), found["shared"], found["momentum"])
            self._sent = int(found["sent"][0]) if "sent" in found else 0
            self._reports.say("resumed", outer=common.outer)
            return common
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            self._reports.say("damaged", reason=f"{path.name} is passed over: {error}")
        first = self._settings.folder / FIRST
        while not first.exists():  # the trainer of this rank writes it
            time.sleep(POLL_S)
        shared = load_file(first)["shared"]
        return Common(0, shared, np.zeros_like(shared))

    def _joined(self) -> HttpGrid:
        """Register the keys of all ranks, start a run, and take the task of its server."""
        password = Password((self._keys / "password").read_text())
        version = RuntimeVersionHttpInterceptor(component_name="flwr-serverapp")
        control = ControlHttpClient.from_server_address(
            self._address, insecure=False, root_certificates=self._certificate, interceptors=[password]
        )
        for rank, text in enumerate(self._settings.federated["nodes"]):
            key = public_key_to_bytes(bytes_to_public_key(text.encode()))
            node = _until_there(
                lambda key=key, rank=rank: control.RegisterNode(
                    RegisterNodeRequest(public_key=key, name=f"rank {rank}")
                )
            )
            self._ranks[node.node_id] = rank
        bundle = app_bundle()
        control.StartRun(StartRunRequest(fab=Fab(hash_str=hashlib.sha256(bundle).hexdigest(), content=bundle)))
        secret = (self._keys / "secret").read_bytes()
        runtime = RuntimeHttpClient.from_server_address(
            self._address,
            insecure=False,
            root_certificates=self._certificate,
            interceptors=[
                version,
                SuperExecAuthHttpInterceptor(
                    master_secret=secret, protected_methods={"/flwr.proto.Runtime/AcquireTask"}
                ),
            ],
        )
        task = runtime.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP]))
        grid = HttpGrid(self._address, insecure=False, root_certificates=self._certificate, token=task.token)
        self._heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(grid._runtime_client))
        self._heartbeat.start()
        given = grid._runtime_client.PullTaskInput(PullTaskInputRequest())
        TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
        TaskIdentity.node_id = given.context.node_id
        grid.set_run(run_from_proto(given.run))
        return grid

    def _online(self) -> list[int]:
        return [node for node in self._grid.get_node_ids() if node in self._ranks]

    def _round(self) -> None:
        while len(nodes := self._online()) < self._settings.min_ranks:
            self._require_budget()
            time.sleep(POLL_S)
        began, sent = time.monotonic(), self._sent
        replies, wait = self._ask(nodes, "train", "")
        updates, excluded, figures = self._judged(replies)
        if len(updates) < self._settings.min_ranks:
            self._void_s *= 2
            self._reports.say("none", outer=self._common.outer, excluded=excluded)
            return
        self._void_s = VOID_S
        losses = [figures[rank].loss for rank in updates]
        outer = self._plain["outer"]
        self._common.advance(updates, outer["rate"], outer["momentum"])
        sha256 = hashlib.sha256(self._common.shared.tobytes()).hexdigest()
        self._reports.say(
            "step",
            outer=self._common.outer,
            loss=sum(losses) / len(losses),
            members=sorted(self._ranks[node] for node in nodes),
            counted=sorted(updates),
            excluded=excluded,
            digest=sha256,
            sent=self._sent - sent,
            s=time.monotonic() - began,
            quorum_s=wait.quorum_s,
        )
        if (
            self._common.outer % self._plain["checkpoint_every"] == 0
            or self._common.outer == self._plain["outer_steps"]
        ):
            self._checkpoint(figures)

    def _ask(self, nodes: list[int], what: str, reason: str) -> tuple[dict[int, RecordDict], RoundWait]:
        """Send the common weights to nodes; return the answers by rank, as soon as the round ends."""
        began = time.monotonic()
        wait = RoundWait(len(nodes), min(self._settings.min_ranks, len(nodes)), self._plain["federated"]["patience"])
        config = {"outer": self._common.outer, "reason": reason}
        arrays = {"shared": Array(self._common.shared)}
        messages = [
            Message(
                RecordDict({"common": ArrayRecord(arrays), "config": ConfigRecord(config)}),
                dst_node_id=node,
                message_type=what,
                group_id=str(self._common.outer + 1),
            )
            for node in nodes
        ]
        self._sent += self._common.shared.nbytes * len(nodes)
        waiting = set(self._grid.push_messages(messages))
        found: dict[int, RecordDict] = {}
        errors = 0
        while not wait.over(len(found), time.monotonic() - began, errors):
            if time.monotonic() - began > self._void_s and len(found) < wait.required:
                break
            for each in sorted(waiting):
                try:
                    for reply in self._grid.pull_messages([each]):
                        waiting.discard(each)
                        if reply.has_error():
                            errors += 1
                        else:
                            found[self._ranks[reply.metadata.src_node_id]] = reply.content
                except httpx.HTTPError:
                    raise
                except Exception as error:  # what a node sends may be no message at all
                    waiting.discard(each)
                    errors += 1
                    self._reports.say("unreadable", reason=f"{type(error).__name__}: {error}"[:MAX_REASON])
            time.sleep(POLL_S)
        return found, wait

    def _judged(
        self, replies: dict[int, RecordDict]
    ) -> tuple[dict[int, np.ndarray[Any, Any]], dict[str, str], dict[int, NodeFigures]]:
        """Return the updates that count by rank, why others do not, and what the nodes say of themselves."""
        updates, excluded, figures = {}, {}, {}
        for rank, content in replies.items():
            try:
                said = figures[rank] = figures_of(content["figures"])
                self._used[rank] = said.sent, said.cpu_s
                reason = said.refused or self._too_long(content["update"][UPDATE])
                if not reason:
                    update = content["update"][UPDATE].numpy()
                    clip = float(self._plain["federated"]["clip"])
                    reason = refused(update, self._common.shared.size, clip)
                if not reason:
                    updates[rank] = update
            except Exception as error:  # a node sends what it likes, and must not end the job of the others
                reason = f"its answer is malformed ({type(error).__name__}: {error})"[:MAX_REASON]
            if reason:
                excluded[str(rank)] = reason
        return updates, excluded, figures

    def _too_long(self, update: Array) -> str:
        """Return why an update is not even read; empty if it is."""
        most = self._common.shared.nbytes + MAX_HEADER
        return f"its update has {len(update.data):,} bytes, more than {most:,}" if len(update.data) > most else ""

    def _checkpoint(self, figures: dict[int, NodeFigures]) -> None:
        common = self._common
        about = {"outer": np.array([common.outer]), "sent": np.array([self._sent])}
        data = save({**about, "shared": common.shared, "momentum": common.momentum})
        try:
            write_whole(self._settings.folder / COMMON, data)
        except OSError as error:
            reason = f"no checkpoint was written ({error.strerror or error}); the last one stays. Next: free space"
            self._reports.say("unwritten", outer=common.outer, reason=reason)
            return
        scores: dict[str, list[float]] = {}
        for said in figures.values():
            for name, value in said.scores.items():
                scores.setdefault(name, []).append(value)
        means = {name: sum(values) / len(values) for name, values in scores.items()}
        self._reports.say("checkpoint", outer=common.outer, sha256=hashlib.sha256(data).hexdigest(), scores=means)

    def _require_budget(self) -> None:
        sent = self._sent + sum(each for each, _ in self._used.values())
        cpu_s = sum(each for _, each in self._used.values())
        elapsed_s = time.monotonic() - self._began
        if reason := over_budget(self._plain["budget"], sent, cpu_s, self._settings.left_s, elapsed_s):
            raise FederationOverError(reason)


def _until_there(call: Any) -> Any:
    """Return what a call returns as soon as the SuperLink is there."""
    while True:
        try:
            return call()
        except httpx.TransportError:
            time.sleep(POLL_S)


if __name__ == "__main__":
    end_with(int(sys.argv[3]))
    Aggregator(read_settings(Path(sys.argv[1])), int(sys.argv[2])).run()
