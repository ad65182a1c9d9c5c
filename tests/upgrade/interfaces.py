"""What programs outside depend on, as plain data: HTTP API, protobuf messages, and the hashes of the shipped protocols."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from choroid.client.wire import nerves_pb2
from controller.core.clock import Clock
from controller.hazards.loading import load_checked_rig
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.recipes.catalogue import shipped
from dashboards.app import create_app
from dashboards.auth import Auth
from drivers.registry import MODELS
from grid.wire import grid_pb2
from grid.wire.boards import boards_pb2
from sim.lab import SimulatedLab

VERBS = ("get", "put", "post", "delete", "patch")
_NAME = re.compile(r"#/components/schemas/(\w+)")


async def interfaces(rig_path: Path, data: Path) -> dict[str, Any]:
    """Return the interfaces of this Choroid.

    Args:
        rig_path: Any rig file.
        data: An empty folder.
    """
    return {
        "http": await http_api(rig_path, data),
        "protobuf": {name: _messages(module.DESCRIPTOR) for name, module in _PROTOS.items()},
        "protocols": {name: recipe.source_sha256 for name, recipe in shipped().items()},
    }


async def http_api(rig_path: Path, data: Path) -> dict[str, Any]:
    """Return the operations of the HTTP API, the fields of each answer, and the fields that each request must have."""
    rig = load_checked_rig(rig_path, models=MODELS)
    clock = Clock(follow_system=True)
    lab = SimulatedLab(rig, seed=1)
    controller = Controller(rig=rig, opener=lab.opener, storage=Storage(data, durable=False), clock=clock)
    api = create_app(controller, Auth(None, demo=False, utc=clock.utc)).openapi()
    await controller.close()
    await lab.close()
    models = api["components"]["schemas"]
    operations, answers, requests = [], set(), set()
    for path, verbs in api["paths"].items():
        for verb in VERBS:
            if verb in verbs:
                operations.append(f"{verb} {path}")
                answers |= _used(verbs[verb]["responses"], models)
                requests |= _used(verbs[verb].get("requestBody", {}), models)
    return {
        "operations": sorted(operations),
        "answers": {name: sorted(models[name].get("properties", {})) for name in sorted(answers)},
        "requests": {
            name: {
                "fields": sorted(models[name].get("properties", {})),
                "required": sorted(models[name].get("required", [])),
            }
            for name in sorted(requests)
        },
    }


_PROTOS = {"nerves": nerves_pb2, "grid": grid_pb2, "boards": boards_pb2}


def _used(part: Any, models: dict[str, Any]) -> set[str]:
    """Return the names of the models that a part of the API's description uses, directly or through others."""
    found: set[str] = set()
    waiting = set(_NAME.findall(str(part)))
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= set(_NAME.findall(str(models[name]))) - found
    return found


def _messages(descriptor: Any) -> dict[str, Any]:
    """Return the fields of each message by number, the values of each enumeration, and the calls of each service."""
    file = FileDescriptorProto()
    descriptor.CopyToProto(file)
    messages: dict[str, dict[str, Any]] = {}
    enums = {each.name: {value.name: value.number for value in each.value} for each in file.enum_type}
    waiting = [("", message) for message in file.message_type]
    while waiting:
        above, message = waiting.pop()
        name = f"{above}{message.name}"
        messages[name] = {
            str(each.number): [each.name, each.type, each.type_name, each.label] for each in message.field
        }
        enums |= {
            f"{name}.{each.name}": {value.name: value.number for value in each.value} for each in message.enum_type
        }
        waiting += [(f"{name}.", each) for each in message.nested_type]
    calls = {
        f"{service.name}.{call.name}": [call.input_type, call.output_type, call.client_streaming, call.server_streaming]
        for service in file.service
        for call in service.method
    }
    return {"package": file.package, "messages": messages, "enums": enums, "calls": calls}
