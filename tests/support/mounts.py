"""Real file systems for tests: small ones that fill up, and one that is not local. Only root can mount them."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a file system")


@contextmanager
def tmpfs(directory: Path, size_bytes: int) -> Iterator[Path]:
    """`directory`, made and mounted, mode 0700."""
    directory.mkdir(parents=True, exist_ok=True)
    options = f"size={size_bytes},mode=700"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(directory)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this machine lets nobody mount: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def read_only(directory: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(directory)], check=True)


def fill(directory: Path, leave_bytes: int = 0) -> Path:
    """A file that takes all the room but `leave_bytes`; remove it to give the room back."""
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as file:
        with suppress(OSError):
            while file.write(bytes(4096)):
                pass
        file.truncate(max(0, file.tell() - leave_bytes))
    return filler


_ENABLE_VERITY = 0x40806685  # _IOW('f', 133, struct fsverity_enable_arg), linux/fsverity.h


def enable_verity(path: Path) -> None:
    """SHA-256 over blocks of 4 KiB, no salt, no signature. Nobody can write to the file from then on."""
    with path.open("rb") as file:
        fcntl.ioctl(file, _ENABLE_VERITY, struct.pack("=IIIIQIIQ11Q", 1, 1, 4096, 0, 0, 0, 0, 0, *[0] * 11))


@contextmanager
def verity(scratch: Path) -> Iterator[Path]:
    """An ext4 with fs-verity in a file below `scratch`, mounted; skips where kernel, user or programs do not allow it."""
    image, mount = scratch / "image", scratch / "mnt"
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        pytest.skip("needs root and mkfs.ext4")
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-b", "4096", "-O", "verity", str(image)], check=True, capture_output=True)
    done = subprocess.run(["mount", "-o", "loop", str(image), str(mount)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no ext4 with fs-verity can be mounted here: {done.stderr.strip()}")
    try:
        (mount / "probe").write_bytes(b"x")
        try:
            enable_verity(mount / "probe")
        except OSError as error:
            pytest.skip(f"this kernel has no fs-verity: {error}")
        yield mount
    finally:
        subprocess.run(["umount", str(mount)], check=True)


_INIT, _GETATTR = 26, 3  # linux/fuse.h
_ENOSYS = 38


@contextmanager
def remote(directory: Path, kind: str = "fuse.sshfs") -> Iterator[Path]:
    """An empty directory that the kernel calls `kind`: it asks us for attributes, as it would ask a server far away."""
    directory.mkdir(parents=True, exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"no FUSE here: {error}")
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"far-away", os.fsencode(directory), kind.encode(), 0, options):
        os.close(device)
        pytest.skip(f"this machine lets nobody mount: {os.strerror(ctypes.get_errno())}")
    thread = threading.Thread(target=_serve, args=(device,), daemon=True)
    thread.start()
    try:
        yield directory
    finally:
        libc.umount2(os.fsencode(directory), 2)
        thread.join(10)
        os.close(device)


def _serve(device: int) -> None:
    """Until it is unmounted (ENODEV)."""
    with suppress(OSError):
        while True:
            request = os.read(device, 1 << 17)
            _, operation, unique = struct.unpack_from("<IIQ", request)
            error, body = 0, b""
            if operation == _INIT:
                body = struct.pack("<IIIIHHIIHHI7I", 7, 31, 65536, 0, 12, 10, 65536, 1, 1, 0, 0, *[0] * 7)
            elif operation == _GETATTR:
                body = struct.pack("<QII", 1, 0, 0) + struct.pack("<6Q10I", 1, *[0] * 8, 0o40700, 2, 0, 0, 0, 4096, 0)
            else:
                error = -_ENOSYS
            os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)
