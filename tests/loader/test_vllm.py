"""The vLLM plugin without a vLLM: its keys, its place in a start, and what it hands to vLLM's own loader. With one: e2e/test_vllm.py."""

from __future__ import annotations

import dataclasses
import enum
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch
from safetensors import safe_open
from support.corpus import make_checkpoint
from support.daemon import wait_until
from support.ledgers import Record

from wcache.core.model.config import config_difference
from wcache.core.model.errors import EvidenceUnavailable, MissingTensor, StrictMiss, Unsupported, UsageError
from wcache.core.model.events import AttachDecided, Engine, FallbackCompleted, FallbackFailed, LeaseEnded, MapCompleted, MapFailed, Ranks
from wcache.core.model.vocabulary import Mode, Outcome, Reason
from wcache.core.settings import Settings
from wcache.loader.engine_options import parse_options
from wcache.loader.engine_weights import Weights
from wcache.loader.question import make_question
from wcache.loader.record import record_refusal
from wcache.loader.vllm import other_choice, refuse_reload, refuse_writers
from wcache.loader.vllm_form import as_tensor, beside, difference, form_of, from_tensor, plain_values, set_since
from wcache.loader.vllm_key import key_of
from wcache.loader.vllm_place import engine_of, launch_of, ranks_of
from wcache.loader.vllm_processed import _follow, _homes, _of_model, _require_shareable

ENGINE = Engine(name="vllm", version="0.32.0")


def weights(settings: Settings) -> Weights:
    return Weights(settings, dtype="BF16", engine=ENGINE, ranks=Ranks(rank=1, world=2, tp=2), launch="l-vllm")


def model_of(size_bytes: int) -> Any:
    return SimpleNamespace(parameters=lambda: [torch.empty(size_bytes, dtype=torch.uint8)])


def read(place: str) -> dict[str, torch.Tensor]:
    found = {}
    for file in sorted(Path(place).glob("*.safetensors")):
        with safe_open(file, "pt") as shard:
            found.update({name: shard.get_tensor(name) for name in shard.keys()})  # noqa: SIM118
    return found


# --- keys -----------------------------------------------------------------------------------------------------------------


