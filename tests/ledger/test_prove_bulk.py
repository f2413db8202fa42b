"""Many hits at once: each content is read once, by any run, and what was found is never lost; and who had the weights of a wrong one."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.commands import clean_environ, in_process, ok
from support.corpus import make_checkpoint
from support.past import Past

from wcache.core.model import events as ev
from wcache.core.model.errors import EXIT_UNPROVABLE
from wcache.core.model.vocabulary import Mode, Proof
from wcache.ledger.audit import Audit
from wcache.ledger.exposure import LINES_MAX, Exposure, exposure_line, exposure_lines, exposures
from wcache.ledger.knowledge import Knowledge
from wcache.ledger.prove import prove

HITS = 1000


@pytest.fixture
def past(disk_path: Path) -> Iterator[Past]:
    past = Past(disk_path / "ledger.sqlite")
    yield past
    past.ledger.close()


def checkpoint(folder: Path, value: float) -> Path:
    """Every `value` gives the same headers."""
    return make_checkpoint(folder, {"a": np.full((256, 256), value, np.float32)}, shards=1)


def size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def test_a_thousand_hits_on_three_checkpoints_read_three_contents(past: Past, disk_path: Path) -> None:
    served = past.resident(checkpoint(disk_path / "base", 0.0))
    folders = [checkpoint(disk_path / f"copy{value}", float(value)) for value in range(3)]
    for number in range(HITS):
        past.weak_hit(folders[number % 3], served)
    read: list[tuple[int, int]] = []
    results = list(prove(past.ledger, progress=lambda done, total: read.append((done, total))))
    total = sum(map(size_bytes, folders))
    assert read[-1] == (total, total)
    assert total <= sum(result.read_bytes for result in results) <= total + 3 * (64 << 10), "opening each looks at its header first"
    assert len(results) == HITS and len({result.proof_seq for result in results}) == HITS
    assert {result.proof for result in results} == {Proof.PROVED, Proof.REFUTED}
    with Audit(past.ledger.path) as audit:
        assert len(audit.wrong_hits()) == len(exposures(audit)) == HITS // 3 * 2
    knowledge = Knowledge(past.ledger)
    assert len(knowledge.contradictions()) == 2, "each is offered to every attach, so it counts once"
    knowledge.close()


def test_content_that_was_hashed_under_the_same_identity_decides_although_the_files_are_gone(past: Past, disk_path: Path) -> None:
    """I15 from the other side: a look that came in time counts for every hit on those files."""
    served = past.resident(checkpoint(disk_path / "base", 0.0))
    twin = checkpoint(disk_path / "twin", 1.0)
    first, second = past.weak_hit(twin, served), past.weak_hit(twin, served)
    both = list(prove(past.ledger, [first]))
    assert [(result.seq, result.proof) for result in both] == [(first, Proof.REFUTED), (second, Proof.REFUTED)]
    assert "same files" in both[1].why
    third = past.weak_hit(twin, served)
    shutil.rmtree(twin)
    (late,) = prove(past.ledger)
    assert (late.seq, late.proof, late.read_bytes) == (third, Proof.REFUTED, 0)


_DIE = """
import os, signal, sys

if "wcache.cli" in " ".join(sys.orig_argv):
    import wcache.ledger.prove as module

    reading = module._Prover._read
    contents = []

    def read(self, then):
        contents.append(then)
        if len(contents) == 2:
            os.kill(os.getpid(), signal.{signal})
        return reading(self, then)

    module._Prover._read = read
