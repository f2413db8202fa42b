"""Signatures as model-signing makes them: what verifies is content evidence that says who signed, everything else names what is wrong."""

from __future__ import annotations

import base64
import datetime
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from support.commands import Cli, in_process, ok
from support.corpus import flip, make_checkpoint
from support.signing import sign, write_keys

from wcache.core.checkpoint.oms import verify_signature
from wcache.core.model.errors import EXIT_CHECKPOINT, EXIT_REFUSED, CheckpointInvalid, EvidenceUnavailable
from wcache.core.model.evidence import Fingerprint, Signed
from wcache.core.model.policy import Policy
from wcache.ledger.model_signature import hash_signed


@pytest.fixture
def model(disk_path: Path) -> Path:
    made = make_checkpoint(disk_path / "model", shards=2)
    (made / "config.json").write_text("{}")
    return made


@pytest.fixture
def keys(disk_path: Path) -> tuple[Path, Path]:
    return write_keys(disk_path)


def taken(model: Path, signature: Path, key: Path) -> Fingerprint:
    return hash_signed(str(model), signature, key, Policy())


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()], ids=lambda curve: curve.name)
def test_a_signature_by_the_openssfs_package_verifies(disk_path: Path, model: Path, curve: ec.EllipticCurve) -> None:
    private, public = write_keys(disk_path, curve)
    signature = sign(model, private, disk_path / "model.sig")
    read: list[tuple[int, int]] = []
    found = hash_signed(str(model), signature, public, Policy(), progress=lambda done, total: read.append((done, total)))
    assert isinstance(found.signed, Signed) and found.signed.name == "model"
    assert found.signed.key == json.loads(signature.read_text())["verificationMaterial"]["publicKey"]["hint"]
    assert read[-1][0] == read[-1][1] and read == sorted(read)
    plain = msgspec.structs.replace(found, signed=msgspec.UNSET)
    assert plain.id() != found.id(), "the same content with a signature is more, so it is recorded beside it"


def test_files_that_were_signed_by_blake3_verify_too(disk_path: Path, model: Path, keys: tuple[Path, Path]) -> None:
    assert isinstance(taken(model, sign(model, keys[0], disk_path / "model.sig", "blake3"), keys[1]).signed, Signed)


