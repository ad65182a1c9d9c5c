"""Work leases at the hub: who may have one, when it runs, and when it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from grid.commands import operate
from grid.errors import GridError, GridRefused
from grid.hub.members import Members
from grid.hub.owner import owned
from grid.hub.sessions import MemberSession, Sessions
from grid.hub.work import WorkBook
from grid.hub.work_dispatch import WorkDispatch
from grid.identity.keys import IdentityKey
from grid.member.held import RenewedLease
from grid.policy.policy import WorkLimits
from grid.policy.standing import MemberStanding
from grid.wire import grid_pb2 as pb

LIMITS = WorkLimits(max_ranks=3, max_living=2)
COMPUTE = MemberStanding({"compute": []}, {"cores": 4.0})


class Desk:
    """A hub's work leases with a clock of the test; `id` is the identity of each member by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 1_800_000_000.0
        self.store = owned(folder, utc=lambda: self.now)
        self.members = Members(self.store)
        self.book = WorkBook(self.store, self.members, LIMITS)
        self.id: dict[str, str] = {}
        for name, kind in (
            ("alpha", "member"),
            ("beta", "member"),
            ("gamma", "member"),
            ("lab", "lab"),
            ("slow", "member"),
        ):
            key = IdentityKey.generate()
            self.id[name] = key.id
            with self.store.transaction() as database:
                row = (key.id, name, kind, key.public)
                database.execute(
                    "INSERT INTO members (id, name, kind, public_key, state, requested_s) VALUES (?, ?, ?, ?, 'approved', 1)",
                    row,
                )
            if name not in ("lab", "slow"):
                self.members.set_standing(key.id, name, COMPUTE)

    def ask(self, *ranks: str, key: str = "k", job: str = "training", duration_s: float = 0.0) -> str:
        request = pb.WorkRequest(key=key, job=job, ranks=ranks, duration_s=duration_s)
        return str(self.book.request(self.id["alpha"], request)["id"])

    def advance(self, *connected: str) -> None:
        self.book.advance({self.id[name] for name in connected or ("alpha", "beta", "gamma")})

    def answer(self, lease: str, *ranks: str, reason: str = "") -> None:
        for name in ranks:
            verdict = pb.LeaseVerdict(lease=lease, accepted=not reason, reason=reason)
            self.book.verdict(self.id[name], verdict)

    def runs(self, *ranks: str, key: str = "k") -> str:
        lease = self.ask(*ranks, key=key)
        self.advance()
        self.answer(lease, *ranks)
        assert self.state(lease) == "active"
        return lease

    def state(self, lease: str) -> str:
        return str(self.book.find(lease)["state"])

    def rows(self) -> list[str]:
        return [json.loads(body)["kind"] for _, body in self.store.log.rows(0, 100)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    with closing(found.store):
        yield found


def test_it_is_offered_when_its_members_are_there_and_runs_when_all_have_accepted(desk: Desk) -> None:
    lease = desk.ask("alpha", "beta")
    assert desk.ask("alpha", "beta") == lease, "a repeat is the same request"
    desk.advance("alpha")
    assert desk.state(lease) == "queued"
    desk.advance()
    assert desk.state(lease) == "offered"
    desk.answer(lease, "alpha", "gamma")
    assert desk.state(lease) == "offered", "gamma has no rank in it"
    desk.answer(lease, "beta")
    assert desk.state(lease) == "active"
    assert desk.book.grant(lease).parties == (desk.id["alpha"], desk.id["beta"])
    assert desk.rows()[-1] == "work.grant"


def test_a_member_works_for_one_job_at_a_time_in_the_order_of_requests(desk: Desk) -> None:
    first = desk.runs("alpha", "beta")
    second = desk.ask("beta", "gamma", key="k2")
    desk.advance()
    assert desk.state(second) == "queued"
    desk.book.release(desk.id["beta"], first, "")
    desk.advance()
    assert desk.state(second) == "offered"
    assert desk.book.find(second)["fence"] > desk.book.find(first)["fence"]


@pytest.mark.parametrize(
    ("ranks", "more", "reason"),
    [
        (("alpha", "lab"), {}, "lab is no approved member"),
        (("alpha", "slow"), {}, "slow has not the role compute: it was not measured yet"),
        (("alpha", "alpha"), {}, "each another member; got 2"),
        ((), {}, "a job has 1 to 3 ranks"),
        (("alpha",), {"duration_s": 1e9}, "the longest is 604800 s"),
        (("alpha",), {"job": ""}, "job: 1 to 200 characters"),
        (("alpha", "no-such-member"), {}, "there is no member"),
    ],
)
def test_a_request_is_refused_with_its_reason(
    desk: Desk, ranks: tuple[str, ...], more: dict[str, float], reason: str
) -> None:
    with pytest.raises(GridError, match=reason):
        desk.ask(*ranks, **more)  # type: ignore[arg-type]
    assert not desk.book.living()


def test_a_member_holds_only_so_many(desk: Desk) -> None:
    desk.ask("alpha", key="1")
    desk.ask("beta", key="2")
    with pytest.raises(GridRefused, match="you hold 2 work leases"):
        desk.ask("gamma", key="3")


def test_a_refusal_and_a_silence_end_it_and_name_the_member(desk: Desk) -> None:
    refused = desk.ask("alpha", "beta")
    desk.advance()
    desk.answer(refused, "beta", reason="no time")
    assert desk.book.find(refused)["reason"] == "beta refused: no time"
    silent = desk.ask("alpha", "beta", key="k2")
    desk.advance()
    desk.answer(silent, "alpha")
    desk.now += 11
    desk.advance()
    assert desk.book.find(silent)["reason"] == "no answer to the offer from beta"
    assert desk.rows()[-2:] == ["work.end", "work.end"]


def test_it_lives_a_quarter_of_an_hour_without_a_heartbeat_and_a_rank_may_send_it(desk: Desk) -> None:
    lease = desk.runs("alpha", "beta")
    desk.now += 899
    desk.advance()
    assert desk.book.renew(desk.id["gamma"], [lease]) == []
    assert [row["id"] for row in desk.book.renew(desk.id["beta"], [lease])] == [lease]
    desk.now += 899
    desk.advance()
    assert desk.state(lease) == "active"
    desk.now += 2
    desk.advance()
    assert desk.book.find(lease)["reason"] == "no heartbeat for 900 s"
    with pytest.raises(ValueError, match="greater than or equal to 900"):
        WorkLimits(ttl_s=899)


def test_it_goes_on_after_a_start_of_the_hub(desk: Desk) -> None:
    lease = desk.runs("alpha", "beta")
    desk.now += 3000
    desk.book.resume()
    desk.advance()
    assert desk.state(lease) == "active"
    assert [row["id"] for row in desk.book.unshown()] == [lease], "it is announced again"


@pytest.mark.parametrize("who", ["alpha", "beta"])
def test_it_ends_when_its_holder_or_a_rank_is_revoked(desk: Desk, who: str) -> None:
    lease = desk.runs("beta", "gamma")
    desk.members.decide(who, "revoke", "operator")
    desk.advance()
    assert desk.book.find(lease)["reason"] == f"{who} was revoked"


def test_the_operator_of_the_hub_ends_it(desk: Desk) -> None:
    lease = desk.runs("alpha", "beta")
    answer = operate.leases(desk.folder, end=lease, reason="maintenance")
    assert [(each["lease"], each["state"], each["reason"]) for each in answer["work"]] == [
        (lease, "ended", "maintenance")
    ]
    assert f"{lease}  ended" in operate.leases_text(answer)
    assert operate.status(desk.folder)["work"] == {"ended": 1}
    assert desk.rows()[-1] == "work.end"


def test_a_heartbeat_counts_each_lease_once_and_names_not_too_many(desk: Desk) -> None:
    lease = desk.runs("alpha", "beta")
    assert len(desk.book.renew(desk.id["alpha"], [lease] * 257)) == 1
    with pytest.raises(GridRefused, match="a heartbeat for 101 leases; at most 100"):
        desk.book.renew(desk.id["alpha"], map(str, range(101)))


def test_too_many_ranks_are_refused_before_they_are_looked_up(desk: Desk) -> None:
    with pytest.raises(GridRefused, match="a job has 1 to 3 ranks, each another member; got 4"):
        desk.ask("w", "x", "y", "z")


def test_a_member_that_reports_without_a_pause_writes_once_a_second_and_its_last_word_is_kept(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatch = WorkDispatch(desk.store, desk.members, Sessions(), LIMITS)
    lease = desk.runs("alpha", "beta")
    sessions = {
        name: cast(MemberSession, SimpleNamespace(identity=desk.id[name])) for name in ("alpha", "beta", "gamma")
    }
    kept: list[tuple[str, int]] = []
    keep = dispatch.book.jobs.report

    def counted(lease: str, ranks: list[str], rank: str, report: pb.WorkReport) -> None:
        kept.append((rank, report.outer))
        keep(lease, ranks, rank, report)

    monkeypatch.setattr(dispatch.book.jobs, "report", counted)
    for outer in range(1000):
        for name, session in sessions.items():
            dispatch.report(session, pb.WorkReport(lease=lease, outer=outer, checkpoint="ab" * 32))
            dispatch.report(session, pb.WorkReport(lease=f"{lease}-{name}-{outer}", outer=outer))
    assert sorted(kept) == sorted([(desk.id["alpha"], 0), (desk.id["beta"], 0)])
    desk.now += 0.5
    dispatch.now()
    assert len(kept) == 2
    desk.now += 0.6
    dispatch.now()
    assert [(each.rank, each.outer) for each in desk.book.jobs.reports(lease)] == [(0, 999), (1, 999)]
    assert (len(kept), desk.rows().count("work.checkpoint")) == (4, 1)
    dispatch.report(sessions["alpha"], pb.WorkReport(lease=lease, outer=1000, state="ended"))
    desk.now += 2.0
    dispatch.report(sessions["beta"], pb.WorkReport(lease=lease, outer=1000, state="ended"))
    dispatch.now()
    assert [each.state for each in desk.book.jobs.reports(lease)] == ["ended", "ended"]


class HeldLease(RenewedLease[pb.WorkInfo]):
    """A lease at a hub that was away: calls over the connection of before fail."""

    connected, released = False, 0
    _waits_for = ""

    async def _renewed(self) -> pb.WorkInfo | None:
        return self.info

    async def _released(self) -> pb.WorkInfo:
        self.released += 1
        if not self.connected:
            raise GridError("the hub is away")
        return pb.WorkInfo(state=pb.LeaseInfo.ENDED)

    async def _again(self) -> None:
        self.connected = True


async def test_X8_a_lease_is_released_over_a_new_connection_after_the_hub_was_away() -> None:
    async with HeldLease(pb.WorkInfo(state=pb.LeaseInfo.ACTIVE)).held(None) as lease:
        pass
    assert (lease.info.state, lease.released) == (pb.LeaseInfo.ENDED, 2)


def test_a_job_whose_members_are_not_there_keeps_no_other_waiting(desk: Desk) -> None:
    desk.ask("beta", "gamma")
    later = desk.ask("alpha", "beta", key="k2")
    desk.advance("alpha", "beta")
    assert desk.state(later) == "offered"


def test_an_offer_is_made_again_after_a_start_of_the_hub(desk: Desk) -> None:
    lease = desk.ask("alpha", "beta")
    desk.advance()
    desk.answer(lease, "alpha")
    fence = desk.book.find(lease)["fence"]
    desk.now += 60
    desk.book.resume()
    desk.advance("alpha")
    assert desk.state(lease) == "queued", "its members come back one by one"
    desk.advance()
    desk.answer(lease, "beta")
    assert desk.state(lease) == "offered", "each answers again"
    assert desk.book.find(lease)["fence"] > fence
    desk.answer(lease, "alpha")
    assert desk.state(lease) == "active"
