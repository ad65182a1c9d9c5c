"""The process of one rank of a federated job: `python -m federated.rank SETTINGS.json`, in Flower's environment.

It starts the trainer (in the training environment) and is the node; at rank 0 also the SuperLink and the aggregator. When one
of them dies, it ends, and its member starts it again.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
from engines.reports import Reports
from engines.settings import RankSettings, read_settings
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.app.message import Array
from flwr.clientapp import ClientApp
from safetensors.numpy import load_file, save

from .averaging import VOID_S, over_budget
from .files import ANSWER, GIVEN, UPDATE, read_used, write_used, write_whole
from .node import AGAIN_S, FleetNode
from .superlink import LOOPBACK


class Trainer:
    """The process that trains. It prints what the code package likes; its answers come through a pipe of their own."""

    def __init__(self, settings: RankSettings, file: Path) -> None:
        answers, to_us = os.pipe()
        words = [settings.federated["trainer"], "-B", "-P", "-m", "engines.apart", str(file), str(to_us)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=sys.stderr, pass_fds=(to_us,))
        os.close(to_us)
        self._answers = os.fdopen(answers)
        self._folder = settings.folder

    def ask(self, what: str, outer: int, content: Any) -> dict[str, Any]:
        """Give it the common weights; return its answer.

        Raises:
            EOFError: It has died.
        """
        write_whole(self._folder / GIVEN, save({"shared": content["common"]["shared"].numpy()}))
        if self.process.stdin is not None:
            self.process.stdin.write(json.dumps({"what": what, "outer": outer}).encode() + b"\n")
            self.process.stdin.flush()
        line = self._answers.readline()
        if not line:
            raise EOFError("the trainer has died")
        answer: dict[str, Any] = json.loads(line)
        return answer


class Rank:
    """The node of a rank, with its ClientApp."""

    def __init__(self, settings: RankSettings, file: Path) -> None:
        self._settings = settings
        self._reports = Reports(settings.folder, settings.rank)
        self._trainer = Trainer(settings, file)
        self._children = [self._trainer.process]
        if settings.rank == 0:
            self._children += self._servers(file)
        self._ended: dict[str, Any] | None = None
        self._began = time.monotonic()
        self._sent, self._cpu_before_s = read_used(settings.folder)
        self._trainer_cpu_s = 0.0
        self.app = ClientApp()
        self.app.train()(self._train)
        self.app.query()(self._query)
        threading.Thread(target=self._watch, daemon=True).start()

    def run(self) -> None:
        """Answer messages until the model has come."""
        said = ""
        while self._ended is None:
            try:
                FleetNode(self._settings).serve(self.app, lambda: self._ended is not None)
            except (httpx.HTTPError, ValueError, RuntimeError) as error:
                if (reason := f"{type(error).__name__}: {error}"[:300]) != said:
                    self._reports.say("waits", reason=reason)
                    said = reason
                time.sleep(AGAIN_S)
        for each in self._children[2:]:  # the aggregator ends when all have answered
            each.wait()
        self._reports.say("end", **self._ended)

    def _train(self, message: Message, context: Context) -> Message:
        outer = int(message.content["config"]["outer"])
        if reason := self._over():  # whatever rank 0 asks for
            figures = {"loss": 0.0, "refused": reason, "scores": "{}", "sent": self._sent, "cpu_s": self._cpu_s()}
            return Message(RecordDict({"figures": ConfigRecord(figures)}), reply_to=message)
        answer = self._trainer.ask("train", outer, message.content)
        self._trainer_cpu_s = float(answer["cpu_s"])
        content = RecordDict()
        if not answer["refused"]:
            update = load_file(self._settings.folder / ANSWER)[UPDATE]
            self._sent += update.nbytes
            content["update"] = ArrayRecord({UPDATE: Array(update)})
        cpu_s = self._cpu_s()
        write_used(self._settings.folder, self._sent, cpu_s)
        figures = {
            "loss": float(answer["loss"]),
            "refused": str(answer["refused"]),
            "scores": json.dumps(answer["scores"]),
            "sent": self._sent,
            "cpu_s": cpu_s,
        }
        content["figures"] = ConfigRecord(figures)
        self._reports.say(
            "update",
            outer=outer + 1,
            loss=answer["loss"],
            norm=answer["norm"],
            clipped=answer["clipped"],
            sent=self._sent,
        )
        return Message(content, reply_to=message)

    def _query(self, message: Message, context: Context) -> Message:
        config = message.content["config"]
        outer = int(config["outer"])
        answer = self._trainer.ask("keep", outer, message.content)
        self._trainer_cpu_s = float(answer["cpu_s"])
        self._ended = {
            "outer": outer,
            "reason": str(config["reason"]),
            "model": answer["model"],
            "scores": answer["scores"],
            "sent": self._sent,
            "cpu_s": self._cpu_s(),
        }
        return Message(RecordDict({"figures": ConfigRecord({"model": str(answer["model"])})}), reply_to=message)

    def _cpu_s(self) -> float:
        """Return the processor time of this rank since the job began, also before it was started again (s)."""
        return self._cpu_before_s + self._trainer_cpu_s + sum(os.times()[:2])

    def _over(self) -> str:
        """Return which bound of the job this rank has reached by itself, and rank 0 has not heeded; empty if none."""
        elapsed_s = time.monotonic() - self._began - VOID_S
        budget = self._settings.manifest["budget"]
        return over_budget(budget, self._sent, self._cpu_s(), self._settings.left_s, elapsed_s)

    def _servers(self, file: Path) -> list[subprocess.Popen[bytes]]:
        keys = Path(self._settings.federated["keys"])
        for name in ("secret", "password"):
            secret = os.open(keys / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(secret, "w") as out:
                out.write(secrets.token_hex(32))
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            port = str(probe.getsockname()[1])
        superlink = [sys.executable, "-P", "-B", "-m", "federated.superlink", str(file), port, str(os.getpid())]
        aggregator = [sys.executable, "-P", "-B", "-m", "federated.aggregator", str(file), port, str(os.getpid())]
        return [
            subprocess.Popen(superlink, stdout=sys.stderr),
            subprocess.Popen(aggregator),
        ]

    def _watch(self) -> None:
        while self._ended is None:
            for each in self._children:
                if each.poll() not in (None, 0) or (each.poll() == 0 and each is not self._children[-1]):
                    print(f"{each.args} has died with status {each.poll()}", file=sys.stderr, flush=True)  # type: ignore[str-bytes-safe]
                    os._exit(1)
            time.sleep(0.5)


def main(file: Path) -> None:
    """Take part as the settings say."""
    settings = read_settings(file)
    settings.folder.mkdir(parents=True, exist_ok=True)
    Rank(settings, file).run()
    os._exit(0)  # threads of Flower may still wait; the children end with their parent's group


if __name__ == "__main__":
    main(Path(sys.argv[1]))
