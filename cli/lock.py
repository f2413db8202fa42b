"""`wcache lock`: write down which weights may be served, and look whether that still holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from wcache.cli.command import WcacheCommand, current_app, example
from wcache.cli.output import print_document, print_rows
from wcache.cli.progress import progress
from wcache.cli.text import escape, short, size
from wcache.core.model.errors import EXIT_FINDING, EXIT_OK, UsageError

LOCK_HELP = """Write down which weights may be served, as a file to be reviewed and kept under version control.

Every CHECKPOINT is hashed (unless the ledger knows these very files) and gets an entry: the weights digest, and the BLAKE3 and size of each
file. Whoever attaches with that lock (WCACHE_LOCK=FILE, `lock` in [policy], attach(lock=FILE), load --lock) is never served any other
weights. The file is replaced as a whole; the same weights give the same bytes.

With --check the checkpoints of an existing lock are hashed and compared, all of them or those that are named. Exits with 1 when one has
other weights or is not there.

"""


@click.command(
    "lock",
    cls=WcacheCommand,
    help=LOCK_HELP + example("wcache lock ./my-model", "wcache lock --check", "WCACHE_LOCK=wcache.lock WCACHE_ON_MISS=strict vllm serve …"),
    short_help="Write down which weights may be served, and check it.",
)
@click.argument("checkpoints", metavar="[CHECKPOINT]...", nargs=-1)
@click.option("-o", "--output", metavar="FILE", default="wcache.lock", show_default=True, help="The lock.")
@click.option("--check", is_flag=True, help="Compare instead of writing.")
@click.option("--revision", help="Revision of a Hugging Face id.")
def lock(checkpoints: tuple[str, ...], output: str, check: bool, revision: str | None) -> int:
    if check:
        return _check(checkpoints, output)
    if not checkpoints:
        raise UsageError("no checkpoint is named", remedy="name one or more, or use --check")
    return _write(checkpoints, output, revision)


def _write(checkpoints: tuple[str, ...], output: str, revision: str | None) -> int:
    from wcache.core.checkpoint.lockfile import lock_of, render_lock
    from wcache.ledger.durable import replace_file
    from wcache.ledger.locking import locked_checkpoint

    settings = current_app().settings()
    entries = []
    for spelling in checkpoints:
        with progress(f"hash {spelling}") as update:
            entry, content = locked_checkpoint(settings, spelling, revision=revision, progress=update)
        _record(content, spelling)
        entries.append(entry)
    made = lock_of(entries)
    replace_file(Path(output), [render_lock(made)])
    lines = [f"{output}: {len(made.checkpoints)} checkpoint{'s' if len(made.checkpoints) > 1 else ''}"]
    lines += [f"  {one.checkpoint}: {short(one.weights_digest, 16)}, {one.tensors} tensors, {size(one.size_bytes)}" for one in entries]
    document: dict[str, Any] = {"lock": output, **msgspec.to_builtins(made)}
    print_document(document, "\n".join(escape(line) for line in lines))
    return EXIT_OK


def _check(checkpoints: tuple[str, ...], output: str) -> int:
    from wcache.core.checkpoint.lockfile import read_lock_file
    from wcache.ledger.locking import check_locked

    settings, found = current_app().settings(), read_lock_file(output)
    unknown = sorted(set(checkpoints) - {one.checkpoint for one in found.checkpoints})
    if unknown:
        known = ", ".join(one.checkpoint for one in found.checkpoints)
        raise UsageError("the lock has no such checkpoint", where=unknown[0], remedy=f"it has {known}")
    results = []
    for locked in found.checkpoints:
        if checkpoints and locked.checkpoint not in checkpoints:
            continue
        with progress(f"hash {locked.checkpoint}") as update:
            result, content = check_locked(settings, locked, progress=update)
        if content is not None:
            _record(content, locked.checkpoint)
        results.append(result)
    rows = [msgspec.to_builtins(one) for one in results]
    told = [{**row, "state": "ok" if row["ok"] else "fail", "locked": short(row["locked"]), "found": short(row["found"])} for row in rows]
    print_rows(rows if current_app().json else told, ("checkpoint", "state", "locked", "found", "why"), empty="")
    return EXIT_OK if all(one.ok for one in results) else EXIT_FINDING


def _record(content: Any, spelling: str) -> None:
    """What was hashed is worth knowing for later attaches; a lock can be made where there is no ledger, too."""
    from wcache.ledger.evidence import record_fingerprint
    from wcache.ledger.store import Ledger

    settings = current_app().settings()
    if settings.ledger.exists() and not settings.foreign:
        with Ledger.open(settings.ledger) as ledger:
            record_fingerprint(ledger, content, spelling, by="wcache lock")
