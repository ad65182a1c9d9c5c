"""Real file systems that fail: an ext4 image that the kernel makes read-only, and a small file system that is full."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Ext4:
    """A disk of its own whose file system can be broken."""

    image: Path
    folder: Path

    def mount(self, *options: str) -> None:
        words = ["mount", "-o", ",".join(("loop", "errors=remount-ro", *options)), str(self.image), str(self.folder)]
        if subprocess.run(words, capture_output=True).returncode:
            pytest.skip("this machine cannot mount an image (no loop device)")

    def unmount(self) -> None:
        """Unmount it and go on with a copy of its image: another namespace may keep the file system of this one."""
        device = self._device()
        subprocess.run(["sync", "--file-system", str(self.folder)], check=False)
        subprocess.run(["umount", str(self.folder)], check=True)
        subprocess.run(["blockdev", "--flushbufs", f"/dev/{device}"], capture_output=True)
        self.image = shutil.copyfile(self.image, self.image.with_name(f"{self.image.name}-again"))
        subprocess.run(["fsck.ext4", "-y", str(self.image)], capture_output=True)

    def _device(self) -> str:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        (device,) = (Path(each[0]).name for each in mounts if each[1] == str(self.folder))
        return device

    def fail(self) -> None:
        """Let the kernel make it read-only, as after an error of the disk."""
        try:
            Path(f"/sys/fs/ext4/{self._device()}/trigger_fs_error").write_text("a test of choroid")
        except OSError as error:
            pytest.skip(f"this kernel cannot simulate an error of the disk: {error}")

    def repair(self) -> None:
        self.unmount()
        self.mount()


def held_elsewhere() -> subprocess.Popen[bytes]:
    """Start a process that has a copy of every mount, as tests with namespaces of their own do at the same time."""
    words = ["unshare", "--mount", "sh", "-c", "echo ready; exec sleep 300"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


@contextlib.contextmanager
def ext4(folder: Path) -> Iterator[Ext4]:
    """Mount a disk of its own for a test; skip where this machine cannot."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        pytest.skip("mounting a disk needs root (CAP_SYS_ADMIN) and mkfs.ext4")
    found = Ext4(folder / "image", folder / "disk")
    found.folder.mkdir()
    with found.image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(found.image)], check=True)
    found.mount()
    elsewhere = held_elsewhere()
    try:
        yield found
    finally:
        elsewhere.kill()
        elsewhere.communicate()
        subprocess.run(["umount", str(found.folder)], capture_output=True)


@contextlib.contextmanager
def small_disk(folder: Path, size_kb: int) -> Iterator[Path]:
    """Mount a file system of `size_kb` in memory; skip where this machine cannot."""
    if os.geteuid() != 0:
        pytest.skip("mounting a disk needs root (CAP_SYS_ADMIN)")
    found = folder / "small"
    found.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_kb}k,mode=0700", "small", str(found)], check=True)
    try:
        yield found
    finally:
        subprocess.run(["umount", "--lazy", str(found)], check=True)
