"""Claims on lines: one master per line, visible to every program on this host (A12).

A claim is an advisory lock (flock) on a small file in a directory that all users of the host share. The kernel
releases it when its process ends for any reason, so the guard can take over a dead controller's links at once. The
file names the holder; that text is for people and is never trusted. Programs on other hosts, and in containers with
their own lock directory, do not see these claims: their commands are detected by readback
(:mod:`controller.transfers.strays`).
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import stat
import tempfile
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from drivers.errors import LinkDown
from drivers.transport.url import LinkUrl

logger = logging.getLogger(__name__)

PLACES = (Path("/run/lock/choroid"), Path(tempfile.gettempdir()) / "choroid-lock")
"""Directories for the files; the first usable one is taken. Every user of the host must arrive at the same one."""
RETRY_S = 0.05
MAX_TEXT_BYTES = 2000


@dataclass(frozen=True, slots=True)
class Holder:
    """Holds the content of a claim's file: the program and its data folder."""

    program: str = "a program of Choroid"
    data: str = ""
    pid: int = 0


_introduced: list[Holder] = []


def introduce(program: str, data: Path | None = None) -> None:
    """Set what this process writes into its claims for people.

    Args:
        program: Name of the program.
        data: Its data folder; None if it has none.
    """
    _introduced[:] = [Holder(program, "" if data is None else str(data.absolute()))]


class ClaimHeld(LinkDown):
    """Another process holds the claim; `holder` is the content of its file."""

    def __init__(self, what: str, holder: Holder, who: str) -> None:
        super().__init__(
            f"it is in use by {who}",
            where=what,
            cause="another controller, guard or tool on this computer has it; two masters on one line take each other's"
            " answers for their own",
            action="use the controller that runs, or end that process first",
        )
        self.holder = holder


class Claim:
    """Locks a line or a rig as long as this object exists, and at most as long as the process."""

    def __init__(self, descriptor: int) -> None:
        self._finalizer = weakref.finalize(self, os.close, descriptor)

    def release(self) -> None:
        """Release the lock now."""
        self._finalizer()


_held: weakref.WeakValueDictionary[str, Claim] = weakref.WeakValueDictionary()
_of_streams: weakref.WeakKeyDictionary[object, tuple[Claim, ...]] = weakref.WeakKeyDictionary()


def keep_with(writer: object, claims: tuple[Claim, ...]) -> None:
    """Keep claims as long as a writer exists.

    Args:
        writer: The writer of the line.
        claims: The claims on it.
    """
    _of_streams[writer] = claims


def taken_from(writer: object) -> tuple[Claim, ...]:
    """Take over the claims that were kept with a writer; they no longer last as long as it, which may outlive its line.

    Args:
        writer: The writer of the line.

    Returns:
        The claims; empty for a line that was opened without any.
    """
    return _of_streams.pop(writer, ())


