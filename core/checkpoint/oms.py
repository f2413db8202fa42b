"""OpenSSF Model Signing: what somebody signed for the files of a checkpoint, checked offline with the signer's public key.

A signature is a Sigstore bundle (v0.3, JSON) whose DSSE envelope holds an in-toto statement v1 of predicate
`https://model_signing/signature/v1.0`: a digest for each file (github.com/ossf/model-signing-spec; DSSE v1.0.0; in-toto attestation v1).
Keys are ECDSA on P-256, P-384 or P-521, as the specification has them. Neither Sigstore's transparency log nor a chain of certificates is
looked at: whose key it is, the caller has to know.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from blake3 import blake3

from wcache.core.model.errors import EvidenceUnavailable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://model_signing/signature/v1.0"
_PAYLOAD = "application/vnd.in-toto+json"
_MAX_BYTES = 64 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CURVES = {"secp256r1": "SHA256", "secp384r1": "SHA384", "secp521r1": "SHA512"}

HASHES: dict[str, Callable[[], Any]] = {"sha256": hashlib.sha256, "blake3": blake3}
"""The algorithms of a file's digest that are understood."""


class SignedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What a verified signature says: file name (relative to the checkpoint's directory) to (algorithm, hex digest). `name` is what the
    signer called the model; `key` is the SHA-256 of the public key (PEM, SubjectPublicKeyInfo), `signature` that of the signature file."""

    name: str
    key: str
    signature: str
    files: dict[str, tuple[str, str]]


def verify_signature(signature_path: str | Path, key_path: str | Path) -> SignedFiles:
    """Reads and verifies. `key_path` is a PEM file with a public key, or with a certificate, which is taken for its key alone.

    Raises EvidenceUnavailable, with one line, for everything that is not a valid signature of that key.
    """
    raw, where = _read(signature_path), str(signature_path)
    key = _key(key_path)
    try:
        bundle = msgspec.json.decode(raw)
        if bundle["mediaType"] != BUNDLE:
            raise EvidenceUnavailable(f"a bundle of type {str(bundle['mediaType'])[:80]!r}, {BUNDLE} is understood", where=where)
        envelope = bundle["dsseEnvelope"]
        payload, signatures = base64.b64decode(envelope["payload"], validate=True), envelope["signatures"]
        if len(signatures) != 1 or envelope["payloadType"] != _PAYLOAD:
            raise EvidenceUnavailable("its envelope does not hold one signature over one in-toto statement", where=where)
        signature = base64.b64decode(signatures[0]["sig"], validate=True)
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, RecursionError, binascii.Error) as error:
        raise EvidenceUnavailable(f"this is no signature of a model: {error}", where=where) from None
    _verify(key, signature, b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD), _PAYLOAD.encode(), len(payload), payload), where, str(key_path))
    try:
        name, files = _statement(msgspec.json.decode(payload), where)
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise EvidenceUnavailable(f"it is signed, and no statement about files: {type(error).__name__} {error}", where=where) from None
    return SignedFiles(name=name, key=_key_id(key), signature=hashlib.sha256(raw).hexdigest(), files=files)


def _statement(statement: Any, where: str) -> tuple[str, dict[str, tuple[str, str]]]:
    if (statement["_type"], statement["predicateType"]) != (STATEMENT, PREDICATE):
        raise EvidenceUnavailable(f"a statement of type {str(statement['predicateType'])[:80]!r}, {PREDICATE} is understood", where=where)
    (subject,) = statement["subject"]
    serialization, resources = statement["predicate"]["serialization"], statement["predicate"]["resources"]
    if serialization["method"] != "files":
        method = str(serialization["method"])[:40]
        raise EvidenceUnavailable(f"files were signed by the method {method!r}, only whole files are understood", where=where)
    files: dict[str, tuple[str, str]] = {}
    total = hashlib.sha256()
    for resource in resources:
        file, algorithm, digest = resource["name"], resource["algorithm"], resource["digest"]
        if algorithm not in HASHES or not _DIGEST.fullmatch(digest):
            raise EvidenceUnavailable(f"{file} was signed by {str(algorithm)[:40]!r}, known are {', '.join(HASHES)}", where=where)
        if files.setdefault(file, (algorithm, digest)) != (algorithm, digest):
            raise EvidenceUnavailable(f"it names {file} twice, with two digests", where=where)
        total.update(bytes.fromhex(digest))
    if total.hexdigest() != subject["digest"]["sha256"]:
        raise EvidenceUnavailable("the digest of its subject is not that of the files that it lists", where=where)
    return str(subject["name"]), files


def _read(path: str | Path) -> bytes:
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise EvidenceUnavailable(f"cannot be read: {error.strerror or error}", where=str(path)) from None
    if len(raw) > _MAX_BYTES:
        raise EvidenceUnavailable(f"more than {_MAX_BYTES} bytes", where=str(path))
    return raw


def _key(path: str | Path) -> EllipticCurvePublicKey:
    try:
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
        from cryptography.x509 import load_pem_x509_certificate
    except ImportError:
        remedy = "pip install 'wcache-ledger[sign]'"
        raise EvidenceUnavailable("verifying signatures needs the package cryptography", where=str(path), remedy=remedy) from None
    raw = _read(path)
    try:
        key = load_pem_x509_certificate(raw).public_key() if b"BEGIN CERTIFICATE" in raw else load_pem_public_key(raw)
    except Exception as error:  # what the library raises for bad input is not one class
        raise EvidenceUnavailable(f"this is neither a public key nor a certificate (PEM): {error}", where=str(path)) from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in _CURVES:
        raise EvidenceUnavailable(f"model signing takes elliptic curve keys on {', '.join(_CURVES)}", where=str(path))
    return key


def _verify(key: EllipticCurvePublicKey, signature: bytes, signed: bytes, where: str, key_where: str) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        key.verify(signature, signed, ec.ECDSA(getattr(hashes, _CURVES[key.curve.name])()))
    except InvalidSignature:
        remedy = "use the signer's key; if this is it, signature or statement were changed"
        raise EvidenceUnavailable(f"the signature is not by the key in {key_where}", where=where, remedy=remedy) from None


def _key_id(key: EllipticCurvePublicKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return hashlib.sha256(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)).hexdigest()
