"""Files that are no rig at all: an answer in words, quickly, whatever they hold (S3)."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.rig.loading import load_rig
from controller.rig.problems import RigError

BENCH = (Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml").read_text(encoding="utf-8")


def refused(path: Path, raw: bytes) -> tuple[int, str]:
    path.write_bytes(raw)
    with pytest.raises(RigError) as caught:
        load_rig(path)
    first = caught.value.problems[0]
    return first.line, first.what


@pytest.mark.parametrize(
    ("raw", "line", "what"),
    [
        (b"", 1, "not a mapping"),
        (b"- a\n- b\n", 1, "not a mapping"),
        (b"name: bench\n\tchoroid: 1\n", 2, "a tab"),
        (b"name: a: b\n", 1, "colon"),
        (b"name: {\n", 2, "not YAML"),
        (b"name: bench\nname: other\n", 2, "stands twice (first on line 1)"),
        (b"a: 1\nb: \xff\xfe\n", 2, "not UTF-8"),
        (b"a: 1\nb: \x07\n", 2, "not YAML"),
        (b"a: &x 1\nb: *x\n", 2, "refers to something else (*x)"),
        (b"a: !!python/object/apply:os.system [id]\n", 1, "unknown key"),
        (b"a: 1\nb: !!python/name:os.system\n", 2, "cannot be read"),
        (b"? [a, b]\n: 1\n", 1, "a key that is itself a list"),
        (b"a: " + b"[" * 5000, 1, "nested too deeply"),
        (b"a: 1\n---\nb: 2\n", 2, "not YAML"),
        (b"# " + b"x" * 300_000, 1, "larger than 256 kB"),
    ],
)
def test_S3_what_is_no_rig_file_is_told_with_its_line(tmp_path: Path, raw: bytes, line: int, what: str) -> None:
    path = tmp_path / "rig.yaml"
    path.write_bytes(raw)
    with pytest.raises(RigError) as caught:
        load_rig(path)
    assert any(problem.line == line and what in problem.what for problem in caught.value.problems), str(caught.value)


def test_S3_a_billion_laughs_are_not_told(tmp_path: Path) -> None:
    bomb = "a0: &a0 [ha, ha]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    line, what = refused(tmp_path / "rig.yaml", bomb.encode())
    assert line == 2
    assert "refers" in what


def test_S3_an_endless_file_is_not_read_to_its_end() -> None:
    with pytest.raises(RigError, match="larger than"):
        load_rig(Path("/dev/zero"))


def test_a_file_that_is_not_there_is_the_systems_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_rig(tmp_path / "none.yaml")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.integers(0, len(BENCH) - 1), what=st.text(max_size=12), take=st.integers(0, 40))
def test_S3_a_damaged_file_loads_or_is_refused_but_never_crashes(
    tmp_path: Path, where: int, what: str, take: int
) -> None:
    path = tmp_path / "rig.yaml"
    path.write_text(BENCH[:where] + what + BENCH[where + take :], encoding="utf-8", errors="surrogateescape")
    with contextlib.suppress(RigError):
        load_rig(path)
