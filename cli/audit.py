"""`wcache audit …`: questions to the ledger. Reads only, except `prove`, which records what it finds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from wcache.cli import table
from wcache.cli.command import LazyGroup, Number, current_app, example
from wcache.cli.output import FORMATS, chosen_format, print_document, print_rows
from wcache.cli.progress import progress
from wcache.cli.text import escape, size
from wcache.cli.trust import print_grants
from wcache.core.model.errors import EXIT_FINDING, EXIT_OK, EXIT_UNPROVABLE, UsageError

if TYPE_CHECKING:
    from wcache.ledger.audit import Audit, Window
    from wcache.ledger.exposure import Exposure

TABLE_ROWS = 100  # more than that nobody reads in a terminal; what is left out is said

HIT_COLUMNS = (
    "seq", "time", "launch", "rank", "engine", "checkpoint", "tier", "asked_digest", "served_digest", "mode", "proof",
)  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

AUDIT_HELP = """Ask the ledger what happened, and prove it.

Works beside a running daemon, and for whoever may read the ledger. Times are UTC; TIME is RFC 3339, a date, or a span ago (90m, 7d).

\b
Example:
  wcache audit summary --since 7d
  wcache audit fallbacks --since 7d
  wcache audit explain 42
"""


@click.group("audit", cls=LazyGroup, help=AUDIT_HELP, short_help="Ask the ledger what happened, and prove it.")
def audit() -> None:
    pass


def _format(command: F) -> F:
    option = click.option(
        "--format", "format_", type=click.Choice(FORMATS), help="How to print; table by default, --json is short for --format json."
    )
    return option(command)


def _limit(command: F) -> F:
    text = f"Only the last N; 0 is all. A table shows {TABLE_ROWS} unless told."
    return click.option("--limit", type=Number(min=0), metavar="N", help=text)(command)


def _window_options(command: F) -> F:
    for option in (
        _limit,
        click.option("--launch", metavar="ID", help="Only this launch (an id, or its beginning)."),
        click.option("--until", metavar="TIME", help="Decided before."),
        click.option("--since", metavar="TIME", help="Decided at or after."),
    ):
        command = option(command)
    return command


def _open() -> Audit:
    from wcache.ledger.audit import Audit

    return Audit(current_app().settings().ledger)


def _window(since: str | None, until: str | None, launch: str | None, limit: int | None = None) -> Window:
    from wcache.ledger.audit import Window
    from wcache.ledger.moment import parse_moment_ns

    now_ns = time.time_ns()
    since_ns = parse_moment_ns(since, now_ns) if since else None
    until_ns = parse_moment_ns(until, now_ns) if until else None
    if since_ns is not None and until_ns is not None and since_ns >= until_ns:
        raise UsageError("the period is empty", where=f"--since {since}", remedy="it must begin before --until")
    return Window(since_ns=since_ns, until_ns=until_ns, launch=launch, limit=limit)


@audit.command("summary", help="Counts by decision, reason, tier and proof.\n\n" + example("wcache audit summary --since 7d"))
@click.option("--since", metavar="TIME", help="Decided at or after.")
@click.option("--until", metavar="TIME", help="Decided before.")
@click.option("--launch", metavar="ID", help="Only this launch.")
@_format
def summary(since: str | None, until: str | None, launch: str | None, format_: str | None) -> None:
    from wcache.ledger.coverage import in_words

    with _open() as ledger:
        found = ledger.summary(_window(since, until, launch))

    def counts(name: str) -> str:
        return ", ".join(f"{number} {word}" for word, number in found[name].items())

    text = table.fields(
        {
            "ledger": found["ledger"],
            "origin": found["origin"],
            "events": f"{found['events']}, head {str(found['head'])[:16]}",
            "covers": in_words(found["coverage"]),
            "gaps": "{count}: {merged} decisions merged later, {lost} known lost".format(**found["gaps"])
            if found["gaps"]["count"]
            else "none",
            "attaches": f"{found['attaches']} in {found['launches']} launches",
            "decisions": counts("decisions"),
            "reasons": counts("reasons"),
            "tiers of hits": counts("tiers"),
            "proofs of hits": counts("proofs"),
            "wrong hits": found["wrong_hits"],
            "unproven below pinned": found["unproven_below_pinned"],
            "unfinished": found["unfinished"],
            "mapped": f"{size(found['mapped_bytes'])}, of it copied {size(found['copied_bytes'])}",
            "read by fallbacks": f"{size(found['fallback_bytes'])} in {found['fallback_s']:.1f} s",
            "idle meanwhile": size(found["idle_bytes"]),
            "residencies": counts("residencies"),
        }
    )
    print_document(found, text)


def _print_attaches(
    ledger: Audit,
    question: str,
    window: Window,
    columns: Sequence[str],
    *,
    empty: str,
    more: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> None:
    """The answer, as it is read; a table of the last ones only, with how many there are before them. `more` adds to a row."""
    from wcache.ledger.audit import ATTACH_COLUMNS

    wanted = TABLE_ROWS if window.limit is None and chosen_format() == "table" else window.limit
    listing = ledger.listing(question, msgspec.structs.replace(window, limit=wanted or None))
    rows: Iterable[dict[str, Any]] = listing.rows(raw=True)
    if more is not None:
        rows = map(more, rows)
    note = ""
    if chosen_format() == "table":
        rows = list(rows)
        notes = (ledger.missing(window), _left_out(listing.total() - len(rows) if len(rows) == wanted else 0))
        note = "\n".join(filter(None, notes))
    print_rows(rows, columns or ATTACH_COLUMNS, empty=empty, note=note)


def _left_out(number: int) -> str:
    return f"{number} before these are not shown: --limit 0 shows all, --since and --until narrow it down." if number else ""


@audit.command(
    "attaches", help="Every attach, one row each, with its decision.\n\n" + example("wcache audit attaches --launch l-1f2e --json")
)
@_window_options
@_format
def attaches(since: str | None, until: str | None, launch: str | None, limit: int | None, format_: str | None) -> None:
    with _open() as ledger:
        _print_attaches(ledger, "attaches", _window(since, until, launch, limit), (), empty="No attach was recorded.")


LAUNCH_HELP = """How one launch went: how many of its ranks have their weights from the daemon, and why not the others.

