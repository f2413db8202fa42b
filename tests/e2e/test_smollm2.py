"""A real language model through the cache: the same logits to the last bit, and the story of `make demo`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support.daemon import wait_until
from support.signing import sign, write_keys

ROOT = Path(__file__).resolve().parent.parent.parent


def _same_bits(one: Path, other: Path) -> bool:
    left, right = load_file(one)["result"], load_file(other)["result"]
    return left.dtype == right.dtype and torch.equal(left.view(torch.uint8), right.view(torch.uint8))


def test_mapped_weights_give_the_disks_logits_in_bfloat16(host: Any, smollm2: Path, tmp_path: Path) -> None:
    """A7: rotary buffers included. Every parameter lies in the sealed memory, which the kernel confirms."""
    host.engine("logits", smollm2, "disk", "bfloat16", tmp_path / "disk")
    report = host.engine("logits", smollm2, "wcache", "bfloat16", tmp_path / "mapped", on_miss="strict")
    assert _same_bits(tmp_path / "disk", tmp_path / "mapped")
    assert report["mapped"] == report["parameters"] > 0
    last = host.attaches()[-1]
    assert (last["decision"], last["mode"]) == ("hit", "zero_copy")
    assert last["asked_digest"] == last["served_digest"] is not None


def test_converted_weights_give_the_disks_logits_in_float32(host: Any, smollm2: Path, tmp_path: Path) -> None:
    """A4, A7, I12: another dtype than the resident one is a copy, and the ledger says so."""
    host.engine("logits", smollm2, "disk", "float32", tmp_path / "disk")
    report = host.engine("logits", smollm2, "wcache", "float32", tmp_path / "copied", on_miss="strict")
    assert _same_bits(tmp_path / "disk", tmp_path / "copied")
    assert report["mapped"] == 0
    last = host.attaches()[-1]
    assert (last["decision"], last["mode"]) == ("hit", "copy")


def test_the_twin_is_no_hit_and_computes_what_the_disk_says(host: Any, smollm2_zeroed: Path, tmp_path: Path) -> None:
    """I1, I2: equal headers, other bytes. The fallback is recorded with what the daemon held idle meanwhile."""
    host.engine("logits", smollm2_zeroed, "disk", "bfloat16", tmp_path / "disk")
    report = host.engine("logits", smollm2_zeroed, "wcache", "bfloat16", tmp_path / "fell_back")
    assert _same_bits(tmp_path / "disk", tmp_path / "fell_back")
    assert report["mapped"] == 0
    last = host.attaches()[-1]
    assert (last["decision"], last["reason"]) == ("fallback", "content_mismatch")


def test_a_wrong_hit_on_headers_is_refuted_by_itself_and_denied_from_then_on(host: Any, smollm2_zeroed: Path, tmp_path: Path) -> None:
    """I16, on by default: nobody asks for a proof. What the engine computes shows that the hit was wrong."""
    copy = shutil.copytree(smollm2_zeroed, tmp_path / "twin")
    host.engine("logits", copy, "disk", "bfloat16", tmp_path / "disk")
    report = host.engine("logits", copy, "wcache", "bfloat16", tmp_path / "wrong", accept="header")
    assert report["mapped"] == report["parameters"] and not _same_bits(tmp_path / "disk", tmp_path / "wrong")
    wait_until(lambda: host.attaches()[-1]["proof"] == "refuted", 300)  # at a low priority
    (row,) = [row for row in json.loads(host.wcache("audit", "wrong-hits", "--json", code=1)) if row["checkpoint"] == str(copy)]
    assert row["had"] == "ended" and row["pid"] and row["since"] < row["until"]
    host.engine("logits", copy, "wcache", "bfloat16", tmp_path / "denied", accept="header")
    assert (host.attaches()[-1]["decision"], host.attaches()[-1]["reason"]) == ("fallback", "content_mismatch")
    assert _same_bits(tmp_path / "disk", tmp_path / "denied")


def test_a_model_that_somebody_signed_is_hit_on_that_and_a_tampered_one_is_refused(host: Any, smollm2: Path, tmp_path: Path) -> None:
    """OpenSSF Model Signing, by the package of that name; later hits are pinned on what was verified."""
    private, public = write_keys(tmp_path)
    signature = sign(smollm2, private, tmp_path / "model.sig")
    words = ("fingerprint", str(smollm2), "--signature", str(signature), "--key", str(public))
    assert json.loads(host.wcache(*words, "--json"))["signed"]["name"] == smollm2.name
    host.engine("logits", smollm2, "wcache", "bfloat16", tmp_path / "signed", on_miss="strict")
    seq = str(host.attaches()[-1]["seq"])
    assert host.attaches()[-1]["tier"] == "pinned" and "bore the signature of key" in host.wcache("audit", "explain", seq)
    tampered = tmp_path / "tampered"
    tampered.mkdir()
    for path in smollm2.iterdir():
        (tampered / path.name).symlink_to(path.resolve()) if path.is_file() else None
    shard = sorted(tampered.glob("*.safetensors"))[-1]
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.unlink()
    shard.write_bytes(bytes(data))
    refused = host.wcache("fingerprint", str(tampered), *words[2:], "--json", code=3)
    assert shard.name in json.loads(refused)["error"]["where"]


@pytest.mark.slow
def test_the_demonstration_is_as_told(tmp_path: Path) -> None:
    """`make demo` checks every promise that it prints, and exits with 1 when one does not hold."""
    command = [sys.executable, str(ROOT / "demo" / "run.py"), "--run-dir", str(tmp_path / "demo")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every expectation held." in done.stdout
    assert "✗" not in done.stdout
