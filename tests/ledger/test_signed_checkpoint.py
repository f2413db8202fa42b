"""Signed checkpoints: the text, what is signed and what never is, and where they go."""

from __future__ import annotations

import http.server
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import history
from support.tamper import rechain, tamper

from wcache.core.model import events as ev
from wcache.core.model.errors import LedgerCorrupt, NotFound, PostFailed, SignatureInvalid, UsageError
from wcache.ledger.against import Given
from wcache.ledger.leaves import cut, join
from wcache.ledger.merkle import EMPTY_ROOT, Frontier, Tree, leaf_hash
from wcache.ledger.note import SignedCheckpoint, parse_checkpoint, read_checkpoint, sign_checkpoint
from wcache.ledger.posting import post_url, run_command, split_command
from wcache.ledger.signed_checkpoint import default_path, make_checkpoint
from wcache.ledger.signing import PublicKey, SigningKey
from wcache.ledger.store import Ledger, NewEvent
from wcache.ledger.verify import TRUNCATION_NOTE, verify

ORIGIN = "000102030405060708090a0b0c0d0e0f"
KEY = SigningKey("example.com/log", bytes(range(32)))


def fill(path: Path, count: int, first: int = 0) -> Path:
    with Ledger.open(path) as ledger:
        for number in range(first, first + count):
            ledger.append_batch([(NewEvent(event=history.decided(f"a-{number}")),)])
    return path


def found(path: Path, *notes: Path, keys: tuple[PublicKey, ...] = (KEY.public,)) -> set[str]:
    return {problem.cls for problem in verify(path, given=Given.read(notes, keys)).problems}


# --- the text -------------------------------------------------------------------------------------------------------------


def test_the_text_of_a_checkpoint_never_changes() -> None:
    """A golden vector: other people's tools and old files stand on it."""
    checkpoint = sign_checkpoint(KEY, ORIGIN, 2, bytes(range(32)))
    assert KEY.public.text == f"example.com/log+{KEY.public.id.hex()}+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"
    assert checkpoint.text.startswith(
        "wcache/ledger/000102030405060708090a0b0c0d0e0f\n2\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n\n\u2014 example.com/log "
    )
    again = parse_checkpoint(checkpoint.text.encode())
    assert (again.ledger, again.size, again.root) == (ORIGIN, 2, bytes(range(32)))
    assert again.signed_by([SigningKey.generate("x").public, KEY.public]) == [KEY.public]


def test_a_checkpoint_of_a_public_log_can_be_read() -> None:
    """The example of the specification: other lines, another signer."""
    text = (
        "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
        "\u2014 example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
        "\u2014 witness.example.com/w1 "
        "jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n"
    )
    checkpoint = parse_checkpoint(text.encode())
    assert (checkpoint.size, [line.name for line in checkpoint.signatures]) == (
        20852163,
        ["example.com/behind-the-sofa", "witness.example.com/w1"],
    )


GOOD = sign_checkpoint(KEY, ORIGIN, 2, bytes(range(32))).text


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", GOOD[:-1], GOOD.replace("\n\n", "\n"), GOOD.replace("\n2\n", "\n02\n"), GOOD.replace("\n2\n", "\n+2\n"),
        GOOD.replace("\n2\n", "\n\n2\n"), GOOD.replace("\n2\n", "\n" + "9" * 40 + "\n"), GOOD.replace("AAEC", "AAE"),
        GOOD.replace("Hh8=", "Hh9="), GOOD.replace("\u2014", "--"), GOOD.replace("\u2014 ", "\u2014"), GOOD.replace("\n", "\r\n"),
        GOOD + "x\n", GOOD + "\n", "\x00" + GOOD, GOOD.replace(" example", "  example"), GOOD * 2, GOOD + "\u2014 a AAAA\n" * 200,
    ],
)  # fmt: skip
def test_what_is_no_checkpoint_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(SignatureInvalid) as caught:
        parse_checkpoint(text.encode(), "posted").signed_by([KEY.public])
    assert "\n" not in caught.value.diagnostics()


def test_every_changed_byte_of_a_checkpoint_is_refused() -> None:
    good = GOOD.encode()
    for at in range(len(good)):
        for mask in (1, 0x20, 0x80):
            changed = good[:at] + bytes([good[at] ^ mask]) + good[at + 1 :]
            with pytest.raises(SignatureInvalid):
                parse_checkpoint(changed).signed_by([KEY.public])