"""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_a_run_that_was_broken_off_goes_on_where_it_stopped(past: Past, disk_path: Path, name: str) -> None:
    served = past.resident(checkpoint(disk_path / "base", 0.0))
    folders = [checkpoint(disk_path / f"copy{value}", 0.0) for value in range(3)]
    for folder in folders:
        for _ in range(2):
            past.weak_hit(folder, served)
    (disk_path / "site").mkdir()
    (disk_path / "site" / "sitecustomize.py").write_text(_DIE.format(signal=name))
    environ = {"WCACHE_LEDGER": str(past.ledger.path), "WCACHE_STATE_DIR": str(disk_path / "state")}
    command = [sys.executable, "-m", "wcache.cli", "audit", "prove"]
    died = subprocess.run(
        command, env={**clean_environ(), **environ, "PYTHONPATH": str(disk_path / "site")}, capture_output=True, text=True, check=False
    )
    assert died.returncode == (-signal.SIGKILL if name == "SIGKILL" else 130), died.stderr
    assert (name == "SIGKILL") or "on record" in died.stderr
    with Audit(past.ledger.path) as audit:
        assert [row["proof"] for row in audit.hits()].count("proved") == 2
    rest = list(prove(past.ledger))
    assert len(rest) == 4 and {result.proof for result in rest} == {Proof.PROVED}
    with Audit(past.ledger.path) as audit:
        contents = [
            event.event for event in audit.events(types=("fingerprint.recorded",)) if isinstance(event.event, ev.FingerprintRecorded)
        ]
    taken = [event.evidence.location.root for event in contents if event.by == "wcache audit prove" and event.evidence.location]
    assert sorted(taken) == sorted(map(str, folders)), "each content once, over both runs"


def test_the_exit_code_says_whether_anything_is_wrong_or_lost(past: Past, disk_path: Path) -> None:
    served = past.resident(checkpoint(disk_path / "base", 0.0))
    wcache = in_process({"WCACHE_LEDGER": str(past.ledger.path), "WCACHE_STATE_DIR": str(disk_path / "state")})
    past.weak_hit(disk_path / "base", served)
    ok(wcache("audit", "prove", "--json"), 0)
    ok(wcache("audit", "prove", "--json"), 0)  # nothing is left
    gone = checkpoint(disk_path / "gone", 0.0)
    past.weak_hit(gone, served)
    shutil.rmtree(gone)
    assert [row["proof"] for row in ok(wcache("audit", "prove", "--json"), EXIT_UNPROVABLE)] == ["unprovable"]
    past.weak_hit(checkpoint(disk_path / "twin", 1.0), served)
    (row,) = ok(wcache("audit", "prove", "--json"), 1)
    assert (row["proof"], row["host"], row["had"]) == ("refuted", "node", "still")


def test_a_wrong_hit_names_every_process_that_had_the_weights_and_how_long(past: Past, disk_path: Path) -> None:
    """Mapped until the lease ended; still mapped; a copy and memory that outlived its daemon, of which no lease tells."""
    served = past.resident(checkpoint(disk_path / "base", 0.0))
    twin = checkpoint(disk_path / "twin", 1.0)
    seqs = [past.weak_hit(twin, served) for _ in range(4)]
    with Audit(past.ledger.path) as audit:
        attaches = [audit.attach_at(seq)["attach"] for seq in seqs]
    past.append(ev.LeaseEnded(attach=attaches[0], how="closed"), occurred_ns=2_000_000_000_000_000_000)
    past.append(ev.LeaseEnded(attach=attaches[2], how="daemon stopped"))
    evidence = past.evidence(twin)
    assert evidence.location is not None
    asked = ev.Identity(str(twin), evidence.location.root, key=evidence.location.key(), table_digest=evidence.table_digest)
    copied = past.decided(asked, served, (evidence,), mapped=False)
    with Audit(past.ledger.path) as audit:
        copy = audit.attach_at(copied)["attach"]
    past.append(ev.MapCompleted(attach=copy, mode=Mode.COPY, tensors=1, bytes=1, copied_tensors=1, copied_bytes=1, ms=1.0))
    past.append(ev.LeaseEnded(attach=copy, how="closed"))
    unknown = past.decided(ev.Identity(str(twin)), served, (past.trusted("g", served.fingerprints[0], served.weights_digest, "n"),))
    list(prove(past.ledger, [seqs[3]]))
    with Audit(past.ledger.path) as audit:
        found = {one.seq: one for one in exposures(audit, seqs=[seqs[3]])}
    assert [found[seq].had for seq in (*seqs, copied, unknown)] == ["ended", "still", "unknown", "still", "unknown", "still"]
    assert found[seqs[0]].until == "2033-05-18T03:33:20.000Z" and found[seqs[1]].until is None
    assert all(found[seq].certain for seq in (*seqs, copied)) and not found[unknown].certain
    assert "ran with them from" in exposure_line(found[seqs[0]]) and "does not know until when" in exposure_line(found[copied])
    assert "asked by the same name" in exposure_line(found[unknown])
    many = exposure_lines([found[unknown]] * 30 + [found[seqs[0]]] * (LINES_MAX + 5))
    assert len(many) == LINES_MAX + 2 and all("ran with them from" in line for line in many[:LINES_MAX])
    assert many[-2].startswith("5 more ran with them") and many[-1].startswith("30 more got the same weights")
    assert isinstance(found[seqs[0]], Exposure) and (found[seqs[0]].host, found[seqs[0]].uid) == ("node", 0)
