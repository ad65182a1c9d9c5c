"""Build the web application of a controller: the API, the live feed and the page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

import dashboards.routes
from controller.alarms.states import ShelfError
from controller.attachments.store import NoRoom
from controller.core.run_states import IllegalTransition
from controller.estimator.assays import AssayError, AssayRefused
from controller.gate.bypass import BypassRefused
from controller.gate.emergency import ResetRefused
from controller.journal.terms import JournalUnwritten
from controller.ledger.ledger import LedgerError
from controller.process.controller import Controller
from controller.process.tissue_changes import TissueUnsafe
from controller.recipes.answers import AnswerRefused
from controller.rig.quantities import QuantityError
from controller.runs.library import LibraryError, UnknownVersion
from controller.runs.runner import RunnerError
from controller.tissue.record import TissueError
from controller.upkeep.upkeep import UpkeepError
from dashboards.access import ApiProblem, Viewer, identify
from dashboards.auth import Auth, Unkept
from dashboards.compression import Compressed
from dashboards.feed import Feed
from dashboards.feed import routes as feed_routes
from dashboards.freshness import Freshness
from dashboards.models.base import Errored
from dashboards.page_files import PageFiles
from dashboards.passwords import PasswordRefused
from dashboards.recorded import Recorded
from dashboards.request_filter import LOOPBACK_HOSTS, RequestFilter
from dashboards.routes import faults, session
from dashboards.routes import nerves as nerve_routes
from dashboards.sign_ins import FailedSignIns
from dashboards.simulated import FaultsControl, SpeedControl
from nerves.access import AgentAccess
from nerves.credentials import CredentialsProblem, UnknownAgent
from nerves.inspection import ArrayInspector
from nerves.recording.access import RecordingAccess
from nerves.recording.quota import RecordingRefused
from nerves.summary import NervesSource
from protocols.parameters import ParamError
from protocols.registry import UnknownProtocol

STATIC = Path(__file__).parent / "static"
VERSION = "1"

ANSWERS: dict[type[Exception], int] = {
    RunnerError: 409,
    AssayRefused: 409,
    ResetRefused: 409,
    BypassRefused: 409,
    AssayError: 422,
    AnswerRefused: 422,
    IllegalTransition: 409,
    UnknownProtocol: 404,
    ParamError: 422,
    QuantityError: 422,
    LedgerError: 422,
    TissueUnsafe: 409,
    TissueError: 422,
    UpkeepError: 422,
    ShelfError: 422,
    JournalUnwritten: 503,
    Unkept: 507,
    NoRoom: 507,
    UnknownVersion: 404,
    UnknownAgent: 404,
    RecordingRefused: 409,
    CredentialsProblem: 409,
    LibraryError: 409,
    PasswordRefused: 422,
}
"""Exceptions of the layers below whose text is complete."""


def create_app(
    controller: Controller,
    auth: Auth,
    *,
    speed: SpeedControl | None = None,
    nerves: NervesSource | None = None,
    host: str = "127.0.0.1",
    names: frozenset[str] = frozenset(),
    mishaps: FaultsControl | None = None,
    agents: AgentAccess | None = None,
    recordings: RecordingAccess | None = None,
    array: ArrayInspector | None = None,
) -> FastAPI:
    """Build the application.

    `speed` and `mishaps` only for simulated rigs; `nerves` is asked for spikes if the controller has none;
    `agents` and `recordings` are those of its electrode engine, `array` shows its electrodes. `host` is
    the address it will be bound to; `names` are further host names by which it may be opened.
    """
    app = FastAPI(
        title="Choroid",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        responses={status: {"model": Errored} for status in (401, 403, 404, 409, 413, 422)},
    )
    app.state.controller = controller
    app.state.auth = auth
    app.state.failures = FailedSignIns(controller)
    app.state.speed = speed
    app.state.faults = mishaps
    app.state.agents = agents
    app.state.recordings = recordings
    feed = app.state.feed = Feed(controller, speed, nerves)
    app.state.array = None if array is None else nerve_routes.SharedAnswers(array, lambda: feed.pace)
    app.include_router(session.open_routes)
    for module in iter_modules(dashboards.routes.__path__, "dashboards.routes."):
        if (found := getattr(import_module(module.name), "routes", None)) is not None:
            app.include_router(found)
    if speed is not None:
        app.include_router(session.speed_routes)
    if mishaps is not None:
        app.include_router(faults.simulated_routes)
    app.include_router(feed_routes)
    files = PageFiles(STATIC)
    app.mount("/static", files, name="static")
    app.add_middleware(Compressed)
    app.add_middleware(Recorded, controller=controller)
    app.add_middleware(Freshness, controller=controller)
    app.add_middleware(RequestFilter, hosts=LOOPBACK_HOSTS | {host} | names)
    _explain_errors(app)

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        """Return the page. In the demo it signs in the user of this machine as operator."""
        response = files.index.answer(request.headers)
        if auth.demo and _from_here(request) and identify(request) is None:
            session.give_session(response, request, auth.demo_session(session.device_of(request)))
        return response

    @app.get("/api/openapi.json", include_in_schema=False)
    async def description(_: Viewer) -> dict[str, Any]:
        """Return the description of the API."""
        return app.openapi()

    return app


def _from_here(request: Request) -> bool:
    return request.client is not None and request.client.host in LOOPBACK_HOSTS


def _explain_errors(app: FastAPI) -> None:
    """Make every error answer say what happened, where, why, and what to do."""

    @app.exception_handler(ApiProblem)
    async def problem(_: Request, error: ApiProblem) -> JSONResponse:
        return JSONResponse(error.body(), status_code=error.status)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
        words = ApiProblem(
            422,
            str(first["msg"])[:200],
            where=place[:100] or "the request's body",
            cause="a slip in the request",
            action="see GET /api/openapi.json for what is asked for",
        )
        return JSONResponse(words.body(), status_code=422)

    @app.exception_handler(HTTPException)
    async def missing(request: Request, error: HTTPException) -> JSONResponse:
        words = ApiProblem(
            error.status_code,
            f"{error.detail}".lower(),
            where=f"{request.method} {request.url.path[:100]}",
            cause="a slip in the address or the method",
            action="see GET /api/openapi.json for what there is",
        )
        return JSONResponse(words.body(), status_code=error.status_code, headers=error.headers)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        words = ApiProblem(
            500,
            "the controller could not answer this",
            where=f"{request.method} {request.url.path[:100]}",
            cause=f"a defect ({type(error).__name__}); it is in the controller's log",
            action="the rig goes on; report it with the log",
        )
        return JSONResponse(words.body(), status_code=500)

    for kind, status in ANSWERS.items():
        app.add_exception_handler(kind, _split_handler(status))


def _split_handler(status: int) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Return a handler that splits “what. Likely cause: … Next: …” into its three parts."""

    async def handler(request: Request, error: Exception) -> Response:
        what, _, action = str(error).partition(" Next: ")
        what, _, cause = what.partition(" Likely cause: ")
        words = ApiProblem(
            status,
            what.rstrip("."),
            where=f"{request.method} {request.url.path}",
            cause=cause.rstrip("."),
            action=action,
        )
        return JSONResponse(words.body(), status_code=status)

    return handler
