"""Writes docs/reference/ from the code: events, reasons, transitions, errors, metrics, the command line.

`--check` writes nothing and fails on a difference.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from wcache.core.model import errors, events, machines, vocabulary
from wcache.core.model.vocabulary import AttachState, Outcome, Proof, ResidencyState

REFERENCE = Path(__file__).resolve().parent / "reference"
NOTE = "<!-- Written by `make docs` from the code. Edit the code, not this file. -->\n"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join("---" for _ in header) + " |"]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def first_sentence(thing: object) -> str:
    text = " ".join((inspect.getdoc(thing) or "").split())
    return re.split(r"(?<=[.])\s", text, maxsplit=1)[0]


def type_name(annotation: Any) -> str:
    """A field's type in words of the reference: `text`, `number`, a closed set's name, `list of …`, `… or nothing`."""
    info = msgspec.inspect
    node = annotation if isinstance(annotation, info.Type) else info.type_info(annotation)
    if isinstance(node, info.UnionType):
        parts = [type_name(item) for item in node.types if not isinstance(item, info.NoneType)]
        return " or ".join(parts) + (" or nothing" if node.includes_none else "")
    if isinstance(node, (info.ListType, info.VarTupleType)):
        return f"list of {type_name(node.item_type)}"
    if isinstance(node, info.DictType):
        return f"map to {type_name(node.value_type)}"
    if isinstance(node, (info.StructType, info.EnumType)):
        return f"{node.cls.__name__}"
    if isinstance(node, info.LiteralType):
        return " or ".join(f"`{value}`" for value in node.values)
    plain = {info.StrType: "text", info.IntType: "integer", info.FloatType: "number", info.BoolType: "yes/no", info.BytesType: "bytes"}
    return plain.get(type(node), "any")


def fields(cls: type[msgspec.Struct]) -> str:
    return table(("field", "type"), ((f"`{item.name}`", type_name(item.type)) for item in msgspec.structs.fields(cls)))


def render_events() -> str:
    lines = [NOTE, "# Events\n"]
    lines.append(
        "An **authority** event is checked against its state machine before it gets a `seq`; an **observation** is always accepted and\n"
        "flagged `late` when the state has moved on. Type names are stable. `seq`, stream, version, times and the chain are\n"
        "columns beside the payload.\n"
    )
    rows = [
        (f"[`{name}`](#{name.replace('.', '')})", "authority" if cls.authority else "observation", cls.schema, cls.says)
        for name, cls in events.EVENT_TYPES.items()
    ]
    lines.append(table(("type", "class", "schema", "says"), rows))
    used: dict[str, type[msgspec.Struct]] = {}
    for name, cls in events.EVENT_TYPES.items():
        lines.append(f"## {name}\n\n{cls.says[0].upper()}{cls.says[1:]}.\n\n{fields(cls)}")
        _collect(cls, used)
    lines.append("# Parts of payloads\n")
    lines += [f"## {name}\n\n{first_sentence(used[name])}\n\n{fields(used[name])}" for name in sorted(used)]
    return "\n".join(lines)


def _collect(cls: type[msgspec.Struct], used: dict[str, type[msgspec.Struct]]) -> None:
    def visit(node: Any) -> None:
        info = msgspec.inspect
        if isinstance(node, info.StructType):
            if node.cls.__name__ not in used:
                used[node.cls.__name__] = node.cls
                _collect(node.cls, used)
        elif isinstance(node, info.UnionType):
            for item in node.types:
                visit(item)
        elif isinstance(node, (info.ListType, info.VarTupleType)):
            visit(node.item_type)
        elif isinstance(node, info.DictType):
            visit(node.value_type)

    for item in msgspec.structs.fields(cls):
        visit(msgspec.inspect.type_info(item.type))


def render_reasons() -> str:
    lines = [
        NOTE,
        "# Reasons\n",
        "Why a decision was no hit: a closed set, one cause each. The detail beside it names fields, rules, tiers or numbers.\n",
    ]
    lines.append(table(("reason", "means that"), ((f"`{reason}`", text) for reason, text in vocabulary.REASON_TEXT.items())))
    lines.append("# The other closed sets\n")
    sets: list[type[Enum]] = [
        vocabulary.Tier, vocabulary.Outcome, vocabulary.Mode, vocabulary.Kind, vocabulary.Proof,
        ResidencyState, AttachState, vocabulary.TrustScope, vocabulary.OptIn,
    ]  # fmt: skip
    rows = ((cls.__name__, " ".join(f"`{member.value}`" for member in cls)) for cls in sets)
    lines.append(table(("set", "members"), rows))
    return "\n".join(lines)


def render_transitions() -> str:
    """The residency's and the grant's tables as they stand in the code; the attach's by asking the machine, which is not a table."""
    lines = [NOTE, "# State machines\n"]
    lines.append("What a table does not list is illegal for an authority event, and late (no change) for an observation.\n")
    lines.append("## Residency\n")
    lines.append(
        table(("from", "event", "to"), ((f"`{state}`", f"`{event}`", f"`{to}`") for (state, event), to in machines.RESIDENCY_TABLE.items()))
    )
    lines.append("## Attach\n")
    lines.append(
        "`outcome` is that of the decision that counts. `arrived` says that the weights were mapped or copied once, after\n"
        "which nothing is decided again. A verification changes what is known of the hit and never the state: `refuted` stands for\n"
        "ever, and a proof is not undone by files that went away.\n"
    )
    lines.append(table(("from", "event", "to"), _attach_rows()))
    lines.append("## Grant\n")
    lines.append(
        table(("from", "event", "to"), ((f"`{state}`", f"`{event}`", f"`{to}`") for (state, event), to in machines.GRANT_TABLE.items()))
    )
    return "\n".join(lines)


