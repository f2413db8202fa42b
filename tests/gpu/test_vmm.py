"""GPU memory behind a descriptor: who keeps it, who may write, and what is refused."""

from __future__ import annotations

import array
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from blake3 import blake3

from wcache.core.memory import cuda, nvml, vmm
from wcache.core.memory.blake3_cuda import Blake3
from wcache.core.memory.device import visible
from wcache.core.model.errors import MappingFailed, NoRoom, NotFound, UsageError

pytestmark = pytest.mark.gpu

MIB = 1 << 20

CREATOR = """
import array, signal, socket, sys
from wcache.core.memory import cuda, vmm
device = cuda.devices()[0]
allocation = vmm.create(int(sys.argv[2]), device)
mapping = allocation.map(writable=True)
mapping.write(0, sys.stdin.buffer.read())
with socket.socket(fileno=int(sys.argv[1])) as peer:
    peer.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [allocation.export()]))])
    signal.pause()
"""
# Nothing but the standard library, and not all of that: this is what a vault is.
KEEPER = """
import array, socket, sys
peer = socket.socket(fileno=int(sys.argv[1]))
_, ancillary, *_ = peer.recvmsg(1, socket.CMSG_SPACE(4))
fd = array.array("i", ancillary[0][2][:4])
assert not {"cuda", "ctypes", "wcache", "torch"} & set(sys.modules)
peer.send(b"k")
while peer.recv(1):
    peer.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fd)])
"""
WRITER = """
import sys, torch
from wcache.core.memory import cuda, vmm
from wcache.core.memory.packing import Item, pack
from wcache.core.memory.views import explained_writes, tensors
from wcache.core.model.errors import MappingFailed
mapping = vmm.map_descriptor(int(sys.argv[1]), int(sys.argv[2]), cuda.devices()[0])
(weights,) = tensors(mapping, pack([Item("w", "F32", (1024,), 4096)]).placements).values()
try:
    with explained_writes(mapping):
        WRITE
except MappingFailed as error:
    print(error.diagnostics())
"""


def _receive(peer: socket.socket) -> int:
    _, ancillary, *_ = peer.recvmsg(1, socket.CMSG_SPACE(4))
    assert ancillary, "no descriptor came: the process at the other end failed"
    return array.array("i", ancillary[0][2][:4])[0]


def _used_mib(device: cuda.Device) -> int:
    return nvml.memory(device.uuid).used_bytes // MIB


def _becomes(what: Callable[[], int], wanted: int) -> None:
    deadline = time.monotonic() + 20
    while what() != wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    assert what() == wanted


