"""`choroid grid page serve`: the web page of a hub."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from grid import serving
from grid.commands.stopping import until_stopped
from grid.errors import GridError
from grid.page.app import page_app
from grid.page.confinement import confine
from grid.page.reading import HubReader


def page(data: Path, host: str, port: int, names: list[str], say: Callable[[str], None]) -> None:
    """Serve the page of the hub in `data` until SIGINT or SIGTERM.

    Args:
        data: The hub's data folder.
        host: Where it listens.
        port: Its port; 0 takes any free one.
        names: Host names by which it may be opened, in addition to `host`.
        say: Takes the line with its address.

    Raises:
        GridError: There is no hub in `data`, the port is taken, or a name is not one.
    """
    if any("*" in name for name in names):
        raise GridError("a host name of the page has no *. Next: give each name with its own --name")
    reader = HubReader(data)
    try:
        with serving.listen(host, port) as listening:
            bracketed = f"[{host}]" if ":" in host else host
            unconfined = confine(data)
            if unconfined:
                say(f"the page can read every file of this user, the hub's keys included: {unconfined}")

            async def serve() -> None:
                say(f"page: http://{bracketed}:{listening.getsockname()[1]}/")
                await serving.serve(page_app(reader, (bracketed, *names)), listening)

            until_stopped(serve())
    finally:
        reader.close()
