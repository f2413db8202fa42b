"""Ed25519 keys (RFC 8032) with a name, in the text forms of signed notes (https://c2sp.org/signed-note).

A private key lies in a file that its owner alone may read, as one line `PRIVATE+KEY+name+id+base64`; the public key is the line
`name+id+base64`. The id, 4 bytes, is no fingerprint to trust: it says which key to try.
"""

from __future__ import annotations

import base64
import binascii
import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wcache.core.model.errors import NotFound, SignatureInvalid, Unsupported, UsageError
from wcache.ledger.durable import synchronise

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KEY_ID_BYTES = 4
SIGNATURE_BYTES = 64
_KEY_BYTES = 32
_ED25519 = b"\x01"
_COSIGNATURE = b"\x04"
_TIME_BYTES = 8
_PRIVATE = "PRIVATE+KEY+"
_FILE_MAX_BYTES = 4096


def check_name(name: str) -> str:
    """The name, if it may stand in a signature line. Raises UsageError."""
    if not name or "+" in name or not name.isprintable() or any(char.isspace() for char in name) or not _is_text(name):
        raise UsageError(f"{name!r} is no name of a key", remedy="use a name without spaces and plus signs, such as example.com/ledgers")
    return name


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def key_id(name: str, public: bytes, kind: bytes = _ED25519) -> bytes:
    """The 4 bytes that stand before a signature."""
    return sha256(name.encode() + b"\n" + kind + public).digest()[:KEY_ID_BYTES]


class PublicKey:
    """What anybody may have: checks signatures of one key. A witness's key is of another kind (https://c2sp.org/tlog-cosignature, Ed25519):
    what it signs begins with the time at which it did."""

    def __init__(self, name: str, raw: bytes, kind: bytes = _ED25519) -> None:
        self.name = check_name(name)
        self.raw = raw
        self.id = key_id(name, raw, kind)
        self._kind = kind
        self._key: Ed25519PublicKey = _library().Ed25519PublicKey.from_public_bytes(raw)

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """From `name+id+base64`. Raises UsageError."""
        name, said, raw = _parse(text.strip(), (_ED25519, _COSIGNATURE))
        key = cls(name, raw[1:], raw[:1])
        if key.id.hex() != said:
            raise UsageError(f"the id of this key is {key.id.hex()}, not {said}", where=name, remedy="copy the whole line again")
        return key

    @property
    def text(self) -> str:
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(self._kind + self.raw).decode()}"

    def verify(self, signature: bytes, data: bytes) -> None:
        """Raises SignatureInvalid where the signature is not this key's over just these bytes."""
        from cryptography.exceptions import InvalidSignature

        if self._kind == _COSIGNATURE:
            time_s, signature = int.from_bytes(signature[:_TIME_BYTES], "big"), signature[_TIME_BYTES:]
            data = f"cosignature/v1\ntime {time_s}\n".encode() + data
        try:
            self._key.verify(signature, data)
        except InvalidSignature:
            raise SignatureInvalid("the signature is not that of this key over this text", where=self.name) from None