def test_a_signature_of_a_known_key_that_does_not_hold_spoils_the_note_and_one_of_an_unknown_key_does_not() -> None:
    other = SigningKey("example.com/witness", bytes(32))
    foreign = sign_checkpoint(other, ORIGIN, 3, bytes(range(32))).text.splitlines()[-1]
    note = parse_checkpoint((GOOD + foreign + "\n").encode())
    assert note.signed_by([KEY.public]) == [KEY.public]
    with pytest.raises(SignatureInvalid, match="not that of this key"):
        note.signed_by([KEY.public, other.public])
    with pytest.raises(SignatureInvalid, match="none of the given keys"):
        note.signed_by([SigningKey.generate("example.com/log").public])


def test_a_witness_signs_the_note_with_its_time_and_is_believed_alone(path: Path) -> None:
    """https://c2sp.org/tlog-cosignature, the Ed25519 kind."""
    import base64

    key = SigningKey.generate("witness.example.com/w1")
    witness = PublicKey(key.name, key.public.raw, b"\x04")
    assert PublicKey.parse(witness.text).id == witness.id != key.public.id
    make_checkpoint(fill(path, 3), KEY)
    note = default_path(path)
    body = read_checkpoint(note).body.encode()

    def cosigned(time_s: int, signed_time_s: int) -> str:
        signature = key.sign(f"cosignature/v1\ntime {signed_time_s}\n".encode() + body)
        line = base64.b64encode(witness.id + time_s.to_bytes(8, "big") + signature).decode()
        return f"\u2014 {key.name} {line}\n"

    plain = note.read_text(encoding="utf-8")
    assert found(path, note, keys=(witness,)) == {"signature"}
    note.write_text(plain + cosigned(1679315147, 1679315147), encoding="utf-8")
    assert found(path, note, keys=(witness,)) == set()
    assert found(path, note, keys=(witness, KEY.public)) == set()
    note.write_text(plain + cosigned(1679315148, 1679315147), encoding="utf-8")
    assert found(path, note, keys=(witness,)) == {"signature"}
    assert found(path, note, keys=(witness, KEY.public)) == {"signature"}  # one that must be right is not
    assert found(path, note) == set()
    assert make_checkpoint(path, KEY).new is False


# --- making them ------------------------------------------------------------------------------------------------------------


def test_the_root_is_that_of_the_rows_and_the_ledger_records_it(path: Path) -> None:
    made = make_checkpoint(fill(path, 5), KEY)
    from wcache.ledger.database import connect_reader, driver
    from wcache.ledger.leaves import leaf_hashes
    from wcache.ledger.segments import history_of

    engine = connect_reader(path)
    with engine.begin() as connection, Ledger.open(path, read_only=True) as ledger:
        leaves = [leaf for page in leaf_hashes(driver(connection), history_of(connection, path), 5, path) for leaf in page]
        (recorded,) = ledger.events(types=[ev.CheckpointSigned.type])
    engine.dispose()
    assert made.checkpoint.root == Tree(leaves).root()
    assert made.checkpoint.signed_by([KEY.public])
    assert (made.recorded_seq, recorded.seq) == (6, 6)
    assert recorded.event == ev.CheckpointSigned(origin=ledger.origin, size=5, root=made.checkpoint.root.hex(), key=KEY.public.text)
    assert read_checkpoint(default_path(path)) == made.checkpoint
    assert default_path(path).stat().st_mode & 0o777 & ~0o022 == 0o644
    assert not list(path.parent.glob(".*"))


