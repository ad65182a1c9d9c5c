"""The campaign that the tests run: two trials of an hour, in one of them the heart's line is shut for a while."""

from __future__ import annotations

from typing import Any

SAMPLE: dict[str, Any] = {"runs": 2, "days": 0.04, "seed": 76}
