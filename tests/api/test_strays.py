"""A user's own `controller.py`, `drivers/` or `sim/`: the clients, the command and child processes do not see them.

Where one hides a package that is needed, the error names it. Each in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.api.strays import STRAY, run, strew

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"


def test_the_clients_work_next_to_files_of_any_name(tmp_path: Path) -> None:
    strew(tmp_path)
    done = run(
        tmp_path,
        """
import choroid
for name in " ".join(choroid._CLIENT.values()).split():
    getattr(choroid, name)
try:
    choroid.connect("http://127.0.0.1:9")
except choroid.ConnectionFailed as error:
    print(error)
try:
    choroid.NervesClient.from_file("nerves.json")
except choroid.NervesError as error:
    print(error)
nerves = choroid.NervesClient("127.0.0.1:9", "token")
try:
    nerves.info()
except choroid.NervesError as error:
    print(error.code)
""",
    )
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert "http://127.0.0.1:9 does not answer" in first
    assert "nerves.json cannot be read" in second
    assert third == "UNAVAILABLE"


def test_a_hidden_package_is_named_with_its_file_and_not_run(tmp_path: Path) -> None:
    strew(tmp_path, only=("sim", "drivers"))
    done = run(
        tmp_path,
        """
import choroid
for name in ("simulate", "Device", "load_rig"):
    try:
        getattr(choroid, name)
    except ImportError as error:
        print(error)
print(choroid.RigError.__name__)
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *errors, last = done.stdout.splitlines()
    assert len(errors) == 3
    for error in errors:
        assert "`drivers`" in error
        assert str(tmp_path / "drivers.py") in error
        assert "Next: rename it" in error
    assert last == "RigError", "what needs no hidden package is there"


def test_an_import_of_a_users_own_module_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "controller.py").write_text("GAIN = 2.0\n")
    done = run(
        tmp_path,
        """
import controller
import choroid
assert controller.GAIN == 2.0
print(choroid.Device.__name__)
try:
    choroid.load_rig("rig.yaml")
except choroid.UserError as error:
    print(error)
import controller as again
assert again.GAIN == 2.0
""",
    )
    assert done.returncode == 0, done.stderr
    device, error = done.stdout.splitlines()
    assert device == "Device"
    assert str(tmp_path / "controller.py") in error


def test_a_plain_folder_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "drivers").mkdir()
    (tmp_path / "drivers" / "notes.txt").write_text("the drivers of our cars")
    done = run(tmp_path, "import choroid\nprint(choroid.Device.__name__, choroid.Sensor.__name__)\n")
    assert done.stdout.split() == ["Device", "Sensor"], done.stderr


def test_the_command_and_its_child_processes_work_in_such_a_folder(tmp_path: Path) -> None:
    strew(tmp_path)
    (tmp_path / "numpy.py").write_text(STRAY)
    command = str(Path(sys.executable).parent / "choroid")
    done = subprocess.run([command, "check", str(BENCH)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    served = run(
        tmp_path,
        f"""
import choroid
with choroid.serve_lab({str(BENCH)!r}) as lab:
    print(lab.endpoints["sim:reglo"].partition("1:")[0], lab.rig.is_file())
print(lab.rig.exists())
""",
    )
    assert served.returncode == 0, served.stderr
    assert served.stdout.split() == ["tcp://127.0.0.", "True", "False"]


def test_a_lab_that_cannot_start_says_why(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import choroid
try:
    choroid.serve_lab("nowhere.yaml")
except choroid.UserError as error:
    print(error)
""",
    )
    assert "ended with status 1 before it served anything" in done.stdout
    assert "nowhere.yaml" in done.stderr
