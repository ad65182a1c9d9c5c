"""Mount a file system that never answers: a FUSE file system whose server reads no request.

`python hung_mount.py FOLDER` returns when it is mounted; a child keeps it until it is killed. Needs the right to mount.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys


def main(folder: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    fuse = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0"
    if libc.mount(b"hung", folder.encode(), b"fuse", 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"cannot mount on {folder}: {os.strerror(ctypes.get_errno())}")
    if os.fork() == 0:
        os.setsid()
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
