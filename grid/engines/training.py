"""The training of one rank, from its last checkpoint to the last outer step of the job."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

from .checkpoints import RankCheckpoints, RankState, write_whole
from .group import Group
from .judge import Figures, source_of, unpacked, used
from .presence import Presence, RankRound
from .replica import ModelReplica
from .reports import Reports
from .settings import RankSettings
from .task import Samples, Task

TEST = "test"
MAX_FAILED = 20
"""So many rounds in a row may fail before a rank ends."""
PAUSE_S = 0.5
"""Each round that fails again makes the pause before the next one so much longer."""
FAILURES = (RuntimeError, ConnectionError, TimeoutError)
"""What torch raises when a member of a round goes away."""


class OverError(Exception):
    """The job ends before its last outer step; the message says why."""


class Training:
    """What the engines have in common: rounds, the common state, checkpoints, figures.

    Attributes:
        settings: Of this rank.
        replica: The model.
        group: The process group.
        reports: Where events go.
    """

    def __init__(self, settings: RankSettings, task: Task, *, replicates_optimiser: bool) -> None:
        self.settings = settings
        plain = settings.manifest
        samples = task.data(settings.data["train"], "train")
        self.replica = ModelReplica(settings, task, samples, replicates_optimiser=replicates_optimiser)
        held_out = settings.data.get(TEST)
        self._held_out: Samples | None = task.data(held_out, TEST) if held_out else None
        self.reports = Reports(settings.folder, settings.rank)
        self._checkpoints = RankCheckpoints(settings.folder, settings.job)
        self._sent_before, self._cpu_before_s = 0, 0.0
        self._totals: dict[int, tuple[int, float]] = {}
        self._resume()
        self.group = Group(settings.rank, list(settings.addresses))
        self.presence = Presence(settings.job, settings.rank, list(settings.addresses), settings.min_ranks)
        self._began = self.presence.now()
        self._digest = self.replica.digest()
        self._last_step = self._began
        self._last_sent = 0
        self._outer_steps = int(plain["outer_steps"])
        self._failed = 0

    def run(self) -> None:
        """Train until the last outer step, or until the budget is used; write the model."""
        reason = "all outer steps are done"
        try:
            while self.replica.outer < self._outer_steps:
                try:
                    self.advance()
                    self._failed = 0
                except FAILURES as error:
                    self._lost(error)
        except OverError as over:
            reason = str(over)
        self._finish(reason)

    def advance(self) -> None:
        """Take one outer step, or get the common state first. An engine does it."""
        raise NotImplementedError

    def give_up(self) -> None:
        """Undo what cannot be kept when a round fails. An engine does it."""

    def begin(self) -> RankRound:
        """Wait for a round, and join its process group."""
        found = self.presence.join(self.group.generation, PAUSE_S * max(self._failed - 1, 0))
        self.group.open(found)
        return found

    def figures(self, update_norm: float, peak: float, loss: float, *, contributes: bool) -> list[Figures]:
        """Exchange figures with the members of the round; return them in its order.

        Raises:
            OverError: The budget of the job is used.
        """
        own = Figures(
            self.replica.outer,
            self._digest,
            self.replica.numbers,
            self.replica.shapes,
            contributes,
            update_norm,
            peak,
            loss,
            self.sent(),
            self.cpu_s(),
            self.settings.left_s is not None and self.presence.now() - self._began > self.settings.left_s,
        )
        found = [unpacked(each) for each in self.group.gather(own.packed())]
        for rank, each in zip(self.members, found, strict=True):
            self._totals[rank] = (each.sent, each.cpu_s)
        self._end_if_used(found)
        return found

    def align(self, found: Sequence[Figures]) -> bool:
        """Give the common state to the members that have another; return whether this rank had another."""
        source, behind = source_of(found, self.settings.manifest["outer_steps"])
        if not behind:
            return False
        place = self.members.index(self.settings.rank)
        data = self.group.pass_on(self.replica.packed() if place == source else b"", source, behind)
        if place not in behind:
            return False
        self.replica.take(data)
        self._digest = self.replica.digest()
        self.reports.say("taken", outer=self.replica.outer, source=self.members[source], bytes=len(data))
        return True

    def commit(
        self,
        loss: float,
        counted: Sequence[int],
        excluded: dict[int, str],
        predicted: float,
        *,
        checked: bool = False,
    ) -> None:
        """End an outer step: compare the new state with the others, report, write a checkpoint when it is due.

        Args:
            loss: Mean over the ranks that are counted.
            counted: Ranks whose updates are in it.
            excluded: Ranks whose updates were left out, with the reasons.
            predicted: Bytes that this rank should have sent.
            checked: Whether each update was looked at by itself, because the mean was not what was announced.
        """
        self._digest = self.replica.digest()
        digests = self.group.gather(hashlib.sha256(self._digest).digest())
        differ = [rank for rank, each in zip(self.members, digests, strict=True) if each != digests[0]]
        self.presence.settle()
        now, sent = self.presence.now(), self.group.sent()
        self.reports.say(
            "step",
            outer=self.replica.outer,
            loss=loss,
            members=self.members,
            counted=list(counted),
            excluded={str(rank): reason for rank, reason in excluded.items()},
            differ=differ,
            checked=checked,
            digest=self._digest.hex(),
            sent=sent - self._last_sent,
            predicted=predicted,
            s=now - self._last_step,
        )
        self._last_step, self._last_sent = now, sent
        every = int(self.settings.manifest["checkpoint_every"])
        if self.replica.outer % every == 0 or self.replica.outer >= self._outer_steps:
            self._checkpoint()

    @property
    def members(self) -> tuple[int, ...]:
        """Return the ranks of the present round."""
        return () if self.group.round is None else self.group.round.members

    def sent(self) -> int:
        """Return how many bytes this rank has sent since the job began."""
        return self._sent_before + self.group.sent()

    def cpu_s(self) -> float:
        """Return how much processor time this rank has used since the job began (s)."""
        return self._cpu_before_s + sum(os.times()[:2])

    def _resume(self) -> None:
        found = self._checkpoints.newest()
        for reason in self._checkpoints.passed_over:
            self.reports.say("damaged", reason=reason)
        if found is not None:
            self.replica.restore(found.common, found.own)
            self._sent_before, self._cpu_before_s = found.sent, found.cpu_s
            self.reports.say("resumed", outer=found.outer)

    def _checkpoint(self) -> None:
        replica = self.replica
        about = {"outer": replica.outer}
        try:
            common = self._checkpoints.write(
                RankState(replica.outer, replica.common(), replica.own(), self.sent(), self.cpu_s())
            )
        except OSError as error:
            reason = f"no checkpoint was written ({error.strerror or error}); the last one stays. Next: free space"
            self.reports.say("unwritten", **about, reason=reason)
            return
        scores = {}
        if self._held_out is not None and self.members[0] == self.settings.rank:
            with self.presence.working_for_all():
                scores = replica.scores(self._held_out)
        self.reports.say("checkpoint", **about, sha256=common, scores=scores)

    def _end_if_used(self, found: Sequence[Figures]) -> None:
        budget = self.settings.manifest["budget"]
        sent, cpu_s = used(self._totals)
        if any(each.over for each in found):
            raise OverError("its time is over")
        if sent > budget["bytes"]:
            raise OverError(f"its budget of bytes is used ({sent:,})")
        if cpu_s > 3600.0 * budget["core_hours"]:
            raise OverError(f"its budget of processor time is used ({cpu_s / 3600.0:.2f} core-hours)")

    def _lost(self, error: BaseException) -> None:
        self._failed += 1
        self.group.close()
        self.give_up()
        self.reports.say("lost", outer=self.replica.outer, reason=f"{type(error).__name__}: {error}"[:300])
        if self._failed >= MAX_FAILED:
            raise error

    def _finish(self, reason: str) -> None:
        data = self.replica.weights()
        name = hashlib.sha256(data).hexdigest()
        write_whole(self.settings.folder / f"model-{name}.safetensors", data)
        scores = self.replica.scores(self._held_out) if self._held_out is not None else {}
        sent, cpu_s = used(self._totals)
        self.reports.say(
            "end", outer=self.replica.outer, reason=reason, model=name, scores=scores, sent=sent, cpu_s=cpu_s
        )
        self.presence.close()
        self.group.close()
