"""A directory that looks like the checkpoint, with links to sealed memory at the shards' places: for tools that cannot be changed.

The links lead through the holder's descriptors, `/proc/PID/fd/N` (proc_pid_fd(5)): whoever opens one needs the holder's uid and its pid
namespace. They dangle once the holder is dead.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import resource
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wcache.core import __version__
from wcache.core.checkpoint.checkpoint import open_checkpoint
from wcache.core.checkpoint.layout import MODEL_INDEX
from wcache.core.checkpoint.spelling import ResolvedRoot, resolve_root
from wcache.core.model.errors import MappingFailed, RequestRefused, StrictMiss, WcacheError
from wcache.core.model.events import Engine
from wcache.core.model.vocabulary import Mode
from wcache.core.settings import Settings
from wcache.core.wire.messages import Progress
from wcache.loader.attach import Attachment, attach

VIEWS = "views"
"""Where views lie by default, below the runtime directory."""

_MARK = ".wcache-view"  # says which names were made, and where their links lead (null: a file); its lock says that the maker lives
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".onnx", ".ot", ".index.json")
_LOW_FD, _HIGH_FD = 256, 65536  # the kernel's table of descriptors grows with the highest


class View:
    """A made view: `path` is its directory, `attachment` what was decided. A hit is leased until `close()`; on a fallback the links lead
    to the shards on disk and nothing is leased. `on_disk` names the weights beside the checkpoint, which always come from the disk."""

    def __init__(self, path: Path, attachment: Attachment, shards: tuple[str, ...], on_disk: tuple[str, ...], mark: int) -> None:
        self.path = path
        self.attachment = attachment
        self.shards = shards
        self.on_disk = on_disk
        self._mark = mark

    def close(self) -> None:
        """Remove the directory and end the lease. Files that somebody else put there stay, and with them the directory."""
        if self._mark < 0:
            return
        _remove(self.path)
        os.close(self._mark)
        self._mark = -1
        self.attachment.close()


def make_view(
    checkpoint: str | os.PathLike[str],
    directory: Path | None,
    settings: Settings,
    *,
    revision: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> View:
    """Attach, and lay out the directory: a new one below the runtime directory, or `directory`, which must be absent or empty.

    Views whose holder is dead are removed on the way. Raises RequestRefused for a directory that is in use, StrictMiss by policy, and
    for a checkpoint that is not there what `resolve_root` raises.
    """
    resolved = resolve_root(checkpoint, revision)
    views = settings.runtime_dir / VIEWS
    with _alone(views):
        for dead in views.iterdir():
            if dead.is_dir() and not dead.is_symlink():
                _remove_if_dead(dead)
        path = directory.absolute() if directory is not None else views / _new_name(resolved)
        mark = _occupy(path)
    began = time.monotonic()
    attachment: Attachment | None = None
    try:
        attachment = attach(
            checkpoint,
            revision=revision,
            settings=settings,
            engine=Engine(name="wcache view", version=__version__, pid=os.getpid()),
            on_progress=on_progress,
        )
        shards, on_disk = _laid_out(path, resolved, attachment, revision)
    except BaseException:
        _remove(path)
        os.close(mark)
        if attachment is not None:
            attachment.close()
        raise
    seconds = time.monotonic() - began
    if attachment.hit:
        entries = [entry for segment in attachment.segments.values() for entry in segment.header.tensors]
        size_bytes = sum(entry.size_bytes for entry in entries)
        # Nothing was copied to make the view. What its readers do is theirs, and not on record.
        attachment.mapped(Mode.ZERO_COPY, tensors=len(entries), size_bytes=size_bytes, copied_tensors=0, copied_bytes=0, ms=seconds * 1000)
        attachment.settle()
    else:
        attachment.fell_back(0, seconds)  # the view itself reads nothing
    return View(path, attachment, shards, on_disk, mark)


def _laid_out(path: Path, resolved: ResolvedRoot, attachment: Attachment, revision: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """As `_fill`; what goes wrong is on record before it is raised."""
    try:
        return _fill(path, resolved, attachment, revision)
    except (OSError, WcacheError) as error:
        problem = error if isinstance(error, WcacheError) else _refused(path, error)
        with suppress(StrictMiss):
            if attachment.hit:
                attachment.map_failed(problem)
            attachment.fallback_failed(problem)
        raise problem from None


def _fill(path: Path, resolved: ResolvedRoot, attachment: Attachment, revision: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The links, and the index where the resident weights are sharded otherwise than the asked checkpoint. Returns the names of the
    shards, and of weights beside them: what a tool finds in the checkpoint's directory it has to find here."""
    root = Path(resolved.root)
    links: dict[str, str] = {}
    index: str | None = None
    written: str | None = None
    asked = attachment.location
    if attachment.hit:
        _raise_descriptors(attachment)
        links = {name: f"/proc/{os.getpid()}/fd/{segment.descriptor}" for name, segment in attachment.segments.items()}
        if attachment.same_files and asked is not None:
            index = asked.index.name if asked.index else None
        elif resolved.single_file is not None and len(links) == 1:
            links = {resolved.single_file: next(iter(links.values()))}
        else:
            written = MODEL_INDEX
    else:
        asked = open_checkpoint(attachment.question.spelling, revision=revision).location
        links = {file.name: os.path.realpath(root / file.name) for file in asked.files}
        index = asked.index.name if asked.index else None
    wrong = next((name for name in links if name in ("", ".", "..") or "/" in name or "\0" in name), None)
    if wrong is not None:
        raise MappingFailed(f"{wrong!r} is no file name", where=str(path))
    shards = tuple(sorted(links))
    if index is not None:
        links[index] = os.path.realpath(root / index)
    on_disk: tuple[str, ...] = ()
    if resolved.single_file is None:
        entries = [entry for entry in root.iterdir() if not entry.name.startswith(".") and entry.name not in links]
        own = {file.name for file in asked.files} if asked is not None else set()
        strays = [entry.name for entry in entries if asked is not None and entry.suffix == ".safetensors" and entry.name not in own]
        beside = [entry.name for entry in entries if not entry.name.endswith(_WEIGHTS)]
        links.update({name: os.path.realpath(root / name) for name in (*beside, *strays)})
        on_disk = tuple(sorted((*strays, *(f"{name}/" for name in beside if _has_weights(root / name)))))
    made: dict[str, str | None] = {**links, **({written: None} if written else {})}
    (path / _MARK).write_text(json.dumps(made), encoding="ascii")  # before they are made: whoever clears away must know them
    if written:
        _write_index(path / written, attachment)
    for name, target in links.items():
        (path / name).symlink_to(target)
    return shards, on_disk