Exits with 1 when incomplete.

"""


@audit.command("launch", help=LAUNCH_HELP + example("wcache audit launch l-1f2e3d4c"), short_help="How one launch went, rank by rank.")
@click.argument("launch_id", metavar="ID")
@_format
def launch(launch_id: str, format_: str | None) -> int:
    with _open() as ledger:
        found = ledger.launch(launch_id)
    print_document(found, escape(found["text"]))
    return EXIT_OK if found["complete"] else EXIT_FINDING


FALLBACK_HELP = "Attaches that were not mapped, and why: fallbacks to disk with what the daemon held idle meanwhile, and strict misses.\n\n"


@audit.command(
    "fallbacks", help=FALLBACK_HELP + example("wcache audit fallbacks --since 7d"), short_help="Attaches that were not mapped, and why."
)
@_window_options
@_format
def fallbacks(since: str | None, until: str | None, launch: str | None, limit: int | None, format_: str | None) -> None:
    columns = (
        "seq", "time", "launch", "rank", "engine", "checkpoint", "decision", "reason", "detail",
        "fallback_bytes", "fallback_s", "idle_bytes",
    )  # fmt: skip
    with _open() as ledger:
        _print_attaches(ledger, "fallbacks", _window(since, until, launch, limit), columns, empty="Every attach was mapped.")


@audit.command("hits", help="Hits, with their tier and proof.\n\n" + example("wcache audit hits --unproven"))
@click.option("--unproven", is_flag=True, help="Only those below pinned (or by attested or trusted) that nobody has looked at since.")
@_window_options
@_format
def hits(since: str | None, until: str | None, launch: str | None, limit: int | None, unproven: bool, format_: str | None) -> None:
    question, empty = ("unproven hits", "No unproven hit below pinned.") if unproven else ("hits", "No hit was recorded.")
    with _open() as ledger:
        _print_attaches(ledger, question, _window(since, until, launch, limit), HIT_COLUMNS, empty=empty)


WRONG_HELP = """Hits that served other weights than were asked for, as far as that is known.

