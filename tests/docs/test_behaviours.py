"""Each behaviour of docs/behaviours.md has a test, and each id in the name of a test is stated there."""

from __future__ import annotations

from tests import trace


def test_each_behaviour_is_stated_and_proved() -> None:
    families = trace.behaviours(trace.BEHAVIOURS.read_text(encoding="utf-8"))
    stated = [each for ids in families.values() for each in ids]
    found = trace.proofs(trace.ROOT / "tests")
    assert trace.gaps(stated, found) == []
    assert trace.gaps([*stated, "Z9"], found) == ["Z9: no test carries it"]
    assert trace.gaps(stated, {**found, "Z9": ["test_x.py::test_Z9"]})