def _has_weights(folder: Path) -> bool:
    return any(name.endswith(_WEIGHTS) for _, _, names in os.walk(folder) for name in names)


def _raise_descriptors(attachment: Attachment) -> None:
    """To random high numbers: should the holder die and its pid come again, a stale link is unlikely to hit another open file."""
    limit = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _HIGH_FD)
    span = limit - _LOW_FD - 2 * len(attachment.segments)
    for segment in attachment.segments.values() if span > 0 else ():
        with suppress(OSError):
            raised = fcntl.fcntl(segment.descriptor, fcntl.F_DUPFD_CLOEXEC, _LOW_FD + random.randrange(span))  # noqa: S311
            os.close(segment.descriptor)
            segment.descriptor = raised


def _write_index(path: Path, attachment: Attachment) -> None:
    """https://huggingface.co/docs/transformers/big_models#sharded-checkpoints: loaders find shards of any name by it."""
    weight_map = {entry.name: name for name, segment in attachment.segments.items() for entry in segment.header.tensors}
    path.write_text(json.dumps({"metadata": {"total_size": attachment.weights_bytes}, "weight_map": weight_map}, indent=2))


def _new_name(resolved: ResolvedRoot) -> str:
    """A name that tells a person which checkpoint it is, and no other view has."""
    named = resolved.repo.rpartition("/")[2] if resolved.repo else Path(resolved.single_file or resolved.root).name
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', named).lstrip('.') or 'view'}-{secrets.token_hex(4)}"


# --- whose directory it is: a lock on the mark, which the kernel takes back from a holder that died (flock(2)) ----------------------------


@contextmanager
def _alone(views: Path) -> Iterator[None]:
    """Nobody else makes or clears away a view meanwhile."""
    try:
        views.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(views, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _refused(views, error) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _occupy(path: Path) -> int:
    """Make the directory and mark it; returns the locked mark. Raises RequestRefused."""
    try:
        made = not path.exists()
        if made:
            path.mkdir(mode=0o700, parents=True)
        elif path.is_dir():
            _remove_if_dead(path)
            path.mkdir(mode=0o700, exist_ok=True)
        if any(path.iterdir()):
            live = (path / _MARK).exists()
            what = "another view lives in this directory" if live else "the directory is not empty"
            raise RequestRefused(what, where=str(path), remedy="name a new one, or none")
        mark = os.open(path / _MARK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _refused(path, error) from None
    fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return mark


def _refused(path: Path, error: OSError) -> RequestRefused:
    return RequestRefused(f"no view can be made there: {error.strerror}", where=str(path), remedy="name a directory that you may write")


def _remove_if_dead(path: Path) -> None:
    try:
        mark = os.open(path / _MARK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return  # no view, or another user's
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(path)
    except BlockingIOError:
        pass  # its holder lives
    finally:
        os.close(mark)


def _remove(path: Path) -> None:
    """What the mark says was made there, the mark, and the directory unless something else lies in it. Nothing is followed."""
    made: dict[str, str | None] = {}
    with suppress(OSError, ValueError):
        made = json.loads((path / _MARK).read_bytes())
    with suppress(OSError):
        for entry in list(path.iterdir()):
            with suppress(OSError):
                if entry.name == _MARK or (entry.name in made and _link_of(entry) == made[entry.name]):
                    entry.unlink()
        path.rmdir()


def _link_of(entry: Path) -> str | None:
    return str(entry.readlink()) if entry.is_symlink() else None
