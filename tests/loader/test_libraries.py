"""A12: an engine whose libraries are broken does not start, says why in one line, and is on record. A11: what fell back holds nothing of
the daemon's memory, so an engine that sizes its caches by what is mapped is charged nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.corpus import make_checkpoint
from support.ledgers import Record

from wcache.core.model.errors import StrictMiss, Unsupported
from wcache.core.model.events import AttachDecided, FallbackFailed
from wcache.core.model.vocabulary import Outcome, Reason
from wcache.core.settings import Settings
from wcache.loader import from_pretrained, load_file, safe_open
from wcache.loader.attach import attach


@pytest.fixture(params=["torch", "transformers"])
def broken(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A library that is installed and whose import raises."""
    name: str = request.param
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / f"{name}.py").write_text('raise RuntimeError("operator torchvision::nms does not exist")\n')
    for loaded in [module for module in sys.modules if module == name or module.startswith(f"{name}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return name


def test_a_model_whose_library_cannot_be_imported_does_not_start_and_is_on_record(
    broken: str, settings: Settings, record: Record, tmp_path: Path
) -> None:
    """A12"""
    checkpoint = make_checkpoint(tmp_path / "model")
    with pytest.raises(Unsupported, match=f"{broken} cannot be imported .RuntimeError: operator") as caught:
        from_pretrained(None, checkpoint, settings=settings, launch="l-broken")
    assert "\n" not in caught.value.diagnostics()
    decided = record.last(AttachDecided)
    assert (decided.outcome, decided.reason, decided.launch) == (Outcome.FALLBACK, Reason.UNSUPPORTED, "l-broken")
    assert broken in decided.detail
    failed = record.last(FallbackFailed)
    assert (failed.attach, failed.code) == (decided.attach, "unsupported")


def test_a_file_whose_framework_cannot_be_imported_is_not_read_and_is_on_record(
    settings: Settings, record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A12"""
    monkeypatch.setitem(sys.modules, "torch", None)
    shard = make_checkpoint(tmp_path / "model") / "model.safetensors"
    with pytest.raises(Unsupported, match="torch cannot be imported"):
        load_file(shard, settings=settings)
    with pytest.raises(StrictMiss, match="torch cannot be imported"):
        load_file(shard, settings=settings, on_miss="strict")
    assert [event.outcome for event in record.of(AttachDecided)] == [Outcome.FALLBACK, Outcome.STRICT_MISS]
    with safe_open(shard, "np", settings=settings) as file:  # needs no torch
        assert file.keys()


def test_what_fell_back_is_charged_nothing_of_the_resident_weights(host: object, disk_path: Path) -> None:
    """A11"""
    resident = make_checkpoint(disk_path / "resident")
    other = make_checkpoint(disk_path / "other", seed=1)
    host.daemon.load(resident)  # type: ignore[attr-defined]
    settings = host.settings  # type: ignore[attr-defined]
    hit = attach(resident, settings=settings)
    assert hit.weights_bytes > 0
    fell_back = attach(other, settings=settings, on_miss="fallback")
    assert (fell_back.decision.reason, fell_back.weights_bytes, dict(fell_back.segments)) == (Reason.CONTENT_MISMATCH, 0, {})
    assert fell_back.idle_bytes == 0  # `resident` is leased, so nothing lies idle for this start
    hit.close()
    assert "memfd:" not in Path("/proc/self/maps").read_text()
    fell_back.fell_back(1, 0.1)
