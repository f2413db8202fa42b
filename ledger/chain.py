"""The hash chain over events. The format is fixed for ever by docs/reference/ledger-format.md and golden vectors in the tests.

SHA-256 (FIPS 180-4) everywhere; every input begins with a domain tag, so that no hash can be taken for another kind of hash.
"""

from __future__ import annotations

import hashlib
import secrets
import struct

SALT_BYTES = 16
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
    return hashlib.sha256(_PAYLOAD + salt + payload).digest()


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part


_FRAMED_NUMBER = struct.Struct(">Qq").pack  # length, two's complement
_LENGTH = struct.Struct(">Q").pack
_FRAMED_FLAG = (_LENGTH(1) + b"\x00", _LENGTH(1) + b"\x01")


class Chain:
    """Leaf and link hashes of the ledger called `origin` (hex)."""

    def __init__(self, origin: str) -> None:
        raw = bytes.fromhex(origin)
        self._prefix = _LEAF + _framed(raw)
        self.genesis = hashlib.sha256(_GENESIS + _framed(raw)).digest()
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
        number, length = _FRAMED_NUMBER, _LENGTH
        on, kind, name = stream.encode(), type_name.encode(), event_id.encode()
        parts = (
            self._prefix, number(8, seq), length(len(on)), on, number(8, version), length(len(kind)), kind, number(8, schema),
            length(len(name)), name, number(8, occurred_ns), number(8, recorded_ns), _FRAMED_FLAG[late], length(len(hashed_payload)),
            hashed_payload,
        )  # fmt: skip
        return hashlib.sha256(b"".join(parts)).digest()

    @staticmethod
    def link(previous: bytes, leaf: bytes) -> bytes:
        return hashlib.sha256(_CHAIN + previous + leaf).digest()
