"""The edges of `choroid run`: page, health port, electrode engine, sinks, checkpoints and delivery, each supervised (B1)."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI

from choroid.running.endpoint import leave_endpoint
from choroid.running.listening import EngineNerves
from choroid.running.notary import Notary
from choroid.running.sinks import EdgeSink
from controller.delivery.people import People
from controller.process.controller import Controller
from controller.process.edges import Up
from controller.process.outside import with_people
from dashboards.app import create_app
from dashboards.auth import Auth
from dashboards.certificate import ALARM, PAUSES, Certificate
from dashboards.health import serve_health
from dashboards.outside import INSIDE, Outside
from dashboards.server import listen, serve

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class EdgePlan:
    """What the edges of a controller are. `people` opens the delivery; None where the rig file asks for none."""

    data: Path
    auth: Auth
    host: str
    port: int
    health_port: int
    nerves: EngineNerves | None
    sinks: tuple[EdgeSink, ...]
    people: Callable[[], People] | None
    notary: Notary | None = None
    time_scale: float = 1.0
    outside: Outside = INSIDE


class RunEdges:
    """Starts the edges of a controller, and keeps their addresses on file for commands."""

    def __init__(self, controller: Controller, plan: EdgePlan) -> None:
        self._controller = controller
        self._plan = plan
        self._url: str | None = None
        """Address of the page; empty while it cannot be opened, None before it was tried."""
        self._health = ""
        files = plan.outside.certificate, plan.outside.key
        self._certificate = None if files[0] is None or files[1] is None else Certificate(files[0], files[1])

    def start(self) -> None:
        """Start every edge; return at once."""
        edges, plan = self._controller.edges, self._plan
        edges.keep("health port", self._answer_monitors)
        if self._certificate is not None:
            keep = functools.partial(self._certificate.keep, utc=self._controller.clock.utc)
            edges.keep("page certificate", keep, alarm=ALARM, pauses=PAUSES)
        edges.keep("page", self._serve_page)
        if plan.nerves is not None:
            plan.nerves.start(edges)
        for sink in plan.sinks:
            edges.keep(sink.name, sink.live, alarm=("telemetry_lost", sink.name))
        if plan.notary is not None:
            edges.keep("checkpoints", plan.notary.run, alarm=("checkpoint_failed", "journal"))
        if plan.people is not None:
            edges.keep("delivery", self._deliver, alarm=("channel_failed", "delivery"))

    async def _serve_page(self, up: Up) -> None:
        plan = self._plan

        def opened(port: int) -> None:
            scheme = "http" if plan.outside.certificate is None else "https"
            self._url = f"{scheme}://{f'[{plan.host}]' if ':' in plan.host else plan.host}:{port}"
            self._leave_endpoint()
            link = plan.auth.link(plan.outside.link_base(plan.host, port))
            print(
                f"Choroid: rig {self._controller.rig.name} is running; page at {link}",
                file=sys.stderr,
                flush=True,
            )
            up()

        try:
            await serve(
                self._app(),
                plan.host,
                plan.port,
                time_scale=plan.time_scale,
                opened=opened,
                outside=plan.outside,
                certificate=self._certificate,
                data=plan.data,
            )
        except Exception:
            self._url = ""
            self._leave_endpoint()
            raise

    def _app(self) -> FastAPI:
        nerves = self._plan.nerves
        return create_app(
            self._controller,
            self._plan.auth,
            host=self._plan.host,
            names=self._plan.outside.hosts,
            agents=None if nerves is None else nerves.agents,
            recordings=None if nerves is None else nerves.recordings,
            array=nerves,
        )

    async def _answer_monitors(self, up: Up) -> None:
        with listen(LOOPBACK, self._plan.health_port, option="--health-port") as listening:
            self._health = f"http://{LOOPBACK}:{listening.getsockname()[1]}/health"
            if self._url is not None:
                self._leave_endpoint()
            up()
            await serve_health(self._controller, listening, time_scale=self._plan.time_scale)

    async def _deliver(self, up: Up) -> None:
        assert self._plan.people is not None  # noqa: S101  (else it is not started)
        people = self._plan.people()
        self._controller.parts.attach(with_people(people))
        up()
        await people.run()

    def _leave_endpoint(self) -> None:
        """Write the addresses of page and health check for commands."""
        leave_endpoint(self._plan.data, self._url or "", self._plan.auth.command_line_token(), self._health)