class SigningKey:
    """A private key, in memory for as long as this object lives."""

    def __init__(self, name: str, seed: bytes) -> None:
        self.name = check_name(name)
        self._key: Ed25519PrivateKey = _library().Ed25519PrivateKey.from_private_bytes(seed)
        self.public = PublicKey(name, self._key.public_key().public_bytes_raw())

    @classmethod
    def generate(cls, name: str) -> SigningKey:
        return cls(name, os.urandom(_KEY_BYTES))

    @classmethod
    def read(cls, path: Path | str) -> SigningKey:
        """From a file that is no link, and that nobody but its owner (this user, or root) may read or write.

        Raises NotFound, or UsageError that says what is wrong with the file. Nothing of its content gets into a message.
        """
        text = _read_private(Path(path)).strip()
        if text.startswith(_PRIVATE):
            with suppress(UsageError):
                name, _, raw = _parse(text[len(_PRIVATE) :], (_ED25519,))
                key = cls(name, raw[1:])
                if key._text() == text:
                    return key
        raise UsageError("this file does not hold a private key", where=str(path), remedy="give one that `wcache ledger key new` made")

    def write(self, path: Path | str) -> None:
        """Into a new file, mode 0600, durably. Raises UsageError where something lies there already: a key is never overwritten."""
        path = Path(path)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise UsageError("something lies there already", where=str(path), remedy="choose a new file: a key is never replaced") from None
        except OSError as error:
            raise UsageError(f"cannot be written: {os.strerror(error.errno or 0)}", where=str(path)) from error
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(self._text() + "\n")
                file.flush()
                os.fsync(file.fileno())
            synchronise(path.parent)
        except OSError as error:
            with suppress(OSError):
                path.unlink()
            raise UsageError(f"cannot be written: {os.strerror(error.errno or 0)}", where=str(path)) from error

    def sign(self, data: bytes) -> bytes:
        """The 64 bytes of RFC 8032's Ed25519 over `data`."""
        return self._key.sign(data)

    def _text(self) -> str:
        encoded = base64.b64encode(_ED25519 + self._key.private_bytes_raw()).decode()
        return f"{_PRIVATE}{self.name}+{self.public.id.hex()}+{encoded}"


def read_public_key(spelling: str) -> PublicKey:
    """A public key given as `name+id+base64`, or as a file that holds this line. Raises UsageError or NotFound."""
    try:
        with Path(spelling).open("rb") as file:
            return PublicKey.parse(file.read(_FILE_MAX_BYTES).decode())
    except FileNotFoundError:
        if "+" in spelling:
            return PublicKey.parse(spelling)
        remedy = "give the line that `wcache ledger key show` prints, or a file with it"
        raise NotFound("there is no such public key", where=spelling, remedy=remedy) from None
    except (OSError, UnicodeDecodeError) as error:
        why = os.strerror(error.errno or 0) if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"the public key cannot be read: {why}", where=spelling) from error


def _parse(text: str, kinds: Sequence[bytes]) -> tuple[str, str, bytes]:
    """Name, id in hex as it is said, and the key's kind and 32 bytes. A base64 text has plus signs too, so only the first two separate."""
    parts = text.split("+", 2)
    try:
        name, said, encoded = parts
        raw = base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error):
        raise UsageError("this is no key", remedy="a public key is one line: name+id+base64") from None
    if raw[:1] not in kinds or len(raw) != 1 + _KEY_BYTES:
        raise UsageError("this is no Ed25519 key", where=name)
    return check_name(name), said, raw


def _read_private(path: Path) -> str:
    try:
        # O_NONBLOCK: a FIFO must not hang the command. The checks are on what was opened, not on what the name is by then.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound("there is no key", where=str(path), remedy="make one with `wcache ledger key new`") from None
    except OSError as error:
        what = "a key file must not be a link" if error.errno == errno.ELOOP else f"cannot be read: {os.strerror(error.errno or 0)}"
        raise UsageError(what, where=str(path), remedy="give the file itself, as its owner") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UsageError("a key lies in a regular file", where=str(path))
        if found.st_uid not in (os.geteuid(), 0):
            raise UsageError(
                f"the key belongs to uid {found.st_uid}, who could replace it", where=str(path), remedy="give a key of your own"
            )
        if found.st_mode & 0o077:
            raise UsageError(
                f"others may read or write the key (mode {stat.S_IMODE(found.st_mode):04o})",
                where=str(path),
                remedy="take the key for known to others and make a new one, or `chmod 600` if you know that nobody was there",
            )
        return os.read(descriptor, _FILE_MAX_BYTES).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _library() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise Unsupported("signatures need the package cryptography", remedy="pip install 'wcache-ledger[sign]'") from None
    return ed25519
