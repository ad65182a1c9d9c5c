"""Control of electrodes by a program: interruptions of what is planned again, lost leases, and the end of a connection."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import choroid.client.cl as cl
from choroid.client.cl.control import Control
from choroid.client.cl.neurons import CulturedNeurons
from choroid.client.cl.queues import Placed
from choroid.client.errors import NervesError
from choroid.client.wire import nerves_pb2 as pb

PLACED = Placed((0,), cl.StimDesign(160, -1.0, 160, 1.0), at_frame=1000, pulses=20, period_frames=125)


class Call:
    """Is a stimulation that the engine refuses as too late."""

    def __init__(self) -> None:
        self.stopped = self.over = False
        self._answered: list[Callable[[Any], None]] = []

    def add_done_callback(self, answered: Callable[[Any], None]) -> None:
        self._answered.append(answered)

    def cancel(self) -> bool:
        if self.over:
            return False
        self.stopped = True
        self.finish()
        return True

    def finish(self) -> None:
        self.over = True
        for each in self._answered:
            each(self)

    def cancelled(self) -> bool:
        return self.stopped

    def exception(self) -> None:
        return None

    def result(self) -> Any:
        return SimpleNamespace(accepted=False, reasons=[SimpleNamespace(limit="time", text="late")], pulses=[])


class Nerves:
    """Is an engine that grants leases until another agent takes one over."""

    def __init__(self) -> None:
        self.sent: list[Call] = []
        self.taken = False
        self.code = ""
        self.over = threading.Event()
        self._metadata = ()
        self._stub = SimpleNamespace(AcquireLease=self._acquire, Stimulate=SimpleNamespace(future=self._future))

    def _acquire(self, request: Any, **_: object) -> pb.LeaseReply:
        return pb.LeaseReply(
            granted=not self.taken, lease="L", reason="electrode 0 is held under another agent's lease"
        )

    def _future(self, request: Any, **_: object) -> Call:
        self.sent.append(Call())
        return self.sent[-1]

    def renew_lease(self, lease: str) -> None:
        if self.taken:
            raise NervesError("no living lease", code=self.code)

    def release_lease(self, lease: str) -> None:
        """Do nothing."""

    def info(self) -> Any:
        return SimpleNamespace(electrodes=4, sample_rate_hz=25_000.0, uv_per_unit=0.2, array="a")

    def status(self) -> Any:
        return SimpleNamespace(next_frame=1)

    def spikes(self) -> Iterator[Any]:
        self.over.wait()
        yield from ()

    def close(self) -> None:
        self.over.set()


def control_of(nerves: Any) -> Control:
    def again(late: Placed) -> Placed:
        return replace(late, at_frame=late.at_frame + 500, tries=late.tries + 1)

    return Control(nerves, [0, 1], "test", lambda stims: None, again, lambda: None, [])


@pytest.mark.parametrize(("frame", "sent"), [(0, 1), (1400, 1), (1500, 1), (1600, 2)])
def test_what_is_planned_again_stays_interrupted(frame: int, sent: int) -> None:
    nerves = Nerves()
    control = control_of(nerves)
    control.stimulate(PLACED)
    nerves.sent[0].over = True  # the answer is there, and its callback has not run yet
    control.interrupt({0}, frame)
    nerves.sent[0].finish()
    assert len(nerves.sent) == sent
    control.keep(1700)
    assert all(call.cancelled() for call in nerves.sent[1:])


def test_what_was_not_interrupted_is_planned_again() -> None:
    nerves = Nerves()
    control = control_of(nerves)
    control.interrupt({0})
    control.stimulate(PLACED)
    control.interrupt({1}, 1200)
    nerves.sent[0].finish()
    control.keep(1700)
    assert [call.cancelled() for call in nerves.sent] == [False, False]


def test_control_that_another_agent_took_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(1000))
    monkeypatch.setattr("choroid.client.cl.control.local_s", lambda: float(next(times)))
    nerves: Any = Nerves()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        control = control_of(nerves)
        control.stimulate(PLACED)
        nerves.taken, nerves.code = True, "UNAVAILABLE"
        for _ in range(4):
            control.keep(1)
        assert not control.live  # unknown after its 2 s, and not given up
        assert not control.closed
        assert not warned
        nerves.code = ""
        control.keep(1)
    assert control.closed
    assert nerves.sent[0].cancelled()
    assert [str(each.message) for each in warned] == control.refused
    assert "control is lost: no lease: electrode 0 is held under another agent's lease" in control.refused[0]
    with pytest.raises(cl.ControlRequiredError, match=r"take_control\(\)"):
        control.stimulate(PLACED)


def test_a_program_sees_that_control_is_lost_and_can_take_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    nerves: Any = Nerves()
    neurons = CulturedNeurons(nerves, True, None, "test")
    assert neurons.has_control()
    nerves.taken = True
    pause = threading.Event()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while neurons.has_control() or not neurons.refused:
            pause.wait(0.01)
        while neurons._control is not None:
            pause.wait(0.01)
    with pytest.raises(cl.ControlRequiredError, match="`refused` has the reason"):
        neurons.stim(0, 1.0)
    with pytest.raises(cl.ControlRequestError):
        neurons.take_control()
    nerves.taken = False
    neurons.take_control()
    assert neurons.has_control()
    neurons.close()


def test_the_end_of_a_connection_stops_every_recording() -> None:
    stopped: list[str] = []

    class Recording:
        status = "started"

        def __init__(self, name: str) -> None:
            self._name = name

        def stop(self) -> None:
            stopped.append(self._name)
            raise RuntimeError(f"{self._name}: disk full")

    neurons = CulturedNeurons(Nerves(), False, None, "test")  # type: ignore[arg-type]
    neurons._recordings = [Recording("first"), Recording("second")]  # type: ignore[list-item]
    with pytest.raises(RuntimeError, match="first: disk full"):
        neurons.close()
    assert stopped == ["first", "second"]


def test_a_connection_that_closes_during_a_renewal_leaves_no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    nerves, held = Nerves(), set[str]()
    renewing, released = threading.Event(), threading.Event()

    def acquire(request: Any, **_: object) -> pb.LeaseReply:
        held.add(lease := f"L{len(held)}")
        return pb.LeaseReply(granted=True, lease=lease)

    def renew(lease: str) -> None:
        renewing.set()
        released.wait(0.2)  # a release that does not wait comes now
        if lease not in held:
            raise NervesError("no living lease")

    def release(lease: str) -> None:
        held.discard(lease)
        released.set()

    monkeypatch.setattr(nerves, "renew_lease", renew)
    monkeypatch.setattr(nerves, "release_lease", release)
    nerves._stub.AcquireLease = acquire
    control = control_of(nerves)
    control._confirmed_s = -1.0e9
    keeping = threading.Thread(target=control.keep, args=(1,))
    keeping.start()
    renewing.wait()
    control.close()
    keeping.join()
    assert not held
