"""Latency from a spike to a stimulation through an uploaded ONNX reflex, by the array's clock."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from choroid.running.card_process import CardProcess
from controller.sandbox.model import SandboxedModel
from nerves.cards.contract import ElectrodeCard, Phase
from nerves.commands import LeaseCommand
from nerves.core import Core
from nerves.detector import warm_up
from nerves.engine import undisturbed
from nerves.envelope import Envelope
from nerves.ledger import StimulationLedger
from nerves.precedence import take_precedence
from nerves.reflexes import ReflexTerms, UploadedReflex, interface_of

ELECTRODES = 32
PULSE = (Phase(100.0, -0.4), Phase(100.0, 0.4))
SECONDS = 20.0
MIN_INTERVAL_S = 0.02


def bench_reflex() -> dict[str, Any]:
    """Measure an uploaded reflex on the real-time thread of an engine, with its card in another process, for 20 s."""
    with tempfile.TemporaryDirectory() as folder, SandboxedModel.open(spike_graph()) as model:
        warm_up(ELECTRODES)
        array = CardProcess({"electrodes": ELECTRODES, "material": "Pt", "diameter_um": 30.0, "seed": 1})
        core = Core(array, StimulationLedger(Path(folder) / "ledger.db", array.info, ""), Envelope())
        loop = _Loop(core, array, model)
        with undisturbed():
            thread = threading.Thread(target=loop.run)
            thread.start()
            thread.join()
        core.close()
    return _figures(loop, array.info.sample_rate_hz)


class _Loop:
    """An engine with a reflex; after a gap of frames, which ends every lease, it takes a new one."""

    def __init__(self, core: Core, card: ElectrodeCard, model: SandboxedModel) -> None:
        self.asked: list[int] = []
        self.began: list[int] = []
        self.reflexes: list[UploadedReflex] = []
        self.ended = ""
        self._core = core
        self._card = card
        self._model = model
        self._interface = interface_of(model.inputs, model.outputs, ELECTRODES, 1)

    def run(self) -> None:
        """Run the engine."""
        core, rate = self._core, self._core.info.sample_rate_hz
        take_precedence()
        self._acquire("")
        while core.next_frame < SECONDS * rate and not self.ended:
            before = self._sum("asked")
            block = self._card.read()
            spikes = core.step(block)
            if self._sum("asked") > before:
                self.asked.append(int(spikes.frames[0]))
            self.began.extend(delivery.frame for delivery in block.deliveries if delivery.frame is not None)

    def figures(self) -> dict[str, Any]:
        """Return how often the graph was started, and how often it was late."""
        calls, late = self._sum("calls"), self._sum("late")
        return {
            "reflex_calls": calls,
            "reflex_late_pct": 100.0 * late / max(1, calls),
            "reflex_leases": len(self.reflexes),
            "reflex_ended": self.ended or None,
        }

    def _acquire(self, why: str) -> None:
        if why == "the engine closed":
            return
        if why not in ("", "its lease ended"):  # the model is gone
            self.ended = why
            return
        for reflex in self.reflexes[-1:]:
            self._core.submit(LeaseCommand("release", "bench", lambda _: None, reflex.terms.lease))
        command = LeaseCommand("acquire", "bench", self._attach, electrodes=(0, 1, 2, 3), ttl_s=10.0)
        self._core.submit(command)

    def _attach(self, lease: Any) -> None:
        terms = ReflexTerms("bench", lease.id, (PULSE,), purpose="benchmark", min_interval_s=MIN_INTERVAL_S)
        reflex = UploadedReflex(self._model, self._interface, terms, self._core.info, self._acquire)
        self.reflexes.append(reflex)
        self._core.uploaded.attach(reflex)

    def _sum(self, counter: str) -> int:
        return sum(getattr(reflex, counter) for reflex in self.reflexes)


def _figures(loop: _Loop, rate_hz: float) -> dict[str, Any]:
    """Return percentiles of the latency from the trough of the first spike of a block to the answer's beginning."""
    spikes = np.array(loop.asked)
    latencies = [(frame - spikes[np.searchsorted(spikes, frame) - 1]) / rate_hz * 1e3 for frame in loop.began]
    figures: dict[str, Any] = {"reflex_answers": len(latencies), "reflex_unanswered": len(spikes) - len(latencies)}
    for name, q in (("p50", 50), ("p99", 99), ("max", 100)):
        figures[f"reflex_{name}_ms"] = float(np.percentile(latencies, q)) if latencies else None
    return figures | loop.figures()


def spike_graph(electrodes: int = ELECTRODES) -> bytes:
    """Return a graph that asks for a pulse at electrode 0 in each block with a spike."""
    constants = {
        "axes": np.array([0, 1]),
        "zero": np.zeros((1, 1), np.float32),
        "mask": np.eye(1, electrodes, dtype="f4"),
    }
    graph = helper.make_graph(
        [
            helper.make_node("ReduceSum", ["spikes", "axes"], ["sum"], keepdims=1),
            helper.make_node("Greater", ["sum", "zero"], ["any"]),
            helper.make_node("Cast", ["any"], ["found"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["found", "mask"], ["pulses"]),
        ],
        "reflex",
        [helper.make_tensor_value_info("spikes", TensorProto.FLOAT, [1, electrodes])],
        [helper.make_tensor_value_info("pulses", TensorProto.FLOAT, [1, electrodes])],
        [
            helper.make_tensor(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape, value.tobytes(), raw=True
            )
            for name, value in constants.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    packed: bytes = model.SerializeToString()
    return packed
