"""A live model on mapped weights gets another checkpoint's: bit-equal, aliased, tied, all or nothing, on record."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers
from support.daemon import wait_until

from wcache.core.model.errors import MappingFailed, MissingTensor, StrictMiss, Unsupported, UsageError, WcacheError
from wcache.core.model.events import AttachDecided, FallbackCompleted, FallbackFailed, LeaseEnded, MapCompleted, MapFailed
from wcache.core.wire.messages import Done, ReleaseRequest
from wcache.ledger.audit import Audit
from wcache.ledger.prove import prove
from wcache.ledger.store import Ledger
from wcache.loader import attachment_of, from_pretrained, update

STEPS = 20
NORM = "model.norm.weight"


def make_model(seed: int, *, tied: bool = True, dtype: torch.dtype = torch.float32, layers: int = 2) -> Any:
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2, vocab_size=128,
        tie_word_embeddings=tied,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).to(dtype)


def save(model: Any, place: Path) -> Path:
    model.save_pretrained(place, max_shard_size="100KB")
    return place


@pytest.fixture(scope="module")
def places(shared_disk: Path) -> dict[str, Path]:
    """Two checkpoints of one architecture, tied and not, and the first ones' in bfloat16 and with a layer more."""
    made = {}
    for ties in ("tied", "untied"):
        for seed, name in enumerate(("first", "second")):
            made[f"{ties}-{name}"] = save(make_model(seed, tied=ties == "tied"), shared_disk / f"update-{ties}-{name}")
    made["bfloat16"] = save(make_model(2, tied=False, dtype=torch.bfloat16), shared_disk / "update-bfloat16")
    made["deeper"] = save(make_model(3, tied=False, layers=3), shared_disk / "update-deeper")
    return made


def leases(host: Any) -> int:
    """Of what is alive: an exception that a test caught is in a circle with the test's own frame."""
    gc.collect()
    found: int = host.leases()
    return found


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(torch.arange(24).reshape(2, 12)).logits
    return found


def from_disk(place: Path, **words: Any) -> torch.Tensor:
    return logits(transformers.AutoModelForCausalLM.from_pretrained(place, **words))


def addresses(model: Any) -> dict[str, int]:
    return {name: parameter.data_ptr() for name, parameter in model.named_parameters()}


def rewritten(place: Path, target: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> Path:
    """The checkpoint as one file, after a change of its tensors."""
    target.mkdir()
    tensors: dict[str, torch.Tensor] = {}
    for shard in sorted(place.glob("*.safetensors")):
        tensors.update(safetensors.torch.load_file(shard))
    change(tensors)
    safetensors.torch.save_file(tensors, target / "model.safetensors", {"format": "pt"})
    return target


@pytest.mark.parametrize("ties", ["tied", "untied"])
def test_an_updated_model_computes_what_the_new_checkpoint_computes_and_its_objects_stay(
    shared_host: Any, places: dict[str, Path], ties: str
) -> None:
    first, second = places[f"{ties}-first"], places[f"{ties}-second"]
    shared_host.daemon.load(first)
    loaded = shared_host.daemon.load(second).residency
    model = from_pretrained(None, first, settings=shared_host.settings)
    assert torch.equal(logits(model), from_disk(first))
    before, began = dict(model.named_parameters(remove_duplicate=False)), shared_host.record.last(AttachDecided)
    attachment = update(model, second, settings=shared_host.settings)
    after = dict(model.named_parameters(remove_duplicate=False))
    assert all(after[name] is before[name] for name in before) and (model.lm_head.weight is model.model.embed_tokens.weight) == (
        ties == "tied"
    )
    assert torch.equal(logits(model), from_disk(second)) and not torch.equal(logits(model), from_disk(first))
    assert all(attachment.maps.holding(parameter.data_ptr()) for parameter in model.parameters()), "every weight aliases the new mapping"
    assert attachment_of(model) is attachment
    decided, mapped = shared_host.record.last(AttachDecided), shared_host.record.last(MapCompleted)
    assert (decided.attach, decided.outcome, decided.residency) == (attachment.attach, "hit", loaded.residency)
    assert decided.engine == began.engine and decided.attach != began.attach and decided.launch != began.launch
    assert (mapped.attach, mapped.mode, mapped.copied_tensors) == (attachment.attach, "zero_copy", 0)
    assert mapped.bytes == sum(parameter.nbytes for parameter in model.parameters()), "tied bytes are counted once"
    wait_until(lambda: leases(shared_host) == 1, what="the lease of the weights before")
    del model, before, after, attachment
    wait_until(lambda: leases(shared_host) == 0)


def test_a_model_in_memory_of_its_own_and_its_compiled_form_are_updated(host: Any, places: dict[str, Path]) -> None:
    """A daemon of its own: what torch caches of a compiled model keeps the lease."""
    host.daemon.load(places["tied-second"])
    model = make_model(9)
    compiled = torch.compile(model, backend="eager", dynamic=False)
    before = logits(compiled)
    attachment = update(compiled, places["tied-second"], settings=host.settings)
    assert torch.equal(logits(compiled), logits(model)) and not torch.equal(logits(model), before)
    assert torch.equal(logits(model), from_disk(places["tied-second"]))
    assert host.record.last(AttachDecided).engine.name == "transformers"
    assert attachment_of(model) is attachment and all(parameter.requires_grad for parameter in model.parameters())


def test_persistent_buffers_are_replaced_and_others_stay(shared_host: Any, disk_path: Path) -> None:
    class Small(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4)
            self.register_buffer("scratch", torch.ones(3), persistent=False)

    wanted = {
        "norm.weight": torch.rand(4),
        "norm.bias": torch.rand(4),
        "norm.running_mean": torch.rand(4),
        "norm.running_var": torch.rand(4),
    }
    safetensors.torch.save_file({**wanted, "norm.num_batches_tracked": torch.tensor(7)}, disk_path / "model.safetensors")
    shared_host.daemon.load(disk_path)
    model = Small()
    update(model, disk_path, settings=shared_host.settings)
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in wanted.items())
    assert model.norm.num_batches_tracked == 7 and torch.equal(model.get_buffer("scratch"), torch.ones(3))
    assert shared_host.record.last(AttachDecided).engine.name == "torch"


