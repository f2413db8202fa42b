"""The report as a CycloneDX 1.7 bill of materials: what was resident, as machine-learning models with their digests."""

from __future__ import annotations

import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from wcache.core.model.errors import Unsupported
from wcache.ledger.report.answers import answers
from wcache.ledger.report.model import Report, Row

if TYPE_CHECKING:
    from cyclonedx.model.bom import Bom

_NAMESPACE = uuid.UUID("6f1c29f2-3f0e-5a6e-9d9a-2f7a53c0b6b1")
"""Of serial numbers (RFC 9562, version 5): the same ledger, root and period give the same one."""
WEIGHTS_ALGORITHM = "wcache-weights-1/blake3"


def render_bom(report: Report) -> str:
    """JSON. Raises Unsupported where cyclonedx-python-lib is not installed."""
    try:
        from cyclonedx.output.json import JsonV1Dot7
    except ImportError:
        raise Unsupported("CycloneDX needs the package cyclonedx-python-lib", remedy="pip install 'wcache-ledger[report]'") from None
    text: str = JsonV1Dot7(_bom(report)).output_as_string(indent=2)
    return text + "\n"


def _bom(report: Report) -> Bom:
    from cyclonedx.model import Property
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.dependency import Dependency
    from cyclonedx.model.service import Service
    from cyclonedx.model.tool import ToolRepository

    head, period, verification = report.head, report.period, report.verification
    components = [_component(row) for row in report.listing("weights").rows]
    tool = Component(name="wcache", version=report.version, type=ComponentType.APPLICATION, bom_ref="wcache")
    cache = Component(
        name=f"wcache ledger {head.origin}",
        type=ComponentType.PLATFORM,
        bom_ref=f"ledger:{head.origin}",
        description="A weight cache and the record of what it served.",
        properties=[
            Property(name=f"wcache:ledger:{name}", value=value)
            for name, value in {
                "origin": head.origin, "size": str(head.size), "root": head.root, "chain": head.chain,
                "verified": "no" if not verification.done else "ok" if verification.ok else f"{len(verification.problems)} problems",
                "since": _moment(period.since_ns or head.first_ns), "until": _moment(period.until_ns),
            }.items()
        ]
        + [Property(name=f"wcache:answer:{nth}", value=f"{each.question} {each.text}") for nth, each in enumerate(answers(report), 1)],
    )  # fmt: skip
    engines = [
        Service(
            name=row["engine"],
            version=row["engine_version"] or None,
            bom_ref=f"engine:{row['engine']}:{row['engine_version']}",
            properties=[Property(name=f"wcache:{name}", value=str(row[name])) for name in ("attaches", "hits", "fallbacks", "missed")],
        )
        for row in report.listing("engine").rows
    ]
    return Bom(
        components=components,
        services=engines,
        serial_number=uuid.uuid5(_NAMESPACE, f"{head.origin}/{head.size}/{head.root}/{period.since_ns}/{period.until_ns}"),
        metadata=BomMetaData(
            component=cache,
            tools=ToolRepository(components=[tool]),
            timestamp=datetime.fromtimestamp(report.made_ns // 1_000_000_000, timezone.utc),
        ),
        dependencies=[Dependency(cache.bom_ref, dependencies=[Dependency(component.bom_ref) for component in components])],
    )


def _component(row: Row) -> Any:
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.component import Component, ComponentType

    digest, names = row["weights_digest"], row["checkpoints"]
    facts = {
        "weights-digest": digest, "weights-digest:algorithm": WEIGHTS_ALGORITHM, "bytes": row["bytes"], "tensors": row["tensors"],
        "residencies": row["residencies"], "hits": row["hits"], "first-loaded": row["first_loaded"],
    }  # fmt: skip
    more = {"holds": row["holds"], "device": row["devices"], "checkpoint": names}
    properties = [Property(name=f"wcache:{name}", value=str(value)) for name, value in facts.items()]
    properties += [Property(name=f"wcache:{name}", value=value) for name, values in more.items() for value in values]
    # The digest is a BLAKE3, but over names, dtypes, shapes and bytes of the tensors, not over one file: `algorithm` says so.
    return Component(
        name=names[0] if names else digest,
        version=digest[:12],
        type=ComponentType.MACHINE_LEARNING_MODEL,
        bom_ref=f"weights:{digest}",
        hashes=[HashType(alg=HashAlgorithm.BLAKE3, content=digest)],
        properties=properties,
    )


def _moment(moment_ns: int | None) -> str:
    from wcache.ledger.moment import utc

    return utc(moment_ns) or ""
