"""Kind `processed`: what an engine made of the weights is published once and attached by others, under its whole configuration."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from support.commands import clean_environ, in_process, ok, with_tests_on_path
from support.daemon import wait_until
from support.descriptors import open_descriptors
from support.processed import DIALECT, Tiny, Weight, answer, from_disk, hollow, loaded, make_directory, make_raw

from wcache.core.checkpoint.identity import filesystem_kind
from wcache.core.model.config import config_digest, normalise_config
from wcache.core.model.errors import (
    EXIT_UNPROVABLE,
    EvidenceUnavailable,
    MappingFailed,
    MissingTensor,
    NoRoom,
    RequestRefused,
    StrictMiss,
    Unsupported,
    UsageError,
)
from wcache.core.model.events import (
    AttachRedecided,
    FallbackCompleted,
    FingerprintRecorded,
    LoadCompleted,
    LoadStarted,
    MapCompleted,
    ReleaseCompleted,
)
from wcache.core.model.vocabulary import Kind, Lineage, Mode, Outcome, Reason, Tier
from wcache.core.wire.messages import ReleaseRequest
from wcache.ledger.audit import Audit
from wcache.loader import attachment_of
from wcache.loader.attach import Attachment, attach
from wcache.loader.publish import PublishedInfo, publish, publish_module
from wcache.loader.vllm_preload import outcome

CONFIG = normalise_config(DIALECT)


@pytest.fixture(scope="module")
def base(shared_disk: Path) -> Path:
    """A checkpoint that nobody changes: only its first load has to wait until its files are two seconds old."""
    return make_directory(shared_disk / "tiny")


def ask(host: Any, place: Path, config: dict[str, str] = CONFIG, **policy: Any) -> Attachment:
    return attach(place, settings=host.settings, kind="processed", config=config, **policy)


def raw_hit(host: Any, place: Path, **policy: Any) -> tuple[Attachment, Tiny]:
    """An engine that loaded from the daemon's raw weights."""
    host.daemon.load(place)
    found = attach(place, settings=host.settings, **policy)
    return found, loaded(found.tensors())


def published(host: Any, place: Path, config: dict[str, str] = CONFIG) -> PublishedInfo:
    """From raw weights that are known: proven."""
    found, model = raw_hit(host, place)
    return publish_module(model, attachment=found, config=config)


def in_another_process(host: Any, place: Path, config: dict[str, Any], *more: str) -> subprocess.CompletedProcess[str]:
    env = with_tests_on_path({**clean_environ(), **host.daemon.env})
    command = [sys.executable, "-m", "support.processed", str(place), json.dumps(config), *more]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


