"""`choroid run`: the controller of a rig in real time, its guard, its page, and its nerves.

The guard is a second process that watches the controller's heartbeat; whatever happens to this one, it brings every
actuator that cannot end by itself to its basal state.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from pathlib import Path

from choroid.lab import stop_on_signals
from choroid.listening import EngineNerves
from choroid.remote import ENDPOINT
from controller.clock import Clock
from controller.process import Controller
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from dashboards.app import create_app
from dashboards.auth import Auth
from dashboards.server import serve
from drivers.registry import MODELS
from drivers.transport.opener import open_real


def run(path: Path, *, data: Path, host: str, port: int) -> int:
    """Run until interrupted; returns the exit status. Resumes what a crash interrupted, by each step's policy."""
    rig = load_rig(path, models=MODELS)
    data.mkdir(parents=True, exist_ok=True)
    asyncio.run(_run(rig, path, data, host, port))
    return 0
