"""A checkpoint opened: its shards' headers, checked against each other and against the index."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType

import msgspec

from wcache.core.checkpoint.digest import digest_of_table
from wcache.core.checkpoint.header import Header, TensorEntry, read_header
from wcache.core.checkpoint.identity import device_without_asking, kind_of_devices
from wcache.core.checkpoint.layout import MODEL_INDEX, Index, Layout, list_layout, parse_index, with_index
from wcache.core.checkpoint.reader import OpenFile, Reader, in_parallel, threads_for
from wcache.core.checkpoint.spelling import ResolvedRoot, resolve_root
from wcache.core.checkpoint.strict_json import shown
from wcache.core.model.errors import CheckpointChanged, CheckpointInvalid, CheckpointUnreadable
from wcache.core.model.evidence import FileIdentity, Location

__all__ = [
    "Checkpoint",
    "OpenCheckpoint",
    "Shard",
    "adopt_checkpoint",
    "current_location",
    "hold_checkpoint",
    "open_checkpoint",
    "recheck_paths",
]


class Shard(msgspec.Struct, frozen=True):
    """One safetensors file; `name` is its name in the root, `path` where to open it."""

    name: str
    path: str
    header: Header
    size_bytes: int


class Checkpoint(msgspec.Struct, frozen=True, dict=True):
    """A valid checkpoint. `shards` are in name order; `strays` are safetensors files beside them that do not count."""

    spelling: str
    location: Location
    shards: tuple[Shard, ...]
    strays: tuple[str, ...] = ()

    def table(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Name to (dtype, shape) of every tensor, in name order (names as UTF-8 bytes)."""
        entries = sorted((entry for shard in self.shards for entry in shard.header.tensors), key=_name_bytes)
        return {entry.name: (entry.dtype, entry.shape) for entry in entries}

    @functools.cached_property
    def table_digest(self) -> str:
        return digest_of_table(entry for shard in self.shards for entry in shard.header.tensors)

    @property
    def total_bytes(self) -> int:
        """Bytes of all shard files, headers included."""
        return sum(shard.size_bytes for shard in self.shards)

    @property
    def tensor_count(self) -> int:
        return sum(len(shard.header.tensors) for shard in self.shards)

    @property
    def format(self) -> str | None:
        """What the shards' metadata say under `format` ("pt", ...), if they agree."""
        found = {(shard.header.metadata or {}).get("format") for shard in self.shards}
        return found.pop() if len(found) == 1 else None


def _name_bytes(entry: TensorEntry) -> bytes:
    return entry.name.encode("utf-8")


class OpenCheckpoint:
    """A checkpoint with its files held open, so that what is hashed is what was checked. A context manager."""

    def __init__(self, checkpoint: Checkpoint, files: dict[str, OpenFile], index: OpenFile | None) -> None:
        self.checkpoint = checkpoint
        self.files = files  # by shard name, in name order
        self.index = index

    def __enter__(self) -> OpenCheckpoint:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for file in self._all_files():
            file.close()

    def _all_files(self) -> list[OpenFile]:
        return [*self.files.values(), *((self.index,) if self.index else ())]

    def sync(self) -> None:
        """fdatasync of every file, before its identity and bytes are taken."""
        in_parallel(OpenFile.sync, self._all_files(), threads=32)

    def identities(self) -> tuple[tuple[FileIdentity, ...], FileIdentity | None]:
        """Current identities of the open files: shards in name order, and the index."""
        location = self.checkpoint.location
        kind, index = location.fs_kind, location.index
        named = [*self.files.items(), *(((index.name, self.index),) if self.index and index else ())]
        found = in_parallel(lambda item: item[1].identity(item[0], fs_kind=kind), named, threads=threads_for(kind))
        return tuple(found[: len(self.files)]), found[-1] if len(found) > len(self.files) else None


def open_checkpoint(spelling: str | os.PathLike[str], *, revision: str | None = None, reader: Reader | None = None) -> Checkpoint:
    """Resolve, locate, read every header, and check the rules across shards; no file stays open.

    Raises CheckpointInvalid (its `rule` says which), CheckpointUnreadable, CheckpointChanged, UsageError.
    """
    with hold_checkpoint(spelling, revision=revision, reader=reader) as held:
        return held.checkpoint


