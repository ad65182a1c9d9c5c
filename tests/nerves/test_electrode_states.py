"""States of electrodes from the engine to the page: a muted electrode is neither silent nor active (N8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import grpc.aio
import pytest

from choroid.client.wire import nerves_pb2 as pb
from choroid.client.wire import nerves_pb2_grpc as pb_grpc
from choroid.running.nerves_source import GatewayNerves
from dashboards.models.nerves import FiringModel
from nerves.summary import NervesSummary
from tests.nerves.test_gateway import Engine, start, stop


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    started = start(tmp_path_factory.mktemp("states"))
    yield started
    stop(started)


async def test_N8_the_engine_names_the_state_of_each_electrode(engine: Engine) -> None:
    async with engine.stub() as stub:
        reply = await stub.Summary(pb.SummaryRequest(), metadata=engine.agent)
    assert len(reply.states) == reply.electrodes == 32
    assert set(reply.states) <= {pb.ELECTRODE_OK, pb.ELECTRODE_BLANKED}
    assert reply.observed_electrodes == 32
    assert {each.cause for each in reply.muted} == {"STIMULATION", "ARTEFACT", "RAIL", "FLAT", "NOISE", "START"}
    assert all(len(each.seconds) == 32 and max(each.seconds) <= reply.watched_s + 0.001 for each in reply.muted)


class Muted(pb_grpc.NervesServicer):
    """A service with four electrodes, one of them dead and one saturated for a moment."""

    def __init__(self) -> None:
        self.seen = asyncio.Event()

    async def Info(self, request: pb.InfoRequest, context: object) -> pb.InfoReply:
        return pb.InfoReply(sample_rate_hz=25_000.0)

    async def StreamSummary(self, request: object, context: object) -> AsyncIterator[pb.SummaryReply]:
        states = [pb.ELECTRODE_OK, pb.ELECTRODE_DEAD, pb.ELECTRODE_SATURATED, pb.ELECTRODE_OK]
        dead = pb.CardFault(state="DEAD", text="chip 0 stands still", electrodes=[1])
        yield pb.SummaryReply(
            frame=9, mean_active_hz=2.0, active_electrodes=1, electrodes=4, observed_electrodes=3, states=states,
            card_faults=[dead], recording_problem="it has a gap", watched_s=10.0,
            muted=[pb.Muted(cause="ARTEFACT", seconds=[1, 0, 0, 0]), pb.Muted(cause="FLAT", seconds=[0, 9, 0, 0])],
        )  # fmt: skip
        await self.seen.wait()
        yield pb.SummaryReply(
            frame=10, electrodes=4, observed_electrodes=3, states=states, card_faults=[dead],
            recording_problem="it has a gap", watched_s=11.0,
            muted=[pb.Muted(cause="ARTEFACT", seconds=[1.5, 0, 0, 0]), pb.Muted(cause="FLAT", seconds=[0, 10, 0, 0])],
        )  # fmt: skip
        await asyncio.sleep(60.0)


async def test_N8_the_states_reach_the_page() -> None:
    server = grpc.aio.server()
    service = Muted()  # type: ignore[abstract]  # the other calls are never made
    pb_grpc.add_NervesServicer_to_server(service, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    nerves = GatewayNerves(address, "token")
    try:
        while (summary := await nerves.summary()) is None:
            await asyncio.sleep(0.02)
        assert nerves.card_fault == "dead (1 electrodes): chip 0 stands still"
        assert nerves.recording_problem == "it has a gap"
        assert summary.muted_pct is None
        service.seen.set()
        while (summary := await nerves.summary()) is None or summary.muted_pct is None:
            await asyncio.sleep(0.02)
        assert summary.muted_pct == 37.5  # of the last second; what went before this connection does not count
    finally:
        await nerves.close()
        await server.stop(None)
    view = FiringModel.plain(summary)
    assert view["states"] == ["ok", "dead", "saturated", "ok"]
    assert view["observed_electrodes"] == 3


@pytest.mark.parametrize(("observed", "sufficient"), [(None, True), (32, True), (16, True), (15, False), (0, False)])
def test_N8_figures_of_the_array_need_half_of_its_electrodes(observed: int | None, sufficient: bool) -> None:
    summary = NervesSummary(0.0, 2.0, 3, 32, (2.0,) * 32, None, observed)
    assert summary.sufficient is sufficient
    view = FiringModel.plain(summary)
    assert view["observed_electrodes"] == (32 if observed is None else observed)
