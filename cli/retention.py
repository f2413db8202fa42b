"""`wcache ledger segment ls | close | drop`, `wcache ledger redact`, `wcache ledger restore`: what a ledger keeps, and how it ends."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from wcache.cli import table
from wcache.cli.command import LazyGroup, Number, WcacheCommand, current_app, example
from wcache.cli.output import print_document
from wcache.cli.progress import progress

SEGMENT_HELP = """Close segments of the ledger, and drop those that are older than the policy.

A segment is a closed range of events with one root over everything up to its end. Closed ones can be dropped whole: their root stays, and
whatever still lives is carried on. Less than six months is never dropped.
"""


@click.group("segment", cls=LazyGroup, help=SEGMENT_HELP, short_help="Close segments of the ledger, and drop old ones.")
def segment() -> None:
    pass


_KEEP = click.option(
    "--keep", metavar="DAYS", type=click.IntRange(1, 36_500), default=400, show_default=True, help="How long events are kept."
)


@segment.command("ls", help="Show what the ledger covers, and from when on what may be dropped.\n\n" + example("wcache ledger segment ls"))
@_KEEP
def list_(keep: int) -> None:
    from wcache.ledger.moment import utc
    from wcache.ledger.retention import retention

    path = current_app().settings().ledger
    found = retention(path, keep)
    segments = [
        {
            "first_seq": one.segment.first_seq,
            "last_seq": one.segment.last_seq,
            "from": utc(one.segment.from_ns),
            "to": utc(one.segment.to_ns),
            "state": "closed" if one.segment.closed else "open",
            "droppable_from": utc(one.droppable_ns),
            "root": one.segment.root or None,
        }
        for one in found.segments
    ]
    dropped = [
        {"first_seq": one.first_seq, "last_seq": one.last_seq, "from": utc(one.from_ns), "to": utc(one.to_ns)}
        | {"dropped": utc(one.at_ns), "uid": one.uid, "keep_days": one.keep_days, "root": one.root}
        | {"events": one.events, "decisions": one.decisions}
        for one in found.spans
    ]
    restored = [{"seq": seq, "origin_before": origin} for seq, origin in found.restored]
    document = {"ledger": str(path), "origin": found.origin, "since": utc(found.since_ns), "keep_days": keep}
    head = {**document, "redacted": found.redacted or None}
    whole = {**document, "segments": segments, "dropped": dropped, "restored": restored, "redacted": found.redacted}
    parts = [
        table.fields(head),
        table.render(segments, ("first_seq", "last_seq", "from", "to", "state", "droppable_from"), empty="no events yet"),
    ]
    if dropped:
        parts += ["dropped:\n" + table.render(dropped, ("first_seq", "last_seq", "from", "to", "dropped", "uid", "keep_days"))]
    if restored:
        parts += ["restored:\n" + table.render(restored, ("seq", "origin_before"))]
    print_document(whole, "\n\n".join(parts))


CLOSE_HELP = """End the segment that is being written and begin the next one; beside a running daemon.

Only closed segments can be dropped later: close one a month.

"""


@segment.command("close", help=CLOSE_HELP + example("wcache ledger segment close"))
def close() -> None:
    from wcache.ledger.segments import close_segment
    from wcache.ledger.store import Ledger

    path = current_app().keeper_settings().ledger
    with Ledger.open(path, create=False) as opened:
        closed = close_segment(opened)
    document = {"ledger": str(path), **msgspec.to_builtins(closed)}
    text = f"closed seq {closed.first_seq} to {closed.last_seq}, root {closed.root}; the next segment begins with seq {closed.opened_seq}"
    print_document(document, text)


DROP_HELP = """Drop the closed segments whose newest event is older than --keep, and write the ledger anew without them.

What still lives (residencies, leases, grants, contradictions, the evidence that later decisions name) is carried on, word for word, and
who dropped what is on record. Needs the daemon stopped, but only where there is something to drop; `wcache ledger backup` first keeps a
copy. Less than 184 days is refused.