def _samples() -> list[tuple[str, events.Event]]:
    """One event of each kind that an attach's machine can tell apart. Only the fields that the machine looks at are real."""

    def make(cls: type[events.Event], **values: object) -> events.Event:
        blank = {"str": "", "int": 0, "float": 0.0}
        body = {name: values.get(name, blank.get(str(kind))) for name, kind in cls.__annotations__.items() if "ClassVar" not in str(kind)}
        return cls(**body)

    fell = (Outcome.STRICT_MISS, Outcome.FALLBACK)
    plain = (events.MapPaused, events.MapResumed, events.MapFailed, events.LeaseEnded, events.FallbackCompleted, events.FallbackFailed)
    return [
        *((f"`attach.decided` ({outcome})", make(events.AttachDecided, outcome=outcome)) for outcome in Outcome),
        *((f"`attach.redecided` ({outcome})", make(events.AttachRedecided, outcome=outcome)) for outcome in fell),
        ("`lease.granted`", make(events.LeaseGranted)),
        *((f"`map.completed` ({mode})", make(events.MapCompleted, mode=mode)) for mode in vocabulary.Mode),
        *((f"`{cls.type}`", make(cls)) for cls in plain),
    ]


def _attach_rows() -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = []
    seen = {machines.AttachView()}
    todo = [machines.AttachView()]
    while todo:
        view = todo.pop(0)
        for label, event in _samples():
            after = machines.evolve_attach(view, event)
            if after == view:
                continue
            rows.append((_view(view), label, _view(after)))
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return rows


def _view(view: machines.AttachView) -> str:
    extra = [str(view.outcome)] if view.outcome and view.state not in (AttachState.ASKED, AttachState.MISSED, AttachState.FELL_BACK) else []
    extra += ["arrived"] if view.arrived and view.state not in (AttachState.MAPPED, AttachState.COPIED) else []
    extra += [str(view.proof)] if view.proof not in (None, Proof.UNPROVEN) else []
    return f"`{view.state}`" + (f" ({', '.join(extra)})" if extra else "")


def _error_types() -> list[type[errors.WcacheError]]:
    """The tree of the errors module alone: which other modules happen to be imported must not change the page."""
    return [cls for cls in errors.error_types() if cls.__module__ == errors.__name__]


def render_errors() -> str:
    lines = [NOTE, "# Errors\n"]
    lines.append(
        "Only these leave public functions. `code` is stable; `detail` is a finer stable word (a rule, a reason, a field).\n"
        "[What the exit codes mean to a caller](cli.md#exit-codes).\n"
    )
    rows = ((f"`{cls.__name__}`", f"`{cls.code}`", cls.exit_code, first_sentence(cls)) for cls in _error_types())
    lines.append(table(("error", "code", "exit code", "means"), rows))
    return "\n".join(lines)


def render_cli() -> str:
    from wcache.cli.docs import render_cli_reference

    return NOTE + "\n" + str(render_cli_reference()).rstrip() + "\n"


