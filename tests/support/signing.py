"""Keys, and signatures of models as the OpenSSF's own package makes them."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


def write_keys(folder: Path, curve: ec.EllipticCurve | None = None, name: str = "key") -> tuple[Path, Path]:
    """(private, public) as PEM files."""
    key = ec.generate_private_key(curve or ec.SECP256R1())
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def sign(model: Path, private: Path, signature: Path, algorithm: str = "sha256") -> Path:
    """By the OpenSSF's own package."""
    import model_signing

    hashing = model_signing.hashing.Config().use_file_serialization(hashing_algorithm=algorithm)
    model_signing.signing.Config().use_elliptic_key_signer(private_key=private).set_hashing_config(hashing).sign(model, signature)
    return signature
