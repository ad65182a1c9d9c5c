"""docs/writing-a-driver.md is true: the driver it teaches is built from its own blocks, found, and conforms.

And the kit is no rubber stamp: each way of spoiling that driver is found out by the property that is meant for it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from choroid.tools.conformance.table import in_virtual_time
from drivers.conformance.bench import Bench
from drivers.conformance.examine import examine
from drivers.conformance.far_end import ScriptedEnd
from drivers.conformance.properties import PROPERTIES
from drivers.device import DeviceConfig

DOC = Path(__file__).resolve().parents[2] / "docs" / "writing-a-driver.md"
BLOCK = re.compile(r"^```(?:python|toml)\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def package() -> dict[str, str]:
    """The files that the page's blocks make, by path."""
    files: dict[str, str] = {}
    for name, text in BLOCK.findall(DOC.read_text(encoding="utf-8")):
        files[name] = files.get(name, "") + text
    return files


def install(files: dict[str, str], folder: Path) -> None:
    """Put the package where an installer would: its modules, and its metadata with the entry points."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "acme_drip" / "__init__.py").write_text("")
    project = tomllib.loads(files["pyproject.toml"])["project"]
    info = folder / f"acme_drip-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))


def choroid(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "choroid", *words], env=environment, capture_output=True, text=True, timeout=120
    )


def outcomes(folder: Path) -> dict[str, dict[str, str]]:
    done = choroid(folder, "driver", "test", "acme-drip", "--json")
    assert done.stdout, done.stderr
    table: dict[str, dict[str, str]] = json.loads(done.stdout)["drivers"]["acme-drip"]
    assert done.returncode == any(each["outcome"] == "fail" for each in table.values())
    return table


def test_the_taught_driver_is_found_and_conforms(tmp_path: Path) -> None:
    install(package(), tmp_path)
    listed = choroid(tmp_path, "device", "list", "--json")
    assert "acme-drip" in [entry["id"] for entry in json.loads(listed.stdout)["devices"]], listed.stderr
    table = outcomes(tmp_path)
    assert list(table) == list(PROPERTIES)
    assert {name: each for name, each in table.items() if each["outcome"] == "fail"} == {}
    assert sorted(name for name, each in table.items() if each["outcome"] == "n/a") == [
        "address",
        "checksum",
        "doubt",
        "measured",
        "memory",
        "misset",
        "motion",
        "own-address",
    ]


def test_the_taught_driver_conforms_under_pytest(tmp_path: Path) -> None:
    install(package(), tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "choroid.tools.conformance", "-k"]
        + ["acme-drip"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    assert f"{len(PROPERTIES) - 8} passed, 8 skipped" in done.stdout


TEMPERATURE = 'rb"T=(-?\\d{1,3}\\.\\d{2})"'
MATCHING = 'return line_matching(pattern, b"\\r", self.config.name)'
ATTACH = "link.attach(self._conversation, self.verify)"
BARRIER = 'barrier=SyncQuery(b"ID?\\r", lambda: self._matching(_IDENTITY))'
IDENTIFY = "    async def _identify(self)"
ASK = 'self._conversation.ask(request + b"\\r", self._matching(pattern))'
GO = 'await on_or_off(self._drip.command(b"GO %d" % self._checked(flow)), self._stop)'
DOSE = 'await on_or_off(self._drip.command(b"DOSE %d %d" % (round(dose.volume_ul), flow)), self._stop)'
READ = 'float((await self._drip.ask(b"T?", _TEMPERATURE))[1])'
STATUS = '        told = await self._drip.ask(b"ST?", _STATUS)\n'

SPOILT = {
    "verified-first": [
        (ASK, 'self.link.exchange(request + b"\\r", self._matching(pattern), timeout_s=0.5, where="drip")'),
        ("        self._drip.conversation.require_verified()\n", ""),
    ],
    "idempotent": [("        if self._doses.given(dose.dose_id):\n            return\n", "")],
    "cancelled": [(GO, 'await self._drip.command(b"GO %d" % self._checked(flow))')],
    "lost-reply": [(DOSE, 'await self._drip.command(b"DOSE %d %d" % (round(dose.volume_ul), flow))')],
    "closed": [('        await self._drip.command(b"STOP")\n', "")],
    "ends-itself": [
        ("return Guarantee.GUARD if isinstance(command, Run) else Guarantee.DEVICE", "return self.guarantee")
    ],
    "readback": [('running = told[1] == b"1"', 'running = told[1] == b"1" or bool(self._doses._doses)')],
    "status": [("float(told[2]) if running", "2.0 * float(told[2]) if running")],
    "garbage": [(TEMPERATURE, 'rb"\\D*([\\d.]*)"')],
    "truncated": [
        (TEMPERATURE, 'rb"T=(-?[\\d.]+)"'),
        (MATCHING, "return lambda buffer: pattern.search(bytes(buffer))"),
    ],
    "doubled": [
        (BARRIER, BARRIER + ", unsolicited=self._overhear"),
        (
            IDENTIFY,
            "    received: list[bytes] = []\n\n    def _overhear(self, buffer: bytearray) -> None:\n"
            "        self.received += _TEMPERATURE.findall(buffer)\n        buffer.clear()\n\n" + IDENTIFY,
        ),
        (READ, f"(float(self._drip.received.pop()) if self._drip.received else {READ})"),
    ],
    "late": [(BARRIER, "late_s=0.0")],
    "comes-back": [
        (ATTACH, "link.attach(self._conversation, self._verify_once)"),
        (
            IDENTIFY,
            "    async def _verify_once(self) -> None:\n        if self.identity is None:\n"
            "            await self.verify()\n\n" + IDENTIFY,
        ),
    ],
    "ranges": [("if not MIN_UL_MIN <= flow_ul_min <= MAX_UL_MIN or flow_ul_min != round(flow_ul_min):", "if False:")],
    "no-blocking": [(STATUS, "        __import__('time').sleep(0.06)\n" + STATUS)],
}
"""Property → what is replaced in the taught driver, so that it no longer holds."""


def bench_of(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The package's bench, from modules that this test alone sees."""
    for name in ("acme_drip", "acme_drip.driver", "acme_drip.bench"):
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(files.get(f"{name.replace('.', '/')}.py", ""), module.__dict__)  # noqa: S102  (our own page's blocks)
    found: Bench = sys.modules["acme_drip.bench"].__dict__["bench"]
    return found


