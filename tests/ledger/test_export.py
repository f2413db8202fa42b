"""The export, and the program that checks it on a machine without wcache."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest
from support import history

from wcache.core.model.errors import NotFound, UsageError
from wcache.ledger import verify_export
from wcache.ledger.chain import payload_hash
from wcache.ledger.export import export, export_to
from wcache.ledger.note import SignedCheckpoint, sign_checkpoint
from wcache.ledger.signed_checkpoint import default_path, make_checkpoint
from wcache.ledger.signing import SigningKey
from wcache.ledger.store import Ledger, NewEvent

SCRIPT = Path(verify_export.__file__)
KEY = SigningKey("example.com/log", bytes(range(32)))
ODD = 'a-"\\\x7f\x01\u2028\u00e9\U0001f600'


def fill(path: Path, names: Sequence[str]) -> Path:
    with Ledger.open(path) as ledger:
        for name in names:
            ledger.append_batch([(NewEvent(event=history.decided(name)),)])
    return path


@pytest.fixture
def signed(path: Path) -> tuple[Path, SignedCheckpoint]:
    """Twelve events, the first ten of them signed."""
    checkpoint = make_checkpoint(fill(path, [*(f"a-{number}" for number in range(9)), ODD]), KEY, record=False).checkpoint
    fill(path, ["b-1", "b-2"])
    return path, checkpoint


def lines_of(path: Path) -> list[str]:
    return [line.decode() + "\n" for line in export(path)]


def problems(lines: Sequence[str], checkpoint: SignedCheckpoint, script: ModuleType = verify_export) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    script.check(iter(lines), *script.open_note(checkpoint.text, KEY.public.text), lambda seq, what: found.append((seq, what)))
    return found


def test_the_program_is_short_and_needs_nothing() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 120
    tree = ast.parse(text, feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= {"base64", "functools", "hashlib", "json", "struct", "sys"}


def test_in_an_empty_environment_the_good_is_good_and_the_tampered_is_not(signed: tuple[Path, SignedCheckpoint], tmp_path: Path) -> None:
    path, checkpoint = signed
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    assert subprocess.run([python, "-c", "import wcache"], capture_output=True, check=False).returncode == 1
    script = tmp_path / "verify_export.py"
    script.write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    note, good, bad = tmp_path / "note", tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    note.write_text(checkpoint.text, encoding="utf-8")
    export_to(path, good)
    bad.write_text(good.read_text(encoding="utf-8").replace("zero_copy", "zero_cops"), encoding="utf-8")

    def run(file: Path, *more: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [python, "-I", script, file, note, *(more or (KEY.public.text,))], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr

    assert run(good) == (0, "ok: seq 1 to 12, signed up to 10, 0 redacted\n", "")
    code, out, error = run(bad)
    assert (code, out.splitlines()[0], error) == (1, "seq 1: the payload is not the one that was hashed", "")
    code, out, error = run(good, SigningKey.generate("example.com/log").public.text)
    assert (code, error) == (1, "")
    assert "not signed by this key" in out
    assert run(tmp_path / "absent")[0] == 2


def test_a_line_has_all_of_a_row(signed: tuple[Path, SignedCheckpoint]) -> None:
    path, _ = signed
    first, *events, last = map(json.loads, lines_of(path))
    with Ledger.open(path, read_only=True) as ledger:
        seq, chain = ledger.head()
        stored = list(ledger.events())
        assert first == {
            "kind": "ledger", "format": "wcache/export/1", "origin": ledger.origin, "after_seq": 0,
            "chain": first["chain"], "frontier": [],
        }  # fmt: skip
    assert last == {"kind": "end", "events": 12, "head_seq": 12}
    assert (events[-1]["seq"], events[-1]["chain"]) == (seq, chain)
    for line, item in zip(events, stored, strict=True):
        for name in ("seq", "stream", "version", "event_id", "type", "schema", "occurred_ns", "recorded_ns", "late"):
            assert line[name] == getattr(item, name)
        assert payload_hash(bytes.fromhex(line["salt"]), line["payload"].encode()).hex() == line["payload_hash"]
    assert events[9]["stream"] == f"attach/{ODD}"


def shift(lines: list[str], at: int, other: int) -> list[str]:
    changed = list(lines)
    changed[at], changed[other] = changed[other], changed[at]
    return changed


def redacted(line: str) -> str:
    return json.dumps({**json.loads(line), "payload": None, "salt": None}, separators=(",", ":")) + "\n"


ATTACKS: dict[str, Callable[[list[str]], list[str]]] = {
    "removed": lambda lines: lines[:5] + lines[6:],
    "the first removed": lambda lines: lines[:1] + lines[2:],
    "twice": lambda lines: lines[:6] + lines[5:],
    "reordered": lambda lines: shift(lines, 5, 6),
    "truncated": lambda lines: lines[:6],
    "truncated, and ended": lambda lines: [*lines[:6], '{"kind":"end","events":5,"head_seq":5}\n'],
    "something behind the end": lambda lines: [*lines, lines[-2]],
    "without a newline": lambda lines: [*lines[:-1], lines[-1].rstrip("\n")],
    "spelt otherwise": lambda lines: [lines[0], lines[1].replace(":1,", ": 1,", 1), *lines[2:]],
    "a key twice": lambda lines: [lines[0], lines[1].replace('"late":0', '"late":1,"late":0'), *lines[2:]],
    "flagged late": lambda lines: [lines[0], lines[1].replace('"late":0', '"late":1'), *lines[2:]],
    "without payload": lambda lines: [lines[0], redacted(lines[1]), *lines[2:]],
    "another origin": lambda lines: [lines[0].replace('"origin":"', '"origin":"00', 1), *lines[1:]],
    "begins later": lambda lines: [lines[0].replace('"after_seq":0', '"after_seq":1'), *lines[2:]],
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_on_the_lines_is_a_problem(signed: tuple[Path, SignedCheckpoint], attack: str) -> None:
    path, checkpoint = signed
    lines = lines_of(path)
    assert problems(lines, checkpoint) == []
    with suppress(KeyError, ValueError, TypeError, StopIteration):  # which the program says, and exits with 1
        assert problems(ATTACKS[attack](lines), checkpoint)


def test_every_changed_byte_of_an_export_is_a_problem(path: Path) -> None:
    """But in the words of the first and the last line on which nothing rests, and hexadecimal digits of the same value."""
    checkpoint = make_checkpoint(fill(path, ["a-1", "a-2"]), KEY, record=False).checkpoint
    lines = lines_of(path)
    text = "".join(lines)
    seen = 0
    for at in range(len(text)):
        for other in {"0", "A", " "} - {text[at]}:
            changed = text[:at] + other + text[at + 1 :]
            if not _is_sound(changed, checkpoint):
                seen += 1
                continue
            number = text.count("\n", 0, at)
            before, after = json.loads(lines[number]), json.loads(changed.split("\n")[number])
            if number == 0:
                names: tuple[str, ...] = ("origin", "after_seq", "chain", "frontier")
            elif number == len(lines) - 1:
                names = ("kind", "head_seq", "events")
            else:
                names = tuple(before)
            hexadecimal = {"chain", "salt"}
            assert [after[name].lower() if name in hexadecimal else after[name] for name in names] == [before[name] for name in names]
    assert seen > 2 * len("".join(lines[1:-1]))


def _is_sound(text: str, checkpoint: SignedCheckpoint) -> bool:
    found: list[str] = []
    try:
        verify_export.check(
            io.StringIO(text, newline="\n"), checkpoint.origin, checkpoint.size, checkpoint.root, lambda seq, what: found.append(what)
        )
    except Exception:
        return False
    return not found


def test_signatures_are_checked_as_the_library_checks_them() -> None:
    """Ed25519 in twenty lines against OpenSSL's: good ones, and every byte of a signature, a key and a text changed."""
    checkpoint = sign_checkpoint(KEY, "00" * 16, 7, bytes(32))
    (line,) = checkpoint.signatures
    public, text = KEY.public.raw, checkpoint.body.encode()
    assert verify_export.is_signed(public, text, line.signature)
    for at in range(0, 64, 13):
        changed = bytearray(line.signature)
        changed[at] ^= 1 << at % 8
        assert not held(public, text, bytes(changed))
    assert not held(public, text + b"x", line.signature)
    assert not held(SigningKey.generate("x").public.raw, text, line.signature)
    order = 2**252 + 27742317777372353535851937790883648493
    malleable = line.signature[:32] + (int.from_bytes(line.signature[32:], "little") + order).to_bytes(32, "little")
    assert not held(public, text, malleable)
    for number in range(4):
        key = SigningKey.generate("x")
        assert held(key.public.raw, bytes([number]), key.sign(bytes([number])))