def render_views() -> str:
    from wcache.ledger.views import VIEWS

    lines = [NOTE, "# Views of a ledger\n"]
    lines.append(
        "A ledger is a SQLite file; any program that reads one can ask it: [how](../audit.md#with-other-programs). A view\n"
        "without columns below has those of `attaches` or `launches`.\n"
    )
    first: dict[int, str] = {}
    for name, (_, columns) in VIEWS.items():
        first.setdefault(id(columns), name)
    own = set(first.values())
    lines.append(table(("view", "lists"), ((f"[{name}](#{name})" if name in own else name, says) for name, (says, _) in VIEWS.items())))
    for name in first.values():
        columns = VIEWS[name][1]
        lines.append(f"## {name}\n\n" + table(("column", "says"), ((f"`{column}`", text) for column, text in columns.items())))
    return "\n".join(lines)


def render_report() -> str:
    from wcache.ledger.report.catalogue import COLUMNS, LISTINGS

    lines = [NOTE, "# Lists of a report\n"]
    lines.append(
        "`wcache report --format jsonl` writes one object a line. Its `kind` is one of the lists below, with the columns that are named\n"
        "there and perhaps more, or `report` (ledger, period, verification, totals; the first line), `answer`, `decisions` (counts of a\n"
        "span of time), `not_shown`, `end` (the last line: how many came before). `--format csv` writes one file a list, with just these\n"
        "columns. Times are RFC 3339 in UTC, sizes bytes, digests lower-case hex; what is not known is null, or an empty cell.\n"
    )
    for name, about in LISTINGS.items():
        rows = ((f"`{column}`", COLUMNS[column].says) for column in about.columns)
        lines.append(f"## {name}\n\n{about.title}. {about.says}\n\n{table(('column', 'says'), rows)}")
    return "\n".join(lines)


def render_metrics() -> str:
    from wcache.daemon.metrics import METRICS

    lines = [NOTE, "# Metrics\n"]
    lines.append(
        "`wcache daemon start --health-port PORT` serves them on `http://127.0.0.1:PORT/metrics`. Counters come from the ledger: they\n"
        "agree with `wcache audit summary` and go on where they were after a restart, but for those that say otherwise. Every value of a\n"
        "closed label is there from the start, at 0. [What to alert on](../operations.md#alerts).\n"
    )
    rows = ((f"`{name}`", about.kind, " ".join(f"`{label}`" for label in about.labels), about.says) for name, about in METRICS.items())
    lines.append(table(("metric", "kind", "labels", "says"), rows))
    return "\n".join(lines)


def render_verify() -> str:
    from wcache.ledger.problem import CLASSES

    lines = [NOTE, "# What `wcache ledger verify` finds\n"]
    lines.append(
        "Everything is rebuilt from the rows, and every problem is told, by seq (where it has one) and class; `--json` has them in\n"
        "`problems`, as `seq`, `cls`, `text`. Nothing is repaired: [a backup is restored](../retention.md#backup-and-restore), and the\n"
        "damaged file is kept.\n"
    )
    lines.append(table(("class", "means"), ((f"`{name}`", text) for name, text in CLASSES.items())))
    lines.append("## Exit codes\n")
    codes = (
        (errors.EXIT_OK, "no problems; `notes` say what is odd and what cannot be shown"),
        (errors.EXIT_FINDING, "problems"),
        (errors.EXIT_USAGE, "a bad command line"),
        (errors.EXIT_NOT_FOUND, "there is no ledger, or it is empty"),
        (errors.EXIT_LEDGER, "it may not be read"),
    )
    lines.append(table(("exit code", "means"), codes))
    return "\n".join(lines)


PAGES = {
    "events.md": render_events,
    "reasons.md": render_reasons,
    "transitions.md": render_transitions,
    "errors.md": render_errors,
    "verify.md": render_verify,
    "metrics.md": render_metrics,
    "views.md": render_views,
    "report.md": render_report,
    "cli.md": render_cli,
}


def stale(reference: Path = REFERENCE) -> list[str]:
    """A unified diff for each page that is not what the code says."""
    found = []
    for name, render in PAGES.items():
        path = reference / name
        have = path.read_text(encoding="utf-8") if path.exists() else ""
        want = render()
        if have != want:
            found.append("\n".join(difflib.unified_diff(have.splitlines(), want.splitlines(), name, "the code", lineterm="", n=1)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    if parser.parse_args().check:
        differences = stale()
        for text in differences:
            sys.stderr.write(text + "\n")
        sys.stderr.write("docs/reference is stale: run `make docs`\n" if differences else "")
        return 1 if differences else 0
    REFERENCE.mkdir(exist_ok=True)
    for name, render in PAGES.items():
        (REFERENCE / name).write_text(render(), encoding="utf-8")
        sys.stdout.write(f"docs/reference/{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
