"""The web application: the API, the live feed and the page, over one controller."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles

from controller.process import Controller
from dashboards.access import LOOPBACK_HOSTS, Problem, foreign
from dashboards.api import PROBLEMS, open_routes, routes
from dashboards.auth import COOKIE, Auth
from dashboards.live import feed

STATIC = Path(__file__).parent / "static"
MOST_BODY_BYTES = 64_000
PAGE_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self';"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


class SpeedControl(Protocol):
    """The speed of a simulated rig."""

    @property
    def speed(self) -> float:
        """Times life."""

    def set_speed(self, speed: float) -> None:
        """Change it."""


def create_app(
    controller: Controller, auth: Auth, *, speed: SpeedControl | None = None, host: str = "127.0.0.1"
) -> FastAPI:
    """The application. `speed` only for simulated rigs; `host` is the address it will be bound to."""
    app = FastAPI(title="Choroid", version="1", docs_url=None, redoc_url=None)
    app.state.controller = controller
    app.state.auth = auth
    app.state.speed = speed
    app.state.hosts = LOOPBACK_HOSTS | {host}
    app.include_router(open_routes)
    app.include_router(routes)
    app.include_router(feed)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")

    @app.middleware("http")
    async def doorman(request: Request, call_next):  # type: ignore[no-untyped-def]
        wrong = foreign(request)
        if wrong is not None:
            return JSONResponse(
                Problem(403, wrong, cause="another web page is asking", action="open this page itself").body(),
                status_code=403,
            )
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BODY_BYTES or "transfer-encoding" in request.headers:
            problem = Problem(413, "the request is too large", cause="over 64 kB", action="send less")
            return JSONResponse(problem.body(), status_code=413)
        response: Response = await call_next(request)
        response.headers["Content-Security-Policy"] = PAGE_POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-store"
        return response

    @app.exception_handler(Problem)
    async def problem(_: Request, error: Problem) -> JSONResponse:
        return JSONResponse(error.body(), status_code=error.status)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        words = Problem(422, f"{place}: {first['msg']}", cause="a slip in the request", action="see /openapi.json")
        return JSONResponse(words.body(), status_code=422)

    for kind, status in PROBLEMS.items():
        app.add_exception_handler(kind, _answer(status))

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        response = FileResponse(STATIC / "index.html")
        if auth.demo and auth.by_session(request.cookies.get(COOKIE, "")) is None:
            response.set_cookie(COOKIE, auth.demo_session(), httponly=True, samesite="strict")
        return response

    return app


def _answer(status: int):  # type: ignore[no-untyped-def]
    async def handler(_: Request, error: Exception) -> JSONResponse:
        what, _, rest = str(error).partition(" Next: ")
        what, _, cause = what.partition(" Likely cause: ")
        return JSONResponse({"error": {"what": what, "cause": cause, "action": rest}}, status_code=status)

    return handler
