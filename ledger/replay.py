"""All events of a ledger checked and replayed, in blocks, and its projections compared with what came out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol

import msgspec

from wcache.core.model.errors import LedgerCorrupt
from wcache.core.model.events import stream_of
from wcache.ledger import schema
from wcache.ledger.attaches import PREFIX, WRONG_TYPE
from wcache.ledger.block import Found, plus
from wcache.ledger.comparison import MAX_DIFFERENCES, compare_table
from wcache.ledger.context import Context
from wcache.ledger.database import translated
from wcache.ledger.leaves import Trees, join
from wcache.ledger.pool import Block, Examiner, File, Index, Part, Settle, Share
from wcache.ledger.problem import Difference, Problem
from wcache.ledger.reader import FIRST_SEQ, LAST_SEQ, Reader
from wcache.ledger.segments import History, carried_row, read_history, readable
from wcache.ledger.store import Ledger
from wcache.ledger.stored import read_origin, stored_event

BLOCK_EVENTS = 50_000
SETTLE_STREAMS = 2_000

Progress = Callable[[int, int], None]


class Runner(Protocol):
    """Whoever does parts: this process, or a pool of helpers."""

    def share(self, shared: Share) -> None: ...

    def results(self, parts: Sequence[Part]) -> Iterator[tuple[int, Found]]: ...


class Whole(msgspec.Struct):
    """What all events of a snapshot say. `differences` are those of every projection; none are told where events are redacted and
    nothing of them was kept, because these take part in no projection. `unexplained`: redacted events that no `payload.redacted` names.
    `trees` are the Merkle trees of the sizes that were asked for."""

    found: Found
    differences: list[Difference]
    unexplained: list[int]
    trees: Trees


def examine_all(
    reader: Reader, history: History, runner: Runner, progress: Progress | None = None, *, file: bool = False, sizes: Collection[int] = ()
) -> Whole:
    """Checks and replays every event that `reader` sees; with `file` also the pages and indexes of the file, beside it."""
    whole = Found(problems=[], differences=[], continued=[], redacted=[], policies={}, contradictions=[])
    reader.past = history.past()
    total, blocks = _blocks(reader, history)
    context = read_context(reader, history, whole.problems.append)
    wanted = sorted(size for size in set(sizes) if history.frontier.size < size < LAST_SEQ)
    runner.share(Share(history.origin, reader.past, context.timeline, wanted))
    results: dict[int, Found] = {}
    done = 0
    first: list[Part] = [File(), Index(0), Index(1), *map(File, reader.tables())] if file else []  # the longest first
    for place, found in runner.results([*first, *blocks]):
        results[place] = found
        done += found.events
        if progress is not None and place >= len(first):
            progress(done, total)
    for place in sorted(results):
        _merge(whole, results[place])
    trees = join(history.frontier, (results[place].pieces for place in sorted(results) if place >= len(first)), sizes)
    if file and whole.rows != whole.indexed and all(problem.cls != "file" for problem in whole.problems):
        whole.problems.append(Problem(None, "file", "an index of the events is not that of the rows"))
    names = sorted({*_unsettled(whole), *reader.past.carried})
    whole.started += len(reader.past.carried)
    whole.differences = [item for item in whole.differences if _stream(item) not in names]
    parts = [Settle(names[at : at + SETTLE_STREAMS]) for at in range(0, len(names), SETTLE_STREAMS)]
    for _, found in runner.results(parts):
        _merge(whole, found)
    whole.problems = list(dict.fromkeys(whole.problems))  # what a settled attach did in its first block was told there too
    whole.redacted = [seq for seq in whole.redacted if seq not in reader.past.bodies]
    differences = [] if whole.redacted else _in_order([*whole.differences, *_compare_rest(reader, context, whole)])
    return Whole(whole, differences, [seq for seq in whole.redacted if seq not in context.redactions], trees)


def _blocks(reader: Reader, history: History) -> tuple[int, list[Block]]:
    """The number of events, and the blocks that hold them all: of equal width in seq, so that a forged one cannot make many, and cut
    where another origin begins."""
    count, last = reader.size()
    before = history.first_seq - 1
    number = max(1, -(-count // BLOCK_EVENTS))
    width = max(1, -(-(last - before) // number))
    starts = [FIRST_SEQ, *sorted({before + width * n + 1 for n in range(1, number)} | {seq for seq, _ in history.origins})]
    return count, [Block(start, following - 1) for start, following in zip(starts, [*starts[1:], LAST_SEQ + 1], strict=True)]


def read_context(reader: Reader, history: History, report: Callable[[Problem], None]) -> Context:
    """The streams that are no attaches, replayed. Rows that cannot be read are told by the block that they lie in."""
    context = Context(report, history.versions)
    versions = dict(history.versions)
    bodies = history.bodies()
    carried = (carried_row(item) for item in history.carried if not item.stream.startswith(PREFIX))
    for row in chain(carried, reader.rows(FIRST_SEQ, LAST_SEQ, [], others=True)):
        seq, stream, version = row[:3]
        expected = versions.get(stream, 0) + 1
        if version != expected:
            report(Problem(seq, "version", f"{stream} has version {version} where {expected} belongs"))
        versions[stream] = version
        if row[9] is None and seq not in bodies:
            continue
        try:
            item = stored_event(readable(row[:10], bodies))
        except LedgerCorrupt as error:
            report(Problem(seq, "decode", error.what))
            continue
        except WRONG_TYPE:
            continue  # told by the block
        if stream_of(item.event) != stream:
            report(Problem(seq, "stream", f"{item.type} lies on {stream} and belongs to {stream_of(item.event)}"))
            continue
        context.feed(item)
    return context


def _merge(whole: Found, found: Found) -> None:
    whole.problems += found.problems
    whole.differences += found.differences
    whole.events += found.events
    if found.events:
        whole.last_seq, whole.last_chain = found.last_seq, found.last_chain
    whole.started += found.started
    whole.continued += found.continued
    whole.redacted += found.redacted
    first, count = found.backwards
    whole.backwards = (whole.backwards[0] or first, whole.backwards[1] + count)
    for name, body in found.policies.items():
        whole.policies.setdefault(name, body)
    whole.contradictions += found.contradictions
    whole.rows, whole.indexed = plus(whole.rows, found.rows), plus(whole.indexed, found.indexed)


def _unsettled(whole: Found) -> list[str]:
    """Streams that no single block has seen whole, or whose row lies where another block looked."""
    missing = {item.key for item in whole.differences if item.table == "attach" and item.why == "missing"}
    moved = {PREFIX + item.key for item in whole.differences if item.table == "attach" and item.why == "extra" and item.key in missing}
    return sorted({*whole.continued, *moved})


def _stream(item: Difference) -> str:
    return f"{PREFIX}{item.key}" if item.table == "attach" else item.key


def _compare_rest(reader: Reader, context: Context, whole: Found) -> list[Difference]:
    db = reader.db
    found = context.compare(db)
    found += compare_table(db, schema.policy, {(name,): {"policy": name, "body": body} for name, body in whole.policies.items()})
    found += compare_table(db, schema.contradiction, {(row["seq"],): row for row in whole.contradictions})
    # Streams of attaches that have a row and not one event: looked for only where the numbers do not add up.
    attaches = f"stream >= '{PREFIX}' AND stream < 'attach0'"  # '0' follows '/'
    if db.execute(f"SELECT count(*) FROM stream WHERE {attaches}").fetchone()[0] != whole.started:  # noqa: S608
        orphans = f"SELECT stream FROM stream s WHERE {attaches} AND NOT EXISTS (SELECT 1 FROM event e WHERE e.stream = s.stream)"  # noqa: S608
        found += [Difference("stream", name, "extra") for (name,) in db.execute(orphans) if name not in reader.past.carried]
    return found


def _in_order(differences: Iterable[Difference]) -> list[Difference]:
    """By table and key, at most MAX_DIFFERENCES a table."""
    by_table: dict[str, list[Difference]] = {table.name: [] for table in schema.PROJECTIONS}
    for item in differences:
        by_table[item.table].append(item)
    return [item for found in by_table.values() for item in sorted(set(found), key=lambda item: str(item.key))[:MAX_DIFFERENCES]]


def replay(ledger: Ledger | Path | str) -> list[Difference]:
    """Rebuilds the projections of a ledger from one snapshot of it; returns where they differ: nowhere, in a sound ledger.

    Raises LedgerCorrupt for events that cannot be decoded; `verify` reports all of them instead.
    """
    path = ledger.path if isinstance(ledger, Ledger) else Path(ledger).absolute()
    reader = Reader(path)
    try:
        with translated(path):
            reader.begin()
            history = read_history(reader.db, read_origin(reader.connection, path))
            whole = examine_all(reader, history, Examiner(reader))
    finally:
        reader.close()
    for problem in whole.found.problems:
        if problem.cls == "decode":
            raise LedgerCorrupt(problem.text, where=f"seq {problem.seq}")
    return whole.differences
