"""Federated jobs without a network: manifest, keys, arithmetic, the end of a round; one job on this machine, locked in."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from grid.commands import job as commands
from grid.commands.plan import PlanSettings, planned
from grid.data.manifest import Sharing
from grid.errors import GridError, GridRefused
from grid.federated.averaging import Common, RoundWait, figures_of, over_budget, refused
from grid.federated.files import USED, read_used, write_used
from grid.identity.keys import IdentityKey
from grid.jobs import environment
from grid.jobs.code import allow
from grid.jobs.folder import flower_of, require_data
from grid.jobs.node_keys import keys_of_ranks, node_keys, statement
from grid.jobs.node_statement import read_statement
from grid.jobs.signing import signed
from grid.member.tissue import GridClient
from grid.wire import grid_pb2 as pb
from tests.grid.ranks import PACKAGES
from tests.grid.test_job_commands import manifest as manifest_of
from tests.grid.test_job_commands import member as member
from tests.grid.test_jobs import DATA, GOOD, job, shared
from tests.grid.test_training_over_hub import data_set, trainers
from tests.grid.training_environment import flower_python
from tests.grid.world import a_hub, until

FEDERATED = GOOD + "engine: federated\nfederated: {clip: 0.5}\n"


def test_G4_a_federated_manifest_has_a_bound_of_updates_and_others_keep_their_form(tmp_path: Path) -> None:
    found = job(tmp_path, FEDERATED)
    assert found.federated is not None
    assert (found.federated.clip, found.federated.patience, found.ranks.required) == (0.5, 2.0, 2)
    assert b"federated" not in job(tmp_path).plain, "as an earlier release wrote it"
    for text, says in (
        (GOOD + "engine: federated\n", "needs federated.clip"),
        (FEDERATED + "codec: int8\n", "the codecs fp32 and fp16"),
        (FEDERATED.replace("0.5", "0"), "federated.clip: Input should be greater than 0"),
        (GOOD + "federated: {clip: 1}\n", "the engine diloco has no federated"),
    ):
        with pytest.raises(GridError, match=says):
            job(tmp_path, text)
    job(tmp_path, FEDERATED)
    with pytest.raises(GridError, match=r"has no plan.*Next: submit it"):
        planned(tmp_path / "job.yaml", (), PlanSettings(tmp_path, None, None, (), None, None))


def test_G4_a_rank_needs_data_of_its_own_and_flower_before_a_federated_job_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "member"
    IdentityKey.in_folder(data)
    elsewhere = "cd" * 32
    with pytest.raises(GridError, match=r"none of the data sets of the split train\. Next: "):
        require_data(data, job(tmp_path, FEDERATED))
    own = shared(tmp_path, "own", Sharing.NO, IdentityKey.generate())
    wanted = job(tmp_path, FEDERATED.replace(DATA, f"{own}, {elsewhere}"))
    require_data(data, wanted)
    with pytest.raises(GridRefused, match="its operator allows it"):
        require_data(data, wanted, "ee" * 32)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(GridError, match=r"federated is missing\. Next: run `choroid grid prepare federated`"):
        flower_of(wanted)
    assert flower_of(job(tmp_path)) is None


def test_G4_keys_of_a_node_are_signed_by_its_identity_for_one_lease_and_stay_when_it_starts_again(
    tmp_path: Path,
) -> None:
    own, lease = IdentityKey.generate(), "1f" * 8
    keys = node_keys(tmp_path / "rank-0", ("127.77.1.1", "127.0.0.1"))
    assert node_keys(tmp_path / "rank-0", ("127.77.1.1", "127.0.0.1")) == keys
    moved = node_keys(tmp_path / "rank-0", ("127.77.2.1", "127.0.0.1"))
    assert (moved[0] == keys[0], moved[1] == keys[1]) == (True, False)
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "rank-0" / "keys").iterdir())
    said = statement(own, lease, *keys)
    assert read_statement(said, lease, own.public) == keys
    other = IdentityKey.generate()
    swapped = json.loads(said) | {"body": json.loads(statement(other, lease, *moved))["body"]}
    for wrong, under, public, says in (
        (said, "2e" * 8, own.public, "for another lease"),
        (said, lease, other.public, "not signed by its identity"),
        (json.dumps(swapped).encode(), lease, own.public, "not signed by its identity"),
        (b"{}", lease, own.public, "malformed"),
        (b" " * 5000, lease, own.public, "malformed"),
    ):
        with pytest.raises(GridRefused, match=says):
            read_statement(wrong, under, public)
    assert keys_of_ranks([(own.public, said)], lease, tmp_path / "rank-0") == [keys[0]]
    assert (tmp_path / "rank-0" / "keys" / "aggregator.pem").read_text() == keys[1]


def test_G4_an_update_counts_only_if_it_is_finite_of_the_right_shape_and_no_longer_than_the_bound() -> None:
    fine = np.full(100, 0.05, np.float16)
    assert refused(fine, 100, 0.5) == ""
    assert "more than 0.4" in refused(fine, 100, 0.4)
    assert "another shape" in refused(fine, 101, 0.5)
    assert "another shape" in refused(fine.astype(np.float64), 100, 0.5)
    assert "not finite" in refused(np.array([0.0, np.nan], np.float32), 2, 0.5)
    common = Common(0, np.ones(2, np.float32), np.zeros(2, np.float32))
    updates = {1: np.array([0.2, 0.0], np.float32), 0: np.array([0.0, 0.4], np.float32)}
    common.advance(updates, rate=1.0, momentum=0.0)
    assert common.shared == pytest.approx([0.9, 0.8])
    common.advance(updates, rate=0.5, momentum=0.9)  # as torch's SGD: momentum 0.19, 0.38, then Nesterov
    assert common.shared == pytest.approx([0.9 - 0.5 * (0.1 + 0.9 * 0.19), 0.8 - 0.5 * (0.2 + 0.9 * 0.38)])
    assert common.outer == 2


FIGURES = {"loss": 2.5, "refused": "", "scores": '{"held out: loss": 2.4}', "sent": 800, "cpu_s": 1.5}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("cpu_s", each) for each in (math.nan, math.inf, -1.0, "much", None)),
        *(("sent", each) for each in (math.inf, math.nan, -1, "much", 1.5)),
        *(("loss", each) for each in (math.nan, math.inf, 1e300, "low")),
        *(("scores", each) for each in ("{", "[1]", '{"a": NaN}', '{"a": "b"}', "3", "[" * 10_000)),
        ("scores", json.dumps({"a" * 1000: 1.0})),
        ("scores", json.dumps({str(number): 1.0 for number in range(1000)})),
        ("refused", 3),
    ],
)
def test_G4_no_answer_of_a_node_ends_the_job_of_the_others_or_lifts_its_budget(name: str, value: object) -> None:
    found = figures_of(FIGURES)
    assert (found.loss, found.scores, found.sent, found.cpu_s) == (2.5, {"held out: loss": 2.4}, 800, 1.5)
    with pytest.raises(ValueError, match=name):
        figures_of(FIGURES | {name: value})
    with pytest.raises(ValueError, match=name):
        figures_of({key: each for key, each in FIGURES.items() if key != name})
    assert len(figures_of(FIGURES | {"refused": "no " * 1000}).refused) <= 300


def test_G4_a_node_and_rank_0_find_the_same_bound_of_a_job_that_is_reached() -> None:
    budget = {"bytes": 1_000, "core_hours": 0.5}
    assert over_budget(budget, 1_000, 1_800.0, 60.0, 60.0) == ""
    assert over_budget(budget, 0, 0.0, None, 1e9) == ""
    assert over_budget(budget, 1_001, 0.0, None, 0.0) == "its budget of bytes is used (1,001)"
    assert "processor time is used (0.50" in over_budget(budget, 0, 1_801.0, None, 0.0)
    assert over_budget(budget, 0, 0.0, 60.0, 60.1) == "its time is over"


def test_G4_what_a_rank_has_used_counts_after_it_was_started_again(tmp_path: Path) -> None:
    assert read_used(tmp_path) == (0, 0.0)
    write_used(tmp_path, 800, 1.5)
    assert read_used(tmp_path) == (800, 1.5)
    for damaged in (b"", b"[1]", b"[-1, 2.0]", b"[1, NaN]", b"{}"):
        (tmp_path / USED).write_bytes(damaged)
        with pytest.raises(ValueError, match=USED):
            read_used(tmp_path)


def test_G4_a_round_ends_after_twice_the_time_that_the_required_nodes_took_however_slow_the_machine() -> None:
    for slow in (1.0, 100.0):
        wait = RoundWait(asked=3, required=2, patience=2.0)
        assert not wait.over(1, 5.0 * slow)
        assert math.isinf(wait.quorum_s)
        assert not wait.over(2, 6.0 * slow)
        assert not wait.over(2, 11.9 * slow)
        assert wait.over(2, 12.0 * slow)
        assert wait.over(3, 6.1 * slow)
    assert RoundWait(3, 2, 2.0).over(2, 1.0, failed=1), "the third has answered with an error"


async def test_G4_keys_of_nodes_are_registered_at_the_hub_which_passes_them_on_and_takes_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHOROID_TORCH", sys.executable)  # nothing is started
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache" / "choroid-federated").mkdir(parents=True)
    (tmp_path / "cache" / "choroid-federated" / environment.READY).write_text("{}")
    async with a_hub(tmp_path) as hub, trainers(tmp_path, hub, tmp_path) as members:
        ids = [members[name].link.membership.key.id for name in ("alpha", "beta")]
        sets = [data_set(tmp_path / name, f"own-{name}", 100, 1, Sharing.PUBLIC) for name in ("alpha", "beta")]
        code = {allow(tmp_path / name, PACKAGES / "rows") for name in ("alpha", "beta")}.pop()
        text = FEDERATED.replace(DATA, ", ".join(sets)).replace("max: 3", "max: 2")
        wanted = job(tmp_path, text).with_code(code).with_ranks(ids)
        owner = IdentityKey.in_folder(tmp_path / "alpha")
        async with (
            GridClient(tmp_path / "alpha") as client,
            client.work("rows", ["alpha", "beta"], manifest=signed(wanted, owner), wait_s=60) as lease,
        ):
            name = lease.info.lease
            await until(lambda: all(each.keys for each in members["beta"]._registered.ranks or [pb.WorkRank()]))
            for told in (members[each]._registered for each in ("alpha", "beta")):
                assert [each.member for each in told.ranks] == ids
                public = [read_statement(each.keys, name, each.key)[0] for each in told.ranks]
                assert len(set(public)) == 2
            noted = [json.loads(row["body"]) for row in hub.store.query("SELECT CAST(body AS BLOB) AS body FROM log")]
            assert {each["about"]["member"] for each in noted if each["kind"] == "work.keys"} == set(ids)
            same = pb.LeaseVerdict(lease=name, accepted=True, keys=members["beta"]._keys(name))
            hub.work.book.verdict(ids[1], same)
            assert hub.work.book.find(name)["state"] in ("offered", "active"), "a restarted member has the same"
            other = statement(
                IdentityKey.in_folder(tmp_path / "beta"), name, *node_keys(tmp_path / "x", ("127.0.0.1",))
            )
            hub.work.book.verdict(ids[1], pb.LeaseVerdict(lease=name, accepted=True, keys=other))
            assert "other keys than are registered" in hub.work.book.find(name)["reason"]


ANSWERS = """
import io, json, pickle
import numpy as np
from federated.aggregator import Aggregator
from federated.averaging import Common
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from flwr.app.message import Array