def test_a_certificate_is_taken_for_its_key(disk_path: Path, model: Path, keys: tuple[Path, Path]) -> None:
    key = serialization.load_pem_private_key(keys[0].read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    name, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "signer")]), datetime.datetime(2026, 1, 1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    made = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
    (disk_path / "signer.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    signature = sign(model, keys[0], disk_path / "model.sig")
    assert taken(model, signature, disk_path / "signer.crt").signed == taken(model, signature, keys[1]).signed


def flip_last(path: Path) -> None:
    path.write_bytes(flip(path.read_bytes(), path.stat().st_size - 1))


TAMPERED: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "a byte of the weights": (lambda model: flip_last(model / "model-00002-of-00002.safetensors"), "model-00002", "not the file that was"),
    "the index": (lambda model: (model / "model.safetensors.index.json").open("a").write(" "), "index.json", "not the file that was"),
}  # fmt: skip


@pytest.mark.parametrize("what", TAMPERED)
def test_what_is_not_what_was_signed_is_refused_and_named(disk_path: Path, model: Path, keys: tuple[Path, Path], what: str) -> None:
    signature = sign(model, keys[0], disk_path / "model.sig")
    change, names, says = TAMPERED[what]
    change(model)
    with pytest.raises(CheckpointInvalid, match=says) as refused:
        taken(model, signature, keys[1])
    assert refused.value.rule == "oms_mismatch" and names in refused.value.where


def test_a_shard_that_nobody_signed_or_that_is_gone_is_refused(disk_path: Path, keys: tuple[Path, Path]) -> None:
    folder = make_checkpoint(disk_path / "one", shards=1)
    (folder / "model.safetensors").rename(disk_path / "kept")
    (folder / "config.json").write_text("{}")
    signature = sign(folder, keys[0], disk_path / "before.sig")
    shutil.copy(disk_path / "kept", folder / "model.safetensors")
    with pytest.raises(CheckpointInvalid, match="was not signed"):
        taken(folder, signature, keys[1])
    shutil.copy(disk_path / "kept", folder / "second.safetensors")
    signature = sign(folder, keys[0], disk_path / "two.sig")
    (folder / "second.safetensors").unlink()
    with pytest.raises(CheckpointInvalid, match="is not there") as refused:
        taken(folder, signature, keys[1])
    assert refused.value.where.endswith("second.safetensors")


def test_other_files_than_weights_are_not_our_business(disk_path: Path, model: Path, keys: tuple[Path, Path]) -> None:
    signature = sign(model, keys[0], disk_path / "model.sig")
    (model / "config.json").write_text('{"other": 1}')
    assert taken(model, signature, keys[1]).signed


def _payload(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], None]:
    def edit(bundle: dict[str, Any]) -> None:
        statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
        change(statement)
        bundle["dsseEnvelope"]["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()

    return edit


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a digest in the statement": (_payload(lambda s: s["predicate"]["resources"][0].update(digest="00" * 32)), "not by the key"),
    "another media type": (lambda b: b.update(mediaType="x"), "bundle of type"),
    "two signatures": (lambda b: b["dsseEnvelope"]["signatures"].append({"sig": ""}), "one signature"),
    "no signature": (lambda b: b["dsseEnvelope"]["signatures"].clear(), "one signature"),
    "another payload type": (lambda b: b["dsseEnvelope"].update(payloadType="x"), "one signature"),
    "no envelope": (lambda b: b.pop("dsseEnvelope"), "no signature of a model"),
    "a signature that is no base64": (lambda b: b["dsseEnvelope"]["signatures"][0].update(sig="!"), "no signature of a model"),
    "a list": (lambda b: b["dsseEnvelope"].update(signatures=5), "no signature of a model"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_signature_that_was_changed_says_what_is_wrong(disk_path: Path, model: Path, keys: tuple[Path, Path], what: str) -> None:
    signature = sign(model, keys[0], disk_path / "model.sig")
    bundle = json.loads(signature.read_text())
    change, says = BROKEN[what]
    change(bundle)
    signature.write_text(json.dumps(bundle))
    with pytest.raises(EvidenceUnavailable, match=says) as refused:
        verify_signature(signature, keys[1])
    assert "\n" not in refused.value.diagnostics()


def resigned(path: Path, private: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """The statement changed by whoever has the key."""
    bundle = json.loads(path.read_text())
    _payload(change)(bundle)
    envelope = bundle["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"])
    key = serialization.load_pem_private_key(private.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    kind = envelope["payloadType"].encode()
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    envelope["signatures"][0]["sig"] = base64.b64encode(key.sign(signed, ec.ECDSA(hashes.SHA256()))).decode()
    path.write_text(json.dumps(bundle))


SIGNED_NONSENSE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "parts of files": (lambda s: s["predicate"]["serialization"].update(method="shards"), "only whole files"),
    "an unknown algorithm": (lambda s: s["predicate"]["resources"][0].update(algorithm="md5"), "known are sha256, blake3"),
    "a short digest": (lambda s: s["predicate"]["resources"][0].update(digest="00"), "known are"),
    "a file twice": (lambda s: s["predicate"]["resources"].append({**s["predicate"]["resources"][0], "digest": "00" * 32}), "twice"),
    "another subject": (lambda s: s["subject"][0]["digest"].update(sha256="00" * 32), "digest of its subject"),
    "another predicate": (lambda s: s.update(predicateType="x"), "statement of type"),
    "no resources": (lambda s: s["predicate"].pop("resources"), "no statement about files"),
    "two subjects": (lambda s: s["subject"].append(s["subject"][0]), "no statement about files"),
}


@pytest.mark.parametrize("what", SIGNED_NONSENSE)
def test_a_valid_signature_over_something_else_proves_nothing(disk_path: Path, model: Path, keys: tuple[Path, Path], what: str) -> None:
    signature = sign(model, keys[0], disk_path / "model.sig")
    change, says = SIGNED_NONSENSE[what]
    resigned(signature, keys[0], change)
    with pytest.raises(EvidenceUnavailable, match=says):
        verify_signature(signature, keys[1])


def test_a_key_of_another_kind_or_another_signer_is_refused(disk_path: Path, model: Path, keys: tuple[Path, Path]) -> None:
    signature = sign(model, keys[0], disk_path / "model.sig")
    with pytest.raises(EvidenceUnavailable, match="not by the key"):
        verify_signature(signature, write_keys(disk_path, name="other")[1])
    public = ed25519.Ed25519PrivateKey.generate().public_key()
    (disk_path / "ed.pub").write_bytes(public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    for path, says in (
        (disk_path / "ed.pub", "elliptic curve"), (write_keys(disk_path, ec.SECP256K1(), "k1")[1], "elliptic curve"),
        (signature, "neither a public key"), (disk_path / "none", "cannot be read"),
    ):  # fmt: skip
        with pytest.raises(EvidenceUnavailable, match=says):
            verify_signature(signature, path)


def test_what_was_signed_is_on_record_and_tampering_exits_with_three(disk_path: Path, model: Path, keys: tuple[Path, Path]) -> None:
    wcache: Cli = in_process({"WCACHE_STATE_DIR": str(disk_path / "state"), "WCACHE_RUNTIME_DIR": str(disk_path)})
    signature = sign(model, keys[0], disk_path / "model.sig")
    words = ("fingerprint", str(model), "--signature", str(signature), "--key", str(keys[1]))
    made = ok(wcache(*words, "--json"))
    assert made["signed"]["name"] == "model" and made["seq"] is not None
    assert "signed by key" in wcache("audit", "explain", str(made["seq"])).stdout
    assert "signed by" in wcache(*words).stdout
    flip_last(model / "model-00001-of-00002.safetensors")
    error = ok(wcache(*words, "--json"), EXIT_CHECKPOINT)["error"]
    assert (error["detail"], "model-00001" in error["where"]) == ("oms_mismatch", True)
    ok(wcache(*words[:-1], str(signature), "--json"), EXIT_REFUSED)
    ok(wcache(*words[:-2], "--json"), 2)
