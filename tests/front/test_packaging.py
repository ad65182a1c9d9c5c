"""What is installed for what: the core runs without the extras, and a command that needs one says which."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from choroid.cli import main
from choroid.commands import distributions
from choroid.common.extras import load_extra
from choroid.common.failure import UserError
from tests.execution.world import BENCH
from verification.comparison.comparison import compare
from verification.sensitivity.analysis import sensitivity

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] + ["grid", "verification"]
IN_AN_EXTRA = {
    "controller/telemetry/influx.py": "influx",
    "choroid/environments/__init__.py": "agents",
    "choroid/environments/comparison.py": "agents",
    "choroid/environments/environment.py": "agents",
    "choroid/environments/play.py": "agents",
    "choroid/environments/target_rate.py": "agents",
    "choroid/environments/vowels.py": "agents",
    "verification/bench/learning.py": "agents",
    "verification/bench/detection.py": "dev",
    "verification/bench/evoked.py": "dev",
    "verification/bench/ground_truth.py": "dev",
    "verification/bench/reflex.py": "dev",
    "verification/bench/sandbox.py": "dev",
    "choroid/cameras/simulated.py": "imaging",
    "choroid/lsl/outlets.py": "lsl",
    "choroid/running/own_replay.py": "recording",
    "choroid/evoked/psth.py": "recording",
    "choroid/sorting/command.py": "sort",
    "choroid/sorting/process.py": "sort",
    "choroid/sorting/stored.py": "recording",
    "controller/imaging/bubbles.py": "imaging",
    "controller/imaging/features.py": "imaging",
    "controller/imaging/field.py": "imaging",
    "controller/imaging/growth.py": "imaging",
    "controller/imaging/take.py": "imaging",
    "controller/imaging/quality.py": "imaging",
    "controller/imaging/outlines.py": "imaging",
    "controller/imaging/segmentation.py": "imaging",
    "controller/imaging/store.py": "imaging",
    "controller/imaging/worker.py": "imaging",
    "nerves/cards/lsl.py": "lsl",
    "nerves/cards/open_ephys.py": "open-ephys",
    "nerves/cards/replayable_neo.py": "playback",
    "nerves/cards/replayable_nwb.py": "nwb",
    "controller/sandbox/worker.py": "agents",
    "sim/lsl.py": "lsl",
    "sim/open_ephys.py": "open-ephys",
    "verification/bench/hard_imaging.py": "imaging",
    "verification/bench/imaging.py": "imaging",
    "verification/bench/array_cells.py": "dev",
    "verification/bench/artefact_waves.py": "dev",
    "verification/bench/data.py": "recording",
    "verification/bench/recording.py": "dev",
    "choroid/nwb/command.py": "nwb",
    "choroid/nwb/export.py": "nwb",
    "nerves/recording/recorded.py": "recording",
    "nerves/recording/session.py": "recording",
    "nerves/recording/store.py": "recording",
    "nerves/recording/publisher.py": "recording",
    "nerves/recording/writer.py": "recording",
    "nerves/recording/writer_process.py": "recording",
}
"""Modules that are imported only when their extra is asked for."""
RUN_BY_PYTEST = "choroid/tools/conformance/test_conformance.py"
"""The kit as a module of tests, for those who have pytest; `choroid driver test` does without."""
USED_BY_OTHERS = {
    "tzdata": "zoneinfo reads it on systems without time zones",
    "websockets": "uvicorn's WebSocket implementation",
}
NEVER_NEEDED = (
    "numcodecs",
    "pynwb",
    "gymnasium",
    "scipy",
    "onnxruntime",
    "matplotlib",
    "influxdb_client",
    "onnxruntime",
    "ray",
    "atheris",
    "mutmut",
    "pytest",
    "hypothesis",
    "playwright",
)
IMPORT_ALL = """
import importlib, pkgutil, sys
for name in sys.argv[2].split(","):
    sys.modules[name] = None
for package in sys.argv[1].split(","):
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(found.__path__, package + "."):
        if module.name not in sys.argv[3].split(",") and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print("all of it")
"""


def declared(names: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in names}


def extra(name: str) -> set[str]:
    return declared(PROJECT["project"]["optional-dependencies"][name])


def of_grid() -> set[str]:
    project = tomllib.loads((ROOT / "grid" / "pyproject.toml").read_text(encoding="utf-8"))
    return declared(project["project"]["dependencies"])


OF_COMMANDS = sorted(PROJECT["project"]["optional-dependencies"].keys() - {"dev", "fuzz", "mutation"})
CORE = declared(PROJECT["project"]["dependencies"])


def imports(tree: ast.AST, *, inside: bool = False) -> Iterator[tuple[str, bool]]:
    """Every module that a file imports, and whether it does so when it is imported itself."""
    for node in ast.iter_child_nodes(tree):
        within = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            within = True
        if isinstance(node, ast.Import):
            yield from ((alias.name, not within) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, not within
        else:
            yield from imports(node, inside=within)


def third_party() -> Iterator[tuple[str, str, bool]]:
    """(file, distribution, at import) of every import of another project's package."""
    known = packages_distributions()
    for path in sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py")):
        for module, at_import in imports(ast.parse(path.read_text(encoding="utf-8"))):
            top = module.partition(".")[0]
            if (str(path.relative_to(ROOT)), top) == (RUN_BY_PYTEST, "pytest"):
                continue
            if top in sys.stdlib_module_names or top in PACKAGES:
                continue
            found = {canonicalize_name(name) for name in known.get(top, [top])}
            yield str(path.relative_to(ROOT)), min(found, key=lambda name: (name not in CORE, name)), at_import


