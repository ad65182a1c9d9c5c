"""One master on one line: claims that every program on this host sees (A12).

A claim is an advisory lock (flock) on a small file in a directory that all users of the host share. The kernel releases it
when its process ends, however it ends, so the guard can take a dead controller's links over at once. The file says who
holds it; that text is for people and is never trusted. Programs on other hosts, and in containers with a lock directory of
their own, do not see these claims: their commands are detected by readback (:mod:`controller.transfers.strays`).
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
"""Directories for the files, the first that can be used; every user of the host has to come to the same one."""
AGAIN_S = 0.05
MAX_TEXT_BYTES = 2000


@dataclass(frozen=True, slots=True)
class Holder:
    """What a process writes into its claims: what it is, and the folder of its records."""

    program: str = "a program of Choroid"
    data: str = ""
    pid: int = 0


_introduced: list[Holder] = []


def introduce(program: str, data: Path | None = None) -> None:
    """Say what this process is and where it keeps its records; whoever finds its claims is told."""
    _introduced[:] = [Holder(program, "" if data is None else str(data.absolute()))]


class ClaimHeld(LinkDown):
    """Another process holds the claim; `holder` is what it says of itself."""

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
    """A lock that lasts as long as this object, and at most as long as the process."""

    def __init__(self, descriptor: int) -> None:
        self._finalizer = weakref.finalize(self, os.close, descriptor)

    def release(self) -> None:
        """Let go before the object does."""
        self._finalizer()


_held: weakref.WeakValueDictionary[str, Claim] = weakref.WeakValueDictionary()
_of_streams: weakref.WeakKeyDictionary[object, tuple[Claim, ...]] = weakref.WeakKeyDictionary()


def keep_with(writer: object, claims: tuple[Claim, ...]) -> None:
    """Let `claims` last as long as `writer`."""
    _of_streams[writer] = claims


def of(writer: object) -> tuple[Claim, ...]:
    """Return the claims that last as long as `writer`."""
    return _of_streams.get(writer, ())


def take(key: str, what: str) -> Claim:
    """Claim `key`, which people know as `what`. A claim that this process holds already is shared.

    Raises :class:`ClaimHeld` when another process holds it, with its number, its program, its data folder, and what to do.
    """
    known = _held.get(key)
    if known is not None:
        return known
    descriptor = _opened(f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.lock")
    if descriptor is None:  # a lock that cannot be made keeps no tissue alive
        logger.warning("%s is not claimed: no directory for locks can be used (%s)", what, ", ".join(map(str, PLACES)))
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
    """Claim all `keys` (key, what), or none; wait up to `wait_s` (s) for another process to let go, as a guard does.

    Raises :class:`ClaimHeld` as :func:`take` does.
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
        await asyncio.sleep(AGAIN_S)


async def link_keys(url: LinkUrl) -> list[tuple[str, str]]:
    """Return the keys of a link and what people call it: the same for every way of writing the same line.

    A serial port is known by its device number, a TCP link by each address that its host has. A simulated link has none.
    Raises OSError when the host is not known.
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
    """Return the key of a rig, by its name and its links, and what people call it."""
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
    """Open the directory, which must be one and no symbolic link; make it for all users if it is not there."""
    try:
        place.mkdir(mode=0o700)
    except FileExistsError:
        pass
    else:
        place.chmod(0o1777)
    return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _file(folder: int, name: str) -> int:
    """Open the file for locking, whoever made it; raises OSError for what is no plain file."""
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
        raise PermissionError(errno.EACCES, "it cannot be opened", name)
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "it is no plain file", name)
    return descriptor


def _write(descriptor: int, what: str) -> None:
    holder = _introduced[0] if _introduced else Holder()
    said = {"pid": os.getpid(), "what": what, "program": holder.program, "data": holder.data}
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(said).encode()[:MAX_TEXT_BYTES], 0)
    except OSError:
        pass  # a file of another user, or a full disk: the lock holds all the same


def _read(descriptor: int) -> Holder:
    try:
        said = json.loads(os.pread(descriptor, MAX_TEXT_BYTES, 0))
        return Holder(str(said["program"]), str(said["data"]), int(said["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Holder()


def _text(holder: Holder) -> str:
    """Return who holds a claim, for people."""
    if not holder.pid:
        return "a process that did not say who it is"
    kept = f", with its data in {holder.data}" if holder.data else ""
    return re.sub(r"[^\x20-\x7e]", "?", f"process {holder.pid} ({holder.program}{kept})")[:400]
