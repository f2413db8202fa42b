"""The end of a predecessor that could not say goodbye, put on record by whoever takes the lock after it."""

from __future__ import annotations

from pathlib import Path

from wcache.core.model.events import DaemonLost, LeaseEnded, ResidencyLost
from wcache.core.settings import Settings
from wcache.daemon.recorder import new_event
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.store import Ledger


def bury_predecessors(ledger: Ledger, knowledge: Knowledge, settings: Settings, instance: str) -> None:
    """Whoever takes the lock knows that earlier instances of this directory are gone, and what they held with them. One that stopped and
    left something with the service manager is gone when that did not come back: what came back would go by its name."""
    live = knowledge.residencies()
    for earlier in knowledge.instances(runtime_dir=str(settings.runtime_dir), running=False):
        if earlier.instance == instance:
            continue  # a server of this same instance: its vault lived on, or what it held came back
        lost = [one.view.residency for one in live if one.instance == earlier.instance]
        stopped = earlier.ended_ns is not None
        if stopped and not lost:
            continue
        leased = [row["attach"] for attach in knowledge.open_attaches() if (row := knowledge.attach(attach)) and row["residency"] in lost]
        how = "daemon stopped" if stopped else "daemon lost"
        why = "left it with the service manager and was not started again" if stopped else "ended without a word"
        unit = [
            *([] if stopped else [new_event(DaemonLost(instance=earlier.instance, noticed_by=instance))]),
            *(new_event(LeaseEnded(attach=attach, how=how)) for attach in leased),
            *(new_event(ResidencyLost(residency=one, why=f"daemon {earlier.instance} {why}")) for one in lost),
        ]
        (result,) = ledger.append_batch([tuple(unit)])
        if isinstance(result, Exception):
            raise result


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
