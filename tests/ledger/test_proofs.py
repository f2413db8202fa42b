"""Proofs in files: one event is in what was signed, what was signed only grew. Checked without the ledger, and nothing else holds."""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec
import pytest
from support import history
from support.tamper import tamper

from wcache.core.model.errors import LedgerCorrupt, NotFound, SignatureInvalid, UsageError, WcacheError
from wcache.ledger.note import SignedCheckpoint, read_checkpoint
from wcache.ledger.proofs import check_proof, prove_consistency, prove_inclusion
from wcache.ledger.signed_checkpoint import make_checkpoint
from wcache.ledger.signing import SigningKey
from wcache.ledger.store import Ledger, NewEvent

KEY = SigningKey("example.com/log", bytes(range(32)))
KEYS = [KEY.public]


@pytest.fixture
def grown(path: Path) -> tuple[Path, list[SignedCheckpoint]]:
    """A ledger that was signed at several sizes on its way."""
    checkpoints = []
    with Ledger.open(path) as ledger:
        for number in range(1, 14):
            ledger.append_batch([(NewEvent(event=history.decided(f"a-{number}")),)])
            if number in (1, 4, 7, 13):
                checkpoints.append(make_checkpoint(path, KEY, record=False).checkpoint)
    return path, checkpoints


def test_every_event_is_proved_for_every_checkpoint_that_covers_it(grown: tuple[Path, list[SignedCheckpoint]]) -> None:
    path, checkpoints = grown
    for checkpoint in checkpoints:
        for seq in range(1, 14):
            if seq > checkpoint.size:
                with pytest.raises(NotFound, match="came after this checkpoint"):
                    prove_inclusion(path, seq, checkpoint)
                continue
            shown = check_proof(prove_inclusion(path, seq, checkpoint), KEYS)
            assert shown.event is not None
            assert (shown.kind, shown.event["seq"], shown.checkpoint, shown.signers) == ("inclusion", seq, checkpoint, (KEY.public.text,))
            assert f'"attach":"a-{seq}"' in shown.event["payload"]
    with pytest.raises(NotFound, match="there is no event 99"):
        prove_inclusion(path, 99, checkpoints[0])


def test_the_file_is_what_the_specification_of_tlog_proofs_says(grown: tuple[Path, list[SignedCheckpoint]]) -> None:
    path, checkpoints = grown
    lines = prove_inclusion(path, 3, checkpoints[1]).split("\n")
    assert lines[0] == "c2sp.org/tlog-proof@v1"
    assert lines[1].startswith("extra ")
    assert lines[2] == "index 2"
    assert [len(base64.b64decode(line)) for line in lines[3:5]] == [32, 32]
    assert lines[5] == ""
    assert "\n".join(lines[6:]) == checkpoints[1].text


def test_growth_is_proved_between_any_two_checkpoints_in_the_form_that_witnesses_take(
    grown: tuple[Path, list[SignedCheckpoint]],
) -> None:
    path, checkpoints = grown
    for new in checkpoints:
        for old in checkpoints:
            if old.size > new.size:
                with pytest.raises(UsageError, match="no beginning"):
                    prove_consistency(path, old.size, new)
                continue
            text = prove_consistency(path, old.size, new)
            assert text.startswith(f"old {old.size}\n")
            assert text.endswith(f"\n\n{new.text}")
            assert check_proof(text, KEYS, old).old_size == old.size
    assert prove_consistency(path, 0, checkpoints[0]) == f"old 0\n\n{checkpoints[0].text}"


def test_a_ledger_that_is_not_the_one_that_was_signed_proves_nothing(grown: tuple[Path, list[SignedCheckpoint]], tmp_path: Path) -> None:
    path, checkpoints = grown
    other = tmp_path / "other" / "ledger.sqlite"
    with Ledger.open(other) as ledger:
        ledger.append_batch([(NewEvent(event=history.decided("a-1")),)])
    with pytest.raises(UsageError, match="the ledger is wcache/ledger/"):
        prove_inclusion(other, 1, checkpoints[0])
    tamper(path, "UPDATE event SET recorded_ns = 1 WHERE seq = 2")
    for proof in (lambda: prove_inclusion(path, 3, checkpoints[1]), lambda: prove_consistency(path, 1, checkpoints[1])):
        with pytest.raises(LedgerCorrupt, match="not those that were signed"):
            proof()
    assert check_proof(prove_inclusion(path, 1, checkpoints[0]), KEYS).kind == "inclusion"  # that one covers only what did not change


