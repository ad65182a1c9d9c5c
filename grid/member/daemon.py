"""A member that lends its computer: it answers challenges and shows its standing (`choroid grid join`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from grid.challenges import cores, disk, gemm, hardware, link, memory
from grid.member.link import HubLink
from grid.member.membership import Membership
from grid.wire import grid_pb2 as pb

MAX_CHAINS = 1024


async def answer(challenge: pb.Challenge, folder: Path) -> pb.ChallengeAnswer:
    """Return the answer to a challenge; a problem is an answer too.

    Args:
        challenge: What the hub asks.
        folder: Where the disk is measured.
    """
    try:
        result = await asyncio.to_thread(_result, challenge, folder)
    except (OSError, MemoryError, ValueError, KeyError, RuntimeError) as error:
        return pb.ChallengeAnswer(challenge=challenge.id, problem=f"{type(error).__name__}: {error}"[:200])
    return pb.ChallengeAnswer(challenge=challenge.id, result=result, load=hardware.load())


def _result(challenge: pb.Challenge, folder: Path) -> bytes:
    nonce, sizes = challenge.nonce, dict(challenge.sizes)
    match challenge.kind:
        case "cores":
            return cores.answer(nonce, min(sizes["chains"], MAX_CHAINS), sizes["iterations"])
        case "gemm":
            return gemm.answer(nonce, sizes["size"], sizes["count"])
        case "accelerator":
            device = hardware.accelerator()
            if not device:
                raise ValueError("there is no accelerator that torch can use")
            return gemm.answer(nonce, sizes["size"], sizes["count"], device)
        case "memory":
            return memory.answer(nonce, sizes["bytes"])
        case "disk":
            return disk.answer(nonce, sizes["bytes"], folder)
        case "uplink":
            return link.payload(nonce, sizes["bytes"])
        case "downlink" | "round_trip":
            return link.receipt(nonce, challenge.data)
        case _:
            raise ValueError(f"the challenge {challenge.kind[:40]} is not known here")


POLL_S = 2.0
Progress = Callable[[str], None]


async def enrolled(membership: Membership, progress: Progress, *, poll_s: float = POLL_S) -> None:
    """Enrol and wait until an operator of the hub has approved it.

    Raises:
        GridError: The hub cannot be reached or refuses.
    """
    membership.save()
    shown = ""
    while True:
        reply = await membership.enrol()
        if reply.state == pb.EnrolReply.APPROVED:
            progress(f"approved; the certificate is valid for {membership.certificate_left_s() / 3600:.0f} h")
            return
        if reply.state != pb.EnrolReply.PENDING:
            await membership.require_certificate()
        if reply.reason != shown:
            shown = reply.reason
            progress(f"waiting: {shown}")
        await asyncio.sleep(poll_s)


class MemberDaemon:
    """The process of a member.

    Attributes:
        link: Its connection.
        standing: What the hub said last of its roles; empty before the first measurement.
    """

    def __init__(self, membership: Membership, progress: Progress = lambda _: None) -> None:
        self._membership = membership
        self._progress = progress
        self._answering: set[asyncio.Task[None]] = set()
        self.standing = pb.Standing()
        self.link = HubLink(membership, self._hello, self._take, on_state=progress)

    async def run(self) -> None:
        """Stay connected until cancelled. Raises :class:`GridRefused` when the identity was revoked."""
        try:
            await self.link.run()
        finally:
            for task in self._answering:
                task.cancel()
            await asyncio.gather(*self._answering, return_exceptions=True)

    def _hello(self) -> pb.Hello:
        return hardware.hello(self._membership.folder)

    def _take(self, message: pb.HubMessage) -> None:
        if message.HasField("challenge"):
            task = asyncio.create_task(self._answer(message.challenge))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        elif message.HasField("standing"):
            self.standing = message.standing
            self._progress(standing_text(message.standing))
        elif message.HasField("work"):
            self._order(message.work)

    def _order(self, order: pb.WorkOrder) -> None:
        """Refuse a work lease: only a member whose operator allows it takes one."""
        if order.verb == pb.LeaseOrder.OFFER:
            reason = "it takes no work. Next: its operator starts `choroid grid join --work`"
            verdict = pb.LeaseVerdict(lease=order.work.lease, accepted=False, reason=reason)
            self.link.send(pb.MemberMessage(verdict=verdict))

    async def _answer(self, challenge: pb.Challenge) -> None:
        if challenge.kind != "round_trip":
            self.link.working_on = f"measuring {challenge.kind}"
            self._progress(f"measuring {challenge.kind}")
        self.link.send(pb.MemberMessage(answer=await answer(challenge, self._membership.folder)))
        self.link.working_on = ""


def standing_text(standing: pb.Standing) -> str:
    """Return the roles with the reason of each rejection."""
    lines = []
    for role in standing.roles:
        lines.append(f"{role.role}: granted" if role.granted else f"{role.role}: no; {'; '.join(role.reasons)}")
    return "\n".join(lines)