The daemon finds them behind weak hits (policy verify_behind), `wcache audit prove` finds those that it could not look at. Each row says
which process had the weights, since and until when. Exits with 1 when there are any.

"""


@audit.command(
    "wrong-hits",
    help=WRONG_HELP + example("wcache audit prove", "wcache audit wrong-hits"),
    short_help="Hits that served other weights than asked for.",
)
@_window_options
@_format
def wrong_hits(since: str | None, until: str | None, launch: str | None, limit: int | None, format_: str | None) -> int:
    from wcache.ledger.exposure import exposure_lines, exposures

    with _open() as ledger:
        window = _window(since, until, launch, limit)
        waiting, exposed = ledger.unproven_count(), exposures(ledger, window)
        had = {one.seq: one for one in exposed if one.certain}
        hint = f"; {waiting} hits below pinned are unproven (wcache audit prove)" if waiting else ""
        empty = f"No wrong hit is known{hint}."
        _print_attaches(
            ledger, "wrong hits", window, HIT_COLUMNS, empty=empty, more=lambda row: row | _exposure_fields(had.get(row["seq"]))
        )
        found = ledger.listing("wrong hits", window).total()
    if exposed and chosen_format() == "table":
        click.echo("\n" + "\n".join(map(escape, exposure_lines(exposed))))
    return EXIT_FINDING if found else EXIT_OK


def _exposure_fields(one: Exposure | None) -> dict[str, Any]:
    """What a row of wrong hits says beyond the attach: who had the weights, since and until when."""
    return {name: getattr(one, name, None) for name in ("host", "pid", "uid", "since", "until", "had")}


@audit.command("trust", help="Every grant, its state, and how many hits rest on it.\n\n" + example("wcache audit trust"))
@_format
def trust(format_: str | None) -> None:
    print_grants()


TIMELINE_HELP = "Every event of a residency, and of the attaches that were decided on it.\n\n"


@audit.command(
    "timeline", help=TIMELINE_HELP + example("wcache audit timeline r-1f2e3d4c"), short_help="Everything that happened to a residency."
)
@click.argument("residency")
@click.option("--limit", type=Number(min=0), metavar="N", help=f"Only the last N; 0 is all. A table shows {TABLE_ROWS} unless told.")
@_format
def timeline(residency: str, limit: int | None, format_: str | None) -> None:
    from wcache.ledger.headline import headline
    from wcache.ledger.moment import utc

    with _open() as ledger:
        found = ledger.timeline(residency)
    wanted = TABLE_ROWS if limit is None and chosen_format() == "table" else limit
    shown = found[-wanted:] if wanted else found
    rows = [
        {
            "seq": item.seq, "time": utc(item.occurred_ns), "event": item.type, "what": headline(item.event), "late": item.late,
            "stream": item.stream, "payload": msgspec.to_builtins(item.event),
        }
        for item in shown
    ]  # fmt: skip
    note = f"{len(found) - len(shown)} before these are not shown: --limit 0 shows all." if len(found) > len(shown) else ""
    print_rows(rows, ("seq", "time", "event", "what"), empty="Nothing is recorded of it.", note=note)


AT_HELP = (
    "What was resident at a moment, who had it mapped, and which grants were in force.\n\nTIME is RFC 3339, a date, or a span ago.\n\n"
)


@audit.command("at", help=AT_HELP + example("wcache audit at 2026-11-29T14:00:00Z"), short_help="What was resident and mapped at a moment.")
@click.argument("moment", metavar="TIME")
@_format
def at(moment: str, format_: str | None) -> None:
    from wcache.ledger.moment import parse_moment_ns, utc

    now_ns = time.time_ns()
    moment_ns = parse_moment_ns(moment, now_ns)
    if moment_ns > now_ns:
        raise UsageError("nobody knows yet what will be", where=moment, remedy="give a time that has passed")
    with _open() as ledger:
        found = {"time": utc(moment_ns), **ledger.at(moment_ns)}
    resident = [{**row, "size": size(row["bytes"]), "weights_digest": row["weights_digest"][:8]} for row in found["resident"]]
    mapped = [{**row, "time": str(row["time"])[:19], "launch": row["launch"][:10]} for row in found["mapped"][-TABLE_ROWS:]]
    left_out = len(found["mapped"]) - len(mapped)
    text = "\n\n".join(
        [
            f"At {found['time']}",
            table.render(
                resident,
                ("residency", "checkpoint", "device", "size", "tensors", "weights_digest", "leases"),
                empty="Nothing was resident.",
            ),
            table.render(
                mapped,
                ("seq", "time", "launch", "rank", "engine", "checkpoint", "residency", "tier", "mode"),
                empty="Nobody had anything mapped.",
            )
            + (f"\n\n{left_out} before these are not shown: --json shows all." if left_out else ""),
            table.render(found["grants"], ("grant", "scope", "about", "operator_uid", "reason"), empty="No grant was in force."),
        ]
    )
    print_document(found, text)


EXPLAIN_HELP = "One event in plain sentences; of a decision what was asked, the evidence, the reason, and what would have changed it.\n\n"


@audit.command("explain", help=EXPLAIN_HELP + example("wcache audit explain 42"), short_help="One event in plain sentences.")
@click.argument("seq", type=Number(min=1))
@_format
def explain(seq: int, format_: str | None) -> None:
    from wcache.ledger.explain import explain as explained

    with _open() as ledger:
        found = explained(ledger, seq)
    lines = [f"seq {found.seq}, {found.time}, {found.type}", "", *found.sentences]
    print_document(msgspec.to_builtins(found), "\n".join(escape(line) for line in lines))


PROVE_HELP = """Look at hits afterwards: was what was served what was asked for?

