"""Names of GPUs: `cuda:0`, `all`, UUIDs and MIG names, and what CUDA_VISIBLE_DEVICES makes of them. Needs no CUDA."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wcache.core.model.errors import NotFound, Unsupported, UsageError

_INDEX = re.compile(r"cuda(?::(\d+))?\Z|(\d+)\Z")
UUID_PREFIXES = ("GPU-", "MIG-")
_OTHERS = {
    "hip": "AMD GPUs (ROCm)", "rocm": "AMD GPUs (ROCm)", "xpu": "Intel GPUs (XPU)", "mps": "Apple GPUs (macOS)", "npu": "NPUs",
    "tpu": "TPUs", "xla": "TPUs (XLA)", "hpu": "Gaudi (HPU)", "musa": "Moore Threads GPUs (MUSA)",
}  # fmt: skip


@dataclass(frozen=True)
class DeviceName:
    """One GPU as a person names it: the index among the visible ones, or the beginning of a UUID or MIG name."""

    index: int | None = None
    uuid: str = ""

    def __str__(self) -> str:
        return self.uuid or f"cuda:{self.index}"


def parse_device(text: str) -> DeviceName:
    """`cuda` (the first), `cuda:1`, `1`, `GPU-…`, `MIG-…`. Raises Unsupported naming another platform, UsageError for anything else."""
    word = text.strip()
    if found := _INDEX.match(word):
        return DeviceName(index=int(found[1] or found[2] or 0))
    if word.startswith(UUID_PREFIXES) and len(word) > 4:
        return DeviceName(uuid=word)
    platform = _OTHERS.get(word.split(":", 1)[0].lower())
    if platform:
        raise Unsupported(
            f"weights can be shared on NVIDIA GPUs and in host memory, not on {platform}", where=text, remedy="use --device cpu"
        )
    raise UsageError("this names no device", where=text, remedy="say cpu, cuda, cuda:1, a UUID as `nvidia-smi -L` shows it, or all")


def parse_devices(text: str) -> tuple[DeviceName, ...] | None:
    """A comma-separated list of devices, in order; None for `all`. Raises as parse_device, and UsageError for one named twice."""
    if text.strip() == "all":
        return None
    found = tuple(parse_device(word) for word in text.split(","))
    if len(set(found)) != len(found):
        raise UsageError("a device is named twice", where=text, remedy="name each once")
    return found


def visible(setting: str | None, uuids: Sequence[str], mig_uuids: Sequence[str] = ()) -> tuple[str, ...]:
    """The UUIDs that a process with this CUDA_VISIBLE_DEVICES sees, in its order; None (unset) shows every one of `uuids`.

    As the driver reads it (CUDA programming guide, "CUDA environment variables"): indices, UUIDs or beginnings of one that fit only
    one GPU, MIG names; an entry that names nothing, or an index
    among UUIDs or the other way round, ends the list; an entry that repeats empties it; MIG shows one instance at most.
    `uuids` are in the driver's order, which CUDA_DEVICE_ORDER may change: prefer UUIDs where GPUs differ.
    """
    if setting is None:
        return tuple(uuids)
    found: list[str] = []
    words = [word.strip() for word in setting.split(",")]
    for word in words:
        uuid = _one(word, uuids, mig_uuids)
        if uuid is None or word[0].isdigit() != words[0][0].isdigit():
            break
        if uuid in found:
            return ()
        found.append(uuid)
        if uuid in mig_uuids:
            return tuple(found[-1:])
    return tuple(found)


def choose(names: Sequence[DeviceName] | None, seen: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """The UUIDs named, each once, in order: an index counts in `seen`, the beginning of a UUID may be that of any in `known`; None means
    all of `seen`. Raises NotFound saying what there is."""
    there = f"visible are {', '.join(seen) or 'none'}, the driver has {', '.join(known) or 'none'}"
    if names is None:
        if not seen:
            raise NotFound("no GPU is visible", where="all", remedy=f"{there}; see CUDA_VISIBLE_DEVICES")
        return tuple(seen)
    found: dict[str, None] = {}
    for name in names:
        if name.index is not None:
            fitting = list(seen[name.index : name.index + 1])
        else:
            fitting = [uuid for uuid in known if uuid.lower().startswith(name.uuid.lower())]
        if len(fitting) != 1:
            what = "more than one GPU has a name that starts so" if fitting else "there is no such GPU"
            raise NotFound(what, where=str(name), remedy=there)
        found[fitting[0]] = None
    return tuple(found)


def _one(word: str, uuids: Sequence[str], mig_uuids: Sequence[str]) -> str | None:
    if index := re.match(r"\d+", word):  # strtoul(3): what follows the digits is ignored
        return uuids[int(index[0])] if int(index[0]) < len(uuids) else None
    if not word.startswith(UUID_PREFIXES) or len(word) == 4:
        return None
    fitting = [uuid for uuid in (*uuids, *mig_uuids) if uuid.lower().startswith(word.lower())]
    return fitting[0] if len(fitting) == 1 else None