def test_what_one_engine_publishes_another_process_attaches_and_computes_the_same_bits_with(shared_host: Any, base: Path) -> None:
    info = published(shared_host, base)
    assert (info.lineage, info.unproven_why, info.reused) == (Lineage.PROVEN, "", False)
    done = in_another_process(shared_host, base, DIALECT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == answer(from_disk(base))
    mapped = shared_host.record.last(MapCompleted)
    assert mapped.mode is Mode.ZERO_COPY
    assert (mapped.tensors, mapped.copied_tensors, mapped.copied_bytes) == (info.tensors, 1, 4)  # the one buffer


def test_parameters_are_mapped_with_their_class_strides_and_ties_and_buffers_are_copies(shared_host: Any, base: Path) -> None:
    """A6."""
    published(shared_host, base)
    found = ask(shared_host, base)
    model = hollow()
    found.into(model)
    memory = found.memory()
    sizes = {place.name: place.size_bytes for place in memory.table.tensors}
    assert found.decision.tier is Tier.PINNED
    assert model.head.weight is model.embed.weight
    assert isinstance(model.fused, Weight) and model.fused.output_dim == 0  # type: ignore[attr-defined]
    assert model.queries.data_ptr() == model.fused.data_ptr()
    assert model.down.stride() == (1, model.down.shape[0]) and model.norm.stride() == (2,)
    assert model.down.data_ptr() % 64 == 0
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert found.weights_bytes == memory.table.size_bytes - _gaps(memory.table.blocks) < sum(sizes.values())
    assert not model.scale.is_meta
    model.scale.fill_(3)  # engines do that to buffers
    again = ask(shared_host, base)
    assert float(again.tensors()["scale"]) == 0.5


def test_in_mode_copy_the_module_has_memory_of_its_own_and_the_weights_are_released(host: Any, base: Path) -> None:
    info = published(host, base)
    model = hollow()
    ask(host, base, mode="copy").into(model)
    assert answer(model) == answer(from_disk(base)) and attachment_of(model) is None
    assert model.head.weight is model.embed.weight and model.queries.data_ptr() == model.fused.data_ptr()
    assert model.down.stride() == (1, model.down.shape[0])
    mapped = host.record.last(MapCompleted)
    assert (mapped.mode, mapped.copied_bytes) == (Mode.COPY, mapped.bytes)
    assert host.record.last(ReleaseCompleted).residency == info.residency
    with pytest.raises(StrictMiss, match="released"):
        ask(host, base)


def _gaps(blocks: tuple[tuple[int, int], ...]) -> int:
    return sum(start - (before + size) for (before, size), (start, _) in itertools.pairwise(blocks))


def test_a_write_into_an_attached_parameter_stays_with_its_writer(shared_host: Any, base: Path) -> None:
    """A5."""
    published(shared_host, base)
    one, other = hollow(), hollow()
    ask(shared_host, base).into(one)
    ask(shared_host, base).into(other)
    with torch.no_grad():
        one.fused.add_(1)
    assert answer(other) == answer(from_disk(base)) != answer(one)


def test_the_lease_lasts_as_long_as_a_parameter(host: Any, base: Path) -> None:
    info = published(host, base)
    model = hollow()
    ask(host, base).into(model)

    def leases() -> int:
        return next(one.leases for one in host.daemon.status().residencies if one.view.residency == info.residency)

    assert leases() == 1
    kept = model.fused
    del model
    assert leases() == 1
    del kept
    wait_until(lambda: leases() == 0)


# --- the key -----------------------------------------------------------------------------------------------------------------


def test_another_dtype_is_a_config_mismatch_that_names_it(shared_host: Any, base: Path) -> None:
    """I12: strict fails; a fallback loads and is on record."""
    published(shared_host, base)
    other = normalise_config({**DIALECT, "dtype": "bfloat16"})
    with pytest.raises(StrictMiss) as refused:
        ask(shared_host, base, other)
    assert refused.value.reason == Reason.CONFIG_MISMATCH and "differs in dtype" in str(refused.value)
    found = ask(shared_host, base, other, on_miss="fallback")
    assert (found.decision.outcome, found.decision.reason) == (Outcome.FALLBACK, Reason.CONFIG_MISMATCH)
    from_disk(base)
    found.fell_back((base / "model.safetensors").stat().st_size, 0.1)
    assert shared_host.record.last(FallbackCompleted).attach == found.attach


def test_replicas_of_a_dense_model_share_what_one_published_and_of_spread_experts_do_not(shared_host: Any, base: Path) -> None:
    """I11."""
    dense = normalise_config({**DIALECT, "model_type": "dense", "data_parallel_size": 1})
    info = published(shared_host, base, dense)
    found = ask(shared_host, base, normalise_config({**DIALECT, "model_type": "dense", "data_parallel_size": 2, "data_parallel_rank": 1}))
    assert found.decision.residency == info.residency
    experts = {**DIALECT, "model_type": "experts", "enable_expert_parallel": True}
    published(shared_host, base, normalise_config({**experts, "data_parallel_size": 1}))
    with pytest.raises(StrictMiss, match=r"differs in .*data_parallel_size"):
        ask(shared_host, base, normalise_config({**experts, "data_parallel_size": 2}))


def test_raw_and_processed_weights_of_one_checkpoint_are_never_taken_for_each_other(host: Any, base: Path) -> None:
    """D9: two kinds at once. A load does not find the processed one, an attach of either kind finds its own."""
    info = published(host, base)
    raw = next(one.view.residency for one in host.daemon.status().residencies if one.view.kind is Kind.RAW)
    channel = host.daemon.connect()
    from wcache.core.wire.messages import Done, ReleaseRequest

    assert isinstance(channel.call(ReleaseRequest(residency=raw, force=True)), Done)
    channel.close()
    assert host.daemon.load(base).residency.residency not in (raw, info.residency)
    assert attach(base, settings=host.settings).decision.residency != info.residency
    assert ask(host, base).decision.residency == info.residency


# --- lineage -----------------------------------------------------------------------------------------------------------------


def test_lineage_is_proven_and_on_record_where_the_bytes_came_from_a_known_residency(host: Any, base: Path) -> None:
    source, model = raw_hit(host, base)
    info = publish_module(model, attachment=source, config=CONFIG, engine="tiny")
    started, completed = host.record.of(LoadStarted)[-1], host.record.of(LoadCompleted)[-1]
    assert started.kind is completed.kind is Kind.PROCESSED
    assert (completed.lineage, completed.source, completed.unproven_why) == (Lineage.PROVEN, source.decision.residency, "")
    assert completed.config == CONFIG and completed.processed_digest == info.processed_digest
    assert completed.weights_digest == info.weights_digest == host.daemon.load(base).residency.weights_digest
    assert completed.by is not None and (completed.by.name, completed.by_attach) == ("tiny", source.attach)
    cli = in_process(host.daemon.env)
    rows = {row["residency"]: row for row in ok(cli("ls", "--json"))}
    row = rows[info.residency]
    assert (row["kind"], row["lineage"], row["config_digest"]) == ("processed", "proven", config_digest(CONFIG))
    assert row["processed_digest"] == info.processed_digest
    line = cli("audit", "timeline", info.residency).stdout
    assert "processed weights of" in line and "lineage proven" in line


def test_unproven_lineage_is_a_miss_that_says_why_and_a_hit_where_less_is_accepted(host: Any, base: Path, disk_path: Path) -> None:
    """Weights that an engine read by a hit at `header`: nobody knows what they were made of. Proof says so too."""
    copy = shutil.copytree(base, disk_path / "copy")  # the same bytes, which nobody has hashed here
    host.daemon.load(base)
    source = attach(copy, settings=host.settings, accept="header")
    assert source.decision.tier is Tier.HEADER
    weak = publish_module(loaded(source.tensors()), attachment=source, config=CONFIG)
    assert weak.lineage is Lineage.UNPROVEN and "hit at header" in weak.unproven_why
    hashed = len(host.record.of(FingerprintRecorded))
    with pytest.raises(StrictMiss) as refused:
        ask(host, copy)
    assert refused.value.reason == Reason.EVIDENCE_INSUFFICIENT and "lineage is unproven" in str(refused.value)
    assert len(host.record.of(FingerprintRecorded)) == hashed  # no byte was read for a hit that could not be
    found = ask(host, copy, accept="header")
    assert (found.decision.residency, found.decision.tier) == (weak.residency, Tier.HEADER)
    done = in_another_process(host, copy, DIALECT, "header")
    assert done.stdout.strip() == answer(from_disk(base))
    cli = in_process(host.daemon.env)
    proofs = {item["seq"]: item for item in ok(cli("audit", "prove", str(found.seq), "--json"), EXIT_UNPROVABLE)}
    proof = proofs[found.seq]  # the raw hit on the same files may be decided by the same look
    assert proof["proof"] == "unprovable" and "lineage" in proof["why"] and "hit at header" in proof["why"]
    assert "unproven (the weights were read by a hit at header only)" in cli("audit", "explain", str(found.seq)).stdout
    strong = published(host, copy)
    assert not strong.reused and strong.lineage is Lineage.PROVEN
    assert ask(host, copy).decision.residency == strong.residency


def test_the_proof_of_a_hit_follows_a_proven_lineage(host: Any, base: Path) -> None:
    info = published(host, base)
    found = ask(host, base)
    (proof,) = ok(in_process(host.daemon.env)("audit", "prove", str(found.seq), "--json"))
    assert proof["proof"] == "proved" and "made from r-" in proof["why"]
    assert proof["residency"] == info.residency


def _fallback(host: Any, place: Path) -> Attachment:
    """An engine whose attach missed reads the files."""
    found = ask(host, place, on_miss="fallback")
    assert found.decision.outcome is Outcome.FALLBACK
    return found


@pytest.fixture
def own(disk_path: Path) -> Iterator[Path]:
    """A checkpoint of the test's own, old enough to be pinned (its times say so to nobody but the kernel: it waits for that)."""
    place = make_directory(disk_path / "own")
    import time

    file = place / "model.safetensors"
    wait_until(lambda: time.time() - max(file.stat().st_ctime, place.stat().st_ctime) > 2.1)
    yield place


def test_what_a_launch_published_is_told_from_what_others_did_meanwhile(host: Any, base: Path) -> None:
    """`wcache preload` is complete when its own ranks are."""
    infos = {}
    for launch in ("l-one", "l-other"):
        source, model = raw_hit(host, base, launch=launch)
        infos[launch] = publish_module(model, attachment=source, config={**CONFIG, "of": f'"{launch}"'})
    assert outcome(host.settings, "l-one", 0) == (0, (infos["l-one"].residency,))
    assert outcome(host.settings, "l-on", 0) == outcome(host.settings, "l-neither", 0) == (0, ())
    with Audit(host.settings.ledger) as audit:
        before_seq = audit.head()["events"]
    assert outcome(host.settings, "l-one", before_seq) == (0, ())  # what a launch of that name did earlier
    again = ask(host, base, config={**CONFIG, "of": '"l-one"'}, launch="l-one")
    assert again.hit and outcome(host.settings, "l-one", before_seq) == (1, ())
    again.close()
    with closing(host.daemon.connect()) as channel:
        channel.call(ReleaseRequest(residency=infos["l-one"].residency, why="the test wants it"))
    assert outcome(host.settings, "l-one", 0) == (0, ())  # evicted, say, by what another rank published


def test_lineage_is_proven_where_the_files_were_the_same_before_and_after_they_were_read(host: Any, own: Path) -> None:
    """Nothing was resident, so the engine read the disk and published what it made: the first start prepares the next ones."""
    miss = _fallback(host, own)
    model = from_disk(own)
    miss.fell_back(1, 0.1)
    info = publish_module(model, attachment=miss, config=CONFIG)
    assert (info.lineage, info.unproven_why) == (Lineage.PROVEN, "")
    assert host.record.last(LoadCompleted).source == "disk"
    found = ask(host, own)
    model = hollow()
    found.into(model)
    assert answer(model) == answer(from_disk(own))
    (proof,) = ok(in_process(host.daemon.env)("audit", "prove", str(found.seq), "--json"))
    assert proof["proof"] == "proved"


def test_lineage_is_unproven_where_the_files_changed_while_an_engine_read_them(host: Any, own: Path) -> None:
    miss = _fallback(host, own)
    model = from_disk(own)
    other = make_directory(own.parent / "other", seed=1)
    shutil.copy(other / "model.safetensors", own / "model.safetensors")
    info = publish_module(model, attachment=miss, config=CONFIG)
    assert info.lineage is Lineage.UNPROVEN and "not those that lay there" in info.unproven_why
    with pytest.raises(StrictMiss, match="lineage"):
        ask(host, own)


def test_lineage_is_unproven_where_the_files_were_fresh_or_nobody_looked_before(host: Any, disk_path: Path) -> None:
    fresh = make_directory(disk_path / "fresh")
    miss = _fallback(host, fresh)
    info = publish_module(from_disk(fresh), attachment=miss, config=CONFIG)
    assert info.lineage is Lineage.UNPROVEN and "right before" in info.unproven_why
    unseen = publish_module(from_disk(fresh), fresh, settings=host.settings, config=normalise_config({**DIALECT, "dtype": "float16"}))
    assert unseen.lineage is Lineage.UNPROVEN and "before they were read" in unseen.unproven_why


def test_lineage_is_unproven_where_a_file_system_hides_stores(host: Any) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        place = make_directory(Path(scratch) / "tiny")
        if filesystem_kind(place) != "tmpfs":
            pytest.skip("/dev/shm is no tmpfs here")
        info = publish_module(from_disk(place), attachment=_fallback(host, place), config=CONFIG)
        assert info.lineage is Lineage.UNPROVEN and "tmpfs" in info.unproven_why


def test_nothing_is_published_where_nobody_knows_the_weights_or_the_attach_is_another_checkpoints(host: Any, base: Path, own: Path) -> None:
    with pytest.raises(EvidenceUnavailable, match="nobody knows which weights"):
        publish_module(from_disk(own), own, settings=host.settings, config=CONFIG, max_read_bytes=0)
    source, model = raw_hit(host, base)
    source.request = source.request.__class__(asked=_fallback(host, own).request.asked)
    with pytest.raises(RequestRefused, match="the attach was about"):
        publish_module(model, attachment=source, config=CONFIG)
    info = published(host, base)
    with pytest.raises(RequestRefused, match="only be made from raw"):
        publish_module(model, attachment=ask(host, base), config=normalise_config({**DIALECT, "dtype": "float16"}))
    assert [one.residency for one in host.record.of(LoadCompleted) if one.kind is Kind.PROCESSED] == [info.residency]


# --- one key, one residency --------------------------------------------------------------------------------------------------


def test_equal_weights_are_published_once_however_many_ranks_do_it_at_once(host: Any, base: Path) -> None:
    source, model = raw_hit(host, base)
    found: list[PublishedInfo] = []

    def rank() -> None:
        found.append(publish_module(model, attachment=source, config=CONFIG))

    threads = [threading.Thread(target=rank) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len({info.residency for info in found}) == 1 and len(found) == 4
    assert sum(not info.reused for info in found) == 1
    assert len([one for one in host.record.of(LoadCompleted) if one.kind is Kind.PROCESSED]) == 1
    assert publish_module(model, attachment=source, config=CONFIG).reused


def test_released_processed_weights_are_a_miss_that_says_so(host: Any, base: Path) -> None:
    info = published(host, base)
    cli = in_process(host.daemon.env)
    ok(cli("release", info.residency, "--json"))
    with pytest.raises(StrictMiss) as refused:
        ask(host, base)
    assert refused.value.reason == Reason.RELEASED


# --- what does not fit -------------------------------------------------------------------------------------------------------


def test_a_tensor_that_nobody_published_is_an_error_that_names_it_and_changes_nothing(host: Any, base: Path) -> None:
    """A3: never memory without contents, never a random init."""
    published(host, base)
    with torch.device("meta"):
        model = Tiny()  # its `angles` are in no state dict, and were not chosen
    with pytest.raises(MissingTensor, match="angles"):
        ask(host, base).into(model)
    assert all(parameter.is_meta for parameter in model.parameters())
    assert host.record.last(AttachRedecided).reason is Reason.MAPPING_FAILED
    source, whole = raw_hit(host, base)
    chosen = normalise_config({**DIALECT, "chosen": True})
    publish_module(whole, attachment=source, config=chosen, buffers=lambda name, tensor: True)
    ask(host, base, chosen).into(model)
    assert answer(model) == answer(from_disk(base))


def test_a_module_that_has_memory_keeps_no_value_that_it_was_initialised_with(shared_host: Any, base: Path) -> None:
    """A3: only what it makes itself, and keeps in no state dict, is its own."""
    published(shared_host, base)
    for add in (
        lambda model: model.register_parameter("more", torch.nn.Parameter(torch.ones(3))),
        lambda model: model.register_buffer("more", torch.ones(3)),
    ):
        model = loaded(make_raw(seed=1))
        add(model)
        before = answer(model)
        with pytest.raises(MissingTensor, match="1 tensors that were not published: more"):
            ask(shared_host, base).into(model)
        assert answer(model) == before, "nothing was changed"
    model = loaded(make_raw(seed=1))
    ask(shared_host, base).into(model)
    assert answer(model) == answer(from_disk(base))


def test_memory_that_runs_out_leaves_the_module_as_it_was(shared_host: Any, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published(shared_host, base)
    found, model = ask(shared_host, base, on_miss="fallback"), hollow()

    def clone(tensor: torch.Tensor, **named: Any) -> torch.Tensor:
        raise RuntimeError(f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {tensor.nbytes} bytes.")

    monkeypatch.setattr(torch.Tensor, "clone", clone)
    with pytest.raises(NoRoom, match="tried to allocate 4 bytes"):
        found.into(model)
    assert all(parameter.is_meta for parameter in model.parameters()) and model.scale.is_meta
    assert shared_host.record.last(AttachRedecided).reason is Reason.NO_ROOM


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda model: delattr(model, "small"), "no place for 1 published tensors: small"),
        (
            lambda model: setattr(model, "small", torch.nn.Parameter(torch.empty(7, device="meta"))),
            r"small: the module has torch.float32 \[7\]",
        ),
        (lambda model: setattr(model, "queries", model.down), "ties it to"),
    ],
)
def test_what_does_not_fit_the_module_is_named_and_changes_nothing(host: Any, base: Path, change: Any, word: str) -> None:
    published(host, base)
    model = hollow()
    change(model)
    with pytest.raises(StrictMiss, match=word):
        ask(host, base).into(model)
    with pytest.raises(MappingFailed, match=word):
        ask(host, base, on_miss="fallback").into(model)
    assert model.fused.is_meta


@pytest.mark.parametrize(
    ("tensor", "error", "word"),
    [
        (torch.empty(4, device="meta"), UsageError, "meta"),
        (torch.eye(4).to_sparse(), Unsupported, "sparse"),
        (torch.ones(4, dtype=torch.complex128), Unsupported, "complex128"),
        (torch.ones(4, dtype=torch.complex64).conj(), Unsupported, "computed"),
    ],
)
def test_a_tensor_that_cannot_be_shared_is_refused_by_name(
    shared_host: Any, base: Path, tensor: torch.Tensor, error: Any, word: str
) -> None:
    with pytest.raises(error, match=word) as refused:
        publish({"good": torch.ones(2), "bad.one": tensor}, base, settings=shared_host.settings, config=CONFIG)
    assert refused.value.where == "bad.one"


def test_nothing_and_unknown_buffers_are_refused(shared_host: Any, base: Path) -> None:
    with pytest.raises(UsageError, match="no tensors"):
        publish({}, base, settings=shared_host.settings, config=CONFIG)
    with pytest.raises(UsageError, match="no such buffer"):
        publish_module(hollow(), base, settings=shared_host.settings, config=CONFIG, buffers=["nowhere"])
    with pytest.raises(UsageError, match="which checkpoint"):
        publish({"a": torch.ones(2)}, settings=shared_host.settings, config=CONFIG)


def test_publishing_takes_no_memory_of_the_engine_for_longer_than_it_lasts(host: Any, base: Path) -> None:
    source, model = raw_hit(host, base)
    before = open_descriptors()
    publish_module(model, attachment=source, config=CONFIG)
    assert open_descriptors() == before
    assert "wcache:processed" not in Path("/proc/self/maps").read_text()