Without SEQ: every hit below pinned (or by attested or trusted) that is unproven. Files that stand as they stood at the attach are hashed,
each content once for all hits on it; files that changed since can prove nothing, unless they were hashed before, or an immutable name says
what they were. What is found is on record before the next content is read, so a run that was broken off goes on there. A refuted hit
denies that checkpoint from then on, and names every engine that got those weights for it; the resident weights stay good.

Exits with 0 when all are proved, 1 when a hit was refuted, 11 when none was but one is unprovable.

"""


@audit.command(
    "prove",
    help=PROVE_HELP + example("wcache audit prove", "wcache audit prove 42 57"),
    short_help="Look at hits afterwards: proved or refuted?",
)
@click.argument("seqs", metavar="[SEQ]...", nargs=-1, type=Number(min=1))
@click.option("--all", "every", is_flag=True, help="Every unproven hit, whatever its tier.")
@_format
def prove(seqs: tuple[int, ...], every: bool, format_: str | None) -> int:
    from wcache.core.model.vocabulary import Proof
    from wcache.ledger.exposure import exposure_lines, exposures
    from wcache.ledger.prove import Proving
    from wcache.ledger.prove import prove as proving
    from wcache.ledger.store import Ledger

    settings = current_app().keeper_settings()
    found: list[Proving] = []
    with Ledger.open(settings.ledger, create=False) as ledger, progress("hash") as update:
        try:
            found.extend(proving(ledger, seqs, every=every, policy=settings.policy, progress=update))
        except KeyboardInterrupt:
            click.echo("wcache: interrupted; what was found so far is on record, and the next run goes on from there", err=True)
            raise
    found.sort(key=lambda item: item.seq)
    refuted = [item.seq for item in found if item.proof is Proof.REFUTED]
    with _open() as audited:
        exposed = exposures(audited, seqs=refuted) if refuted else []
    had = {one.seq: one for one in exposed}
    rows = [{**msgspec.to_builtins(item), **(_exposure_fields(had.get(item.seq)) if item.proof is Proof.REFUTED else {})} for item in found]
    print_rows(rows, ("seq", "checkpoint", "tier", "proof", "why"), empty="No unproven hit below pinned.")
    if exposed and chosen_format() == "table":
        click.echo("\n" + "\n".join(map(escape, exposure_lines(exposed))))
    if refuted:
        return EXIT_FINDING
    return EXIT_UNPROVABLE if any(item.proof is Proof.UNPROVABLE for item in found) else EXIT_OK
