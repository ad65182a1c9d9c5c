"""The web server, on the controller's own event loop."""

from __future__ import annotations

import asyncio

import uvicorn
from fastapi import FastAPI


async def serve(app: FastAPI, host: str, port: int, *, time_scale: float = 1.0) -> None:
    """Serve `app` until cancelled.

    `time_scale`: how many times faster than life the loop's time can run (the demo); uvicorn's time-outs are loop time
    and are stretched by it.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="websockets-sansio",
        ws_ping_interval=None,  # pings in scaled time would cut honest clients off; the live feed is its own heartbeat
        timeout_keep_alive=int(30 * time_scale),
        timeout_graceful_shutdown=int(max(1, time_scale)),
        server_header=False,
    )
    server = _Server(config)
    try:
        await server.serve()
    except asyncio.CancelledError:
        server.should_exit = True
        server.force_exit = True
        await server.shutdown()
        raise


class _Server(uvicorn.Server):
    """A server that leaves signals to the front door."""

    def install_signal_handlers(self) -> None:
        """None of its own."""
