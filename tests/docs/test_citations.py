"""Citations in code and documents resolve inside the repository."""

from __future__ import annotations

import pytest

from tests.docs.citations import problems, texts


def test_every_citation_resolves() -> None:
    """Every page, section, source and decision that is cited exists."""
    assert problems(texts()) == []


def test_the_check_sees_the_citations() -> None:
    """The repository cites both pages of facts, so an empty result is not an empty search."""
    everything = "\n".join(texts().values())
    assert everything.count("biology.md §") > 50
    assert everything.count("electrodes.md §") > 3


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("see biology.md §1.3 [P], §3.2", []),
        ("see biology.md §9.1", ["docs/sources/biology.md has no section 9.1"]),
        ("see biology.md §1.3, §9.2", ["docs/sources/biology.md has no section 9.2"]),
        ("see biology §1.3", ["write biology.md instead of biology"]),
        ("electrodes.md §7", ["docs/sources/electrodes.md has no section 7"]),
        ("as built (§2.7)", ["§2.7 names no page; write biology.md §2.7"]),
        ("[D from V S30]", []),
        ("[V, S999]", ["source S999 is not in docs/sources/biology.md §8"]),
        ("as decision 1 says", []),
        ("as decision 77 says", ["decision 77 has no page in docs/decisions"]),
        (
            "design §4.2",
            [
                "'design §' is not in the repository; cite docs/sources or docs/decisions",
                "§4.2 names no page; write biology.md §4.2",
            ],
        ),
        ("peers.md", ["'peers.md' is not in the repository; cite docs/sources or docs/decisions"]),
    ],
)
def test_a_wrong_citation_is_named(line: str, expected: list[str]) -> None:
    """Each kind of broken citation is reported with its line."""
    assert problems({"sim/some.py": f"first\n{line}"}) == [f"sim/some.py:2: {what}" for what in expected]