@pytest.mark.parametrize("name", [*SPOILT, None])
def test_a_spoilt_driver_is_found_out_and_a_sound_one_is_not(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    files = package()
    for good, bad in SPOILT.get(name or "", []):
        assert files["acme_drip/driver.py"].count(good) == 1, good
        files["acme_drip/driver.py"] = files["acme_drip/driver.py"].replace(good, bad)
    asked = {name: PROPERTIES[name]} if name else PROPERTIES
    verdicts = {each.property: each for each in examine(bench_of(files, monkeypatch), in_virtual_time, asked)}
    failed = {each.property: each.told for each in verdicts.values() if each.outcome == "fail"}
    if name is None:
        assert failed == {}
    else:
        assert name in failed
        assert not re.match(r"AttributeError|NameError|TypeError|SyntaxError", failed[name]), failed[name]


def bench_of_memory(files: dict[str, str], monkeypatch: pytest.MonkeyPatch, *, in_status: bool) -> Bench:
    """A bench that counts a memory write in each `ID?`, or in each `ST?`."""
    bench = bench_of(files, monkeypatch)
    make = bench.far_end

    def counting(config: DeviceConfig) -> ScriptedEnd:
        end, count = make(config), [0]
        receive = end.receive

        def intercepted(data: bytes) -> None:
            count[0] += data == (b"ST?\r" if in_status else b"ID?\r")
            receive(data)

        monkeypatch.setattr(end, "receive", intercepted, raising=False)
        monkeypatch.setattr(end, "memory_writes", lambda: count[0], raising=False)
        assert isinstance(end, ScriptedEnd)
        return end

    return replace(bench, far_end=counting)


@pytest.mark.parametrize(("in_status", "outcome"), [(False, "pass"), (True, "fail")])
def test_memory_that_is_written_at_every_poll_is_found_out(
    in_status: bool, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_of_memory(package(), monkeypatch, in_status=in_status)
    (verdict,) = examine(bench, in_virtual_time, {"memory": PROPERTIES["memory"]})
    assert verdict.outcome == outcome, verdict.told