def test_another_floating_dtype_is_converted_and_on_record_as_a_copy(shared_host: Any, places: dict[str, Path]) -> None:
    shared_host.daemon.load(places["untied-first"])
    shared_host.daemon.load(places["bfloat16"])
    model = from_pretrained(None, places["untied-first"], settings=shared_host.settings)
    update(model, places["bfloat16"], settings=shared_host.settings)
    assert model.dtype == torch.float32 and torch.equal(logits(model), from_disk(places["bfloat16"], dtype=torch.float32))
    decided, mapped = shared_host.record.last(AttachDecided), shared_host.record.last(MapCompleted)
    assert (decided.mode, decided.asked_dtype, mapped.mode, mapped.copied_tensors) == ("copy", "F32", "copy", mapped.tensors)
    assert attachment_of(model) is None
    wait_until(lambda: leases(shared_host) == 0)


def release(host: Any, residency: str) -> None:
    """Not by force: refused while anything maps it."""
    channel = host.daemon.connect()
    assert isinstance(channel.call(ReleaseRequest(residency=residency), timeout_s=60), Done)
    channel.close()


def _missing(tensors: dict[str, torch.Tensor]) -> None:
    del tensors[NORM]


def _other_shape(tensors: dict[str, torch.Tensor]) -> None:
    tensors[NORM] = torch.ones(65)


def _other_kind(tensors: dict[str, torch.Tensor]) -> None:
    tensors[NORM] = torch.ones(64, dtype=torch.int32)


def _one_more(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.layers.2.input_layernorm.weight"] = torch.ones(64)


def _other_tie(tensors: dict[str, torch.Tensor]) -> None:
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] + 1