zeros = np.zeros(4, np.float32)
one = object.__new__(Aggregator)
one._plain, one._common, one._used = {"federated": {"clip": 0.5}}, Common(0, zeros, zeros), {}
said = {"loss": 1.0, "refused": "", "scores": "{}", "sent": 8, "cpu_s": 1.0}

def answer(array, **more):
    return RecordDict({"figures": ConfigRecord({**said, **more}), "update": ArrayRecord({"update": array})})

def raw(data, stype="numpy.ndarray"):
    return answer(Array("float32", (4,), stype, data))

zipped, whole = io.BytesIO(), io.BytesIO()
np.savez(zipped, zeros)
np.save(whole, zeros)
fine = Array(zeros + np.float32(0.1))
replies = [
    answer(fine), answer(fine, sent=float("inf")), answer(fine, cpu_s=float("nan")), answer(fine, loss=float("nan")),
    answer(fine, scores="["), RecordDict({}), RecordDict({"figures": ConfigRecord(said)}), raw(b""),
    raw(zipped.getvalue()), raw(bytes(10_000)), raw(pickle.dumps([1])), raw(whole.getvalue()[:-2]),
    raw(whole.getvalue(), "other"), answer(Array(zeros * np.nan)), answer(Array(zeros + 1)), answer(Array(np.zeros(5))),
    RecordDict({"figures": ConfigRecord(said), "update": ConfigRecord({"update": "none"})}),
]
updates, excluded, figures = one._judged(dict(enumerate(replies)))
print(json.dumps([sorted(updates), len(excluded), len(replies), sum(each for each, _ in one._used.values()) % 8]))
"""
"""What nodes may send; run in Flower's environment."""


