"""Run in the copy: the added figure of firing is in the summary, in history and in the answers of the page."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from choroid.client.wire import nerves_pb2 as pb
from choroid.running import nerves_source
from nerves.messages import array_metrics
from nerves.metrics.figures import SpikeWindow, measure
from nerves.metrics.following import FollowedMetrics
from tests.controller.test_firing import CultureSource, Signs, figures
from tests.nerves.make_metrics_page import PAGE
from tests.nerves.metrics.test_window import EVERYWHERE, RATE, poisson, whole_minute
from tests.nerves.test_nerves_reader import living, points

NAME, READING = "silent_share", "nerves.silent_share"


def test_it_is_on_the_page_of_the_documentation() -> None:
    assert READING in PAGE.read_text(encoding="utf-8")


def test_it_travels_from_the_engine_to_the_controller() -> None:
    window: SpikeWindow = whole_minute(poisson(60.0, 1))
    array, electrodes = measure(window, RATE, EVERYWHERE)
    sent = pb.ArrayMetrics.FromString(array_metrics(FollowedMetrics(60_000, array, electrodes)).SerializeToString())
    assert dict(nerves_source._metrics(sent).figures) == dict(array.figures)
    assert array.figures[NAME] == 0.0


@pytest.mark.virtual_time
async def test_it_is_a_reading_with_a_history_and_the_page_gets_it(tmp_path: Path) -> None:
    async with living(tmp_path, CultureSource(seed=1)) as controller:
        await asyncio.sleep(90.0)
        reading = controller.store.state.readings[READING]
        assert reading.unit == "ratio"
        assert 0.0 <= reading.value <= 1.0
        assert points(controller, READING)


@pytest.mark.virtual_time
async def test_it_is_compared_with_the_cultures_own_baseline(tmp_path: Path) -> None:
    signs = Signs(tmp_path)
    await signs.live(30 * 60, figures(silent_share=0.2))
    await signs.live(1, figures(silent_share=0.4))
    assert signs.firing.scores[NAME] > 1.0
    signs.journal.close()