IN_THE_TRAINING_ENVIRONMENT = ("grid/engines/", "grid/federated/", "grid/organoid_lm/")


def pinned() -> set[str]:
    """Return the distributions of the environments of jobs; the folder `engines` is in the same folder there."""
    lists = (ROOT / "grid" / "jobs" / name for name in ("torch.txt", "requirements.txt", "flower.txt"))
    return {found for path in lists for found in re.findall(r"^([a-z0-9-]+)==", path.read_text(), re.MULTILINE)}


def test_every_package_that_is_imported_is_declared_where_it_is_needed() -> None:
    wrong = []
    for file, distribution, at_import in third_party():
        if distribution in CORE:
            continue
        of = IN_AN_EXTRA.get(file)
        known = extra(of) | {"aiohttp"} if of else set()  # influxdb-client[async] is aiohttp
        known |= of_grid() if file.startswith("grid/") else set()
        known |= pinned() | {"engines"} if file.startswith(IN_THE_TRAINING_ENVIRONMENT) else set()
        in_some_extra = any(distribution in extra(name) for name in OF_COMMANDS)
        if distribution not in known and (at_import or not in_some_extra):
            wrong.append(f"{file} imports {distribution}{'' if at_import else ' in a function'}")
    assert not wrong, "\n".join(wrong)


def test_the_core_declares_nothing_that_it_does_not_use() -> None:
    used = {distribution for _, distribution, _ in third_party()}
    assert used | USED_BY_OTHERS.keys() >= CORE, CORE - used
    assert not USED_BY_OTHERS.keys() & used, "they are used by our own code"


def test_the_tools_of_fuzzing_and_mutation_come_by_their_own_extras() -> None:
    assert extra("fuzz") == {"atheris"}
    assert extra("mutation") == {"mutmut"}
    assert not (CORE | extra("dev")) & (extra("fuzz") | extra("mutation"))


def test_the_core_is_imported_without_any_extra() -> None:
    left_out = ",".join(
        file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in (*IN_AN_EXTRA, RUN_BY_PYTEST)
    )
    words = [sys.executable, "-c", IMPORT_ALL, ",".join(set(PACKAGES) - {"grid"}), ",".join(NEVER_NEEDED), left_out]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.stdout == "all of it\n", done.stderr


def test_a_missing_extra_is_named_before_anything_is_begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def comparison(svg: Path | None) -> None:
        compare(BENCH, protocols=["recycle", "exchange"], days=1.0, seeds=1, jobs=1, svg=svg, progress=False)

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r'--svg needs the package matplotlib.*"choroid\[plots\]"'):
        comparison(tmp_path / "picture.svg")
    with pytest.raises(UserError, match=r'--plots needs .*"choroid\[plots\]"'):
        sensitivity(BENCH, plots=tmp_path)
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(UserError, match=r'a comparison needs .*"choroid\[stats\]", or simulate'):
        comparison(None)
    assert not list(tmp_path.iterdir())


def without_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let extras be loaded as where choroid-grid is not installed."""

    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name="grid")

    monkeypatch.setattr("choroid.common.extras.import_module", absent)
    monkeypatch.setattr("choroid.common.extras.is_installed", lambda package: False)


def test_a_missing_distribution_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_grid(monkeypatch)
    with pytest.raises(UserError, match=r"x needs the distribution choroid-grid, which is not installed"):
        load_extra("grid.member.confirmation", "grid", needed_for="x", otherwise="y")


def test_a_distribution_of_another_version_ends_no_other_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def of_another_version(name: str) -> None:
        raise ImportError(f"cannot import name 'there' from '{name}'")

    monkeypatch.setattr(distributions, "import_module", of_another_version)
    assert main(["check", str(BENCH)]) == 0
    for words in (["grid", "join", "hub:1"], ["verify", "campaign", "--runs", "1"]):
        assert main(words) == 1
        assert "does not fit this Choroid" in capsys.readouterr().err


def test_a_hidden_distribution_is_named(tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "grid.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "choroid", "grid", "identity", "show"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(library)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"is hidden by {library / 'grid.py'}" in done.stderr


def test_a_defect_of_choroid_is_not_taken_for_a_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match="nothing_of_that_name"):
        load_extra("controller.telemetry.nothing_of_that_name", "influx", needed_for="x", otherwise="y")
