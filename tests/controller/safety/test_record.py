"""What the kernel decides, bound by bound, is as recorded: a change of any bound, order or reason is a changed line.

After a change that is meant: `python -m tests.controller.safety.decisions`, and read the difference.
"""

from __future__ import annotations

import pytest

from tests.controller.safety.decisions import FOLDER, RECORDS


@pytest.mark.parametrize("name", RECORDS)
def test_I3_decisions_are_as_recorded(name: str) -> None:
    recorded = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    found = list(RECORDS[name]())
    assert len(found) == len(recorded)
    for line, before in zip(found, recorded, strict=True):
        assert line == before, (
            "changed on purpose? python -m tests.controller.safety.decisions, and read the difference"
        )


def test_every_record_belongs_to_a_test() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(RECORDS)