"""


@segment.command("drop", help=DROP_HELP + example("wcache ledger segment drop --keep 400"))
@_KEEP
def drop(keep: int) -> None:
    from wcache.daemon.offline import no_daemon
    from wcache.ledger.moment import utc
    from wcache.ledger.retention import drop_segments, droppable

    settings = current_app().keeper_settings()
    dropped = droppable(settings.ledger, keep)
    if dropped is None:
        with no_daemon(settings), progress("drop", unit="events") as update:
            dropped = drop_segments(settings.ledger, keep, update)
    document = {"ledger": str(settings.ledger), "keep_days": keep, **msgspec.to_builtins(dropped)}
    if dropped.span is None:
        following = f"; the oldest closed segment is from {utc(dropped.next_ns)} on" if dropped.next_ns else "; no segment is closed"
        print_document(document, f"nothing is older than {keep} days{following}")
        return
    span = dropped.span
    number = f"{sum(span.events.values())} events in {dropped.segments} segments, {dropped.carried} of them carried on"
    text = f"dropped seq {span.first_seq} to {span.last_seq} ({utc(span.from_ns)} to {utc(span.to_ns)}): {number}, on record as seq "
    print_document(document, f"{text}{dropped.recorded_seq}")


REDACT_HELP = """Remove the words of events for ever: paths, names, reasons, messages.

Their hashes stay, so chain, checkpoints and proofs stand; numbers, ids, digests and words of closed sets are kept, so states and counts
stay what they are. Who removed what, and why, is recorded. Needs the daemon stopped. What something still rests on is refused: a residency
that is held, a grant in force, a refuted hit, what the ledger says of itself. Backups and exports made before still have the words.

"""


@click.command(
    "redact", cls=WcacheCommand, help=REDACT_HELP + example("wcache ledger redact 1234 1240 --reason 'a path with a name, request 17'")
)
@click.argument("seqs", metavar="SEQ...", type=Number(min=1), nargs=-1, required=True)
@click.option("--reason", required=True, help="Why; it is kept in the ledger, so without the words that are to go.")
def redact(seqs: tuple[int, ...], reason: str) -> None:
    from wcache.daemon.offline import no_daemon
    from wcache.ledger.redact import redact as remove

    settings = current_app().keeper_settings()
    with no_daemon(settings), progress("redact", unit="events") as update:
        done = remove(settings.ledger, seqs, reason, update)
    rows = [msgspec.to_builtins(item) for item in done]
    text = table.render(rows, ("seq", "type", "stream", "recorded_seq"))
    also = sorted({seq for item in done for seq in item.also})
    if also:
        text += f"\n\nevents that share a word with them and still have it: seq {', '.join(map(str, also))}"
    print_document({"ledger": str(settings.ledger), "redacted": rows}, text)


RESTORE_HELP = """Verify the backup FILE and make a copy of it the ledger.

The restored ledger goes on under a new origin and says where it left the old one: up to there everything, and every signed checkpoint,
holds as before; what the lost ledger recorded later is a gap. Nothing is overwritten: a ledger that is there is refused, or with --replace
kept beside it under another name. Needs the daemon stopped.

"""


@click.command("restore", cls=WcacheCommand, help=RESTORE_HELP + example("wcache ledger restore ledger-monday.sqlite --replace"))
@click.argument("source", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--replace", is_flag=True, help="Keep the ledger that is there under another name, and put the backup in its place.")
def restore(source: Path, replace: bool) -> None:
    from wcache.daemon.offline import no_daemon
    from wcache.ledger.moment import utc
    from wcache.ledger.restore import restore as put_back

    settings = current_app().keeper_settings()
    with no_daemon(settings, merged=False), progress("restore", unit="events") as update:
        done = put_back(source, settings.ledger, replace=replace, progress=update)
    until = utc(done.newest_ns) or "its beginning"
    known = {
        "ledger": str(settings.ledger),
        "restored": f"seq {done.first_seq} to {done.last_seq}, as origin {done.old_origin} recorded them until {until}",
        "goes on as": f"origin {done.origin}, from seq {done.opened_seq} on",
        "known lost": f"{done.lost} later events of the ledger that was replaced" if done.lost else None,
        "kept": done.kept,
    }
    print_document({"ledger": str(settings.ledger), "backup": str(source), **msgspec.to_builtins(done)}, table.fields(known))