def held(public: bytes, text: bytes, signature: bytes) -> bool:
    try:
        return bool(verify_export.is_signed(public, text, signature))
    except ValueError:
        return False


@pytest.mark.parametrize(
    ("public", "text", "signature"),
    [
        (
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ),
    ],
)
def test_vectors_of_rfc_8032(public: str, text: str, signature: str) -> None:
    assert verify_export.is_signed(bytes.fromhex(public), bytes.fromhex(text), bytes.fromhex(signature))


def test_an_export_is_taken_beside_a_writer_and_ends_where_it_began(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "wcache.ledger.export._SELECT", __import__("wcache.ledger.export", fromlist=["_"])._SELECT.replace("LIMIT 2000", "LIMIT 3")
    )
    fill(path, [f"a-{number}" for number in range(8)])
    lines, seen = export(path), []
    with Ledger.open(path) as ledger:
        for line in lines:
            seen.append(json.loads(line))
            ledger.append_batch([(NewEvent(event=history.decided(f"b-{len(seen)}")),)])
    assert seen[-1] == {"kind": "end", "events": 8, "head_seq": 8}
    assert [item["seq"] for item in seen[1:-1]] == list(range(1, 9))


def test_an_export_never_overwrites_and_leaves_nothing_when_it_fails(path: Path, tmp_path: Path) -> None:
    fill(path, ["a-1"])
    target = tmp_path / "out.jsonl"
    with pytest.raises(NotFound):
        export_to(path.with_name("absent"), target)
    assert not target.exists()
    assert export_to(path, target) == 1
    with pytest.raises(UsageError, match="exists"):
        export_to(path, target)
    with pytest.raises(UsageError, match="cannot be written"):
        export_to(path, tmp_path / "absent" / "out.jsonl")
    assert not default_path(path).exists()


def test_the_program_runs_on_this_python_without_site_packages() -> None:
    done = subprocess.run([sys.executable, "-I", "-S", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "python3 verify_export.py EXPORT.jsonl CHECKPOINT PUBLIC_KEY" in done.stderr