@pytest.mark.long
def test_G4_no_answer_that_a_node_can_send_ends_the_aggregator() -> None:
    words = [str(flower_python()), "-B", "-c", ANSWERS]
    done = subprocess.run(words, cwd=str(files("grid")), capture_output=True, check=False, env={})
    assert done.returncode == 0, done.stderr.decode()
    counted, excluded, all_of_them, rest = json.loads(done.stdout)
    assert (counted, rest) == ([0], 0)
    assert excluded == all_of_them - 1


@pytest.mark.long
@pytest.mark.within_s(200)
def test_G4_a_federated_job_runs_locked_in_by_flower_and_goes_on_after_its_superlink_was_killed(member: Path) -> None:
    flower_python()
    file = manifest_of(member, "rows", 2, "engine: federated\nfederated: {clip: 0.02}\n")
    said: list[str] = []
    answers: dict[str, int] = {}

    def say(line: str) -> None:
        said.append(line)
        if line.startswith("outer step 1: held out"):
            answers.update(interfaces(member))
        if line.startswith("outer step 2: held out"):
            (superlink,) = processes("federated.superlink", str(member))
            os.kill(superlink, signal.SIGKILL)

    found = commands.run(member, file, say)
    folder = Path(found["folder"])
    assert found["end"]["outer"] == 4
    assert len({path.name for path in folder.glob("rank-*/model-*")}) == 1
    events = {
        path.parent.name: [json.loads(line) for line in path.read_text().splitlines()]
        for path in folder.glob("rank-*/events.jsonl")
    }
    assert [each["outer"] for each in events["rank-0"] if each["event"] == "resumed"] == [2]
    steps = [each for each in events["rank-0"] if each["event"] == "step"]
    assert [(each["counted"], each["excluded"]) for each in steps] == [([0, 1], {})] * 4
    updates = [each for rank in events.values() for each in rank if each["event"] == "update"]
    assert all(each["clipped"] and each["norm"] > 0.02 for each in updates), "longer ones are shortened, not left out"
    assert [line for line in said if line.startswith("outer step 4: held out: loss")]
    assert not processes("federated", str(member)), "nothing is left"
    assert answers.pop("the job's address, fleet") not in (200, 404), "a node without a registered key gets no further"
    assert len(answers) == 3
    assert set(answers.values()) == {404}, "control is on loopback alone, and not without a password"
    assert not list(folder.glob("rank-*/.flwr/apps")), "no app of Flower was installed"


