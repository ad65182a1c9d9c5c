"""`python -m tests.unused`: name functions, classes and methods of the product that only tests use, or nothing.

vulture finds the names; what it cannot see, and what is meant for users and tests, is in :data:`ALLOWED`. Fields of data
classes are left out: most become JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from vulture import Vulture

from choroid.common.child import PACKAGES

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("function", "method", "class", "property", "import")
DECORATED = ["@*.get", "@*.post", "@*.put", "@*.delete", "@*.exception_handler", "@*_validator", "@overload", "@part"]
"""The web framework, pydantic and the type checker call these."""
ALLOWED: Mapping[str, str] = {
    "*:__getattr__": "Python calls it",
    "*:__dir__": "Python calls it",
    "*:__init_subclass__": "Python calls it",
    "choroid/client/*": "public: clients and the CL-shaped API",
    "choroid/environments/*": "public: gymnasium makes the environments by their names, docs/environments.md has the agents",
    "choroid/simulation/cl_source.py:*": "cl-sdk calls them",
    "choroid/nwb/export.py:_get_*": "hdmf calls them",
    "dashboards/server.py:*": "uvicorn calls them",
    "drivers/*.py:[A-Z]*": "found by drivers/registry.py, which looks for classes with a model",
    "drivers/cameras/*Camera": "loaded by name, as the rig file says",
    "grid/grading/rotation.py:is_committed": "public: a member checks a rotation that was opened",
    "grid/federated/aggregator.py:intercept": "Flower's client calls it",
    "grid/hub/service.py:*": "gRPC calls it",
    "grid/serving.py:*": "uvicorn calls it",
    "grid/relay/splice.py:*": "asyncio calls them",
    "grid/planning/memory.py:zero_bytes": "arithmetic of docs/planning.md, for engines that split the states",
    "grid/planning/pace.py:split_s": "arithmetic of a model that is cut over several devices",
    "grid/planning/roofline.py:*": "the table of chips, for people",
    "nerves/admission.py:intercept_service": "gRPC calls it",
    "controller/runs/actions/*.py:[A-Z]*": "found by controller/runs/action.py, which looks for actions",
    "nerves/cards/conformance/examine.py:examine_card": "public: docs/cards.md",
    "nerves/detector.py:*": "counts that tests compare with the truth",
    "nerves/kernels.py:define_pipelines": "numba calls it",
    "protocols/*": "public: the language of protocols",
    "sim/devices/*": "what happens to a device: tests do it",
    "sim/faults/effects.py:_*": "called by the name of the fault",
    "sim/plant/plant.py:commanded_ul_min": "truth that tests compare with",
    "sim/rhx/server.py:press_connect": "what a person does at the program: tests do it",
    "sim/serving.py:*": "asyncio calls them",
    "sim/virtual_time.py:*": "asyncio calls them",
    "verification/bench/*.py:bench_*": "called by its name in the list of verification/bench/suite.py",
    "verification/campaign/wires.py:get_write_buffer_size": "asyncio calls it",
}
"""Pattern of `file:name` → why it is there although the product does not use it."""


def unused(folders: Sequence[Path]) -> list[str]:
    """Return `file:name` of what nothing below `folders` uses, in the order of the files."""
    vulture = Vulture(ignore_decorators=DECORATED)
    vulture.scavenge([str(folder) for folder in folders], exclude=["*/wire/*", "*/node_modules/*"])
    return [
        f"{Path(item.filename).resolve().relative_to(folders[0].resolve().parent)}:{item.name}"
        for item in vulture.get_unused_code(min_confidence=60)
        if item.typ in KINDS
    ]


def main() -> int:
    """Print what is unused and not allowed, and allowances without use; return 1 if there is any."""
    found = unused([ROOT / name for name in (*PACKAGES, "examples")])
    wrong = [f"{name}: nothing of the product uses it" for name in found if not _allowed(name)]
    wrong += [f"{each}: the allowance covers nothing" for each in ALLOWED if not any(fnmatch(n, each) for n in found)]
    print(
        "\n".join([*wrong, f"unused: {len(found)} names, {len(wrong)} to be removed or explained in tests/unused.py"])
    )
    return 1 if wrong else 0


def _allowed(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
