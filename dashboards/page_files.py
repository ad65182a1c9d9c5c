"""Serve the page's own files from memory: joined, compressed once, and cached by browsers.

Scripts and style sheets come as one file each, at an address with the hash of its content, so a browser never asks for it
again. Every other file is asked for again with its tag, and sent only when it has changed. The separate scripts are served
too, for tests and for people who look.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dashboards.page_bundle import joined_modules

LEVEL = 6
"""Of gzip: a higher one takes twice the time and saves less than 1%."""
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"
"""For an address that names its content."""
CHECKED = "no-cache"
"""A browser keeps the file, and asks each time whether it is still current."""
OWN = "private, no-cache"
"""The same, for no other cache than the browser's: the answer may begin a session."""
_STYLES = re.compile(r'(?:\s*<link rel="stylesheet" href="/static/([^"]+)" />)+')
_STYLE = re.compile(r'href="/static/([^"]+\.css)"')
_SCRIPT = re.compile(r'src="/static/([^"]+\.js)"')


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file, as it is sent. `packed` is its gzip form; None for a file that a page does not request."""

    body: bytes
    kind: str
    caching: str = CHECKED
    packed: bytes | None = None

    def answer(self, headers: Headers) -> Response:
        """Return the file, compressed for a client that takes that, or that its copy is current."""
        tag = f'W/"{_hash(self.body)}"'
        known = {"ETag": tag, "Cache-Control": self.caching, "Vary": "Accept-Encoding"}
        if tag in headers.get("if-none-match", ""):
            return Response(status_code=304, headers=known)
        if self.packed is not None and "gzip" in headers.get("accept-encoding", ""):
            return Response(self.packed, headers={**known, "Content-Encoding": "gzip"}, media_type=self.kind)
        return Response(self.body, headers=known, media_type=self.kind)


class PageFiles:
    """ASGI application of the files below `/static`. `index` is the page itself."""

    def __init__(self, folder: Path) -> None:
        read = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.*"))}
        self._files = {name: PageFile(body, TYPES[Path(name).suffix]) for name, body in read.items()}
        texts = {name: body.decode() for name, body in read.items()}
        page, joined = _with_joined(texts)
        for name, text in joined.items():
            self._files[name] = _packed(text, TYPES[Path(name).suffix], FOREVER)
        self.index = _packed(page, TYPES[".html"], OWN)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a file."""
        found = self._files.get(scope["path"].removeprefix(f"{scope['root_path']}/"))
        if found is None:
            raise HTTPException(404)
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405)
        await found.answer(Headers(scope=scope))(scope, receive, send)


def _with_joined(texts: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the page with the addresses of its joined files, and these files by name."""
    page = texts["index.html"]
    style = "".join(texts[name] for name in _STYLE.findall(page))
    first = _SCRIPT.findall(page)[0]
    script = joined_modules({name: text for name, text in texts.items() if name.endswith(".js")}, first)
    files = {f"page-{_hash(text.encode())}{suffix}": text for suffix, text in ((".css", style), (".js", script))}
    style_name, script_name = files
    page = _STYLES.sub(f'\n    <link rel="stylesheet" href="/static/{style_name}" />', page)
    return page.replace(f'"/static/{first}"', f'"/static/{script_name}"'), files


def _packed(text: str, kind: str, caching: str) -> PageFile:
    body = text.encode()
    return PageFile(body, kind, caching, gzip.compress(body, LEVEL, mtime=0))


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]
