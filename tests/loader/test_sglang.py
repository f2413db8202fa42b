"""The SGLang plugin without an SGLang. With one: e2e/test_sglang.py."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from support.corpus import make_checkpoint

from wcache.loader import sglang


def test_importing_the_plugin_needs_the_standard_library_only() -> None:
    """SGLang swallows what goes wrong then, and imports it in every process, whatever the load format."""
    code = "import sys; before = set(sys.modules); import wcache.loader.sglang; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    foreign = {name.partition(".")[0] for name in done.stdout.split()} - set(sys.stdlib_module_names)
    assert {name for name in foreign if not name.startswith("__editable__")} == {"wcache"}


def test_what_records_a_broken_installation_needs_little_of_it() -> None:
    """A12"""
    code = """
import sys
for name in ("blake3", "safetensors", "torch"):
    sys.modules[name] = None
import wcache.ledger.store, wcache.loader.engine_start, wcache.loader.record, wcache.loader.sglang_place
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@dataclasses.dataclass
class LoadConfig:
    """What counts here of SGLang's."""

    load_format: str
    model_loader_extra_config: dict[str, Any]


def test_where_sglang_builds_its_loader_of_files_by_itself_it_reads_files() -> None:
    """It does for LoRA adapters, with the load format that the start was given, and knows no keys of ours."""
    loader = object()
    asked = LoadConfig("wcache", {"fallback": False, "enable_weights_track": False, "num_threads": 2})
    assert sglang._from_disk(loader, asked) == ((loader, LoadConfig("auto", {"num_threads": 2})), {})
    assert sglang._from_disk(loader, LoadConfig("auto", {"num_threads": 2})) is None


def test_a_draft_that_lies_beside_the_shards_is_seen(tmp_path: Path) -> None:
    """Not one that the index names, and none where there is none."""
    place = make_checkpoint(tmp_path / "m", {f"{number}.weight": np.ones(8, np.float32) for number in range(2)}, shards=2)
    assert sglang._stray_draft(str(place), None) == ""
    shard = sorted(place.glob("*.safetensors"))[0]
    shutil.copy(shard, place / "mtp.safetensors")
    assert "SGLang reads it too" in sglang._stray_draft(str(place), None)
    index = next(place.glob("*.index.json"))
    named = json.loads(index.read_text())["weight_map"]
    index.write_text(json.dumps({"weight_map": {key: "mtp.safetensors" if file == shard.name else file for key, file in named.items()}}))
    assert sglang._stray_draft(str(place), None) == sglang._stray_draft(str(tmp_path / "none"), None) == ""
