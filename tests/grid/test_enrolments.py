"""S3, X5: unknown clients who ask to enrol keep no one out, one identity has one process, and a log has one beginning."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from unittest.mock import patch

import pytest

from choroid.cli import main
from grid.errors import GridError, GridRefused
from grid.hub.members import Members, address_of
from grid.hub.owner import owned
from grid.member.daemon import MemberDaemon
from grid.member.membership import Membership
from grid.policy.policy import EnrolmentLimits
from tests.grid.enrolments import ORIGINS, besieged
from tests.grid.world import a_hub, a_member, approved, membership, running, until

FEW = EnrolmentLimits(waiting=40, of_address=5, expire_s=3600)


@pytest.mark.parametrize("origin", ORIGINS)
def test_S3_unknown_clients_that_ask_to_enrol_keep_no_one_out_and_no_name(origin: str, tmp_path: Path) -> None:
    found = besieged(tmp_path, 400, origin, FEW)
    assert found.faults == []
    assert 0 < found.waiting <= FEW.waiting


@pytest.mark.parametrize(
    ("spoiled", "says"),
    [
        ("_make_room", ("limit is 40", "is not free after its time")),
        ("refuse_waiting", ("is not free after a refusal",)),
    ],
)
def test_J1_the_judge_of_enrolments_notices_a_hub_that_forgets_a_limit(
    spoiled: str, says: tuple[str, ...], tmp_path: Path
) -> None:
    with patch.object(Members, spoiled, lambda *_: 0):
        faults = besieged(tmp_path, 100, "each its own address", FEW).faults
    assert all(any(text in fault for fault in faults) for text in says), faults


def test_J1_the_judge_of_enrolments_notices_a_hub_that_closes(tmp_path: Path) -> None:
    def closes(self: Members, database: object, address: str) -> None:
        if sum(self.waiting().values()) >= FEW.waiting:
            raise GridRefused("try again later")

    with patch.object(Members, "_make_room", closes):
        faults = besieged(tmp_path, 100, "each its own address", FEW).faults
    assert any("the laboratory is refused" in fault or "not approved" in fault for fault in faults) or any(
        "is not free after its time" in fault for fault in faults
    )


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:192.0.2.7:4711", "192.0.2.7"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:4711", "2001:db8:1:2::/64"),
        ("ipv6:[2001:db8:1:2:ffff::9]:1", "2001:db8:1:2::/64"),
        ("ipv6:%5B::ffff:192.0.2.7%5D:4711", "192.0.2.7"),
        ("ipv6:%5Bfe80::1%25eth0%5D:1", "fe80::/64"),
        ("unix:", "unix:"),
    ],
)
def test_S3_an_address_is_that_of_a_subscriber(peer: str, address: str) -> None:
    assert address_of(peer) == address


async def test_S3_requests_of_one_address_have_a_limit_and_an_operator_refuses_them_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ("--data", str(tmp_path / "hub"))
    async with a_hub(tmp_path, rules={"enrolment": {"of_address": 3}}) as hub:
        for number in range(3):
            await membership(tmp_path, hub, f"m{number}").enrol()
        with pytest.raises(GridRefused, match=r"3 requests from 127\.0\.0\.1 wait .* limit of one address"):
            await membership(tmp_path, hub, "late").enrol()
        assert main(["grid", "member", "list", *data]) == 0
        assert "3 requests wait from 127.0.0.1" in capsys.readouterr().out
        assert main(["grid", "member", "refuse-waiting", "192.0.2.1", *data]) == 1
        assert "no request from 192.0.2.1 waits" in capsys.readouterr().err
        words = ["grid", "member", "refuse-waiting", "127.0.0.1", "--reason", "unknown clients", "--json", *data]
        assert main(words) == 0
        assert json.loads(capsys.readouterr().out)["waiting"] == {}
        with pytest.raises(GridRefused, match="refused at the hub: unknown clients"):
            await membership(tmp_path, hub, "m1").require_certificate()
        await membership(tmp_path / "other", hub, "m1").enrol()
        assert hub.members.waiting() == {"127.0.0.1": 1}


async def test_X5_a_second_process_of_one_identity_is_refused_by_name_and_the_first_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    async with a_hub(tmp_path) as hub, a_member(tmp_path, hub, "alpha") as first:
        shutil.copytree(tmp_path / "alpha", tmp_path / "copy")
        session = hub.sessions.find(Membership.load(tmp_path / "alpha").key.id)
        second = MemberDaemon(Membership.load(tmp_path / "copy"), said.append)
        async with running(second.run()):
            await until(lambda: sum("another process is connected as alpha" in each for each in said) >= 2)
            assert not second.link.connected.is_set()
            assert any("data folder was copied" in each and "ipv4:127.0.0.1" in each for each in said)
            assert first.link.connected.is_set()
            assert session is not None
            assert session.ended == ""


async def test_X5_a_process_that_dials_again_replaces_its_own_connection(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        daemon = MemberDaemon(await approved(tmp_path, hub, "alpha"))
        key = Membership.load(tmp_path / "alpha").key.id
        async with running(daemon.run()):
            await until(daemon.link.connected.is_set)
            before = hub.sessions.find(key)
            assert before is not None
            dialled = asyncio.create_task(daemon.link._connection())
            await until(lambda: hub.sessions.find(key) not in (None, before))
            assert before.ended == "a newer connection of the same identity was opened"
            dialled.cancel()
            await asyncio.gather(dialled, return_exceptions=True)


@pytest.mark.parametrize("emptied", [False, True])
async def test_X6_a_hub_without_its_database_does_not_begin_a_second_log_by_itself(
    emptied: bool, tmp_path: Path
) -> None:
    async with a_hub(tmp_path) as hub:
        first, key = hub.store.name, hub.store.public_key
    for path in (tmp_path / "hub").glob("hub.sqlite*"):
        path.unlink()
    if emptied:
        (tmp_path / "hub" / "hub.sqlite").touch()
    with pytest.raises(GridError, match=r"missing or empty.*--new-log"):
        async with a_hub(tmp_path):
            """It must not start."""
    with pytest.raises(GridError, match=r"missing or empty.*--new-log"):
        owned(tmp_path / "hub")
    async with a_hub(tmp_path, new_log=True) as hub:
        assert hub.store.public_key == key
        assert hub.store.name.startswith(f"{first}-")
        again = hub.store.name
    async with a_hub(tmp_path) as hub:
        assert hub.store.name == again


async def test_the_limits_of_enrolment_are_part_of_the_policy(tmp_path: Path) -> None:
    with pytest.raises(GridError, match=r"enrolment\.of_address"):
        async with a_hub(tmp_path, rules={"enrolment": {"of_address": 0}}):
            """It must not start."""
