"""Uploaded reflexes: graphs of agents that run inside the engine, and what happens when they fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from controller.sandbox.errors import ModelFailed, ModelTooSlow
from controller.sandbox.model import SandboxedModel
from controller.sandbox.wire import Port
from nerves import ledger
from nerves.cards.contract import FrameBlock, Phase
from nerves.commands import LeaseCommand, RevokeCommand
from nerves.detector import LOW_DELAY, Detection
from nerves.events import EventKind
from nerves.reflexes import MAX_REFLEXES, ReflexRefused, ReflexTerms, UploadedReflex, interface_of
from tests.nerves.bench import PULSE, Bench, VirtualCrystal, bench
from tests.processes import until
from tests.sandbox.models import constant, floats, loop, model_of

RATE = 25_000
ELECTRODES = 32
WAIT_S = 30.0
"""Real time that a block of the tests may wait for a worker: a busy machine delays a test and does not fail it."""


def graph(designs: int = 1) -> bytes:
    """Return a reflex that asks for design 0 at electrode 0 in each block with a spike, and counts these blocks."""
    model: bytes = model_of(
        [
            helper.make_node("ReduceSum", ["spikes", "axes"], ["sum"], keepdims=1),
            helper.make_node("Greater", ["sum", "zero"], ["any"]),
            helper.make_node("Cast", ["any"], ["found"], to=1),
            helper.make_node("Mul", ["found", "mask"], ["pulses"]),
            helper.make_node("Add", ["state", "found"], ["next_state"]),
        ],
        [floats("spikes", 3, ELECTRODES), floats("state", 1, 1)],
        [floats("pulses", designs, ELECTRODES), floats("next_state", 1, 1)],
        [
            constant("axes", np.array([0, 1])),
            constant("zero", np.zeros((1, 1), np.float32)),
            constant("mask", np.eye(designs, ELECTRODES, dtype=np.float32)),
        ],
    ).SerializeToString()
    return model


@dataclass
class Script:
    """A model that answers as it is scripted, without a process: None is an answer that is not there."""

    answers: list[Any]
    busy: bool = False
    killed: str = ""
    share: float = 1.0
    seen: list[np.ndarray[Any, Any]] = field(default_factory=list)

    def start(self, inputs: Any) -> None:
        assert not self.busy
        self.busy = True
        self.seen.append(inputs["spikes"].copy())

    def processor_share(self) -> float:
        return self.share

    def result(self, within_s: float) -> Any:
        answer = self.answers.pop(0) if self.answers else np.zeros((1, ELECTRODES), np.float32)
        if answer is None:
            return None
        self.busy = False
        if isinstance(answer, Exception):
            raise answer
        return {"pulses": answer}

    def kill(self, why: str) -> ModelFailed:
        self.killed = why
        return ModelTooSlow(why)


ASK = np.eye(1, ELECTRODES, dtype=np.float32)
QUIET = np.zeros((1, ELECTRODES), np.float32)
SPIKES_PORT = Port("spikes", "<f4", (3, ELECTRODES))


def put(lab: Bench, model: Any, lease: str, **terms: Any) -> tuple[UploadedReflex, list[str]]:
    """Attach a reflex; return it and the reasons of its end so far."""
    ended: list[str] = []
    interface = interface_of([SPIKES_PORT], [Port("pulses", "<f4", (1, ELECTRODES))], ELECTRODES, 1)
    known = ReflexTerms("agent", lease, (PULSE,), purpose="reflex", **terms)
    reflex = UploadedReflex(model, interface, known, lab.core.info, ended.append)
    lab.core.uploaded.attach(reflex)
    return reflex, ended


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path / "ledger.db", reflex_wait_s=WAIT_S) as made:
        made.run(0.5)
        yield made


@pytest.mark.parametrize(("block_frames", "bin_frames", "frames"), [(5, 0, 25), (5, 5, 5), (5, 12, 15), (25, 5, 25)])
def test_a_window_moves_by_the_bins_that_its_reflex_declares(
    tmp_path: Path, block_frames: int, bin_frames: int, frames: int
) -> None:
    with bench(tmp_path / "ledger.db", reflex_wait_s=WAIT_S, block_frames=block_frames) as lab:
        lab.run(0.5)
        lease = lab.lease(0, ttl_s=5.0)
        model = Script([])
        reflex, ended = put(lab, model, lease.id, bin_frames=bin_frames)
        lab.run(0.002)
        model.seen.clear()
        blocks, first = reflex.blocks, lab.core.next_frame
        spikes = sum(map(len, lab.run(0.3)))
        assert not ended
        assert reflex.blocks - blocks == pytest.approx((lab.core.next_frame - first) / frames, abs=1)
        counted = sum(float(window[-1].sum()) for window in model.seen)
        assert spikes > 10
        assert counted == pytest.approx(spikes, abs=3)  # at the ends


def test_a_reflex_sees_the_spikes_of_low_delay(tmp_path: Path) -> None:
    detection = Detection(reflex_filter=LOW_DELAY)
    with bench(tmp_path / "ledger.db", reflex_wait_s=WAIT_S, block_frames=5, detection=detection) as lab:
        lab.run(0.5)
        lease = lab.lease(0, ttl_s=5.0)
        model = Script([])
        put(lab, model, lease.id, bin_frames=5)
        lab.run(0.002)
        model.seen.clear()
        first = lab.core.next_frame
        reported = [frame for spikes in lab.run(0.5) for frame in spikes.frames.tolist()]
        seen = [first + 5 * (turn + 1) for turn, window in enumerate(model.seen) if window[-1].any()]
        delays = [min(late for at in seen if (late := at - frame) > 0) for frame in reported if frame < seen[-1]]
        assert len(delays) > 20
        assert float(np.median(delays)) <= 10


def test_no_graph_runs_while_the_engine_is_behind_the_array(tmp_path: Path) -> None:
    """A graph that takes longer than a block would make the engine later with each block, and end all leases."""

    crystal = VirtualCrystal()

    class Slow(Script):
        def result(self, within_s: float) -> Any:
            crystal.stall(min(within_s, 0.00025))
            return super().result(within_s)

    with bench(tmp_path / "ledger.db", block_frames=5, crystal=crystal) as made:
        made.run(0.5)
        lease = made.lease(0, ttl_s=10.0)
        reflex, ended = put(made, Slow([]), lease.id, bin_frames=5)
        behind = 0
        for _ in range(5_000):
            made.core.step(made.array.read())
            behind = max(behind, made.array.now_frame() - made.core.next_frame)
        assert (made.core.gaps, ended) == (0, [])
        assert behind <= 75
        assert 500 < reflex.late < reflex.calls


def records(lab: Bench, tmp_path: Path) -> Sequence[ledger.StimulationRecord]:
    return ledger.read(tmp_path / "ledger.db", limit=1000)


def test_N11_a_graph_in_its_sandbox_stimulates_through_governor_and_ledger(lab: Bench, tmp_path: Path) -> None:
    lease = lab.lease(0, ttl_s=5.0)
    ended: list[str] = []
    with SandboxedModel.open(graph()) as model:
        interface = interface_of(model.inputs, model.outputs, ELECTRODES, 1)
        assert interface.bins == 3
        assert list(interface.states) == ["state"]
        terms = ReflexTerms("agent", lease.id, (PULSE,), purpose="test", min_interval_s=0.1)
        reflex = UploadedReflex(model, interface, terms, lab.core.info, ended.append)
        lab.core.uploaded.attach(reflex)
        lab.run(0.5)
        assert reflex.calls > 400
        assert reflex.late == 0
        assert 1 <= reflex.accepted <= reflex.asked <= 6
        lab.core.uploaded.detach(reflex)
        lab.run(0.002)
        assert ended == ["its agent ended it"]
    made = [record for record in records(lab, tmp_path) if record.purpose == "test"]
    assert len(made) == reflex.asked
    assert {record.tier for record in made} == {"uploaded"}
    assert {record.requester for record in made} == {"agent"}
    assert sum(pulse.state == "delivered" for record in made for pulse in record.pulses) == reflex.accepted


def test_N11_a_reflex_reaches_no_electrode_beyond_its_lease(lab: Bench, tmp_path: Path) -> None:
    lease = lab.lease(1)
    reflex, ended = put(lab, Script([ASK]), lease.id)
    lab.run(0.01)
    assert (reflex.asked, reflex.accepted) == (1, 0)
    assert not ended
    assert not lab.begun()
    (record,) = records(lab, tmp_path)
    assert not record.accepted


def test_N11_a_late_answer_stimulates_nothing_and_is_reported(lab: Bench) -> None:
    lease = lab.lease(0)
    reflex, ended = put(lab, Script([None, None, ASK, QUIET]), lease.id)
    lab.run(0.01)
    assert reflex.late == 1
    assert reflex.asked == 0
    assert not ended
    assert not lab.begun()
    kinds = [event.kind for event in lab.core.events.read(0, "agent")[1]]
    assert kinds.count(EventKind.REFLEX_LATE) == 1
    assert EventKind.REFLEX_LATE not in [event.kind for event in lab.core.events.read(0, "another")[1]]


def test_N11_a_block_without_frames_starts_no_graph_and_makes_no_late_answer_timely(lab: Bench) -> None:
    lease = lab.lease(0)
    script = Script([None, ASK, QUIET])
    reflex, _ = put(lab, script, lease.id)
    lab.run(0.001)
    assert (reflex.calls, reflex.late) == (1, 1)
    lab.core.step(FrameBlock(lab.core.next_frame, np.empty((0, ELECTRODES), np.int16), ()))
    assert (reflex.calls, reflex.asked, len(script.seen)) == (1, 0, 1)
    lab.run(0.01)
    assert reflex.asked == 0
    assert not lab.begun()


def test_N11_a_reflex_without_timely_answers_is_killed(lab: Bench) -> None:
    lease = lab.lease(0)
    script = Script([None] * 1000)
    _, ended = put(lab, script, lease.id)
    lab.run(0.09)
    assert not ended
    lab.run(0.03)
    assert "no timely answer for 100 ms" in ended[0]
    assert script.killed
    assert [event.kind for event in lab.core.events.read(0, "agent")[1]].count(EventKind.REFLEX_ENDED) == 1
    assert len(lab.core.uploaded) == 0


def test_B2_a_reflex_that_gets_no_processor_goes_on_when_it_gets_one(lab: Bench) -> None:
    script = Script([None] * 700 + [ASK], share=0.1)
    reflex, ended = put(lab, script, lab.lease(0).id)
    lab.run(0.6)
    assert not ended
    assert (reflex.calls, reflex.late, reflex.accepted) == (1, 1, 0)
    assert reflex.blocks > 500, "those that it could not answer are counted"
    script.share = 1.0
    script.answers = [None] * 700
    lab.run(0.2)
    assert ended, "one that runs and is silent is ended, also after a busy time"


def test_N11_an_endless_graph_holds_up_no_block(tmp_path: Path) -> None:
    with bench(tmp_path / "ledger.db") as lab:
        lab.run(0.1)
        lease = lab.lease(0)
        ports = [Port("spikes", "<f4", (3, ELECTRODES))], [Port("pulses", "<f4", (1, ELECTRODES))]
        ended: list[str] = []
        with SandboxedModel.open(loop(1 << 60).SerializeToString()) as model:
            endless = Endless(model)
            terms = ReflexTerms("agent", lease.id, (PULSE,))
            reflex = UploadedReflex(endless, interface_of(*ports, ELECTRODES, 1), terms, lab.core.info, ended.append)
            lab.core.uploaded.attach(reflex)

            def has_ended() -> bool:
                lab.command("renew", lease)  # a busy machine gives the graph no processor for the array time of a lease
                lab.run(0.2)
                return bool(ended)

            until(has_ended, "it is ended once it has run")
            assert "no timely answer" in ended[0]
            assert reflex.calls == 1
            assert not lab.begun()


class Endless:
    """An endless graph with other inputs than those of a reflex."""

    def __init__(self, model: SandboxedModel) -> None:
        self._model = model
        self.result, self.kill, self.processor_share = model.result, model.kill, model.processor_share

    @property
    def busy(self) -> bool:
        return self._model.busy

    def start(self, inputs: Any) -> None:
        self._model.start({"x": np.ones(1, np.float32)})


@pytest.mark.parametrize(
    "answer",
    [
        ModelFailed("the worker ended"),
        np.ones((2, ELECTRODES), np.float32),
        RuntimeError("a defect"),
    ],
)
def test_N11_a_failed_graph_ends_its_reflex_and_nothing_else(lab: Bench, answer: Any) -> None:
    lease = lab.lease(0)
    _, ended = put(lab, Script([QUIET, answer, ASK]), lease.id)
    other, other_ended = put(lab, Script([QUIET, QUIET, QUIET, ASK]), lease.id)
    lab.run(0.02)
    assert len(ended) == 1
    assert not other_ended
    assert other.accepted == 1
    assert len(lab.begun()) == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_N11_values_that_are_no_numbers_ask_for_nothing_and_are_named(lab: Bench, value: float) -> None:
    lease = lab.lease(0)
    answer = QUIET.copy()
    answer[0, 0] = value
    reflex, ended = put(lab, Script([QUIET, answer, ASK]), lease.id)
    lab.run(0.01)
    assert reflex.asked == 0
    (why,) = ended
    assert f"1 of {ELECTRODES} values that are NaN or infinite" in why


def test_N3_a_reflex_ends_with_its_lease(lab: Bench) -> None:
    lease = lab.lease(0, ttl_s=0.1)
    _, ended = put(lab, Script([]), lease.id)
    lab.run(0.05)
    assert not ended
    lab.run(0.1)
    assert ended == ["its lease ended"]


def test_N3_a_reflex_is_no_sign_of_life_of_its_agent(lab: Bench) -> None:
    answers: list[Any] = []
    lab.core.submit(LeaseCommand("acquire", "agent", answers.append, electrodes=(0,), ttl_s=5.0, held=True))
    lab.run(0.001)
    reflex, ended = put(lab, Script([ASK] * 1000), answers[0].id, min_interval_s=0.02)
    lab.run(0.2)
    assert not ended
    assert reflex.asked >= 3
    assert max(lab.begun()) - answers[0].alive_frame <= 0.045 * RATE


def test_A9_an_emergency_stop_and_a_revocation_end_a_reflex(lab: Bench) -> None:
    lease = lab.lease(0)
    _, ended = put(lab, Script([ASK] * 1000), lease.id)
    lab.run(0.01)
    done: list[int] = []
    lab.core.submit(RevokeCommand("agent", lambda: done.append(1), "revoked"))
    lab.run(0.003)
    assert ended == ["its lease ended"]


def test_S2_a_reflex_under_the_lease_of_another_agent_never_runs(lab: Bench) -> None:
    lease = lab.lease(0, requester="anna")
    reflex, ended = put(lab, Script([ASK] * 10), lease.id)
    lab.run(0.01)
    assert ended == ["its lease ended"]
    assert reflex.calls == 0


def test_N11_refusals_slow_a_reflex_down(lab: Bench, tmp_path: Path) -> None:
    lease = lab.lease(1)
    put(lab, Script([ASK] * 1000), lease.id)
    lab.run(0.5)
    assert 5 <= len(records(lab, tmp_path)) <= 12


def test_the_window_moves_by_one_row_each_block(lab: Bench) -> None:
    lease = lab.lease(0)
    script = Script([])
    put(lab, script, lease.id)
    spikes = lab.run(0.3)
    assert sum(map(len, spikes)) > 0
    counts = [np.bincount(each.electrodes, minlength=ELECTRODES) for each in spikes]
    for turn in range(3, len(script.seen)):
        assert np.array_equal(script.seen[turn], np.array(counts[turn - 2 : turn + 1]))


def test_N11_more_reflexes_than_the_limit_are_refused(lab: Bench) -> None:
    lease = lab.lease(0)
    put_ones = [put(lab, Script([]), lease.id) for _ in range(MAX_REFLEXES + 1)]
    lab.run(0.003)
    assert [len(ended) for _, ended in put_ones] == [0] * MAX_REFLEXES + [1]
    assert "reflexes run already" in put_ones[-1][1][0]


def test_N4_an_older_ledger_has_remote_requests_only(lab: Bench, tmp_path: Path) -> None:
    lease = lab.lease(0)
    put(lab, Script([ASK]), lease.id)
    lab.run(0.01)
    assert [record.tier for record in records(lab, tmp_path)] == ["uploaded"]


def port(name: str, *shape: int | None, dtype: str = "<f4") -> Port:
    return Port(name, dtype, shape)


GOOD_IN = port("spikes", 10, 32)
GOOD_OUT = port("pulses", 2, 32)


@pytest.mark.parametrize(
    ("inputs", "outputs", "designs", "says"),
    [
        ([], [GOOD_OUT], 2, "the input “spikes”"),
        ([port("spikes", 10, 31)], [GOOD_OUT], 2, "the input “spikes”"),
        ([port("spikes", 10, 32, dtype="<f8")], [GOOD_OUT], 2, "the input “spikes”"),
        ([port("spikes", None, 32)], [GOOD_OUT], 2, "number of bins"),
        ([port("spikes", 1001, 32)], [GOOD_OUT], 2, "number of bins"),
        ([GOOD_IN], [], 2, "the output “pulses”"),
        ([GOOD_IN], [GOOD_OUT], 3, "the output “pulses”"),
        ([GOOD_IN], [GOOD_OUT], 0, "designs"),
        ([GOOD_IN], [port("pulses", 17, 32)], 17, "designs"),
        ([GOOD_IN, port("memory", 1)], [GOOD_OUT], 2, "the input “memory”"),
        ([GOOD_IN, port("state", None)], [GOOD_OUT, port("next_state", None)], 2, "the input “state”"),
        ([GOOD_IN, port("state", 1)], [GOOD_OUT], 2, "needs an output"),
        ([GOOD_IN, port("state", 1)], [GOOD_OUT, port("next_state", 1, dtype="<i8")], 2, "needs an output"),
        ([GOOD_IN], [GOOD_OUT, port("more", 1)], 2, "the output “more”"),
    ],
)
def test_the_inputs_and_outputs_of_a_reflex_are_checked(
    inputs: list[Port], outputs: list[Port], designs: int, says: str
) -> None:
    with pytest.raises(ReflexRefused, match=says):
        interface_of(inputs, outputs, 32, designs)


def test_a_request_of_a_reflex_has_its_design(lab: Bench, tmp_path: Path) -> None:
    lease = lab.lease(0, 5)
    other = (Phase(100.0, -0.5), Phase(100.0, 0.5))
    wanted = np.zeros((2, ELECTRODES), np.float32)
    wanted[1, [0, 5]] = 1.0
    interface = interface_of([SPIKES_PORT], [Port("pulses", "<f4", (2, ELECTRODES))], ELECTRODES, 2)
    terms = ReflexTerms("agent", lease.id, (PULSE, other), fence=lease.fence)
    lab.core.uploaded.attach(
        UploadedReflex(Script([wanted] + [wanted * 0] * 50), interface, terms, lab.core.info, print)
    )
    lab.run(0.02)
    (record,) = records(lab, tmp_path)
    assert record.electrodes == (0, 5)
    assert record.phases == ((100.0, -0.5), (100.0, 0.5))


def test_a_reflex_answers_within_two_milliseconds_of_the_array(lab: Bench) -> None:
    """By the array's clock: filter, block and lead of the array; what the graph takes of real time comes on top."""
    lease = lab.lease(0, 1, 2, 3, ttl_s=10.0)
    one_row = model_of(
        [
            helper.make_node("ReduceSum", ["spikes", "axes"], ["sum"], keepdims=1),
            helper.make_node("Mul", ["sum", "mask"], ["pulses"]),
        ],
        [floats("spikes", 1, ELECTRODES)],
        [floats("pulses", 1, ELECTRODES)],
        [constant("axes", np.array([0, 1])), constant("mask", np.eye(1, ELECTRODES, dtype=np.float32))],
    )
    with SandboxedModel.open(one_row.SerializeToString()) as model:
        interface = interface_of(model.inputs, model.outputs, ELECTRODES, 1)
        terms = ReflexTerms("agent", lease.id, (PULSE,), min_interval_s=0.02)
        reflex = UploadedReflex(model, interface, terms, lab.core.info, print)
        lab.core.uploaded.attach(reflex)
        latencies_ms = []
        for _ in range(4000):
            accepted = reflex.accepted
            (spikes,) = lab.run(0.001)
            if reflex.accepted > accepted:
                first = int(spikes.frames[0])
                lab.run(0.004)
                latencies_ms.append((lab.begun()[-1] - first) / RATE * 1e3)
    assert reflex.accepted == len(latencies_ms) > 20
    assert np.percentile(latencies_ms, 99) <= 2.0
