"""What the projected rows say after given events."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec
import pytest
from support import history

from wcache.core.model import events as ev
from wcache.core.model.vocabulary import Mode, Outcome, ResidencyState, Tier
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.replay import replay
from wcache.ledger.store import Ledger, NewEvent


def append(ledger: Ledger, *events: ev.Event) -> list[int]:
    results = ledger.append_batch([(NewEvent(event=event, occurred_ns=1000 + index),) for index, event in enumerate(events)])
    assert all(isinstance(result, list) for result in results), results
    return [result[0] for result in results if isinstance(result, list)]


def attach(ledger: Ledger, name: str = "a-1") -> dict[str, Any]:
    row = Knowledge(ledger).attach(name)
    assert row is not None
    return row


@pytest.fixture
def resident(ledger: Ledger) -> Ledger:
    append(ledger, history.load_started(), history.load_completed())
    return ledger


def test_a_hit_from_decision_to_end(resident: Ledger) -> None:
    append(resident, history.decided(), history.granted(), history.mapped(mode=Mode.COPY), history.lease_ended())
    row = attach(resident)
    expected = {
        "seq": 3, "first_seq": 3, "launch": "l-1", "rank": 0, "world": 2, "host": "node", "engine": "test", "engine_version": "1", "uid": 0,
        "checkpoint": history.ROOT, "residency": "r-1", "decision": "hit", "reason": None, "tier": "pinned",
        "asked_digest": history.WEIGHTS,
        "asked_key": history.location().key(), "asked_commit": "c0ffee", "served_digest": history.WEIGHTS, "served_commit": "c0ffee",
        "mode": "copy", "state": "ended", "proof": "unproven", "proof_seq": None, "mapped_bytes": 1000, "copied_bytes": 0, "map_ms": 0.5,
        "decided_ns": 1000, "ended_ns": 1003, "decided_by": "server", "kind": "raw", "device": "cpu",
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert msgspec.json.decode(row["evidence"], type=list[ev.EvidenceRef]) == list(history.decided().evidence)


def test_a_hit_without_known_content_has_no_asked_digest(resident: Ledger) -> None:
    append(resident, history.decided(evidence=(ev.EvidenceRef(Tier.HEADER, "f" * 32, "1" * 64, True),), tier=Tier.HEADER))
    assert attach(resident)["asked_digest"] is None
    assert attach(resident)["served_digest"] == history.WEIGHTS


def test_a_redecision_counts_and_the_first_decision_is_kept(resident: Ledger) -> None:
    append(resident, history.decided(), history.granted(), history.map_failed(), history.redecided(), history.fell_back())
    row = attach(resident)
    expected = {
        "seq": 6,
        "first_seq": 3,
        "decision": "fallback",
        "reason": "mapping_failed",
        "state": "fell_back",
        "mode": None,
        "proof": None,
    }
    assert {name: row[name] for name in expected} == expected
    assert (row["mode"], row["proof"]) == (None, None)
    assert (row["fallback_bytes"], row["fallback_s"], row["idle_bytes"]) == (1000, 2.0, 500)


def test_a_refuted_hit_records_what_was_asked_and_a_contradiction_and_stays_refuted(resident: Ledger) -> None:
    """I16: the residency stays good."""
    append(resident, history.decided(), history.granted(), history.mapped(), history.verify_failed(), history.verify_passed())
    row = attach(resident)
    assert (row["proof"], row["proof_seq"], row["asked_digest"], row["served_digest"]) == ("refuted", 6, history.OTHER, history.WEIGHTS)
    knowledge = Knowledge(resident)
    (contradiction,) = knowledge.contradictions()
    assert (contradiction.asked_key, contradiction.weights_digest) == (history.location().key(), history.WEIGHTS)
    assert (contradiction.spellings, contradiction.seq) == ((history.ROOT,), 6)
    assert [item.view.state for item in knowledge.residencies()] == [ResidencyState.RESIDENT]


def test_an_inconclusive_proof_gives_way_to_a_later_one(resident: Ledger) -> None:
    append(resident, history.decided(), history.granted(), history.mapped(), history.inconclusive())
    assert attach(resident)["proof"] == "unprovable"
    append(resident, history.verify_passed())
    assert (attach(resident)["proof"], attach(resident)["proof_seq"]) == ("proved", 7)


def test_a_residency_knows_its_own_evidence_and_the_names_it_was_asked_by(ledger: Ledger) -> None:
    header = history.fingerprint(Tier.HEADER, "1" * 64)
    sampled = history.fingerprint(Tier.SAMPLED, "2" * 64, seed_id="s1")
    content = history.fingerprint()
    started = msgspec.structs.replace(history.load_started(), asked=ev.Identity("org/base"))
    names = (header.id(), sampled.id(), content.id())
    append(ledger, started, *map(history.recorded, (header, sampled, content)), history.load_completed("r-1", names))
    (known,) = Knowledge(ledger).residencies()
    assert known.view.known == {"header": "1" * 64, "sampled:s1": "2" * 64}
    assert known.view.spellings == ("org/base", history.ROOT)
    assert known.view.served == history.identity()
    assert (known.view.weights_digest, known.view.table_digest, known.view.dtypes) == (history.WEIGHTS, history.TABLE, ("BF16",))
    assert (known.view.bytes, known.view.tensors, known.seq, known.instance, known.loaded_ns) == (1000, 3, 5, "d-1", 1004)


def test_a_failed_load_leaves_a_row_that_says_so(ledger: Ledger) -> None:
    append(ledger, history.load_failed("r-1"), history.load_started("r-2"), history.load_failed("r-2"))
    rows = Knowledge(ledger).residencies([ResidencyState.FAILED])
    assert [(row.view.residency, row.instance) for row in rows] == [("r-1", None), ("r-2", "d-1")]
    assert Knowledge(ledger).residencies() == ()


def test_fingerprints_are_found_by_root_key_and_spelling_newest_first(ledger: Ledger) -> None:
    old, new = history.fingerprint(ino=7), history.fingerprint(digest=history.OTHER, ino=8)
    elsewhere = history.fingerprint(root="/models/copy", ino=7)
    header = history.fingerprint(Tier.HEADER, "1" * 64)
    append(ledger, *(history.recorded(item, "org/base") for item in (old, new, header)), history.recorded(elsewhere, "/models/copy"))
    knowledge = Knowledge(ledger)
    assert knowledge.fingerprints_at(root=history.ROOT) == (new, old)
    assert old.location is not None
    assert knowledge.fingerprints_at(key=old.location.key()) == (elsewhere, old)
    assert knowledge.fingerprints_at(spelling="org/base") == (new, old)
    assert knowledge.fingerprints_at(root="/models/copy", spelling="org/base") == (elsewhere, new, old)
    assert knowledge.fingerprints_at(root="/nowhere") == knowledge.fingerprints_at() == ()
    assert knowledge.fingerprint(header.id()) == header
    assert knowledge.fingerprint("unknown") is None


def test_grants_are_those_that_were_not_revoked(ledger: Ledger) -> None:
    append(ledger, history.trust_granted("g-1"), history.trust_granted("g-2"), ev.TrustRevoked(grant="g-1", operator_uid=0))
    knowledge = Knowledge(ledger)
    assert [grant.grant for grant in knowledge.grants()] == ["g-2"]
    assert [grant.grant for grant in knowledge.grants(include_revoked=True)] == ["g-1", "g-2"]


def test_the_first_fingerprint_of_an_instance_stays_the_first(ledger: Ledger) -> None:
    first, second = history.fingerprint(ino=7), history.fingerprint(digest=history.OTHER, ino=8)
    append(ledger, history.recorded(first, "org/base"), history.recorded(second, "org/base"))
    knowledge = Knowledge(ledger)
    assert knowledge.first_of_instance("d-1", "org/base") == knowledge.first_of_instance("d-1", history.ROOT) == first
    assert knowledge.first_of_instance("d-2", "org/base") is None
    append(ledger, history.recorded(first, "org/base", "d-2"))  # known already, but new to this instance
    assert knowledge.first_of_instance("d-2", "org/base") == first


def test_instances_run_until_they_are_stopped_or_found_lost(ledger: Ledger) -> None:
    append(ledger, *(history.daemon_started(f"d-{number}") for number in range(3)))
    append(ledger, ev.DaemonStopped(instance="d-0", by="signal"), ev.DaemonLost(instance="d-1", noticed_by="d-2"))
    knowledge = Knowledge(ledger)
    assert [item.instance for item in knowledge.instances("/run/wcache")] == ["d-2"]
    assert knowledge.instances("/elsewhere") == ()
    assert [item.state for item in knowledge.instances(running=False)] == ["stopped", "lost", "running"]


def test_open_attaches_are_those_with_a_lease(resident: Ledger) -> None:
    append(resident, history.decided("a-1"), history.granted("a-1"), history.decided("a-2", Outcome.FALLBACK))
    assert Knowledge(resident).open_attaches() == ("a-1",)


def test_replay_finds_every_tampered_projection(resident: Ledger) -> None:
    append(resident, history.decided(), history.trust_granted(), history.recorded(history.fingerprint()))
    assert replay(resident) == []
    connection = sqlite3.connect(resident.path, isolation_level=None)
    connection.execute("UPDATE attach SET decision = 'fallback', tier = 'content'")
    connection.execute("DELETE FROM trust")
    connection.execute("INSERT INTO policy VALUES ('x', '{}')")
    connection.close()
    found = [(item.table, item.key, item.why) for item in replay(resident)]
    assert found == [("attach", "a-1", "differs in decision, tier"), ("trust", "g-1", "missing"), ("policy", "x", "extra")]


@pytest.mark.parametrize("column", ["root", "key", "spelling"])
def test_fingerprint_queries_use_an_index(ledger: Ledger, column: str) -> None:
    connection = sqlite3.connect(ledger.path)
    sql = f'EXPLAIN QUERY PLAN SELECT body FROM fingerprint WHERE "{column}" = ? AND tier = ? ORDER BY seq DESC LIMIT 64'
    (plan,) = connection.execute(sql, ("x", "content")).fetchall()
    connection.close()
    assert f"USING INDEX fingerprint_{column}" in plan[3]
