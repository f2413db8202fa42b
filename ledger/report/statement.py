"""The report as an in-toto Statement (v1) in a signed DSSE envelope (https://github.com/secure-systems-lab/dsse)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from wcache.core.model.errors import NotFound
from wcache.ledger.report.answers import answers, not_shown
from wcache.ledger.report.lines import about
from wcache.ledger.report.model import Report

if TYPE_CHECKING:
    from wcache.ledger.signing import SigningKey

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:wcache:report:v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
WEIGHTS_DIGEST = "wcache-weights-1"
"""Name of the weights digest in a DigestSet: it is BLAKE3 over tensors and not over a file, so it must not be called `blake3`."""
_KEPT = ("wrong_hit", "not_mapped", "trusted", "unproven", "unprovable", "incomplete_launch", "leased_release", "gap", "clock", "redaction")
_READ_BYTES = 1 << 20


def pre_authentication(payload: bytes) -> bytes:
    """What is signed: DSSE's PAE over type and payload."""
    kind = PAYLOAD_TYPE.encode()
    return b" ".join((b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload))


def statement(report: Report, files: Sequence[Path] = ()) -> dict[str, Any]:
    """Subjects: the ledger at this size, every weights digest that was resident, and `files`, such as the report in another format."""
    head = report.head
    subjects: list[dict[str, Any]] = (
        [{"name": f"wcache-ledger/{head.origin}@{head.size}", "digest": {"sha256": head.root}}] if head.root else []
    )
    for row in report.listing("weights").rows:
        names = row["checkpoints"] or [row["weights_digest"]]
        subjects.append({"name": names[0], "digest": {WEIGHTS_DIGEST: row["weights_digest"]}})
    subjects += [{"name": path.name, "digest": {"sha256": _sha256(path)}} for path in files]
    predicate = {
        **about(report),
        "answers": [msgspec.to_builtins(answer) for answer in answers(report)],
        "lists": {name: {"total": report.listing(name).total, "rows": report.listing(name).rows} for name in _KEPT},
        "not_shown": list(not_shown(report)),
    }
    return {"_type": STATEMENT_TYPE, "subject": subjects, "predicateType": PREDICATE_TYPE, "predicate": predicate}


def render_statement(report: Report, key: SigningKey, files: Sequence[Path] = ()) -> bytes:
    """One DSSE envelope as JSON, signed by the key. Raises NotFound for a file that cannot be read."""
    payload = msgspec.json.encode(statement(report, files))
    signature = key.sign(pre_authentication(payload))
    signed = {"keyid": f"{key.name}+{key.public.id.hex()}", "sig": base64.b64encode(signature).decode()}
    return msgspec.json.encode({"payload": base64.b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE, "signatures": [signed]}) + b"\n"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_READ_BYTES):
                digest.update(block)
    except OSError as error:
        raise NotFound(f"cannot be read: {error.strerror}", where=str(path), remedy="name files that are there") from error
    return digest.hexdigest()
