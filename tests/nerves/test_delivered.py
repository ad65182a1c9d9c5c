"""N1: what the array recorded breaks no ceiling over restarts, lease changes and repeated keys; J1: its judge is tested."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from nerves.ledger import StimulationLedger
from nerves.past import Past
from nerves.repeats import Repeats
from tests.nerves.delivered import DeliveredPulses


def played(folder: Path) -> DeliveredPulses:
    campaign = DeliveredPulses(folder / "stimulation.db")
    for end in ("stop", "kill", "stop"):
        campaign.engine(3.0, end)
    return campaign


def test_N1_delivered_pulses_break_no_ceiling_over_restarts(tmp_path: Path) -> None:
    campaign = played(tmp_path)
    assert campaign.violations == {}
    assert campaign.delivered > 300
    assert campaign.repeats > 0


@pytest.mark.long
def test_J1_the_count_of_delivered_pulses_notices_an_engine_that_forgets_keys(tmp_path: Path) -> None:
    with patch.object(Repeats, "find", lambda *_: None), patch.object(Repeats, "keep", lambda *_: None):
        campaign = played(tmp_path)
    assert "beyond what requests with a key asked for" in campaign.violations


@pytest.mark.long
def test_J1_the_count_of_delivered_pulses_notices_budgets_that_a_restart_forgets(tmp_path: Path) -> None:
    campaign = DeliveredPulses(tmp_path / "stimulation.db")
    with patch.object(StimulationLedger, "past", lambda *_: Past([], [], {}, [])):
        for _ in range(25):
            campaign.engine(0.6, "kill")
    assert any(name.endswith(" second") for name in campaign.violations)
