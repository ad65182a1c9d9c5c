"""The campaign that the tests run: three trials of a hundred minutes, in one of them the heart's line is shut."""

from __future__ import annotations

from typing import Any

SAMPLE: dict[str, Any] = {"runs": 3, "days": 0.07, "seed": 14}
