"""`wcache fingerprint` and `wcache check`: evidence about a checkpoint, and what an attach would make of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click
import msgspec

from wcache.cli import table
from wcache.cli.command import WcacheCommand, current_app, example
from wcache.cli.output import print_document
from wcache.cli.progress import progress
from wcache.cli.text import duration, size
from wcache.core.model.errors import EXIT_FINDING, EXIT_MISS, EXIT_OK, UsageError
from wcache.core.model.evidence import Signed
from wcache.core.model.vocabulary import SCALE, Outcome, Tier

if TYPE_CHECKING:
    from wcache.core.model.evidence import Fingerprint
    from wcache.core.wire.messages import Progress

FINGERPRINT_HELP = """Take evidence about a checkpoint's content.

Tiers, weakest first: header, sampled, pinned, content. Beside them: attested (a name that a hub vouches for) and trusted (an operator
said so). pinned and trusted rest on what the ledger knows. What was taken is an event of the ledger, stored once.

With --signature and --key the files must be those that somebody signed (OpenSSF Model Signing); later pinned hits then rest on that.

"""


@click.command(
    "fingerprint",
    cls=WcacheCommand,
    help=FINGERPRINT_HELP
    + example("wcache fingerprint ./my-model --tier content", "wcache fingerprint ./my-model --signature model.sig --key signer.pub"),
)
@click.argument("checkpoint")
@click.option("--tier", type=click.Choice([tier.value for tier in Tier]), default="content", show_default=True, help="Which evidence.")
@click.option("--revision", help="Revision of a Hugging Face id.")
@click.option("--signature", metavar="FILE", help="With --tier content: the OMS signature (model.sig) that its files must bear.")
@click.option("--key", metavar="FILE", help="The signer's public key or certificate, PEM.")
@click.option("--record/--no-record", default=True, help="Write it to the ledger, so that later attaches may rest on it (the default).")
def fingerprint(checkpoint: str, tier: str, revision: str | None, signature: str | None, key: str | None, record: bool) -> None:
    from wcache.ledger.evidence import record_fingerprint, take_fingerprint
    from wcache.ledger.model_signature import hash_signed
    from wcache.ledger.store import Ledger

    if (signature is None) != (key is None) or (signature is not None and tier != Tier.CONTENT):
        raise UsageError("--signature and --key go together, and with --tier content", where="wcache fingerprint")

    settings = current_app().keeper_settings() if record else current_app().settings()
    with progress(f"{tier} {checkpoint}") as update:
        if signature is not None and key is not None:
            taken = hash_signed(checkpoint, signature, key, settings.policy, revision=revision, progress=update)
        else:
            taken = take_fingerprint(settings, checkpoint, Tier(tier), revision=revision, progress=update)
    seq = None
    if record:
        with Ledger.open(settings.ledger) as ledger:
            seq = record_fingerprint(ledger, taken, checkpoint, by="wcache fingerprint")
    document = {"fingerprint": taken.id(), "seq": seq, **msgspec.to_builtins(taken)}
    print_document(document, _fingerprint_text(taken, seq))


def _fingerprint_text(taken: Fingerprint, seq: int | None) -> str:
    cover = taken.coverage
    part = f" ({100 * cover.covered_bytes / cover.total_bytes:.1f} %)" if cover.total_bytes else ""
    return table.fields(
        {
            "fingerprint": taken.id(),
            "tier": taken.tier,
            "digest": taken.digest,
            "weights digest": taken.weights_digest,
            "table digest": taken.table_digest,
            "algorithm": taken.algorithm,
            "root": taken.location.root if taken.location else None,
            "commit": taken.location.commit if taken.location else None,
            "file system": taken.location.fs_kind if taken.location else None,
            "covers": f"{size(cover.covered_bytes)} of {size(cover.total_bytes)}{part}",
            "cost": f"{cover.stats} stats, {cover.files_opened} opens, {size(cover.read_bytes)} read, {duration(cover.seconds)}",
            "sees a changed 4 KiB page": f"{100 * cover.chance_4k:.3g} % of the time" if taken.tier is Tier.SAMPLED else None,
            "not pinnable": taken.not_pinnable,
            "reuses": taken.reuses,
            "grant": taken.grant,
            "signed by": f"key {taken.signed.key[:16]}, as {taken.signed.name!r}" if isinstance(taken.signed, Signed) else None,
            "age": duration(taken.age_s) if taken.age_s is not None else None,
            "recorded": f"seq {seq}" if seq is not None else None,
        }
    )


def _known_dtype(dtype: str) -> str:
    from wcache.core.checkpoint.header import DTYPE_BITS

    if dtype.upper() not in DTYPE_BITS:
        raise UsageError(f"safetensors has no dtype {dtype}", where="--dtype", remedy=f"use one of {', '.join(DTYPE_BITS)}")
    return dtype.upper()


CHECK_HELP = """Say how an attach would be decided, without attaching.