@pytest.mark.parametrize("on_miss", ["strict", "fallback"])
@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        (_missing, MissingTensor, r"model\.norm\.weight"),
        (_other_shape, MappingFailed, r"model\.norm\.weight.*\[65\]"),
        (_other_kind, MappingFailed, r"model\.norm\.weight.*int32"),
        (_one_more, MappingFailed, r"layers\.2\.input_layernorm"),
        (_other_tie, MappingFailed, r"ties it to .*(embed_tokens|lm_head)"),
    ],
)
def test_a_checkpoint_that_does_not_fit_changes_nothing_and_is_on_record(
    shared_host: Any,
    places: dict[str, Path],
    disk_path: Path,
    change: Any,
    error: type[WcacheError],
    named: str,
    resident: bool,
    on_miss: str,
) -> None:
    """Mapped and from disk; the message names the tensor."""
    shared_host.daemon.load(places["tied-first"])
    ever_new = len(shared_host.record.all())  # else what an earlier case loaded has this content, and is a hit

    def changed(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.layers.0.input_layernorm.weight"].fill_(ever_new)
        change(tensors)

    place = rewritten(places["tied-first"], disk_path / "other", changed)
    if resident:
        shared_host.daemon.load(place)
    model = from_pretrained(None, places["tied-first"], settings=shared_host.settings)
    before, computed, attachment = addresses(model), logits(model), attachment_of(model)
    failed = len(shared_host.record.of(MapFailed))
    expected = StrictMiss if on_miss == "strict" and (not resident or change is _other_tie) else error
    with pytest.raises(expected, match=named if resident else None) as caught:
        update(model, place, settings=shared_host.settings, on_miss=on_miss)
    assert "\n" not in caught.value.diagnostics()
    assert addresses(model) == before and torch.equal(logits(model), computed) and attachment_of(model) is attachment
    assert len(shared_host.record.of(MapFailed)) == failed + resident
    if on_miss == "fallback":
        assert shared_host.record.last(FallbackFailed).attach == shared_host.record.last(AttachDecided).attach
    wait_until(lambda: leases(shared_host) == 1)


def test_a_strict_miss_on_a_twin_changes_nothing(shared_host: Any, places: dict[str, Path], disk_path: Path) -> None:
    """The twin of what is resident has equal names, shapes and headers; it is not resident."""
    place = places["tied-first"]
    shared_host.daemon.load(place)
    twin = rewritten(place, disk_path / "twin", lambda tensors: tensors.update({NORM: torch.zeros(64)}))
    model = from_pretrained(None, place, settings=shared_host.settings)
    before, computed = addresses(model), logits(model)
    with pytest.raises(StrictMiss):
        update(model, twin, settings=shared_host.settings)
    assert addresses(model) == before and torch.equal(logits(model), computed)
    assert shared_host.record.last(AttachDecided).outcome == "strict_miss" and leases(shared_host) == 1


def test_a_fallback_is_read_into_memory_of_its_own_and_recorded(shared_host: Any, places: dict[str, Path], disk_path: Path) -> None:
    """Also when the files are overwritten afterwards, as a training loop does."""
    place = rewritten(places["tied-second"], disk_path / "other", lambda tensors: tensors.update({NORM: tensors[NORM] * 2}))
    shared_host.daemon.load(places["tied-first"])
    model = from_pretrained(None, places["tied-first"], settings=shared_host.settings)
    attachment = update(model, place, settings=shared_host.settings, on_miss="fallback")
    computed = logits(model)
    assert not attachment.hit and attachment_of(model) is None and model.lm_head.weight is model.model.embed_tokens.weight
    for name, tensor in safetensors.torch.load_file(place / "model.safetensors").items():
        assert torch.equal(model.state_dict()[name], tensor), name
    completed = shared_host.record.last(FallbackCompleted)
    assert (completed.attach, completed.bytes) == (attachment.attach, (place / "model.safetensors").stat().st_size)
    assert completed.seconds > 0
    with (place / "model.safetensors").open("r+b") as file:
        file.seek(4096)
        file.write(bytes(65536))
    assert torch.equal(logits(model), computed)
    wait_until(lambda: leases(shared_host) == 0, what="the lease of the weights before")


@pytest.mark.parametrize("on_miss", ["strict", "fallback"])
def test_memory_that_runs_out_while_weights_are_converted_is_recorded_and_the_disk_is_next(
    shared_host: Any, places: dict[str, Path], monkeypatch: pytest.MonkeyPatch, on_miss: str
) -> None:
    """Although the look at it before had found enough: others take memory, too."""
    shared_host.daemon.load(places["bfloat16"])
    model = make_model(9, tied=False)
    before, convert, left = logits(model), torch.Tensor.to, [3]

    def to(tensor: torch.Tensor, *words: Any, **named: Any) -> torch.Tensor:
        left[0] -= 1
        if not left[0]:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB")
        return convert(tensor, *words, **named)

    monkeypatch.setattr(torch.Tensor, "to", to)
    if on_miss == "strict":
        with pytest.raises(StrictMiss, match=r"no_room: .*CUDA out of memory") as caught:
            update(model, places["bfloat16"], settings=shared_host.settings, on_miss=on_miss)
        assert "\n" not in caught.value.diagnostics() and torch.equal(logits(model), before)
    else:
        update(model, places["bfloat16"], settings=shared_host.settings, on_miss=on_miss)
        assert torch.equal(logits(model), from_disk(places["bfloat16"], dtype=torch.float32))
        assert shared_host.record.last(FallbackCompleted).attach == shared_host.record.last(AttachDecided).attach
    failed = shared_host.record.last(MapFailed)
    assert (failed.attach, failed.code) == (shared_host.record.last(AttachDecided).attach, "no_room")


def test_a_paused_mapping_is_not_replaced(shared_host: Any, places: dict[str, Path]) -> None:
    for name in ("tied-first", "tied-second"):
        shared_host.daemon.load(places[name])
    model = from_pretrained(None, places["tied-first"], settings=shared_host.settings)
    attachment = attachment_of(model)
    assert attachment is not None
    attachment.pause()
    decided = len(shared_host.record.of(AttachDecided))
    with pytest.raises(MappingFailed, match="paused"):
        update(model, places["tied-second"], settings=shared_host.settings)
    attachment.resume()
    assert torch.equal(logits(model), from_disk(places["tied-first"]))
    assert len(shared_host.record.of(AttachDecided)) == decided


def test_a_forked_child_does_not_replace_what_its_parent_attached(shared_host: Any, places: dict[str, Path]) -> None:
    for name in ("tied-first", "tied-second"):
        shared_host.daemon.load(places[name])
    model = from_pretrained(None, places["tied-first"], settings=shared_host.settings)
    shared_host.record.last(MapCompleted)
    child = os.fork()
    if not child:
        status = 1
        try:
            update(model, places["tied-second"], settings=shared_host.settings)
        except MappingFailed as error:
            status = 0 if "forked child" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert leases(shared_host) == 1


def test_what_cannot_be_replaced_is_refused_before_anything_is_asked(shared_host: Any, places: dict[str, Path]) -> None:
    decided = len(shared_host.record.of(AttachDecided)) if shared_host.settings.ledger.exists() else 0
    with torch.device("meta"):
        empty = make_model(0)
    with pytest.raises(Unsupported, match="without memory"):
        update(empty, places["tied-first"], settings=shared_host.settings)
    with pytest.raises(UsageError, match="device"):
        update(make_model(0), places["tied-first"], settings=shared_host.settings, device="cpu")
    with pytest.raises(UsageError, match="no weights"):
        update(torch.nn.Identity(), places["tied-first"], settings=shared_host.settings)
    assert len(shared_host.record.of(AttachDecided)) == decided


def test_twenty_steps_of_training_reach_the_live_model_without_a_wrong_hit(host: Any, disk_path: Path) -> None:
    """Each step: train, save, load, update, compare, give the one before back."""
    trainer = make_model(0)
    optimizer = torch.optim.SGD(trainer.parameters(), lr=0.1)
    ids = torch.arange(64).reshape(4, 16)
    previous = host.daemon.load(save(trainer, disk_path / "step-0")).residency.residency
    engine = from_pretrained(None, disk_path / "step-0", settings=host.settings)
    digests = set()
    for step in range(1, STEPS + 1):
        trainer(ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        place = save(trainer, disk_path / f"step-{step}")
        with pytest.raises(StrictMiss):
            update(engine, place, settings=host.settings)
        loaded = host.daemon.load(place).residency
        attachment = update(engine, place, settings=host.settings)
        assert attachment.decision.residency == loaded.residency and attachment.decision.tier == "pinned"
        for (name, mine), theirs in zip(engine.named_parameters(), trainer.parameters(), strict=True):
            assert torch.equal(mine, theirs), f"step {step}: {name}"
        assert torch.equal(logits(engine), logits(trainer)), f"step {step}"
        wait_until(lambda: leases(host) == 1, what="the lease of the step before")
        release(host, previous)
        previous = loaded.residency
        digests.add(attachment.decision.served.digest)
    assert len(digests) == STEPS
    assert len(host.daemon.status().residencies) == 1, "only the last step is resident"
    with Ledger.open(host.daemon.settings.ledger) as ledger:
        proofs = [proving.proof for proving in prove(ledger, every=True)]
    assert len(proofs) == STEPS + 1 and set(proofs) == {"proved"}
    with Audit(host.daemon.settings.ledger) as audit:
        assert audit.wrong_hits() == []
    assert len(host.record.of(LeaseEnded)) == STEPS