def take(key: str, what: str) -> Claim:
    """Claim a line or a rig. A claim that this process already holds is shared.

    Args:
        key: What is claimed: a key of :func:`link_keys` or :func:`rig_key`.
        what: Its name in messages.

    Returns:
        The claim, to be kept as long as it must hold. Where no lock can be created it holds nothing, and the log says
        so.

    Raises:
        ClaimHeld: Another process holds it; the message has its number, program and data folder, and the next action.
        OSError: The lock cannot be tried for another reason.
    """
    known = _held.get(key)
    if known is not None:
        return known
    descriptor = _opened(f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.lock")
    if descriptor is None:  # life support must not depend on a lock that cannot be created
        logger.warning("%s is not claimed: no lock directory is usable (%s)", what, ", ".join(map(str, PLACES)))
        claim = Claim(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    else:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _read(descriptor)
            os.close(descriptor)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise ClaimHeld(what, holder, _text(holder)) from None
        _write(descriptor, what)
        claim = Claim(descriptor)
    _held[key] = claim
    return claim


async def take_all(keys: Iterable[tuple[str, str]], wait_s: float = 0.0) -> tuple[Claim, ...]:
    """Claim all `keys`, or none.

    Args:
        keys: Pairs (key, name in messages).
        wait_s: Maximum time to wait for another process to release them (s), as a guard does.

    Returns:
        The claims, in the order of the keys.

    Raises:
        ClaimHeld: See :func:`take`.
    """
    wanted = list(keys)
    loop = asyncio.get_running_loop()
    until_s = loop.time() + wait_s
    while True:
        try:
            return tuple([take(key, what) for key, what in wanted])
        except ClaimHeld:
            if loop.time() >= until_s:
                raise
        await asyncio.sleep(RETRY_S)


async def link_keys(url: LinkUrl) -> list[tuple[str, str]]:
    """Return the keys of a link: the same for every spelling of the same line.

    Args:
        url: The link. A serial port is known by its device number, a TCP link by each address of its host. A simulated
            link has no key.

    Returns:
        Pairs (key, name in messages).

    Raises:
        OSError: The host is unknown.
    """
    what = f"link {url}"
    match url.scheme:
        case "sim":
            return []
        case "tcp":
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(url.host, url.port, type=1)
            addresses = sorted({str(address[0]).removeprefix("::ffff:") for *_, address in found})
            return [(f"tcp {address} {url.port}", what) for address in addresses]
        case "serial":
            return [] if url.usb is not None else [(_port_key(Path(url.target)), what)]


def _port_key(path: Path) -> str:
    try:
        about = path.stat()
    except OSError:
        return f"serial {os.path.realpath(path)}"
    return f"serial {about.st_rdev}" if stat.S_ISCHR(about.st_mode) else f"serial {os.path.realpath(path)}"


def rig_key(name: str, links: Iterable[str]) -> tuple[str, str]:
    """Return the key of a rig.

    Args:
        name: Its name.
        links: Its links as texts, in any order.

    Returns:
        The key, and the name of the rig in messages.
    """
    return "rig " + json.dumps([name, sorted(set(links))]), f"rig {name}"


def _opened(name: str) -> int | None:
    for place in PLACES:
        try:
            folder = _folder(place)
        except OSError:
            continue
        try:
            return _file(folder, name)
        except OSError as error:
            logger.debug("no lock in %s: %s", place, error)
        finally:
            os.close(folder)
    return None


def _folder(place: Path) -> int:
    """Open the directory, which must not be a symbolic link; create it for all users if it is missing."""
    try:
        place.mkdir(mode=0o700)
    except FileExistsError:
        pass
    else:
        place.chmod(0o1777)
    return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _file(folder: int, name: str) -> int:
    """Open the file for locking, whichever user created it; raise OSError if it is not a plain file."""
    safe = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = -1
    for flags in (os.O_RDWR, os.O_RDONLY, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDWR):
        try:
            descriptor = os.open(name, flags | safe, 0o600, dir_fd=folder)
        except (PermissionError, FileNotFoundError, FileExistsError):
            continue
        if flags & os.O_CREAT:
            os.fchmod(descriptor, 0o666)
        break
    if descriptor < 0:
        raise PermissionError(errno.EACCES, "cannot be opened", name)
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "not a plain file", name)
    return descriptor


def _write(descriptor: int, what: str) -> None:
    holder = _introduced[0] if _introduced else Holder()
    content = {"pid": os.getpid(), "what": what, "program": holder.program, "data": holder.data}
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(content).encode()[:MAX_TEXT_BYTES], 0)
    except OSError:
        pass  # a file of another user, or a full disk: the lock holds anyway


def _read(descriptor: int) -> Holder:
    try:
        content = json.loads(os.pread(descriptor, MAX_TEXT_BYTES, 0))
        return Holder(str(content["program"]), str(content["data"]), int(content["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Holder()


def _text(holder: Holder) -> str:
    """Return who holds a claim, for people."""
    if not holder.pid:
        return "a process that did not say who it is"
    kept = f", with its data in {holder.data}" if holder.data else ""
    return re.sub(r"[^\x20-\x7e]", "?", f"process {holder.pid} ({holder.program}{kept})")[:400]
