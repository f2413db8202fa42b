"""The hash chain over events. The format is fixed for ever by docs/reference/ledger-format.md and golden vectors in the tests.

SHA-256 (FIPS 180-4) everywhere; every input begins with a domain tag, so that no hash can be taken for another kind of hash.
"""

from __future__ import annotations

import hashlib
import secrets

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


def _number(value: int) -> bytes:
    return (value % (1 << 64)).to_bytes(8, "big")


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
        parts = (
            _number(seq), stream.encode(), _number(version), type_name.encode(), _number(schema), event_id.encode(),
            _number(occurred_ns), _number(recorded_ns), b"\x01" if late else b"\x00", hashed_payload,
        )  # fmt: skip
        return hashlib.sha256(self._prefix + b"".join([len(part).to_bytes(8, "big") + part for part in parts])).digest()

    @staticmethod
    def link(previous: bytes, leaf: bytes) -> bytes:
        return hashlib.sha256(_CHAIN + previous + leaf).digest()
