"""Which files of a directory are the checkpoint: the index is the authority, and without one few layouts are unambiguous."""

from __future__ import annotations

import os
import re
from typing import Any

import msgspec

from wcache.core.checkpoint.reader import OpenFile, Reader
from wcache.core.checkpoint.spelling import ResolvedRoot
from wcache.core.checkpoint.strict_json import parse_strict, shown
from wcache.core.model.errors import CheckpointInvalid, CheckpointUnreadable
from wcache.core.model.evidence import FileIdentity

MODEL_INDEX = "model.safetensors.index.json"
_MODEL_FILE = "model.safetensors"
_INDEX_SUFFIX = ".safetensors.index.json"
_SUFFIX = ".safetensors"
_NUMBERED = re.compile(r"(.+)-(\d{5,})-of-(\d{5,})\.safetensors")
_INDEX_CAP_BYTES = 100_000_000
_SHARDS_CAP = 100_000  # a name like x-00001-of-99999999 must not make a list of that length


class Layout(msgspec.Struct, frozen=True):
    """The names that count: shards in name order, the index file if one decided, and the safetensors files that were left out."""

    shards: tuple[str, ...]
    index: str | None
    strays: tuple[str, ...]


class Index(msgspec.Struct, frozen=True):
    """A parsed index: `weight_map` assigns each tensor its shard's file name. `identity` is that from before it was read."""

    identity: FileIdentity
    weight_map: dict[str, str]

    @property
    def shards(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.weight_map.values())))


def list_layout(resolved: ResolvedRoot, reader: Reader) -> Layout:
    """The layout of a directory, from one listing; the shards are those of the file names when there is no index, else still empty
    (the index names them: `with_index`)."""
    if resolved.single_file is not None:
        return Layout((resolved.single_file,), None, ())
    names = reader.list_directory(resolved.root)
    visible = [name for name in names if not name.startswith(".")]  # `._x.safetensors` are macOS resource forks
    found = [name for name in visible if name.endswith(_SUFFIX)]
    index = _choose_index([name for name in visible if name.endswith(_INDEX_SUFFIX)], resolved.root)
    if index is not None:
        return Layout((), index, tuple(map(_printable, found)))
    shards = _choose_shards(found, names, resolved.root)
    return Layout(shards, None, tuple(_printable(name) for name in found if name not in shards))


def with_index(layout: Layout, index: Index) -> Layout:
    """The layout that the index decides; safetensors files that it does not name are strays."""
    return Layout(index.shards, layout.index, tuple(name for name in layout.strays if name not in set(index.shards)))


def parse_index(file: OpenFile, name: str) -> Index:
    """Read and check an index. Raises CheckpointInvalid naming the rule: `index_type`, `index_path`, or one of the JSON rules."""
    identity = file.identity(name)
    size_bytes = identity.size_bytes
    where = file.where
    if size_bytes > _INDEX_CAP_BYTES:
        raise CheckpointInvalid("index_too_large", f"the index has {size_bytes} bytes, the cap is {_INDEX_CAP_BYTES} bytes", where=where)
    value = parse_strict(file.read_at(0, size_bytes), where=where, what="the index")
    weight_map: Any = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointInvalid("index_type", "the index has no weight_map that assigns tensors to files", where=where)
    for tensor, shard in weight_map.items():
        if not isinstance(shard, str):
            raise CheckpointInvalid("index_type", f"the index assigns tensor {shown(tensor)} to {shown(shard)}, not to a file", where=where)
    for shard in set(weight_map.values()):
        if shard in ("", ".", "..") or "/" in shard or "\\" in shard or "\0" in shard:
            raise CheckpointInvalid("index_path", f"the index names {shown(shard)}, which is no plain file name beside it", where=where)
    return Index(identity, weight_map)


def _printable(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _choose_index(indexes: list[str], root: str) -> str | None:
    if MODEL_INDEX in indexes:
        return MODEL_INDEX
    others = [name for name in indexes if not name.startswith("consolidated")] or indexes
    if len(others) > 1:
        raise CheckpointInvalid(
            "ambiguous_index",
            f"{len(others)} indexes and no {MODEL_INDEX}: {', '.join(map(_printable, others))}",
            where=root,
            remedy="put the one that is meant into a directory of its own",
        )
    return others[0] if others else None


def _choose_shards(found: list[str], names: list[str], root: str) -> tuple[str, ...]:
    for name in found:
        if _printable(name) != name:
            raise CheckpointUnreadable(
                "the file's name is no UTF-8, so it cannot be recorded", where=f"{root}/{_printable(name)}", detail="path_not_utf8"
            )
    if not found:
        raise CheckpointInvalid("no_shards", _describe_empty(names), where=root)
    if _MODEL_FILE in found:
        return (_MODEL_FILE,)
    # Mistral's releases carry the same weights a second time under this name.
    counted = [name for name in found if not name.startswith("consolidated")] or found
    groups: dict[tuple[str, str], dict[int, str]] = {}
    loose: list[str] = []
    for name in counted:
        if match := _NUMBERED.fullmatch(name):
            groups.setdefault((match[1], match[3]), {})[int(match[2])] = name
        else:
            loose.append(name)
    if len(groups) == 1 and not loose:
        ((prefix, total_text), numbered) = next(iter(groups.items()))
        return _complete(prefix, total_text, numbered, root)
    if len(loose) == 1 and not groups:
        return (loose[0],)
    listed = ", ".join(counted[:4]) + (f" and {len(counted) - 4} more" if len(counted) > 4 else "")
    raise CheckpointInvalid(
        "ambiguous_shards",
        f"no index says which of these files belong together: {listed}",
        where=root,
        remedy="name one file, or add an index",
    )


def _complete(prefix: str, total_text: str, numbered: dict[int, str], root: str) -> tuple[str, ...]:
    total = int(total_text)
    if not 0 < total <= _SHARDS_CAP:
        raise CheckpointInvalid("shard_numbers", f"the shards call themselves parts of {total}", where=root)
    missing = [number for number in range(1, total + 1) if number not in numbered]
    if missing:
        listed = ", ".join(map(str, missing[:8])) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
        first = f"{prefix}-{missing[0]:0{len(total_text)}d}-of-{total_text}{_SUFFIX}"
        raise CheckpointInvalid(
            "missing_shard",
            f"shard {listed} of {total} is missing, and there is no index ({first})",
            where=root,
            remedy="download it again",
        )
    if len(numbered) > total:
        extra = next(name for number, name in sorted(numbered.items()) if not 0 < number <= total)
        raise CheckpointInvalid("shard_numbers", f"{extra} is numbered outside of 1 to {total}", where=root)
    return tuple(numbered[number] for number in range(1, total + 1))


def _describe_empty(names: list[str]) -> str:
    others = [name for name in names if name.endswith((".bin", ".pt", ".pth", ".gguf"))]
    seen = f"; it has {_printable(others[0])}" if others else ("; it is empty" if not names else "")
    return f"there is no safetensors file in this directory{seen}"
