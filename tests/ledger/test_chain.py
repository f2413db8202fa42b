"""Golden vectors of docs/reference/ledger-format.md. They never change: ledgers of every release must verify for ever."""

from __future__ import annotations

import hashlib

from wcache.ledger.chain import Chain, new_origin, new_salt, payload_hash

ORIGIN = "000102030405060708090a0b0c0d0e0f"
SALT = bytes(range(16))
PAYLOAD = b'{"by":"signal","instance":"d-1"}'


def leaf(**changed: object) -> bytes:
    fields: dict[str, object] = {
        "seq": 1, "stream": "daemon/d-1", "version": 1, "type_name": "daemon.stopped", "schema": 1, "event_id": "id-1",
        "occurred_ns": 1_700_000_000_000_000_000, "recorded_ns": -1, "late": False, "hashed_payload": payload_hash(SALT, PAYLOAD),
    }  # fmt: skip
    return Chain(ORIGIN).leaf(**{**fields, **changed})  # type: ignore[arg-type]


def test_golden_vectors() -> None:
    assert payload_hash(SALT, PAYLOAD).hex() == "cb0216a07502540597691825b4aa3c96bb1788c0401de51cb6c38bd46babd38a"
    assert leaf().hex() == "70870ec09cbffd21527d07d531b9622d8474fd15ec81077e92ee4a43aa277a5a"
    assert Chain(ORIGIN).genesis.hex() == "b307c61be7fdf61bbaff87aec004275d4dfdc9fc70a7038055edeb1a73ee52f6"
    assert Chain.link(Chain(ORIGIN).genesis, leaf()).hex() == "10daf8d1232a24326fceeb8b06a5d14da61b6f932dda0c899b74db4e04e0134d"


def test_the_leaf_is_what_the_format_says_in_words() -> None:
    def number(value: int) -> bytes:
        return value.to_bytes(8, "big", signed=True)

    parts = [
        bytes.fromhex(ORIGIN), number(1), b"daemon/d-1", number(1), b"daemon.stopped", number(1), b"id-1",
        number(1_700_000_000_000_000_000), number(-1), b"\0", hashlib.sha256(b"wcache/payload/1\n" + SALT + PAYLOAD).digest(),
    ]  # fmt: skip
    body = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    assert leaf() == hashlib.sha256(b"wcache/leaf/1\n" + body).digest()


def test_every_field_of_a_row_changes_the_leaf() -> None:
    changes: list[dict[str, object]] = [
        {"seq": 2}, {"stream": "daemon/d-2"}, {"version": 2}, {"type_name": "daemon.lost"}, {"schema": 2}, {"event_id": "id-2"},
        {"occurred_ns": 1}, {"recorded_ns": 1}, {"late": True}, {"hashed_payload": bytes(32)},
    ]  # fmt: skip
    assert len({leaf(**change) for change in changes} | {leaf()}) == len(changes) + 1
    assert Chain(new_origin()).genesis != Chain(ORIGIN).genesis
    assert len(new_salt()) == 16


def test_a_boundary_moved_between_two_fields_changes_the_leaf() -> None:
    assert leaf(stream="daemon/d-1d", type_name="aemon.stopped") != leaf(stream="daemon/d-1", type_name="daemon.stopped")