def hold_checkpoint(spelling: str | os.PathLike[str], *, revision: str | None = None, reader: Reader | None = None) -> OpenCheckpoint:
    """As `open_checkpoint`, and the files stay open: hash them, or send their descriptors."""
    reader = reader or Reader()
    typed = os.fspath(spelling)
    resolved = resolve_root(typed, revision)
    directory = None if resolved.single_file else reader.stat_at("", resolved.root)
    layout = list_layout(resolved, reader)
    with ExitStack() as opened:
        index_file: OpenFile | None = None
        index: Index | None = None
        if layout.index is not None:
            index_file = opened.enter_context(reader.open(f"{resolved.root}/{layout.index}"))
            index = parse_index(index_file, layout.index)
            layout = with_index(layout, index)
        files = dict(zip(layout.shards, _open_shards(resolved, directory, layout, opened, reader), strict=True))
        held = _assemble(typed, resolved, directory, layout, files, index_file, index)
        opened.pop_all()
        return held


def adopt_checkpoint(
    spelling: str,
    location: Location,
    shards: Mapping[str, int],
    index: int | None = None,
    *,
    reader: Reader | None = None,
    strays: tuple[str, ...] = (),
) -> OpenCheckpoint:
    """The checkpoint behind open descriptors (shard name to descriptor), for a worker that was sent them: paths are never opened.

    `location` says where the sender found them; its root, directory, repo, commit are kept, its identities are taken anew from
    the descriptors. Closing the result leaves the descriptors open.
    """
    reader = reader or Reader()
    resolved = ResolvedRoot(location.root, None, location.repo, location.commit)
    files = {name: reader.adopt(descriptor, f"{location.root}/{name}") for name, descriptor in sorted(shards.items())}
    index_name = location.index.name if location.index else MODEL_INDEX
    index_file = reader.adopt(index, f"{location.root}/{index_name}") if index is not None else None
    parsed = parse_index(index_file, index_name) if index_file else None
    layout = Layout(tuple(files), index_name if index_file else None, strays)
    if parsed is not None and parsed.shards != layout.shards:
        raise CheckpointInvalid("missing_shard", "the descriptors are not those of the shards that the index names", where=location.root)
    return _assemble(spelling, resolved, location.directory, layout, files, index_file, parsed)


def _open_shards(
    resolved: ResolvedRoot, directory: FileIdentity | None, layout: Layout, opened: ExitStack, reader: Reader
) -> list[OpenFile]:
    folder = resolved.repo_folder
    threads = threads_for(kind_of_devices({directory.dev: resolved.root})) if directory else 1

    def open_one(name: str) -> OpenFile | CheckpointUnreadable:
        try:
            return reader.open(f"{resolved.root}/{name}")
        except CheckpointUnreadable as error:
            return error

    files: list[OpenFile] = []
    failed: CheckpointUnreadable | CheckpointInvalid | None = None
    for name, result in zip(layout.shards, in_parallel(open_one, layout.shards, threads=threads), strict=True):
        if isinstance(result, OpenFile):
            files.append(opened.enter_context(result))
        elif failed is None and result.detail == "missing" and layout.index is not None:
            where = f"{resolved.root}/{layout.index}"
            failed = CheckpointInvalid(
                "missing_shard", f"the index names {name}, which is not there", where=where, remedy="download it again"
            )
        else:
            failed = failed or result
    if failed is not None:
        raise failed
    if folder is not None:
        for file in files:
            if not file.real_path().startswith(folder + "/"):
                raise CheckpointInvalid(
                    "link_outside", f"the snapshot's file lies outside of its repository, at {file.real_path()}", where=file.where
                )
    return files


def _assemble(
    spelling: str,
    resolved: ResolvedRoot,
    directory: FileIdentity | None,
    layout: Layout,
    files: dict[str, OpenFile],
    index_file: OpenFile | None,
    index: Index | None,
) -> OpenCheckpoint:
    devices: dict[int, str] = {}
    for file in [*files.values(), *((index_file,) if index_file else ())]:
        device = device_without_asking(file.descriptor)
        device = os.fstat(file.descriptor).st_dev if device is None else device
        devices.setdefault(device, f"/proc/self/fd/{file.descriptor}")
    fs_kind = kind_of_devices(devices)

    def examine(item: tuple[str, OpenFile]) -> tuple[FileIdentity, Shard]:
        name, file = item
        identity = file.identity(name, fs_kind=fs_kind)
        header = read_header(file.read_at, identity.size_bytes, where=file.where)
        return identity, Shard(name, file.where, header, identity.size_bytes)

    examined = in_parallel(examine, files.items(), threads=threads_for(fs_kind, reads=True))
    shards = tuple(shard for _, shard in examined)
    _check_across(shards, index, resolved.root)
    location = Location(
        root=resolved.root,
        files=tuple(identity for identity, _ in examined),
        index=index.identity if index else None,
        directory=directory,
        fs_kind=fs_kind,
        repo=resolved.repo,
        commit=resolved.commit,
    )
    return OpenCheckpoint(Checkpoint(spelling, location, shards, layout.strays), files, index_file)


