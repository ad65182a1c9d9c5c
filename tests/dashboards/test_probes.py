"""The health of the probes over the API."""

from __future__ import annotations

import pytest

from dashboards.auth import Role
from dashboards.models.probes import ProbesModel
from tests.dashboards.world import world


@pytest.mark.virtual_time
async def test_Q7_a_viewer_reads_the_health_of_the_probes() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:
        answer = await viewer.get("/api/probes")
        assert answer.status_code == 200
        (probe,) = ProbesModel.model_validate(answer.json()).probes
        assert probe.point == "ph_loop.ph"
        assert [(figure.name, figure.value, figure.sound) for figure in probe.figures] == [
            ("slope_acid", 79.0, False),
            ("zero_offset", None, True),
        ]
        assert "Next: replace" in probe.problem
