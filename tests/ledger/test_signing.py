"""Keys in the forms of signed notes, and which key files are refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from wcache.core.model.errors import NotFound, SignatureInvalid, Unsupported, UsageError
from wcache.ledger.signing import PublicKey, SigningKey, read_public_key

# The key and the note that the documentation of Go's golang.org/x/mod/sumdb/note shows: published, so nobody's secret.
PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
PUBLIC = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
TEXT = b"If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
SIGNED = "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="


def key_file(tmp_path: Path, text: str = PRIVATE + "\n", mode: int = 0o600) -> Path:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_keys_and_signatures_are_those_of_other_implementations(tmp_path: Path) -> None:
    import base64

    key = SigningKey.read(key_file(tmp_path))
    signature = base64.b64decode(SIGNED)
    assert key.public.text == PUBLIC
    assert (key.name, key.public.id) == ("PeterNeumann", signature[:4])
    assert key.sign(TEXT) == signature[4:]
    PublicKey.parse(PUBLIC).verify(signature[4:], TEXT)


def test_another_text_or_key_or_signature_is_refused() -> None:
    key, other = SigningKey.generate("example.com/a"), SigningKey.generate("example.com/a")
    signature = key.sign(b"text")
    for public, signed, text in (
        (key.public, signature, b"texu"),
        (other.public, signature, b"text"),
        (key.public, signature[:-1], b"text"),
        (key.public, b"", b"text"),
        (key.public, bytes(64), b"text"),
    ):
        with pytest.raises(SignatureInvalid):
            public.verify(signed, text)


def test_a_new_key_is_readable_by_its_owner_alone_and_never_written_over_another(tmp_path: Path) -> None:
    key, path = SigningKey.generate("example.com/a"), tmp_path / "key"
    previous = os.umask(0)
    try:
        key.write(path)
    finally:
        os.umask(previous)
    assert path.stat().st_mode & 0o777 == 0o600
    assert SigningKey.read(path).public.text == key.public.text
    before = path.read_bytes()
    with pytest.raises(UsageError, match="lies there already"):
        SigningKey.generate("example.com/a").write(path)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError):
        key.write(tmp_path / "link")
    assert path.read_bytes() == before
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o666])
def test_a_key_that_others_may_touch_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(UsageError, match=f"mode {mode:04o}") as caught:
        SigningKey.read(key_file(tmp_path, mode=mode))
    assert "make a new one" in caught.value.remedy


def test_a_link_a_fifo_a_directory_and_nothing_are_refused(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "fifo", 0o600)
    for name in ("link", "fifo", "."):
        with pytest.raises(UsageError):
            SigningKey.read(tmp_path / name)
    with pytest.raises(NotFound):
        SigningKey.read(tmp_path / "absent")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_key_of_another_user_is_refused(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    os.chown(path, 12345, 12345)
    with pytest.raises(UsageError, match="uid 12345"):
        SigningKey.read(path)


@pytest.mark.parametrize(
    "text",
    ["", "PRIVATE+KEY+", PUBLIC, PRIVATE.replace("c74f20a3", "c74f20a4"), PRIVATE[:-1], PRIVATE.replace("Peter", "Paul"), "\xff" * 5000],
)
def test_a_file_without_a_private_key_is_named_and_its_content_is_not(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="does not hold a private key") as caught:
        SigningKey.read(key_file(tmp_path, text))
    assert "AYEKFALVFGyNhPJEMzD1" not in caught.value.diagnostics()


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "a b", "a\x00b", "\udcff"])
def test_names_that_would_break_a_signature_line_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        SigningKey.generate(name)


def test_a_public_key_is_a_line_or_a_file_of_it(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text(PUBLIC + "\n")
    assert read_public_key(PUBLIC).text == read_public_key(str(tmp_path / "key.pub")).text == PUBLIC
    with pytest.raises(NotFound):
        read_public_key(str(tmp_path / "absent"))
    for wrong in (PUBLIC.replace("c74f", "c74e"), PUBLIC[:-4], "a+b", "a+00000000+Ag=="):
        with pytest.raises(UsageError):
            read_public_key(wrong)


def test_without_the_package_there_is_one_line_that_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    for use in (lambda: SigningKey.generate("example.com/a"), lambda: PublicKey.parse(PUBLIC)):
        with pytest.raises(Unsupported) as caught:
            use()
        assert caught.value.diagnostics() == "signatures need the package cryptography; pip install 'wcache-ledger[sign]'"