def test_the_keys_that_operators_know_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WCACHE_ON_MISS", "fallback")
    monkeypatch.setenv("WCACHE_CONFIG", "/dev/null")
    found = parse_options(
        {"fallback": False, "socket_dir": str(tmp_path), "mode": "copy", "tensors": "raw", "wait_s": 5, "accept": "content"}
    )
    assert (found.settings.policy.on_miss, found.settings.policy.wait_s, found.settings.policy.accept) == ("strict", 5.0, "content")
    assert found.settings.runtime_dir == tmp_path
    assert parse_options({"fallback": True, "on_miss": "fallback"}).settings.policy.on_miss == "fallback"
    assert parse_options({}).disk == {}
    assert parse_options({"enable_multithread_load": True}).disk == {"enable_multithread_load": True}


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (
            {"falback": False},
            r"falback is no key of the load format wcache; known: tensors, fallback, mode, socket_dir, runtime_dir, .*accept",
        ),
        ({"fallback": "no"}, r"fallback is 'no'; it must be true or false"),
        ({"fallback": False, "on_miss": "fallback"}, r"fallback says on_miss = 'strict', and on_miss is 'fallback'; give one"),
        ({"socket_dir": "/a", "runtime_dir": "/b"}, r"socket_dir says runtime_dir = '/a', and runtime_dir is '/b'"),
        ({"tensors": "cooked"}, r"tensors is 'cooked'"),
        ({"mode": "zero_copy"}, r"mode is 'zero_copy'; with tensors = raw it must be copy"),
        ({"mode": "copy", "tensors": "processed"}, r"mode is 'copy'; with tensors = processed it must be zero_copy"),
        ({"accept": "hearsay"}, r"accept is 'hearsay'.*must be one of header, sampled, pinned, content"),
        ({"wait_s": "soon"}, r"wait_s is 'soon'"),
        (["fallback"], r"the extra config is list"),
    ],
)
def test_every_key_is_looked_at_and_a_wrong_one_is_named(extra: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_options(extra)
    line = caught.value.diagnostics()
    assert "\n" not in line
    assert re.search(said, line), line


# --- the place in a start ---------------------------------------------------------------------------------------------------


def config(**parallel: Any) -> Any:
    sizes = {
        "data_parallel_index": 0, "data_parallel_size": 1, "world_size": 1, "rank": 0, "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1, "enable_expert_parallel": False,
    }  # fmt: skip
    return SimpleNamespace(parallel_config=SimpleNamespace(**{**sizes, **parallel}), instance_id="abcde")


def test_ranks_are_counted_over_all_replicas() -> None:
    assert ranks_of(config()) == Ranks()
    assert ranks_of(config(world_size=4, rank=3, tensor_parallel_size=2, pipeline_parallel_size=2)) == Ranks(rank=3, world=4, tp=2, pp=2)
    experts = config(data_parallel_index=1, data_parallel_size=2, world_size=2, rank=1, tensor_parallel_size=2, enable_expert_parallel=True)
    assert ranks_of(experts) == Ranks(rank=3, world=4, tp=2, dp=2, ep=4)
    alone = config(data_parallel_index=1)  # a replica of a dense model: vLLM tells it that it is the only one
    assert ranks_of(alone) == Ranks(rank=1, world=2, dp=2)


def test_all_ranks_of_an_engine_share_a_launch_and_two_engines_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WCACHE_LAUNCH", raising=False)
    monkeypatch.setenv("WCACHE_VLLM_START", "l-start")
    one, replica, other = config(), config(), config()
    replica.instance_id, other.instance_id = "abcde_dp1", "fghij"
    assert launch_of(one) == launch_of(replica) == "l-start-abcde"
    assert launch_of(other) == "l-start-fghij"
    monkeypatch.setenv("WCACHE_LAUNCH", "l-mine")
    assert launch_of(other) == "l-mine"
    monkeypatch.delenv("WCACHE_LAUNCH")
    monkeypatch.delenv("WCACHE_VLLM_START")
    assert launch_of(one) == launch_of(one)


def test_a_draft_model_is_told_from_its_target() -> None:
    assert engine_of(SimpleNamespace(runner_type="generate"), "0.32.0").name == "vllm"
    draft = engine_of(SimpleNamespace(runner_type="draft"), "0.32.0")
    assert (draft.name, draft.version) == ("vllm-draft", "0.32.0")


def test_importing_the_plugin_needs_the_standard_library_only() -> None:
    """vLLM swallows what goes wrong then, and imports it in every process, whatever the load format."""
    code = "import sys; before = set(sys.modules); import wcache.loader.vllm; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    foreign = {name.partition(".")[0] for name in done.stdout.split()} - set(sys.stdlib_module_names)
    assert {name for name in foreign if not name.startswith("__editable__")} == {"wcache"}


def test_what_records_a_broken_installation_needs_little_of_it() -> None:
    """A12: the libraries that hash, and those that engines bring along, may be missing or broken."""
    code = """
import sys
for name in ("blake3", "safetensors", "torch"):
    sys.modules[name] = None
import wcache.ledger.store, wcache.loader.question, wcache.loader.record, wcache.loader.engine_options, wcache.loader.vllm_place
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- the weights ------------------------------------------------------------------------------------------------------------


def test_a_hit_is_a_directory_that_reads_like_the_checkpoint_and_is_gone_afterwards(shared_host: Any, shared_disk: Path) -> None:
    """A5: what the engine does to the tensors that it reads stays with it."""
    checkpoint = make_checkpoint(shared_disk / "hit", shards=3)
    residency = shared_host.daemon.load(checkpoint).residency.residency
    found = weights(shared_host.settings)
    with found.settled(model_of(1000)):
        place = found.place_of(str(checkpoint), None)
        assert place != str(checkpoint)
        tensors = read(place)
        expected = read(str(checkpoint))
        assert tensors.keys() == expected.keys()
        for name, tensor in tensors.items():
            assert torch.equal(tensor.reshape(-1).view(torch.uint8), expected[name].reshape(-1).view(torch.uint8)), name
        assert shared_host.leases() == 1
        tensors["model.norm.weight"].zero_()
        assert read(place)["model.norm.weight"].any()
    assert not Path(place).exists()
    mapped = shared_host.record.last(MapCompleted)
    assert (mapped.mode, mapped.tensors, mapped.bytes, mapped.copied_bytes) == (Mode.COPY, len(expected), 1000, 1000)
    decided = next(event for event in shared_host.record.of(AttachDecided) if event.attach == mapped.attach)
    assert (decided.outcome, decided.residency, decided.launch) == (Outcome.HIT, residency, "l-vllm")
    assert (decided.engine.name, decided.engine.version, decided.ranks) == ("vllm", "0.32.0", Ranks(rank=1, world=2, tp=2))
    wait_until(lambda: any(event.attach == mapped.attach for event in shared_host.record.of(LeaseEnded)))
    assert shared_host.leases() == 0


def test_a_miss_is_the_checkpoint_itself_and_its_bytes_are_on_record(settings: Settings, record: Record, tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "model")
    found = weights(settings)
    with found.settled(model_of(1)):
        assert found.place_of(str(checkpoint), None) == str(checkpoint)
        found.read_from(str(checkpoint), [str(file) for file in checkpoint.glob("*.safetensors")])
    assert record.last(AttachDecided).reason is Reason.DAEMON_ABSENT
    assert record.last(FallbackCompleted).bytes == sum(file.stat().st_size for file in checkpoint.glob("*.safetensors"))


def test_a_strict_miss_is_raised_where_the_weights_are_asked_for(settings: Settings, record: Record, tmp_path: Path) -> None:
    strict = msgspec.structs.replace(settings, policy=msgspec.structs.replace(settings.policy, on_miss="strict"))
    found = weights(strict)
    with pytest.raises(StrictMiss, match="daemon_absent"), found.settled(model_of(1)):
        found.place_of(str(make_checkpoint(tmp_path / "model")), None)
    assert record.last(AttachDecided).outcome is Outcome.STRICT_MISS


def test_what_no_residency_can_hold_is_said_once(settings: Settings, record: Record, tmp_path: Path) -> None:
    checkpoint = str(make_checkpoint(tmp_path / "model"))
    found = weights(settings)
    with found.settled(model_of(1)):
        assert found.place_of(checkpoint, None, "the model takes only *.pt of the checkpoint") == checkpoint
        assert found.place_of(checkpoint, None, "the model takes only *.bin of the checkpoint") == checkpoint
    (decided,) = record.of(AttachDecided)
    assert (decided.outcome, decided.reason) == (Outcome.FALLBACK, Reason.UNSUPPORTED)
    assert "*.pt" in decided.detail


@pytest.mark.parametrize("resident", [True, False])
def test_parameters_without_a_tensor_are_an_error_that_names_them(shared_host: Any, shared_disk: Path, resident: bool) -> None:
    """A3: vLLM's own words, as the error that it is here, and the attach ends on record."""
    checkpoint = make_checkpoint(shared_disk / f"missing-{resident}", seed=7 if resident else 8)
    if resident:
        shared_host.daemon.load(checkpoint)
    policy = msgspec.structs.replace(shared_host.settings.policy, on_miss="fallback")
    found = weights(msgspec.structs.replace(shared_host.settings, policy=policy))
    with pytest.raises(MissingTensor) as caught, found.settled(model_of(1)):
        found.place_of(str(checkpoint), None)
        raise ValueError("Following weights were not initialized from checkpoint: {'model.b', 'model.a'}")
    assert "checkpoint does not have: model.a, model.b" in str(caught.value)
    failed = shared_host.record.last(FallbackFailed)
    assert failed.code == "missing_tensor"
    assert any(event.attach == failed.attach for event in shared_host.record.of(MapFailed)) is resident
    assert shared_host.leases() == 0


def test_any_other_failure_of_the_engine_is_on_record_and_goes_on(shared_host: Any, shared_disk: Path) -> None:
    checkpoint = make_checkpoint(shared_disk / "failing", seed=9)
    shared_host.daemon.load(checkpoint)
    found = weights(shared_host.settings)
    with pytest.raises(RuntimeError, match="no kernel"), found.settled(model_of(1)):
        place = found.place_of(str(checkpoint), None)
        raise RuntimeError("no kernel for this")
    assert not Path(place).exists()
    assert "no kernel" in shared_host.record.last(MapFailed).message


def test_an_environment_in_which_wcache_is_broken_is_on_record(settings: Settings, record: Record, tmp_path: Path) -> None:
    """A12"""
    question = make_question(tmp_path, engine=ENGINE, launch="l-broken")
    record_refusal(question, settings, Unsupported("wcache cannot be imported in this environment"))
    decided = record.last(AttachDecided)
    assert (decided.outcome, decided.reason, decided.launch) == (Outcome.FALLBACK, Reason.UNSUPPORTED, "l-broken")
    assert record.last(FallbackFailed).code == "unsupported"


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["model.safetensors"], ""),
        (["model-1.safetensors", "model-2.safetensors", "model.safetensors.index.json"], ""),
        (["model-1.safetensors", "stray.safetensors", "model.safetensors.index.json"], ""),  # what no index names, vLLM leaves out
        (["adapter_model.safetensors", "model.safetensors"], "vLLM reads each of adapter_model.safetensors, model.safetensors there"),
        (["consolidated.safetensors", "model-1.safetensors", "model.safetensors.index.json"], "vLLM begins with consolidated"),
    ],
)
def test_a_directory_of_which_vllm_reads_other_files_is_no_attach(tmp_path: Path, names: list[str], why: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    assert other_choice(str(tmp_path)).startswith(why) and bool(other_choice(str(tmp_path))) is bool(why)
    assert other_choice("org/name") == ""


# --- what processed tensors cannot do ---------------------------------------------------------------------------------------


def test_sleep_and_reload_are_refused_where_tensors_are_mapped_and_never_half_done() -> None:
    def start(sleep: bool = False, transfer: Any = None, **parallel: bool) -> None:
        parallel_config = SimpleNamespace(**{"enable_eplb": False, **parallel})
        refuse_writers(
            SimpleNamespace(parallel_config=parallel_config, weight_transfer_config=transfer), SimpleNamespace(enable_sleep_mode=sleep)
        )

    start()
    with pytest.raises(Unsupported, match="sleep mode"):
        start(sleep=True)
    with pytest.raises(Unsupported, match="balancing experts"):
        start(enable_eplb=True)
    with pytest.raises(Unsupported, match="elastic"):
        start(enable_elastic_ep=True)
    with pytest.raises(Unsupported, match="weight transfer"):
        start(transfer=object())
    refuse_reload(parse_options({}))
    with pytest.raises(Unsupported, match="reload_weights"):
        refuse_reload(parse_options({"tensors": "processed"}))


def test_what_holds_a_tensor_beside_its_layer_gets_the_one_that_replaced_it() -> None:
    """An attention backend, which is no module, keeps the sinks of its layer. What nobody replaced is still found."""
    layer = torch.nn.Linear(2, 2, device="meta")
    layer.impl = SimpleNamespace(sinks=layer.bias, slopes=torch.empty(3, device="meta"), scale=1.0)
    model = torch.nn.Sequential(layer)
    homes = _homes(model)
    layer.bias = torch.nn.Parameter(torch.ones(2))
    _follow(model, homes)
    assert layer.impl.sinks is layer.bias
    assert [name for held in beside(layer) for name, tensor in held.items() if getattr(tensor, "is_meta", False)] == ["slopes"]


def test_layers_of_a_vllm_that_does_not_say_which_it_takes_are_those_that_change_no_weight() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    model[0].quant_method = type("UnquantizedLinearMethod", (), {})()
    _require_shareable(model)
    for method in (type("Fp8LinearMethod", (), {}), type("UnquantizedLinearMethod", (), {"supports_pre_processed_weights": False})):
        model[1].quant_method = method()
        with pytest.raises(Unsupported, match=f"^1: vLLM cannot take processed tensors of {method.__name__}"):
            _require_shareable(model)


def test_what_loading_sets_beside_tensors_is_found_and_keeps_a_model_from_being_published() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    before = plain_values(model)
    model[0].has_own_head = True
    model[0].weight.data.zero_()
    found = set_since(before, model)
    assert found == ["0.has_own_head"]
    with pytest.raises(Unsupported, match=r"^0\.has_own_head: loading sets it"):
        _require_shareable(model, found)


def test_what_loading_writes_into_tensors_that_are_not_published_is_found() -> None:
    """A model on a GPU may keep some on the host: here the model is where no memory is."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2, device="meta"))
    model[0].scales, model[0].table = torch.ones(3, dtype=torch.bfloat16), torch.ones(2, 2).t()
    before = plain_values(model)
    model[0].scales.data[1] = 7
    assert set_since(before, model) == ["0.scales"]
    assert not any(isinstance(value, bytes) for value in plain_values(torch.nn.Linear(2, 2)).values())


def test_a_model_that_is_built_otherwise_is_told_by_its_first_difference() -> None:
    """Tables as long as the longest request, kernels that are chosen by what is installed: no field of the key says so."""

    def model(rows: int = 4, kernel: str = "Cutlass", layers: int = 1) -> torch.nn.Module:
        layer = torch.nn.Linear(2, 2)
        layer.register_buffer("table", torch.zeros(rows, 2))
        backend = enum.Enum("Backend", [kernel], module="vllm.platforms")(1)
        layer.quant_method = type("Method", (), {"__module__": "vllm.model_executor"})()
        layer.quant_method.backend = backend
        layer.compilation_config = SimpleNamespace(mode=kernel)  # the key has what counts of configurations
        return torch.nn.Sequential(*[layer] * layers, *(torch.nn.ReLU() for _ in range(layers)))

    with torch.device("meta"):
        empty = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    assert form_of(empty) == form_of(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    form = form_of(model())
    assert from_tensor(as_tensor(form, "cpu")) == form and difference(form, form_of(model())) == ""
    assert difference(form, form_of(model(rows=8))) == "0: published was table float32 [4, 2], here is table float32 [8, 2]"
    assert "backend Cutlass" in difference(form, form_of(model(kernel="Triton")))
    assert difference(form, form_of(model(layers=2))) and difference([], form)


@pytest.mark.parametrize("place", ["list", "elsewhere"])
def test_tensors_that_would_be_left_out_keep_a_model_from_being_published(place: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    if place == "list":
        model[0].packed = (torch.ones(3),)
        with pytest.raises(Unsupported, match=r"^0\.packed: it has tensors in it"):
            _require_shareable(model)
    else:
        model[0].weight = torch.nn.Parameter(torch.empty(2, 2, device="meta"))
        with pytest.raises(Unsupported, match=r"^0\.weight: it is on meta"):
            _of_model(model, torch.device("cpu"))


# --- the key of processed tensors -------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Model:
    dtype: Any = torch.float32
    hf_config: Any = None
    max_model_len: int = 128
    added_by_a_later_vllm: Any = None
    experts: int = 0

    @property
    def is_moe(self) -> bool:
        return self.experts > 0


@dataclasses.dataclass
class Parallel:
    rank: int = 0
    tensor_parallel_size: int = 1
    data_parallel_size: int = 1
    enable_expert_parallel: bool = False
    master_port: int = 1


@dataclasses.dataclass
class Vllm:
    model_config: Any
    parallel_config: Any
    lora_config: Any = None
    scheduler_config: Any = None
    instance_id: str = "abcde"


class Configured:
    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def to_dict(self) -> dict[str, Any]:
        if "raises" in self._fields:
            raise ValueError("no such thing")
        return self._fields


def key(model: Model | None = None, parallel: Parallel | None = None, **more: Any) -> dict[str, str]:
    model = model or Model(hf_config=Configured(hidden_size=64, _name_or_path="/models/tiny", transformers_version="5.19.0"))
    return key_of(Vllm(model, parallel or Parallel(), **more), model, "x86_64, AVX512", {"vllm": "0.32.0"})


def test_what_cannot_change_a_tensor_is_not_in_the_key() -> None:
    """I11: replicas of a dense model; names, ports, lengths."""
    elsewhere = Model(hf_config=Configured(hidden_size=64, _name_or_path="./tiny", transformers_version="5.20.0"), max_model_len=4096)
    assert key() == key(elsewhere, Parallel(data_parallel_size=2, master_port=2), scheduler_config=object(), instance_id="fghij")


@pytest.mark.parametrize(
    ("other", "field"),
    [
        (lambda: key(Model(dtype=torch.bfloat16, hf_config=Configured(hidden_size=64))), "model_config.dtype"),
        (lambda: key(Model(hf_config=Configured(hidden_size=128))), "model_config.hf_config"),
        (lambda: key(parallel=Parallel(rank=1)), "parallel_config.rank"),
        (lambda: key(parallel=Parallel(tensor_parallel_size=2)), "parallel_config.tensor_parallel_size"),
        (lambda: key(lora_config={"rank": 8}), "lora_config"),
        (
            lambda: key(Model(hf_config=Configured(hidden_size=64), added_by_a_later_vllm="packed")),
            "model_config.added_by_a_later_vllm",
        ),
    ],
)
def test_everything_else_is_and_the_field_that_differs_is_named(other: Any, field: str) -> None:
    """I12"""
    assert config_difference(key(), other()) == (field,)


def test_replicas_over_which_experts_are_spread_have_keys_of_their_own() -> None:
    """I11: whole experts, or, where nobody asked for that, a part of each."""
    experts = Model(hf_config=Configured(hidden_size=64), experts=4)
    for model, parallel in ((None, {"enable_expert_parallel": True}), (experts, {})):
        one, two = (key(model, Parallel(data_parallel_size=size, **parallel)) for size in (1, 2))
        assert config_difference(one, two) == ("parallel_config.data_parallel_size",)


def test_a_variable_that_may_choose_a_kernel_is_in_the_key_and_one_about_logs_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key()
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
    monkeypatch.setenv("VLLM_OMP_NUM_THREADS_SET_BY_VLLM", "1")  # in the processes of a server, and not in one that only prepares
    assert key() == before
    monkeypatch.setenv("VLLM_API_KEY", "sk-secret")
    assert key() == before
    monkeypatch.setenv("VLLM_SOME_KERNEL", "sk-secret")
    assert config_difference(key(), before) == ("environment.VLLM_SOME_KERNEL",)
    assert "sk-secret" not in str(key())  # the ledger keeps keys


@pytest.mark.parametrize("value", [object(), lambda: None, {"deep": [object()]}, Configured(raises=True)])
def test_a_field_without_a_plain_form_is_refused_by_name(value: Any) -> None:
    """I14: never a weaker key instead."""
    with pytest.raises(EvidenceUnavailable, match="lora_config"):
        key(lora_config=value)