Nothing is mapped and nothing is recorded. Where only a full hash would help, its price is shown; --read pays it.

Exits with 0 for a hit, 1 for a fallback, 10 for a strict miss.

"""


@click.command("check", cls=WcacheCommand, help=CHECK_HELP + example("wcache check ./my-model --strict --json"))
@click.argument("checkpoint")
@click.option("--accept", type=click.Choice([tier.value for tier in SCALE]), help="The weakest evidence that is enough.")
@click.option("--attested", is_flag=True, help="Let a hub's names count.")
@click.option("--trusted", is_flag=True, help="Let an operator's grants count.")
@click.option("--strict", is_flag=True, help="A miss is an error instead of a load from disk.")
@click.option("--read", "read", is_flag=True, help="Read and hash the whole checkpoint if nothing cheaper decides.")
@click.option("--revision", help="Revision of a Hugging Face id.")
@click.option("--device", default="cpu", show_default=True, help="Where the weights are wanted.")
@click.option("--dtype", help="The dtype wanted, as safetensors names it (BF16, F32, ...).")
def check(
    checkpoint: str,
    accept: str | None,
    attested: bool,
    trusted: bool,
    strict: bool,
    read: bool,
    revision: str | None,
    device: str,
    dtype: str | None,
) -> int:
    from wcache.loader.check import check as dry_run

    policy: dict[str, Any] = {"accept": accept}
    policy |= {name: "honour" for name, on in (("attested", attested), ("trusted", trusted)) if on}
    if strict:
        policy["on_miss"] = "strict"
    settings = current_app().settings(**policy)
    if dtype is not None:
        dtype = _known_dtype(dtype)
    began_s = time.monotonic()
    with progress(f"hash {checkpoint}") as update:

        def show(message: Progress) -> None:
            update(message.done_bytes, message.total_bytes, message.phase)

        result = dry_run(checkpoint, settings=settings, revision=revision, device=device, dtype=dtype, read=read, on_progress=show)
    document: dict[str, Any] = msgspec.to_builtins(result)
    cost: dict[str, Any] = document.get("cost") or {}
    text = table.fields(
        {
            "decision": document["decision"],
            "reason": document.get("reason"),
            "detail": document.get("detail"),
            "tier": document.get("tier"),
            "residency": document.get("residency"),
            "asked digest": document.get("asked_digest"),
            "served digest": document.get("served_digest"),
            "cost": f"{cost.get('operations', 0)} operations, {size(cost.get('read_bytes', 0))}, {duration(time.monotonic() - began_s)}",
            "a full hash would read": size(cost["would_read_bytes"]) if cost.get("would_read_bytes") else None,
        }
    )
    print_document(document, text)
    return {Outcome.HIT: EXIT_OK, Outcome.STRICT_MISS: EXIT_MISS}.get(Outcome(document["decision"]), EXIT_FINDING)
