"""From what somebody typed to the directory that is meant: paths in any spelling, and Hugging Face ids in the local cache.

Nothing here touches a checkpoint's files or the network; of a Hugging Face cache only `refs/<revision>` is read. Layout of that cache:
https://huggingface.co/docs/huggingface_hub/guides/manage-cache.
"""

# What the kernel says of a path as it was typed is the point here:
# ruff: noqa: PTH111, PTH115, PTH118, PTH119, PTH120

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from wcache.core.checkpoint.identity import mode_without_asking
from wcache.core.checkpoint.reader import unreadable
from wcache.core.model.errors import CheckpointUnreadable, UsageError

_HUB_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)?")
_COMMIT = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")  # 40 hex digits in practice; what matters is that it names one folder


class ResolvedRoot(NamedTuple):
    """Where a spelling leads. `single_file` is the name in `root` when one file was meant; `repo` and `commit` are set for a snapshot
    in a Hugging Face cache, however it was reached."""

    root: str
    single_file: str | None = None
    repo: str | None = None
    commit: str | None = None

    @property
    def repo_folder(self) -> str | None:
        """The folder of the cache's repository, which links of a snapshot must not leave; None outside of a cache."""
        return str(Path(self.root).parent.parent) if self.commit else None


def resolve_root(spelling: str | os.PathLike[str], revision: str | None = None) -> ResolvedRoot:
    """The directory (and file) that `spelling` means: an existing local path wins over a Hugging Face id.

    Raises CheckpointUnreadable (`missing`, `dangling_symlink`, `not_permitted`, `path_not_utf8`, `not_cached`, `snapshot_absent`) or
    UsageError for something that cannot be a path or id.
    """
    resolved, held = hold_root(spelling, revision)
    if held is not None:
        os.close(held)
    return resolved


def hold_root(spelling: str | os.PathLike[str], revision: str | None = None) -> tuple[ResolvedRoot, int | None]:
    """As `resolve_root`, and the directory itself where a path led to one (a descriptor, O_PATH: close it), so that nobody has to walk
    there again. On a remote file system a walk is one round trip for each name of the path, and this is all that is asked of it."""
    typed = os.fspath(spelling)
    if not typed or "\0" in typed:
        raise UsageError("an empty checkpoint name, or one with a NUL", where=repr(typed))
    path = os.path.expanduser(typed)
    _require_utf8(path)
    with suppress(OSError):  # no directory, or not to be had: why, is found out below
        descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return _snapshot_or_plain(_real_path(descriptor, path), None), descriptor
        except BaseException:
            os.close(descriptor)
            raise
    return _resolve_slowly(typed, path, revision), None


def _resolve_slowly(typed: str, path: str, revision: str | None) -> ResolvedRoot:
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise unreadable(error, path) from None
    else:
        return _resolve_path(path)
    if _HUB_ID.fullmatch(typed):
        return _resolve_hub_id(typed, revision or "main")
    raise CheckpointUnreadable("no such file or directory", where=typed, detail="missing")


def absolute_spelling(typed: str) -> str:
    """The spelling as it means the same in every working directory: an absolute path, or the Hugging Face id as it is. At most one
    lstat(2), of a relative one.

    Only joined (without a first `./`), never normalised: `..` behind a symlink means what the kernel says.
    """
    if typed.startswith(("/", "~")):
        return os.path.expanduser(typed)
    if typed.startswith(".") or not _HUB_ID.fullmatch(typed) or os.path.lexists(typed):
        try:
            below = typed[2:].lstrip("/") if typed.startswith("./") else typed
            return os.path.join(os.getcwd(), below or ".")  # noqa: PTH109
        except OSError:  # the working directory is gone, and nothing relative leads anywhere
            return typed
    return typed


def _require_utf8(path: str) -> None:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        raise CheckpointUnreadable(
            "the path is no UTF-8, so it cannot be recorded", where=shown, detail="path_not_utf8", remedy="rename it or link to it"
        ) from None


def _resolve_path(path: str) -> ResolvedRoot:
    real, is_directory = _walk(path)
    if is_directory:
        return _snapshot_or_plain(real, None)
    folder, is_folder = _walk(os.path.dirname(path) or ".")
    named = os.path.basename(path)
    if is_folder and (in_snapshot := _snapshot_or_plain(folder, named)).commit:
        return in_snapshot  # its real name would be a blob's
    return _snapshot_or_plain(*os.path.split(real))


def _walk(path: str) -> tuple[str, bool]:
    """The path after every symlink, and whether it is a directory: one walk by the kernel (realpath asks once a component)."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(error, path) from None
    try:
        return _real_path(descriptor, path), stat.S_ISDIR(mode_without_asking(descriptor))
    except OSError as error:
        raise unreadable(error, path) from None
    finally:
        os.close(descriptor)


def _real_path(descriptor: int, path: str) -> str:
    """Where the open file lies; `path` is asked where /proc is not mounted."""
    try:
        real = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        real = os.path.realpath(path)
    _require_utf8(real)
    return real


def _snapshot_or_plain(root: str, single_file: str | None) -> ResolvedRoot:
    snapshots, commit = os.path.split(root)
    folder = Path(snapshots).parent
    if Path(snapshots).name == "snapshots" and _COMMIT.fullmatch(commit) and folder.name.startswith("models--"):
        repo = "/".join(folder.name.split("--", 2)[1:])
        return ResolvedRoot(root, single_file, repo, commit)
    return ResolvedRoot(root, single_file)


def hub_cache() -> Path:
    """The local Hugging Face cache, by the same variables that huggingface_hub reads."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser()
    home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(home).expanduser() / "hub"


def _resolve_hub_id(repo: str, revision: str) -> ResolvedRoot:
    if ".." in revision.split("/") or revision.startswith("/") or "\0" in revision:
        raise UsageError("this cannot be a revision", where=f"{repo}@{revision}")
    cache = hub_cache()
    folder = cache / ("models--" + repo.replace("/", "--"))
    where = f"{repo}@{revision}"
    remedy = f"download it first (`hf download {repo}`); wcache never uses the network"
    if not folder.is_dir():
        raise CheckpointUnreadable(
            f"neither a local path nor in the Hugging Face cache {cache}", where=where, detail="not_cached", remedy=remedy
        )
    commit = revision
    if not (_COMMIT.fullmatch(revision) and (folder / "snapshots" / revision).is_dir()):
        try:
            commit = (folder / "refs" / revision).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise CheckpointUnreadable(
                f"the Hugging Face cache {cache} has no revision {revision!r} of it", where=where, detail="not_cached", remedy=remedy
            ) from None
        if not _COMMIT.fullmatch(commit):
            raise CheckpointUnreadable(f"refs/{revision} of the cache holds no commit", where=where, detail="not_cached", remedy=remedy)
    snapshot = folder / "snapshots" / commit
    if not snapshot.is_dir():
        raise CheckpointUnreadable(f"its snapshot {commit} is not in {folder}", where=where, detail="snapshot_absent", remedy=remedy)
    root, _ = _walk(str(snapshot))
    return ResolvedRoot(root, None, repo, commit)
