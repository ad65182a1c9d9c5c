"""One HTTP request to a controller, with the standard library alone: a remote agent needs no HTTP package."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from choroid.client.errors import ClientError, ConnectionFailed, RequestRefused
from choroid.client.methods import ClientRequest

T = TypeVar("T")

UNIX = "unix:"
"""Begin of the address of a local socket; its path follows."""

MAX_ANSWER_BYTES = 64_000_000
"""Maximum size of an answer; the largest that a controller sends is some hundred kilobytes."""


@dataclass(frozen=True, slots=True)
class ApiCall(ClientRequest[T]):
    """Describes one request: method, path with query, what is done with the answer, and the JSON body.

    `seen` is the `utc` of the state on which a command was decided; the controller refuses it when that is more than 30 s
    old.
    """

    method: str
    path: str
    parse: Callable[[Any], T]
    body: Mapping[str, Any] | None = None
    seen: str = ""
    content: bytes | None = None
    """A file to send instead of a JSON body."""


@dataclass(frozen=True, slots=True)
class Address:
    """Says where a controller answers: scheme (http or https), host, port, and the path below which its API lies.

    With the scheme `unix` the host is the path of its socket on this machine.
    """

    scheme: str
    host: str
    port: int
    prefix: str = ""

    @classmethod
    def parse(cls, url: str) -> tuple[Address, str]:
        """Read an address such as `http://127.0.0.1:8090` or one with a token (`…/#token=…`).

        Args:
            url: The address.

        Returns:
            The address and the token behind the #; an empty one where there is none.

        Raises:
            ClientError: It is not an address.
        """
        if url.startswith(UNIX):
            return cls("unix", url.removeprefix(UNIX), 0), ""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ClientError(
                f"“{url.partition('#')[0]}” is not the address of a controller. Likely cause: the scheme is missing. Next:"
                " write it as `choroid run` prints it, such as http://127.0.0.1:8090"
            )
        token = parse_qs(parts.fragment).get("token", [""])[0]
        default = 443 if parts.scheme == "https" else 80
        return cls(parts.scheme, parts.hostname, port or default, parts.path.rstrip("/")), token

    @property
    def url(self) -> str:
        """The address as text, without a slash at its end."""
        if self.scheme == "unix":
            return UNIX + self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


def local_socket(folder: Path, endpoint: Mapping[str, Any]) -> str | None:
    """Find the local socket that an endpoint file names.

    Args:
        folder: The folder of the endpoint file.
        endpoint: Its content, decoded.

    Returns:
        The address of the socket; None where the file names none or it is not there.
    """
    name = endpoint.get("socket")
    return f"{UNIX}{(folder / name).absolute()}" if isinstance(name, str) and (folder / name).is_socket() else None


def connect_locally(path: str, timeout_s: float) -> socket.socket:
    """Connect to a local socket, however long its path is (an address holds 108 bytes).

    Args:
        path: Path of the socket.
        timeout_s: Longest wait for the connection and for each later operation on it (s).

    Returns:
        The connection.

    Raises:
        OSError: Nothing listens there, or its folder cannot be opened.
    """
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(folder)
    return connection


class _LocalConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path
        self._timeout_s = timeout_s

    def connect(self) -> None:
        self.sock = connect_locally(self._path, self._timeout_s)


class Transport:
    """Sends calls to one controller, each over a connection of its own. May be used from several threads.

    No proxy of the environment is used: a command for a rig must not pass through a proxy that the caller did not name.
    """

    def __init__(
        self,
        address: Address,
        token: str,
        *,
        timeout_s: float = 10.0,
        context: ssl.SSLContext | None = None,
        pid: int = 0,
    ) -> None:
        """Keep what a request needs; nothing is sent yet.

        Args:
            address: The controller.
            token: A bearer token.
            timeout_s: How long to wait for the connection and for each part of an answer (s).
            context: TLS settings for https; by default the system's certificates.
            pid: The controller's process on this machine, as its data folder tells; 0 if that is not known.
        """
        self.address = address
        self._pid = pid
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout_s = timeout_s
        self.context = context

    def do(self, call: ApiCall[T], *, timeout_s: float | None = None) -> T:
        """Send a call and parse its answer.

        Args:
            call: The request.
            timeout_s: Longest wait for the connection and for each part of the answer (s); None means that of this
                transport.

        Returns:
            What the call's `parse` makes of the answer.

        Raises:
            ConnectionFailed: Nothing answers, or no controller does.
            RequestRefused: The controller refused it.
        """
        status, content = self._exchanged(call, self._timeout_s if timeout_s is None else timeout_s)
        if status >= 400:
            raise refusal(status, _decoded(status, content))
        try:
            return call.parse(json.loads(content) if content else {})
        except (ValueError, TypeError, KeyError) as error:
            raise self._foreign(error) from None

    def _exchanged(self, call: ApiCall[Any], timeout_s: float) -> tuple[int, bytes]:
        kind = "application/json" if call.content is None else "application/octet-stream"
        headers = self.headers | {"Content-Type": kind}
        if call.method != "GET":
            headers["Choroid-Command-Id"] = secrets.token_hex(16)
        if call.seen:
            headers["Choroid-Seen"] = call.seen
        connection = self._connection(timeout_s)
        try:
            body: str | bytes | None = call.content
            if call.body is not None:
                body = json.dumps(call.body)
            connection.request(call.method, self.address.prefix + call.path, body, headers)
            reply = connection.getresponse()
            content = reply.read(MAX_ANSWER_BYTES + 1)
        except http.client.RemoteDisconnected:
            raise ConnectionFailed(
                f"the controller at {self.address.url} closed the connection without an answer. Likely cause: its machine is"
                " busy and its page takes no more connections at present, or it is ending. Next: try again in some seconds"
            ) from None
        except http.client.HTTPException as error:
            raise self._foreign(error) from None
        except TimeoutError:
            raise ConnectionFailed(
                f"the controller at {self.address.url} has not answered within {timeout_s:g} s. Likely cause: its machine or"
                " the network is busy; it may well run. Next: try again, with a longer time limit"
            ) from None
        except OSError as error:
            raise ConnectionFailed(
                f"the controller at {self.address.url} does not answer ({error}). {self._why(error)}"
            ) from None
        finally:
            connection.close()
        if len(content) > MAX_ANSWER_BYTES:
            raise self._foreign(ValueError("an answer of more than 64 MB"))
        return reply.status, content

    def _why(self, error: OSError) -> str:
        """Return the likely cause of a failed connection, and what to do. Only a process that is gone has ended."""
        if self._pid and not _exists(self._pid):
            return (
                f"Its process {self._pid} has ended, or runs in another container. Next: start `choroid run` again if it has"
                " ended; it resumes by itself"
            )
        if self._pid:
            return (
                f"Its process {self._pid} exists. Likely cause: its page has failed, and is started again within a minute;"
                " the care goes on. Next: try again, and see the alarms in its log"
            )
        if isinstance(error, ConnectionRefusedError):
            return (
                "Nothing listens there. Likely cause: it has ended, or its page has failed and is started again within a"
                " minute. Next: try again; where `choroid run` does not run, start it, and it resumes by itself"
            )
        return "Likely cause: its machine or the network is busy or down; it may well run. Next: try again"

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self.address.scheme == "unix":
            return _LocalConnection(self.address.host, timeout_s)
        if self.address.scheme == "https":
            return http.client.HTTPSConnection(
                self.address.host, self.address.port, timeout=timeout_s, context=self.context
            )
        return http.client.HTTPConnection(self.address.host, self.address.port, timeout=timeout_s)

    def _foreign(self, error: Exception) -> ConnectionFailed:
        return ConnectionFailed(
            f"what answers at {self.address.url} is no controller ({type(error).__name__}). Likely cause: another program has"
            " its port. Next: look at the log of `choroid run`, and start it with another --port"
        )


def _exists(pid: int) -> bool:
    """Return whether a process of this machine exists, as far as this user may know."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def refusal(status: int, detail: Any) -> RequestRefused:
    """Return the error that the body of an answer reports, in its own words.

    Args:
        status: HTTP status of the answer.
        detail: The decoded body: an object, or text.

    Returns:
        The error to raise.
    """
    error = detail.get("error", detail.get("detail", detail)) if isinstance(detail, dict) else detail
    if not isinstance(error, dict):
        return RequestRefused(status, str(error))
    words = {name: str(error.get(name) or "") for name in ("where", "cause", "action")}
    return RequestRefused(status, str(error.get("what", error)), **words)


def _decoded(status: int, content: bytes) -> Any:
    """Return the body of an error: decoded JSON, or text."""
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")[:500] or f"the answer is HTTP status {status}"