def test_no_changed_byte_of_a_proof_is_believed(grown: tuple[Path, list[SignedCheckpoint]]) -> None:
    """Or the event that it shows is the same: base64 and JSON have several spellings."""
    path, checkpoints = grown
    for text, old in (
        (prove_inclusion(path, 3, checkpoints[2]), None), (prove_consistency(path, 4, checkpoints[3]), checkpoints[1]),
    ):  # fmt: skip
        shown = check_proof(text, KEYS, old)
        for at in range(len(text)):
            for other in ("A", "\n"):
                changed = text[:at] + other + text[at + 1 :]
                if changed == text:
                    continue
                try:
                    again = check_proof(changed, KEYS, old)
                except WcacheError as error:
                    assert "\n" not in error.diagnostics()
                    continue
                believed = {name: (again.event or {}).get(name) for name in ("seq", "stream", "version", "type", "payload", "recorded_ns")}
                assert believed == {name: (shown.event or {}).get(name) for name in believed}
                assert again.checkpoint.root == shown.checkpoint.root


def test_a_proof_of_one_event_is_not_one_of_another(grown: tuple[Path, list[SignedCheckpoint]]) -> None:
    path, checkpoints = grown
    third, fourth = (prove_inclusion(path, seq, checkpoints[3]).split("\n") for seq in (3, 4))
    for lines in ([*third[:1], fourth[1], *third[2:]], [*third[:2], fourth[2], *third[3:]], [*third[:3], *fourth[3:]]):
        with pytest.raises(SignatureInvalid):
            check_proof("\n".join(lines), KEYS)


def test_what_the_proof_is_not_about_is_not_shown(grown: tuple[Path, list[SignedCheckpoint]]) -> None:
    """Somebody could write it in: the event's own words are what was hashed, the rest is not."""
    path, checkpoints = grown
    lines = prove_inclusion(path, 3, checkpoints[3]).split("\n")
    event = msgspec.json.decode(base64.b64decode(lines[1].removeprefix("extra ")))
    for wrong in (
        {"version": 1.5},
        {"version": 2**70},
        {"stream": 7},
        {"late": None},
        {"origin": 5},
        {"payload": 1},
        {"payload_hash": "x"},
    ):
        lines[1] = f"extra {base64.b64encode(msgspec.json.encode(event | wrong)).decode()}"
        with pytest.raises((SignatureInvalid, UsageError)):
            check_proof("\n".join(lines), KEYS)
    lines[1] = f"extra {base64.b64encode(msgspec.json.encode(event | {'verdict': 'approved', 'chain': '00'})).decode()}"
    shown = check_proof("\n".join(lines), KEYS)
    assert shown.event is not None
    assert not {"verdict", "chain"} & set(shown.event)


def test_a_payload_that_was_redacted_is_proved_without_it(grown: tuple[Path, list[SignedCheckpoint]]) -> None:
    path, checkpoints = grown
    lines = prove_inclusion(path, 3, checkpoints[3]).split("\n")
    event = msgspec.json.decode(base64.b64decode(lines[1].removeprefix("extra ")))
    event |= {"payload": None, "salt": None}
    lines[1] = f"extra {base64.b64encode(msgspec.json.encode(event)).decode()}"
    shown = check_proof("\n".join(lines), KEYS)
    assert shown.event is not None
    assert shown.event["payload"] is None


def test_a_proof_with_another_signer_or_another_old_checkpoint_is_refused(
    grown: tuple[Path, list[SignedCheckpoint]], tmp_path: Path
) -> None:
    path, checkpoints = grown
    text = prove_consistency(path, 4, checkpoints[3])
    with pytest.raises(SignatureInvalid, match="none of the given keys"):
        check_proof(text, [SigningKey.generate("example.com/log").public], checkpoints[1])
    with pytest.raises(SignatureInvalid, match="the proof is about 4 events, and the older checkpoint about 7"):
        check_proof(text, KEYS, checkpoints[2])
    with pytest.raises(UsageError, match="needs the older checkpoint"):
        check_proof(text, KEYS)
    for wrong in ("", "x", "old 4\n\n", "c2sp.org/tlog-proof@v1\n\n" + checkpoints[0].text, "old x\n\n" + checkpoints[0].text):
        with pytest.raises((SignatureInvalid, UsageError)):
            check_proof(wrong, KEYS, checkpoints[1])
    note = tmp_path / "note"
    note.write_text(checkpoints[0].text)
    assert read_checkpoint(note) == checkpoints[0]
