"""Names of GPUs and what CUDA_VISIBLE_DEVICES makes of them: no GPU is needed to read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wcache.core.memory.device import DeviceName, choose, parse_device, parse_devices, visible
from wcache.core.model.errors import NotFound, Unsupported, UsageError

GPUS = ("GPU-aaaa1111-0000-0000-0000-000000000000", "GPU-aaaa2222-0000-0000-0000-000000000000", "GPU-bbbb3333-0000-0000-0000-000000000000")
MIGS = ("MIG-cccc4444-0000-0000-0000-000000000000", "MIG-GPU-bbbb3333-0000-0000-0000-000000000000/1/0")


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        (None, GPUS),
        ("", ()),
        ("0", GPUS[:1]),
        ("2,0", (GPUS[2], GPUS[0])),
        (" 1 , 2 ", GPUS[1:]),
        ("0,7,1", GPUS[:1]),  # an index that nothing has ends the list
        ("0,-1,1", GPUS[:1]),
        ("-1", ()),
        ("1gpu2,2ampere", GPUS[1:]),
        ("1,1", ()),
        ("0,GPU-bbbb", GPUS[:1]),  # indices and UUIDs do not mix
        ("GPU-bbbb,0", GPUS[2:]),
        (GPUS[1], GPUS[1:2]),
        ("GPU-aaaa2,GPU-b", (GPUS[1], GPUS[2])),
        ("gpu-bbbb", ()),
        ("GPU-aaaa", ()),  # fits two
        ("GPU-", ()),
        ("nvidia", ()),
        (MIGS[0], MIGS[:1]),
        (MIGS[1], MIGS[1:]),
        ("MIG-cccc4444-0000-0000-0000-000000000000,0", MIGS[:1]),
        ("MIG-dddd", ()),
    ],
)
def test_visible_devices_are_read_as_the_driver_reads_them(setting: str | None, seen: tuple[str, ...]) -> None:
    assert visible(setting, GPUS, MIGS) == seen


@given(st.text(alphabet="0123456789-, GPUMIGab/", max_size=40))
def test_whatever_the_setting_says_no_gpu_is_seen_twice_and_none_is_made_up(setting: str) -> None:
    seen = visible(setting, GPUS, MIGS)
    assert len(set(seen)) == len(seen) and set(seen) <= {*GPUS, *MIGS}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cuda", DeviceName(index=0)),
        ("cuda:3", DeviceName(index=3)),
        ("2", DeviceName(index=2)),
        (GPUS[0], DeviceName(uuid=GPUS[0])),
        (MIGS[1], DeviceName(uuid=MIGS[1])),
    ],
)
def test_a_device_is_named_by_index_or_uuid(text: str, name: DeviceName) -> None:
    assert parse_device(text) == name
    assert parse_device(str(name)) == name


def test_a_list_of_devices_keeps_its_order_and_all_is_every_one() -> None:
    assert parse_devices("cuda:1, cuda:0") == (DeviceName(index=1), DeviceName(index=0))
    assert parse_devices("all") is None
    with pytest.raises(UsageError, match="twice"):
        parse_devices("cuda:0,cuda")


@pytest.mark.parametrize(
    ("text", "platform"), [("hip:0", "ROCm"), ("rocm", "ROCm"), ("xpu:1", "XPU"), ("mps", "macOS"), ("npu", "NPUs"), ("xla:0", "TPU")]
)
def test_other_platforms_are_refused_by_name(text: str, platform: str) -> None:
    with pytest.raises(Unsupported, match=platform):
        parse_device(text)


@pytest.mark.parametrize("text", ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "GPU-", "cpu:0", "cuda:0 extra"])
def test_what_names_no_device_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="names no device"):
        parse_device(text)


@pytest.mark.parametrize(
    ("text", "seen", "found"),
    [
        ("all", GPUS[1:], GPUS[1:]),
        ("cuda:0", GPUS[1:], GPUS[1:2]),
        ("cuda:1,cuda:0", GPUS, (GPUS[1], GPUS[0])),
        (f"cuda:2,{GPUS[2]}", GPUS, GPUS[2:]),  # the same one by two names
        ("GPU-bbbb", (), GPUS[2:]),  # by its UUID a GPU may be one that is not visible here
        ("MIG-cccc", GPUS, MIGS[:1]),
    ],
)
def test_names_become_uuids(text: str, seen: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert choose(parse_devices(text), seen, (*GPUS, *MIGS)) == found


@pytest.mark.parametrize(
    ("text", "says"), [("cuda:3", "no such GPU"), ("GPU-aaaa", "more than one"), ("GPU-x", "no such"), ("all", "visible")]
)
def test_a_gpu_that_is_not_there_is_refused_with_those_that_are(text: str, says: str) -> None:
    with pytest.raises(NotFound, match=says) as refused:
        choose(parse_devices(text), () if text == "all" else GPUS, GPUS)
    assert GPUS[0] in refused.value.remedy
