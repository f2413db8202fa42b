"""The hash chain over events. The format is fixed for ever by docs/reference/ledger-format.md and golden vectors in the tests.

SHA-256 (FIPS 180-4) everywhere; every input begins with a domain tag, so that no hash can be taken for another kind of hash.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from collections.abc import Sequence
from typing import Any

SALT_BYTES = 16
_sha256 = hashlib.sha256
_PAYLOAD = b"wcache/payload/1\n"
_LEAF = b"wcache/leaf/1\n"
_CHAIN = b"wcache/chain/1\n"
_GENESIS = b"wcache/genesis/1\n"


def new_origin() -> str:
    """16 random bytes in hex: names one ledger file for its whole life."""
    return secrets.token_hex(16)


def new_salt() -> bytes:
    """Keeps the hash of a redacted payload from being guessed."""
    return secrets.token_bytes(SALT_BYTES)


def payload_hash(salt: bytes, payload: bytes) -> bytes:
    return _sha256(_PAYLOAD + salt + payload).digest()


def framed(part: bytes) -> bytes:
    """Length as 8 bytes big-endian, then the part itself."""
    return len(part).to_bytes(8, "big") + part


_FRAMED_NUMBER = struct.Struct(">Qq").pack  # length, two's complement
_FRAMED_NUMBERS = struct.Struct(">QqQq").pack
_LENGTH = struct.Struct(">Q").pack
_FRAMED_HASH = _LENGTH(32)
_FRAMED_FLAG = {0: _LENGTH(1) + b"\x00", 1: _LENGTH(1) + b"\x01"}


def framed_kind(type_name: bytes, schema: int) -> bytes:
    """An event's stored type and the version of its payload, as a leaf has them."""
    return framed(type_name) + _FRAMED_NUMBER(8, schema)


class _Framed(dict[bytes, bytes]):
    def __missing__(self, part: bytes) -> bytes:
        found = self[part] = framed(part)
        return found


class _FramedKinds(dict[tuple[bytes, int], bytes]):
    def __missing__(self, kind: tuple[bytes, int]) -> bytes:
        found = self[kind] = framed_kind(*kind)
        return found


class Chain:
    """Leaf and link hashes of the ledger called `origin` (hex)."""

    def __init__(self, origin: str) -> None:
        raw = bytes.fromhex(origin)
        self._prefix = _LEAF + framed(raw)
        self.genesis = _sha256(_GENESIS + framed(raw)).digest()
        """What the first event links to."""

    def leaf(
        self,
        seq: int,
        stream: str,
        version: int,
        type_name: str,
        schema: int,
        event_id: str,
        occurred_ns: int,
        recorded_ns: int,
        late: bool,
        hashed_payload: bytes,
    ) -> bytes:
        """Hash of everything that a row says. Numbers are 8 bytes big-endian two's complement, every part is length-framed."""
        kind = framed_kind(type_name.encode(), schema)
        name = event_id.encode()
        return self.framed_leaf(seq, framed(stream.encode()), version, kind, name, occurred_ns, recorded_ns, late, hashed_payload)

    def framed_leaf(
        self,
        seq: int,
        framed_stream: bytes,
        version: int,
        kind: bytes,
        event_id: bytes,
        occurred_ns: int,
        recorded_ns: int,
        late: bool,
        hashed_payload: bytes,
    ) -> bytes:
        """`leaf` for whoever hashes many rows: stream, and type with schema (`framed_kind`), are framed already."""
        parts = (
            self._prefix, _FRAMED_NUMBER(8, seq), framed_stream, _FRAMED_NUMBER(8, version), kind, _LENGTH(len(event_id)), event_id,
            _FRAMED_NUMBERS(8, occurred_ns, 8, recorded_ns), _FRAMED_FLAG[late], _LENGTH(len(hashed_payload)), hashed_payload,
        )  # fmt: skip
        return _sha256(b"".join(parts)).digest()

    def leaves(self, previous: bytes, rows: Sequence[Sequence[Any]]) -> list[bytes] | None:
        """The leaf hashes of rows of EVENT_COLUMNS, salt, payload_hash, chain (text as bytes) that are exactly those that were hashed and
        linked after `previous`, with every payload there. None says nothing more: not one of the hashes may be asked why."""
        number, numbers, length, flags, prefix, join = _FRAMED_NUMBER, _FRAMED_NUMBERS, _LENGTH, _FRAMED_FLAG, self._prefix, b"".join
        payloads = [_sha256(join((_PAYLOAD, row[10], row[9]))).digest() for row in rows]
        if payloads != [row[11] for row in rows]:
            return None
        names, kinds = _Framed(), _FramedKinds()
        leaves = [
            _sha256(
                join((
                    prefix, number(8, seq), names[stream], number(8, version), kinds[kind, schema], length(len(event_id)), event_id,
                    numbers(8, occurred_ns, 8, recorded_ns), flags[late], _FRAMED_HASH, hashed,
                ))
            ).digest()
            for seq, stream, version, event_id, kind, schema, occurred_ns, recorded_ns, late, _, _, hashed, _ in rows
        ]  # fmt: skip
        links = [row[12] for row in rows]
        made = [_sha256(join((_CHAIN, before, leaf))).digest() for before, leaf in zip([previous, *links], leaves, strict=False)]
        return leaves if links == made else None

    @staticmethod
    def link(previous: bytes, leaf: bytes) -> bytes:
        return _sha256(_CHAIN + previous + leaf).digest()