def test_a_leaf_is_the_leaf_of_the_chain_hashed_as_rfc_6962_says(path: Path) -> None:
    """docs/reference/ledger-format.md, in code that shares nothing with the product's."""
    from hashlib import sha256

    fill(path, 1)
    connection = sqlite3.connect(path)
    origin = connection.execute("SELECT value FROM meta WHERE key = 'origin'").fetchone()[0]
    row = connection.execute(
        "SELECT seq, stream, version, type, schema, event_id, occurred_ns, recorded_ns, late, payload_hash FROM event"
    ).fetchone()
    connection.close()
    parts = [bytes.fromhex(origin)]
    for value in row[:8]:
        parts.append(value.to_bytes(8, "big", signed=True) if isinstance(value, int) else value.encode())
    parts += [bytes([row[8]]), row[9]]
    leaf = sha256(b"wcache/leaf/1\n" + b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
    assert make_checkpoint(path, KEY).checkpoint.root == sha256(b"\x00" + leaf).digest() == leaf_hash(leaf)


def test_an_empty_ledger_has_the_root_of_nothing(path: Path) -> None:
    Ledger.open(path).close()
    made = make_checkpoint(path, KEY, record=False)
    assert (made.checkpoint.size, made.checkpoint.root) == (0, EMPTY_ROOT)


def test_a_ledger_of_many_pages_has_the_root_of_one_page(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = make_checkpoint(fill(path, 23), KEY, record=False).checkpoint.root
    default_path(path).unlink()
    monkeypatch.setattr("wcache.ledger.leaves.PAGE_EVENTS", 7)
    assert make_checkpoint(path, KEY, record=False).checkpoint.root == expected


def test_when_nothing_happened_the_last_checkpoint_stands(path: Path) -> None:
    """A timer does not make an idle ledger grow."""
    first = make_checkpoint(fill(path, 3), KEY)
    again = make_checkpoint(path, KEY)
    assert (again.new, again.checkpoint, again.recorded_seq) == (False, first.checkpoint, None)
    fill(path, 1, 3)
    third = make_checkpoint(path, KEY)
    assert (third.new, third.previous_size, third.checkpoint.size) == (True, 3, 5)
    assert verify(path).ok


def test_a_checkpoint_that_was_written_and_not_recorded_is_recorded_by_the_next_run(path: Path) -> None:
    """A crash, or a busy ledger, between the two."""
    make_checkpoint(fill(path, 3), KEY, record=False)
    again = make_checkpoint(path, KEY)
    assert (again.new, again.recorded_seq) == (False, 4)
    assert make_checkpoint(path, KEY).recorded_seq is None


def test_a_new_key_goes_on_where_the_old_one_stopped_and_only_there(path: Path) -> None:
    old, new = KEY, SigningKey.generate("example.com/log")
    before = make_checkpoint(fill(path, 3), old).checkpoint
    rotated = make_checkpoint(path, new)
    assert rotated.new
    assert rotated.checkpoint.signed_by([new.public])
    kept = path.with_name("kept")
    kept.write_text(before.text)
    assert found(path, kept, default_path(path), keys=(old.public, new.public)) == set()
    tamper(path, "UPDATE event SET recorded_ns = 1 WHERE seq = 2")
    with pytest.raises(LedgerCorrupt):
        make_checkpoint(path, SigningKey.generate("example.com/log"))


CHANGES: dict[str, Callable[[Path], None]] = {
    "cut off": lambda path: tamper(path, "DELETE FROM event WHERE seq > 3"),
    "changed": lambda path: tamper(path, "UPDATE event SET recorded_ns = recorded_ns + 1 WHERE seq = 2"),
    "a hole": lambda path: tamper(path, "DELETE FROM event WHERE seq = 2"),
    "written anew": lambda path: (tamper(path, "UPDATE event SET recorded_ns = recorded_ns + 1 WHERE seq = 2"), rechain(path, 2))[0],
}


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_signed_that_contradicts_what_was_signed(path: Path, change: str) -> None:
    """Neither by the file nor, without it, by what the ledger recorded; and the file stays what it was."""
    make_checkpoint(fill(path, 5), KEY)
    fill(path, 2, 5)
    before = default_path(path).read_bytes()
    CHANGES[change](path)
    with pytest.raises(LedgerCorrupt):
        make_checkpoint(path, KEY)
    assert default_path(path).read_bytes() == before
    if change != "cut off":
        default_path(path).unlink()
        with pytest.raises(LedgerCorrupt):
            make_checkpoint(path, KEY)
        assert not default_path(path).exists()


def test_a_row_that_was_not_chained_is_not_signed(path: Path) -> None:
    tamper(fill(path, 3), "UPDATE event SET recorded_ns = 1 WHERE seq = 2")
    with pytest.raises(LedgerCorrupt, match="seq 2 is not the row that was chained"):
        make_checkpoint(path, KEY)


def test_the_file_of_another_ledger_or_a_spoilt_one_is_refused(path: Path, tmp_path: Path) -> None:
    make_checkpoint(fill(path, 2), KEY)
    other = fill(tmp_path / "other" / "ledger.sqlite", 2)
    with pytest.raises(UsageError, match="another ledger"):
        make_checkpoint(other, KEY, default_path(path))
    text = default_path(path).read_text()
    default_path(path).write_text(text.replace("\n2\n", "\n1\n"))
    with pytest.raises(SignatureInvalid):
        make_checkpoint(path, KEY)


def test_a_copy_is_signed_without_being_written_to(path: Path, tmp_path: Path) -> None:
    """For the machine that has the key: copies come and go, the file with the last checkpoint stays there."""
    from wcache.ledger.backup import backup

    out = tmp_path / "node7.checkpoint"
    for round_ in range(2):
        fill(path, 3, 3 * round_)
        copy = tmp_path / f"copy-{round_}.sqlite"
        backup(path, copy)
        before = copy.read_bytes()
        made = make_checkpoint(copy, KEY, out, record=False)
        assert (made.new, made.recorded_seq, made.checkpoint.size) == (True, None, 3 * round_ + 3)
        assert copy.read_bytes() == before
    assert found(path, out) == set()


def test_the_file_is_whole_or_what_it_was(path: Path) -> None:
    fill(path, 1)
    default_path(path).mkdir()
    with pytest.raises(UsageError):
        make_checkpoint(path, KEY)
    with pytest.raises(UsageError, match="cannot be written"):
        make_checkpoint(path, KEY, path.parent / "absent" / "checkpoint")
    with pytest.raises(NotFound):
        make_checkpoint(path.with_name("absent"), KEY)


# --- holding a ledger against them ------------------------------------------------------------------------------------------


@pytest.fixture
def posted(path: Path) -> Path:
    """A checkpoint of five events that lies elsewhere; two more events came after it, and one that records it."""
    note = path.with_name("posted")
    make_checkpoint(fill(path, 5), KEY, note)
    fill(path, 2, 5)
    return note


def test_a_ledger_that_only_grew_is_what_was_signed(path: Path, posted: Path) -> None:
    report = verify(path, given=Given.read([posted], [KEY.public]))
    assert report.ok
    assert report.notes == [
        "the events up to seq 5 were compared with what was signed; no checkpoint that was given covers those after it (3)"
    ]
    unsigned = verify(path, given=Given.read([posted]))
    assert unsigned.ok
    assert unsigned.notes[-1] == "the signatures were not checked: no public key was given"
    assert verify(path).notes == [TRUNCATION_NOTE]


def everything_cut(path: Path) -> None:
    """A cut that nothing in the file betrays: what was derived from the last rows goes with them."""
    tamper(
        path,
        "DELETE FROM stream WHERE stream IN (SELECT stream FROM event WHERE seq > 3)",
        "DELETE FROM attach WHERE seq > 3",
        "DELETE FROM event WHERE seq > 3",
    )


def test_a_truncated_ledger_is_found_with_a_checkpoint_and_with_nothing_else(path: Path, posted: Path) -> None:
    everything_cut(path)
    report = verify(path)
    assert report.ok, report.problems
    assert report.notes == [TRUNCATION_NOTE]
    report = verify(path, given=Given.read([posted], [KEY.public]))
    assert [(problem.seq, problem.cls) for problem in report.problems] == [(None, "truncated")]
    assert "signed for 5 events, and there are 3: 2 are missing at the end" in report.problems[0].text


def test_a_rewritten_ledger_is_found_with_a_checkpoint_and_with_nothing_else(path: Path, posted: Path) -> None:
    """All of it chained anew, and the record of the checkpoint with it."""
    tamper(path, "UPDATE event SET event_id = 'forged' WHERE seq = 2", "UPDATE event SET type = 'ledger.gap' WHERE 0")
    rechain(path, 2)
    assert found(path) == {"rewritten"}  # the ledger itself recorded that it was otherwise
    assert found(path, posted) == {"rewritten"}


def test_what_was_signed_and_cannot_be_hashed_any_more_is_said_and_the_rest_is_compared(path: Path, posted: Path) -> None:
    """The hole is behind the older of two checkpoints."""
    later = path.with_name("later")
    make_checkpoint(path, KEY, later)
    tamper(path, "DELETE FROM event WHERE seq = 6")
    report = verify(path, given=Given.read([posted, later], [KEY.public]))
    assert ("rewritten", "the events that were signed cannot be hashed: seq 6 is missing") in {
        (problem.cls, problem.text) for problem in report.problems
    }
    assert (
        "the events up to seq 5 were compared with what was signed; no checkpoint that was given covers those after it (4)" in report.notes
    )


def test_rows_that_are_missing_where_no_later_row_shows_it_leave_no_tree_behind_them() -> None:
    leaves = [bytes([number]) * 32 for number in range(9)]
    sizes = [0, 2, 7, 9]
    found = join(Frontier(), [cut(0, leaves[:4], sizes), cut(5, leaves[5:], sizes)], sizes)
    assert (sorted(found.frontiers), found.why) == ([0, 2], "seq 5 is missing")
    found = join(Frontier(), [cut(0, leaves[:4], sizes)], sizes)
    assert (sorted(found.frontiers), found.why) == ([0, 2], "seq 5 is missing")
    found = join(Frontier(), [cut(0, leaves[:4], sizes), cut(4, [], sizes), cut(4, leaves[4:], sizes)], sizes)
    assert sorted(found.frontiers) == sizes


def test_a_checkpoint_of_another_ledger_or_of_another_key_is_no_evidence(path: Path, posted: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.checkpoint"
    make_checkpoint(fill(tmp_path / "o" / "ledger.sqlite", 2), KEY, other)
    assert found(path, other) == {"origin"}
    assert found(path, posted, keys=(SigningKey.generate("example.com/log").public,)) == {"signature"}
    forged = tmp_path / "forged"
    forged.write_text(posted.read_text().replace("\n5\n", "\n4\n"))
    assert found(path, forged) == {"signature"}


def test_of_several_checkpoints_each_is_compared(path: Path, posted: Path) -> None:
    later = path.with_name("later")
    make_checkpoint(path, KEY, later)
    assert found(path, posted, later) == set()
    tamper(path, "UPDATE event SET event_id = 'forged' WHERE seq = 7")
    texts = [
        problem.text for problem in verify(path, given=Given.read([posted, later], [KEY.public])).problems if problem.cls == "rewritten"
    ]
    assert texts == [
        f"the first 8 events are not those that were signed in {later}",
        "the first 8 events are not those that were signed in checkpoint.signed",
    ]


# --- handing them on --------------------------------------------------------------------------------------------------------


class Log(http.server.BaseHTTPRequestHandler):
    """Answers as its path says, and keeps what it got."""

    got: list[tuple[str, str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, self.headers["Content-Type"], body))
        status = int(self.path.strip("/").partition("?")[0])
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/200")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def log() -> Iterator[tuple[str, list[tuple[str, str, bytes]]]]:
    got: list[tuple[str, str, bytes]] = []
    server = http.server.HTTPServer(("127.0.0.1", 0), type("Handler", (Log,), {"got": got}))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_note_is_posted_as_it_lies_in_its_file(log: tuple[str, list[tuple[str, str, bytes]]]) -> None:
    url, got = log
    assert post_url(f"{url}/201", GOOD) == 201
    assert got == [("/201", "text/plain; charset=utf-8", GOOD.encode())]


@pytest.mark.parametrize("status", [302, 400, 409, 500])
def test_any_other_answer_than_success_is_a_failure_and_no_redirect_is_followed(log: tuple[str, list[object]], status: int) -> None:
    url, got = log
    with pytest.raises(PostFailed, match=f"answered {status}") as caught:
        post_url(f"{url}/{status}?token=secret", GOOD)
    assert len(got) == 1
    assert "secret" not in caught.value.diagnostics()


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://example.com/", "example.com", "", "http://[::1", "https://", "http://a:b/", "http://a/\nb"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="no http or https URL") as caught:
        post_url(url, GOOD)
    assert "\n" not in caught.value.diagnostics()


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="a password in a URL") as caught:
        post_url("https://me:secret@example.com/log", GOOD)
    assert "secret" not in caught.value.diagnostics()


def test_a_record_that_cannot_be_one_is_no_obstacle_to_looking(path: Path) -> None:
    """Whoever may append may append this: it is a contradiction, and no traceback."""
    fill(path, 3)
    with Ledger.open(path) as ledger:
        event = ev.CheckpointSigned(origin=ledger.origin, size=2, root="no root")
        ledger.append_batch([(NewEvent(event=event),)])
    assert found(path) == {"rewritten"}
    with pytest.raises(LedgerCorrupt, match="rewritten"):
        make_checkpoint(path, KEY)


def test_nobody_there_is_one_line() -> None:
    with pytest.raises(PostFailed, match="no answer"):
        post_url("http://127.0.0.1:1/", GOOD)


def test_a_command_gets_the_note_and_its_failure_is_told(tmp_path: Path) -> None:
    run_command(split_command(f"tee '{tmp_path}/a b'"), GOOD)
    assert (tmp_path / "a b").read_text() == GOOD
    for command, why in (
        ("sh -c 'echo full >&2; exit 3'", "ended with 3: full"), ("/nonexistent", "cannot be run"), ("false", "ended with 1"),
    ):  # fmt: skip
        with pytest.raises(PostFailed, match=why):
            run_command(split_command(command), GOOD)
    for command in ("", "'"):
        with pytest.raises(UsageError):
            split_command(command)


def test_a_note_says_nothing_before_it_is_checked() -> None:
    assert isinstance(parse_checkpoint(GOOD.encode()), SignedCheckpoint)
