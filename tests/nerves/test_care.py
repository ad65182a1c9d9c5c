"""Care never depends on what the nerves do (N10): their code and their gRPC service reach nothing that moves
medium.
"""

from __future__ import annotations

import ast
from pathlib import Path

from choroid.client.wire import nerves_pb2 as pb
from choroid.common.child import PACKAGES

NERVES = Path(__file__).resolve().parents[2] / "nerves"
ALLOWED = (
    "controller.children.accounts",
    "controller.children.patience",
    "nerves",
    "choroid.client.wire",
    "controller.sandbox",
    "drivers.conformance",
    "controller.core.clock",
    "controller.core.disk",
    "controller.core.version",
    "controller.core.database",
)
"""The last opens database files, the first counts the time of a process; neither reaches a device."""


def test_N10_the_nerves_import_nothing_of_perfusion() -> None:
    for path in NERVES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom):
                assert node.level <= 1, "beyond the package"
                names = [node.module or ""] if node.level == 0 else []
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                if name.split(".")[0] in {*PACKAGES} - {"nerves"}:
                    assert name.startswith(ALLOWED), f"{path.name} imports {name}"


def test_N10_no_call_of_the_service_names_anything_of_perfusion() -> None:
    words = {"pump", "flow", "perfusion", "medium", "valve", "heater", "feed", "dose", "reward", "temperature", "gas"}
    names = [method.name for method in pb.DESCRIPTOR.services_by_name["Nerves"].methods]
    for message in pb.DESCRIPTOR.message_types_by_name.values():
        names += [field.name for field in message.fields]
    assert not [name for name in names for word in words if word in name.lower()]
