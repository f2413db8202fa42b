"""Signed checkpoints of a ledger, as text: notes (https://c2sp.org/signed-note) whose body is a tree head (https://c2sp.org/tlog-checkpoint).

wcache/ledger/<origin of the ledger>
<number of events>
<base64 of the Merkle root over them>

— <name of the key> <base64 of key id and signature>
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from wcache.core.model.errors import NotFound, SignatureInvalid, UsageError
from wcache.ledger.merkle import HASH_BYTES
from wcache.ledger.signing import KEY_ID_BYTES, PublicKey, SigningKey, check_name

ORIGIN_LINE = "wcache/ledger/"
NOTE_MAX_BYTES = 1 << 20
SIGNATURES_MAX = 100
_DASH = "\u2014 "
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")


class Signature(msgspec.Struct, frozen=True):
    """One signature line. Of a key that nobody here knows it says nothing."""

    name: str
    key_id: bytes
    signature: bytes


class SignedCheckpoint(msgspec.Struct, frozen=True):
    """`origin` is the first line as it stands, `body` the text that was signed, `text` all of it. Nothing in it is to be believed before
    `signed_by` has returned."""

    origin: str
    size: int
    root: bytes
    body: str
    signatures: tuple[Signature, ...]
    text: str

    def signed_by(self, keys: Sequence[PublicKey], where: str = "") -> list[PublicKey]:
        """Those of `keys` that signed. Raises SignatureInvalid where none did, or where one of them did not sign this body."""
        found = []
        for line in self.signatures:
            for key in keys:
                if (key.name, key.id) == (line.name, line.key_id):
                    try:
                        key.verify(line.signature, self.body.encode())
                    except SignatureInvalid as error:
                        raise SignatureInvalid(error.what, where=f"{where}: {key.name}" if where else key.name) from error
                    found.append(key)
        if not found:
            signers = ", ".join(sorted({line.name for line in self.signatures}))
            raise SignatureInvalid(
                f"none of the given keys signed it; signed by {signers}",
                where=where,
                remedy="ask for the public key by another way than this file came",
            )
        return found

    @property
    def ledger(self) -> str:
        """The origin of the ledger that it is about; nothing for a log of another kind."""
        return self.origin.removeprefix(ORIGIN_LINE) if self.origin.startswith(ORIGIN_LINE) else ""


def root_from_hex(text: str) -> bytes:
    """A root as an event records it; nothing, which no tree has, for what is none."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def sign_checkpoint(key: SigningKey, origin: str, size: int, root: bytes) -> SignedCheckpoint:
    """The checkpoint of the ledger `origin` (hex) at `size` events. What may be signed is `ledger.signed_checkpoint`'s to know."""
    body = f"{ORIGIN_LINE}{origin}\n{size}\n{base64.b64encode(root).decode()}\n"
    signature = base64.b64encode(key.public.id + key.sign(body.encode())).decode()
    return parse_checkpoint(f"{body}\n{_DASH}{key.name} {signature}\n".encode())


def parse_checkpoint(note: bytes, where: str = "") -> SignedCheckpoint:
    """Raises SignatureInvalid for whatever is not just what the two specifications say."""

    def wrong(what: str) -> SignatureInvalid:
        return SignatureInvalid(f"this is no signed checkpoint: {what}", where=where, remedy="give the file as it was written")

    if len(note) > NOTE_MAX_BYTES:
        raise wrong(f"more than {NOTE_MAX_BYTES} bytes")
    try:
        text = note.decode()
    except UnicodeDecodeError:
        raise wrong("not UTF-8") from None
    if any(char < " " and char != "\n" for char in text):
        raise wrong("control characters")
    body, gap, lines = text.rpartition("\n\n")
    if not gap or not lines.endswith("\n"):
        raise wrong("no signature lines after an empty line")
    signatures = [_signature(line) for line in lines[:-1].split("\n")[: SIGNATURES_MAX + 1]]
    if len(signatures) > SIGNATURES_MAX or None in signatures:
        raise wrong("a signature line that is none")
    head = body.split("\n")
    if len(head) < 3 or not all(head) or not _SIZE.fullmatch(head[1]):
        raise wrong("not an origin, a size and a root")
    root = _decoded(head[2])
    if root is None or len(root) != HASH_BYTES:
        raise wrong("the root is no hash")
    return SignedCheckpoint(
        origin=head[0], size=int(head[1]), root=root, body=body + "\n", signatures=tuple(line for line in signatures if line), text=text
    )


def read_checkpoint(path: Path | str) -> SignedCheckpoint:
    """Raises NotFound, UsageError where the file cannot be read, SignatureInvalid."""
    try:
        with Path(path).open("rb") as file:
            note = file.read(NOTE_MAX_BYTES + 1)
    except FileNotFoundError:
        raise NotFound("there is no signed checkpoint", where=str(path), remedy="make one with `wcache ledger checkpoint`") from None
    except OSError as error:
        raise UsageError(f"the signed checkpoint cannot be read: {error.strerror}", where=str(path)) from error
    return parse_checkpoint(note, str(path))


def _signature(line: str) -> Signature | None:
    if not line.startswith(_DASH):
        return None
    name, _, encoded = line[len(_DASH) :].partition(" ")
    raw = _decoded(encoded)
    try:
        check_name(name)
    except UsageError:
        return None
    if raw is None or len(raw) <= KEY_ID_BYTES:
        return None
    return Signature(name, raw[:KEY_ID_BYTES], raw[KEY_ID_BYTES:])


def _decoded(text: str) -> bytes | None:
    """Of the one spelling that encodes to the same text again: base64 has several for some values."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return None
    return raw if base64.b64encode(raw).decode() == text else None