def _check_across(shards: tuple[Shard, ...], index: Index | None, root: str) -> None:
    """No tensor twice, and each where the index says. A tensor in a shard that the index does not mention at all counts as the
    shard's: engines load whole shards, so it is part of the weights."""
    holder: dict[str, str] = {}
    for shard in shards:
        for entry in shard.header.tensors:
            other = holder.setdefault(entry.name, shard.name)
            if other is not shard.name:
                raise CheckpointInvalid("tensor_twice", f"tensor {shown(entry.name)} is in {other} and in {shard.name}", where=root)
    if index is None:
        return
    for name, assigned in index.weight_map.items():
        holds = holder.get(name)
        if holds is None:
            raise CheckpointInvalid(
                "tensor_missing", f"the index assigns tensor {shown(name)} to {assigned}, which does not hold it", where=root
            )
        if holds != assigned:
            raise CheckpointInvalid(
                "tensor_misplaced", f"tensor {shown(name)} is in {holds}, the index assigns it to {assigned}", where=root
            )


def current_location(
    previous: Location, *, reader: Reader | None = None, root_fd: int | None = None, cached: bool = False
) -> Location | None:
    """Where the files of an earlier location stand now: one statx per file, in parallel, nothing opened, nothing listed.

    `root_fd` is the root, held by the caller (`hold_root`): a path need not be walked twice. With `cached` (a grant says that nothing
    changes there) a look-up of each name is all that is asked of the file system: below a root that is held, one round trip.

    None when a file is gone, or when another look at the names is due (`open_checkpoint`): the directory has changed and no
    `model.safetensors.index.json` says which of its files count.
    """
    reader = reader or Reader()
    try:
        directory_fd = os.open(previous.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) if root_fd is None else root_fd
    except OSError:
        return None
    try:

        def look(identity: FileIdentity) -> FileIdentity:  # the directory's name is empty: the descriptor itself
            name = identity.name
            return reader.stat_at(name, name, directory_fd=directory_fd, fs_kind=previous.fs_kind, cached=cached)

        wanted = [*previous.files, *(extra for extra in (previous.index, previous.directory) if extra is not None)]
        found = in_parallel(look, wanted, threads=threads_for(previous.fs_kind))
    except CheckpointUnreadable:
        return None
    finally:
        if root_fd is None:
            os.close(directory_fd)
    files = tuple(found[: len(previous.files)])
    rest = found[len(previous.files) :]
    index = rest.pop(0) if previous.index is not None else None
    directory = rest.pop(0) if previous.directory is not None else None
    if directory != previous.directory and (index is None or index.name != MODEL_INDEX):
        return None
    devices = {identity.dev: f"{previous.root}/{identity.name}" for identity in (*files, *((index,) if index else ()))}
    return Location(previous.root, files, index, directory, kind_of_devices(devices), previous.repo, previous.commit)


def recheck_paths(checkpoint: Checkpoint, *, reader: Reader | None = None) -> None:
    """CheckpointChanged if a path of the checkpoint now names another file or one with another identity than was opened, or if a new
    listing of its directory (where no index names the files) no longer gives these files."""
    location = checkpoint.location
    now = current_location(location, reader=reader)
    if now is None or now.key() != location.key():
        raise CheckpointChanged("a file was replaced while the checkpoint was read", where=location.root)
    if location.directory is not None and (location.index is None or location.index.name != MODEL_INDEX):
        layout = list_layout(ResolvedRoot(location.root), reader or Reader())
        index = location.index.name if location.index else None
        if layout.index != index or (index is None and layout.shards != tuple(one.name for one in location.files)):
            raise CheckpointChanged("other files count now than when the checkpoint was opened", where=location.root)