def interfaces(member: Path) -> dict[str, int]:
    """Return the answers of Flower's interfaces to one who knows no password and has no key."""
    (superlink,) = processes("federated.superlink", str(member))
    words = Path(f"/proc/{superlink}/cmdline").read_text().split("\0")
    settings = json.loads(next(Path(each) for each in words if each.endswith("settings.json")).read_bytes())
    port = words[[each.endswith("settings.json") for each in words].index(True) + 1]
    trust = ssl.create_default_context(cafile=str(Path(settings["federated"]["keys"]) / "aggregator.pem"))

    def answer(address: str, path: str) -> int:
        try:
            with urllib.request.urlopen(f"https://{address}{path}", data=b"", context=trust) as found:
                return int(found.status)
        except urllib.error.HTTPError as error:
            return error.code

    outer = f"{settings['addresses'][0]}:29400"
    return {
        "the job's address, fleet": answer(outer, "/v1/fleet/pull-messages"),
        "the job's address, control": answer(outer, "/v1/control/list-nodes"),
        "the job's address, runtime": answer(outer, "/v1/runtime/acquire-task"),
        "loopback, control": answer(f"127.0.0.1:{port}", "/v1/control/list-nodes"),
    }


def processes(*words: str) -> list[int]:
    """Return the processes in whose commands these words occur."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            text = path.read_text()
            if all(word in text for word in words):
                found.append(int(path.parent.name))
    return found
