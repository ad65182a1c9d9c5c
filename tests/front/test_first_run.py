"""What a new user does first works from an installed wheel, in an empty folder (R5)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from choroid.common.child import DISTRIBUTIONS
from tests.browser.pages import free_port
from tests.processes import waited_s

ROOT = Path(__file__).parents[2]
FIRST_READING_S = 60.0
"""Time without that in which the demo waits for a processor (s)."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, installed into a folder of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    target = folder / "site"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(ROOT)], check=True, timeout=240)
    (wheel,) = folder.glob("choroid-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(wheel)], check=True, timeout=120)
    return target


@pytest.fixture(scope="module")
def whole(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of that folder, with the distributions `choroid-grid` and `choroid-verification` as well."""
    target = tmp_path_factory.mktemp("whole") / "site"
    shutil.copytree(installed, target)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    for package in DISTRIBUTIONS:
        words = ["install", "--no-deps", "--upgrade", "--target", str(target), str(ROOT / package)]
        subprocess.run([*pip, *words], check=True, timeout=240)
    return target


def _command(site: Path, *words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "choroid", *words]


def _environment(site: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(site)}


@pytest.mark.long
def test_R5_the_wheel_carries_page_examples_and_schemas(installed: Path, tmp_path: Path) -> None:
    where = subprocess.run(
        [sys.executable, "-P", "-c", "import controller, sim; print(controller.__file__, sim.__file__)"],
        env=_environment(installed), cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert where.stdout.count(str(installed)) == 2, "the installed packages are tested, not the checkout"
    assert (installed / "dashboards" / "static" / "index.html").exists()
    rigs = sorted((installed / "choroid" / "examples" / "rigs").glob("*.yaml"))
    assert len(rigs) >= 3
    for rig in rigs:
        done = subprocess.run(
            _command(installed, "check", str(rig)),
            env=_environment(installed), cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_grid_and_verification_are_distributions_of_their_own(installed: Path, whole: Path, tmp_path: Path) -> None:
    def choroid(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            _command(site, *words),
            env=_environment(site), cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert not [package for package in DISTRIBUTIONS if (installed / package).exists()]
    assert not list(installed.rglob("broken*")), "the core wheel contains nothing that only tests it"
    for words in (("verify", "campaign", "--runs", "1"), ("grid", "join", "hub:1")):
        without = choroid(installed, *words)
        assert without.returncode == 1
        # The environment of the tests knows the checkout as well: there it would be taken from another place.
        assert "which is not installed" in without.stderr or f"is hidden by {ROOT}" in without.stderr
    assert "campaign" in choroid(whole, "verify", "--help").stdout
    found = choroid(whole, "verify", "conformance", "keller-x-line", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["caught"] > 0
    assert (whole / "grid" / "page" / "static").is_dir()
    named = choroid(whole, "grid", "identity", "show", "--data", str(tmp_path / "member"), "--json")
    assert named.returncode == 0, named.stderr
    assert json.loads(named.stdout)["id"]


@pytest.mark.long
@pytest.mark.parametrize("package", DISTRIBUTIONS)
def test_a_checkout_runs_its_own_files_and_no_copies(package: str, tmp_path: Path) -> None:
    """`make grid` installs the core and the grid as editable: a copy among the packages would hide the checkout's."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps"]
    subprocess.run([*pip, "--prefix", str(tmp_path), "--editable", str(ROOT / package)], check=True, timeout=240)
    (link,) = tmp_path.rglob("*.pth")
    assert Path(link.read_text().strip()).resolve() == ROOT
    assert not list(tmp_path.rglob(package))


@pytest.mark.long
def test_R5_the_demo_of_the_wheel_shows_a_live_reading_within_a_minute(installed: Path, tmp_path: Path) -> None:
    port = free_port()
    demo = subprocess.Popen(
        _command(installed, "demo", "--port", str(port), "--for", "90s"),
        env=_environment(installed), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        begun = time.monotonic()
        healthy = False
        while not healthy and time.monotonic() - begun - waited_s(demo.pid) < FIRST_READING_S:
            time.sleep(0.2)
            assert demo.poll() is None, demo.stderr and demo.stderr.read()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
                    healthy = bool(json.load(answer)["ok"])
            except OSError:
                continue
        assert healthy, "the control loop ticks within a minute, compiled again"
    finally:
        demo.terminate()
        demo.communicate(timeout=120)


@pytest.mark.long
def test_a_demo_goes_on_with_the_data_of_the_one_before(tmp_path: Path) -> None:
    for _ in range(2):
        words = ["demo", "--port", str(free_port()), "--for", "6s", "--data", str(tmp_path / "data")]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "choroid", *words],
            env=_environment(ROOT), cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        assert "Open http://" in done.stderr