def test_memory_outlives_its_creator_in_a_process_without_cuda(gpu: cuda.Device, hasher: Blake3) -> None:
    """SIGKILL of the creator: a keeper that only holds the descriptor keeps every byte. Exactly the allocation is in use, then nothing."""
    hasher.close()  # its scratch memory must not be in the figure before
    data = random.Random(6).randbytes(MIB) * 301
    used_before = _used_mib(gpu)
    ours, theirs = socket.socketpair()
    creator = subprocess.Popen(
        [sys.executable, "-c", CREATOR, str(theirs.fileno()), str(len(data))], stdin=subprocess.PIPE, pass_fds=[theirs.fileno()]
    )
    theirs.close()
    assert creator.stdin is not None
    creator.stdin.write(data)
    creator.stdin.close()
    fd = _receive(ours)
    kept, other = socket.socketpair()
    keeper = subprocess.Popen([sys.executable, "-I", "-S", "-c", KEEPER, str(other.fileno())], pass_fds=[other.fileno()])
    other.close()
    kept.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    os.close(fd)
    assert kept.recv(1) == b"k"

    os.kill(creator.pid, signal.SIGKILL)
    creator.wait(20)
    ours.close()
    size_bytes = vmm.allocated_bytes(len(data), gpu)
    assert size_bytes == 302 * MIB
    _becomes(lambda: _used_mib(gpu) - used_before, size_bytes // MIB)

    kept.send(b"g")
    again = _receive(kept)
    with vmm.map_descriptor(again, size_bytes, gpu) as mapping:
        assert hasher.digests([(mapping.address, len(data))]) == [blake3(data).digest()]
        assert mapping.read(300 * MIB, 99) == data[300 * MIB :][:99]
        with pytest.raises(MappingFailed, match="read-only"):
            mapping.write(0, b"x")
    os.close(again)
    hasher.close()
    _becomes(lambda: _used_mib(gpu) - used_before, size_bytes // MIB)
    kept.close()
    assert keeper.wait(20) == 0
    _becomes(lambda: _used_mib(gpu) - used_before, 0)


@pytest.mark.parametrize("write", ["weights.add_(1)", "weights[0] = 1", "weights.copy_(torch.ones(1024))"])
def test_a_write_to_read_only_weights_is_explained_and_touches_nobody(gpu: cuda.Device, hasher: Blake3, write: str) -> None:
    pytest.importorskip("torch")
    data = random.Random(7).randbytes(4096)
    with vmm.create(4096, gpu) as allocation, allocation.map(writable=True) as mapping:
        mapping.write(0, data)
        fd = allocation.export()
        code = WRITER.replace("WRITE", write)
        done = subprocess.run(
            [sys.executable, "-c", code, str(fd), str(allocation.size_bytes)], pass_fds=[fd], capture_output=True, text=True, timeout=120
        )
        os.close(fd)
        assert "read-only" in done.stdout and "clone" in done.stdout, (done.stdout, done.stderr)
        assert hasher.digests([(mapping.address, 4096)]) == [blake3(data).digest()]


def test_a_mapping_pauses_and_comes_back_at_the_same_address(gpu: cuda.Device) -> None:
    with vmm.create(64 * MIB, gpu) as allocation:
        fd = allocation.export()
        mapping = allocation.map(writable=True)
    mapping.write(5 * MIB, b"weights")
    address, used = mapping.address, _used_mib(gpu)
    mapping.pause()
    with pytest.raises(MappingFailed, match="paused"):
        mapping.read(0, 1)
    with vmm.import_descriptor(fd, mapping.size_bytes, gpu) as again:
        mapping.resume(again)
        with pytest.raises(MappingFailed, match="mapped already"):
            mapping.resume(again)
    assert (mapping.address, mapping.read(5 * MIB, 7)) == (address, b"weights")
    os.close(fd)
    mapping.pause()  # nobody else has it: this gives the memory back
    _becomes(lambda: used - _used_mib(gpu), 64)
    mapping.close()
    mapping.close()


def test_memory_that_is_short_is_refused_with_the_numbers(gpu: cuda.Device) -> None:
    with pytest.raises(NoRoom, match=r"\d+ MiB of GPU memory are needed, \d+ of \d+ MiB are free"):
        vmm.create(gpu.total_bytes + (1 << 40), gpu)
    with pytest.raises(UsageError, match="at least one byte"):
        vmm.create(0, gpu)


def test_what_is_no_gpu_memory_or_has_another_size_is_refused(gpu: cuda.Device) -> None:
    with open(os.devnull) as file, pytest.raises(MappingFailed, match="no GPU memory"):
        vmm.map_descriptor(file.fileno(), 2 * MIB, gpu)
    with vmm.create(4 * MIB, gpu) as allocation:
        fd = allocation.export()
        assert not os.get_inheritable(fd)
        for size_bytes in (2 * MIB, 6 * MIB):
            with pytest.raises(MappingFailed, match="cannot be mapped"):
                vmm.map_descriptor(fd, size_bytes, gpu)
        os.close(fd)
    with pytest.raises(MappingFailed, match="closed already"):
        allocation.export()


def test_a_gpu_is_found_by_index_and_by_uuid(gpu: cuda.Device) -> None:
    assert cuda.find("cuda") == cuda.find("cuda:0") == cuda.find(gpu.uuid) == cuda.find(gpu.uuid[:12]) == gpu
    with pytest.raises(NotFound, match="no such GPU") as refused:
        cuda.find("cuda:99")
    assert gpu.uuid in refused.value.remedy
    with pytest.raises(NotFound):
        nvml.memory("GPU-00000000-0000-0000-0000-000000000000")


@pytest.mark.parametrize(
    "form", ["{uuid}", "{short}", "0", "0,99,0", "GPU-none,0", "-1", "", "0,0", "0gpu", "0,{uuid}", "{uuid},0", "{uuid},{short}"]
)
def test_visible_devices_mean_what_the_driver_makes_of_them(gpu: cuda.Device, form: str) -> None:
    """The parser, which needs no CUDA, against the driver itself."""
    known = [found.uuid for found in nvml.gpus()]
    setting = form.format(uuid=known[0], short=known[0][:12])
    code = (
        "from wcache.core.memory import cuda\n"
        "from wcache.core.model.errors import Unsupported\n"
        "try: print(*(found.uuid for found in cuda.devices()))\n"
        "except Unsupported: print()\n"
    )
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": setting}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ, timeout=60, check=True)
    assert tuple(done.stdout.split()) == visible(setting, known)
