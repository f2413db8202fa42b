"""Small real checkpoints, and catalogues of what may happen to one: mutated (must never be taken for the base) and equal-but-different
(must be recognised). Deterministic; a checkpoint is about 150 KB.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Tensor = tuple[str, tuple[int, ...], bytes]  # dtype, shape, bytes
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER_COMMIT = "fedcba9876543210fedcba9876543210fedcba98"
REPO = "acme/tiny"
_ITEM_BYTES = {
    "BF16": 2,
    "F16": 2,
    "F32": 4,
    "F64": 8,
    "I64": 8,
    "I32": 4,
    "U8": 1,
    "I8": 1,
    "BOOL": 1,
    "F8_E4M3": 1,
    "F8_E8M0": 1,
    "C64": 8,
}
_SHAPES: dict[str, tuple[str, tuple[int, ...]]] = {
    "lm_head.weight": ("BF16", (96, 64)),
    "model.embed_tokens.weight": ("BF16", (96, 64)),
    "model.layers.0.attn.weight": ("BF16", (64, 64)),
    "model.layers.0.mlp.bias": ("F32", (64,)),
    "model.layers.0.mlp.weight": ("F16", (128, 64)),
    "model.layers.1.attn.weight": ("BF16", (64, 64)),
    "model.layers.1.mlp.bias": ("F32", (64,)),
    "model.layers.1.mlp.weight": ("F8_E4M3", (128, 64)),
    "model.norm.weight": ("BF16", (64,)),
    "model.rope.freqs": ("F32", (32, 32)),
    "model.scale": ("F32", ()),
    "model.steps": ("I64", (16, 16)),
    "model.empty": ("F32", (0, 64)),
}


class Case(NamedTuple):
    """A checkpoint made from the base. `expectation`: "equal", "differs" (valid, other weights digest), or "refused:<rule>"."""

    name: str
    path: Path
    expectation: str


def make_tensors(seed: int = 0) -> dict[str, Tensor]:
    """The base's tensors: the same names, dtypes and shapes for every seed, other bytes."""
    source = random.Random(seed)
    made: dict[str, Tensor] = {}
    for name, (dtype, shape) in _SHAPES.items():
        count = 1
        for size in shape:
            count *= size
        made[name] = (dtype, shape, source.randbytes(count * _ITEM_BYTES[dtype]))
    return made


def from_numpy(array: Any) -> Tensor:
    """A numpy array as a tensor of the corpus."""
    names = {"bool": "BOOL", "float16": "F16", "float32": "F32", "float64": "F64", "complex64": "C64"}
    kind = array.dtype.name
    dtype = names.get(kind) or (("U" if kind.startswith("u") else "I") + kind.lstrip("uint"))
    return dtype, tuple(array.shape), array.tobytes()


def encode_safetensors(
    tensors: Mapping[str, Tensor] | Sequence[tuple[str, Tensor]],
    metadata: Mapping[str, str] | None = None,
    *,
    pad_to: int = 8,
    header_first: Sequence[str] = (),
) -> bytes:
    """The bytes of a safetensors file; data in the order given. `header_first` names entries that the JSON lists first."""
    pairs = list(tensors.items()) if isinstance(tensors, Mapping) else list(tensors)
    fields: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    offset = 0
    described = {}
    for name, (dtype, shape, data) in pairs:
        described[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    for name in header_first:
        fields[name] = described[name]
    fields.update(described)
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % pad_to)
    return frame(text, b"".join(data for _, (_, _, data) in pairs))


def frame(header: bytes, data: bytes = b"", *, length: int | None = None) -> bytes:
    """Length prefix, header text, data: also for headers that no writer makes."""
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


def write_safetensors(path: Path, tensors: Any, metadata: Mapping[str, str] | None = None, **options: Any) -> Path:
    path.write_bytes(encode_safetensors(tensors, metadata, **options))
    return path


def make_checkpoint(
    directory: Path,
    tensors: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    shards: int = 1,
    index: bool | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """A checkpoint directory with config.json. `tensors` are corpus tensors or numpy arrays; one shard is `model.safetensors`, several
    are numbered, with an index unless `index` is False. Returns the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    chosen = {
        name: tensor if isinstance(tensor, tuple) else from_numpy(tensor)
        for name, tensor in (make_tensors(seed) if tensors is None else tensors).items()
    }
    metadata = {"format": "pt"} if metadata is None else metadata
    (directory / "config.json").write_text('{"model_type": "tiny"}\n')
    names = list(chosen)
    files = ["model.safetensors"] if shards == 1 else [f"model-{number:05d}-of-{shards:05d}.safetensors" for number in range(1, shards + 1)]
    weight_map: dict[str, str] = {}
    for number, file in enumerate(files):
        part = {name: chosen[name] for name in names[number::shards]}
        write_safetensors(directory / file, part, metadata)
        weight_map.update(dict.fromkeys(part, file))
    if index or (index is None and shards > 1):
        write_index(directory, weight_map)
    return directory


def write_index(directory: Path, weight_map: Mapping[str, str], name: str = "model.safetensors.index.json") -> Path:
    path = directory / name
    path.write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": dict(weight_map)}, indent=1))
    return path


def read_tensors(directory: Path) -> dict[str, Tensor]:
    """All tensors of a valid checkpoint, by the `safetensors` package; in name order."""
    import safetensors

    found: dict[str, Tensor] = {}
    for path in sorted(directory.glob("*.safetensors")):
        for name, view in safetensors.deserialize(path.read_bytes()):
            found[name] = (view["dtype"], tuple(view["shape"]), bytes(view["data"]))
    return dict(sorted(found.items()))


def make_hub_cache(cache: Path, checkpoint: Path, *, repo: str = REPO, commit: str = COMMIT, ref: str = "main") -> Path:
    """A Hugging Face cache holding a copy of `checkpoint` as a snapshot of links to blobs; returns the snapshot."""
    folder = cache / ("models--" + repo.replace("/", "--"))
    snapshot = folder / "snapshots" / commit
    for needed in (folder / "blobs", folder / "refs", snapshot):
        needed.mkdir(parents=True, exist_ok=True)
    for file in sorted(checkpoint.iterdir()):
        data = file.read_bytes()
        blob = hashlib.sha256(data).hexdigest() if file.suffix == ".safetensors" else hashlib.sha1(data).hexdigest()
        if not (folder / "blobs" / blob).exists():  # a hub client never writes a blob again
            (folder / "blobs" / blob).write_bytes(data)
        (snapshot / file.name).symlink_to(Path("../../blobs") / blob)
    (folder / "refs" / ref).write_text(commit)
    return snapshot


def make_local_dir(directory: Path, checkpoint: Path, *, commit: str = COMMIT) -> Path:
    """A copy of `checkpoint` as `hf download --local-dir` leaves it: files, and metadata with commit, etag, time."""
    shutil.copytree(checkpoint, directory)
    metadata = directory / ".cache" / "huggingface" / "download"
    metadata.mkdir(parents=True)
    for file in sorted(path for path in directory.iterdir() if path.is_file()):
        etag = hashlib.sha256(file.read_bytes()).hexdigest()
        (metadata / f"{file.name}.metadata").write_text(f"{commit}\n{etag}\n{file.stat().st_mtime + 0.5}\n")
    return directory


def equal_checkpoints(base: Path, out: Path) -> Iterator[Case]:
    """Checkpoints with the base's weights digest, however different they look. `base` is a directory that `make_checkpoint` made."""
    tensors = read_tensors(base)
    out.mkdir(parents=True, exist_ok=True)

    def place(name: str) -> Path:
        return out / name

    def case(name: str, path: Path) -> Case:
        return Case(name, path, "equal")

    for shards in (1, 2, 4, 7):
        yield case(f"resharded_{shards}", make_checkpoint(place(f"resharded_{shards}"), tensors, shards=shards))
    yield case("numbered_without_index", make_checkpoint(place("numbered_without_index"), tensors, shards=3, index=False))
    backwards = dict(reversed(tensors.items()))
    yield case("data_reversed", make_checkpoint(place("data_reversed"), backwards, shards=2))
    for name, metadata in (("metadata_other", {"format": "np", "note": "é"}), ("metadata_empty", {})):
        yield case(name, make_checkpoint(place(name), tensors, metadata=metadata))
    for name, options in (
        ("header_order", {"header_first": list(backwards)}),
        ("header_padded", {"pad_to": 4096}),
        ("header_unaligned", {"pad_to": 1}),
    ):
        place(name).mkdir()
        write_safetensors(place(name) / "model.safetensors", tensors, {"format": "pt"}, **options)
        yield case(name, place(name))
    place("no_metadata").mkdir()
    write_safetensors(place("no_metadata") / "weights.safetensors", tensors)
    yield case("no_metadata", place("no_metadata"))
    yield case("single_file", place("no_metadata") / "weights.safetensors")
    place("by_package").mkdir()
    _write_by_package(place("by_package"), tensors)
    yield case("by_package", place("by_package"))
    yield case("copied", _copy(base, place("copied")))
    yield case("renamed", _copy(base, place("renamed dir é")))
    linked = place("hard_links")
    shutil.copytree(base, linked, copy_function=os.link)
    yield case("hard_links", linked)
    links = place("file_symlinks")
    links.mkdir()
    for file in base.iterdir():
        (links / file.name).symlink_to(file.resolve())
    yield case("file_symlinks", links)
    place("dir_symlink").symlink_to(base.resolve(), target_is_directory=True)
    yield case("dir_symlink", place("dir_symlink"))
    touched = _copy(base, place("touched"))
    for file in touched.iterdir():
        os.utime(file, ns=(10**18, 10**18))
    yield case("touched", touched)
    locked = _copy(base, place("chmod"))
    for file in locked.iterdir():
        file.chmod(0o400)
    yield case("chmod", locked)
    yield case("dotdot", Path(f"{base}/../{base.name}"))
    yield case("hub_snapshot", make_hub_cache(place("hub"), base))
    yield case("local_dir", make_local_dir(place("local_dir"), base))
    strays = _copy(base, place("strays"))
    write_safetensors(strays / "consolidated.safetensors", make_tensors(99))
    write_safetensors(strays / "._junk.safetensors", make_tensors(98))
    if not (strays / "model.safetensors.index.json").exists() and not (strays / "model.safetensors").exists():
        (strays / "consolidated.safetensors").unlink()
    yield case("strays", strays)
    many = _copy(base, place("other_files"))
    (many / "pytorch_model.bin").write_bytes(b"PK\x03\x04")
    (many / "README.md").write_text("# model\n")
    yield case("other_files", many)


def mutated_checkpoints(base: Path, out: Path) -> Iterator[Case]:
    """Checkpoints that must never be served as the base: other weights ("differs"), or none at all ("refused:<rule>")."""
    out.mkdir(parents=True, exist_ok=True)
    yield from _other_weights(base, out)
    yield from _broken_files(base, out)
    yield from _broken_layouts(base, out)


def _other_weights(base: Path, out: Path) -> Iterator[Case]:
    tensors = read_tensors(base)

    def made(name: str, changed: Mapping[str, Tensor], shards: int = 3) -> Case:
        return Case(name, make_checkpoint(out / name, changed, shards=shards), "differs")

    def edited(tensor: str, edit: Callable[[bytes], bytes]) -> dict[str, Tensor]:
        dtype, shape, data = tensors[tensor]
        return {**tensors, tensor: (dtype, shape, edit(data))}

    for tensor in (
        "lm_head.weight",
        "model.layers.0.mlp.weight",
        "model.layers.1.mlp.weight",
        "model.norm.weight",
        "model.rope.freqs",
        "model.scale",
    ):
        size = len(tensors[tensor][2])
        for label, position in (("first", 0), ("middle", size // 2), ("last", size - 1)):
            yield made(f"flip_{label}_{tensor}", edited(tensor, lambda data, at=position: flip(data, at)))
    yield made("norm_zeroed", edited("model.norm.weight", lambda data: bytes(len(data))))
    yield made("sign_of_one", edited("model.scale", lambda data: data[:3] + bytes([data[3] ^ 0x80])))
    yield made("rows_rolled", edited("lm_head.weight", lambda data: data[128:] + data[:128]))
    yield made(
        "byte_swapped",
        edited(
            "model.layers.0.attn.weight",
            lambda data: b"".join(data[i + 1 : i - 1 : -1] if i else data[1::-1] for i in range(0, len(data), 2)),
        ),
    )
    beyond = {name: (dtype, shape, data[:1024] + bytes(b ^ 1 for b in data[1024:])) for name, (dtype, shape, data) in tensors.items()}
    yield made("only_beyond_first_kib", beyond)
    twin = {name: tensor for name, tensor in make_tensors(4242).items() if name in tensors}
    yield made("twin_other_bytes", twin)
    first, second = "model.layers.0.attn.weight", "model.layers.1.attn.weight"
    yield made("layers_swapped", {**tensors, first: tensors[second], second: tensors[first]})
    tied = {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"]}
    yield made("head_tied", tied)
    renamed = {("model.norm.w" if name == "model.norm.weight" else name): tensor for name, tensor in tensors.items()}
    yield made("tensor_renamed", renamed)
    yield made("name_case", {(name.upper() if name == "model.scale" else name): tensor for name, tensor in tensors.items()})
    yield made("name_nfd", {**tensors, "mode\u0301l": ("U8", (1,), b"\0")})
    yield made("dtype_reinterpreted", {**tensors, "model.norm.weight": ("F16", *tensors["model.norm.weight"][1:])})
    yield made("dtype_i64_f64", {**tensors, "model.steps": ("F64", *tensors["model.steps"][1:])})
    yield made("shape_transposed", {**tensors, "lm_head.weight": ("BF16", (64, 96), tensors["lm_head.weight"][2])})
    yield made("shape_flat", {**tensors, "model.rope.freqs": ("F32", (1024,), tensors["model.rope.freqs"][2])})
    yield made("rank_zero_to_one", {**tensors, "model.scale": ("F32", (1,), tensors["model.scale"][2])})
    yield made("tensor_added", {**tensors, "model.extra": ("U8", (4,), b"abcd")})
    yield made("empty_tensor_added", {**tensors, "model.nothing": ("U8", (0,), b"")})
    yield made("empty_tensor_shape", {**tensors, "model.empty": ("F32", (64, 0), b"")})
    yield made("tensor_removed", {name: tensor for name, tensor in tensors.items() if name != "model.layers.1.mlp.bias"})
    yield made("empty_tensor_removed", {name: tensor for name, tensor in tensors.items() if name != "model.empty"})
    restored = _copy(base, out / "mtime_restored")
    shard = sorted(restored.glob("*.safetensors"))[0]
    before = shard.stat()
    shard.write_bytes(flip(shard.read_bytes(), before.st_size - 1))
    os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
    yield Case("mtime_restored", restored, "differs")


def _broken_files(base: Path, out: Path) -> Iterator[Case]:
    """One shard is replaced by bytes that are refused."""
    good = sorted(base.glob("*.safetensors"))[0].read_bytes()
    entry = '"dtype":"U8","shape":[1],"data_offsets":[0,1]'
    second = '"b":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}'
    files: dict[str, tuple[str, bytes]] = {
        "payload_cut_100": ("truncated", good[:-100]),
        "payload_cut_1": ("truncated", good[:-1]),
        "payload_grown": ("trailing_bytes", good + b"\0" * 8),
        "header_cut": ("header_truncated", good[:40]),
        "empty": ("empty_file", b""),
        "seven_bytes": ("too_short", b"1234567"),
        "lfs_pointer": ("git_lfs_pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"),
        "html": ("html_page", b"<!DOCTYPE html><html><body>404 Not Found</body></html>"),
        "torch_zip": ("torch_zip", b"PK\x03\x04\x00\x00\x08\x08" + bytes(200)),
        "gguf": ("gguf", b"GGUF\x03\x00\x00\x00" + bytes(200)),
        "json_text": ("json", b'{"weight_map": {"a": "model.safetensors"}}'),
        "length_max": ("header_too_large", frame(b"{}", length=2**64 - 1)),
        "length_over_cap": ("header_too_large", frame(b"{}", length=100_000_001)),
        "deep": ("too_deep", frame(b'{"a":' * 2000 + b"1" + b"}" * 2000)),
        "duplicate_tensor": ("duplicate_key", frame(f'{{"a":{{{entry}}},"a":{{{entry}}}}}'.encode(), b"x")),
        "duplicate_metadata": ("duplicate_key", frame(f'{{"__metadata__":{{"k":"1","k":"2"}},"a":{{{entry}}}}}'.encode(), b"x")),
        "bom": ("byte_order_mark", frame(b"\xef\xbb\xbf" + f'{{"a":{{{entry}}}}}'.encode(), b"x")),
        "nan": ("nan_literal", frame(f'{{"a":{{{entry},"x":NaN}}}}'.encode(), b"x")),
        "nul_padding": ("trailing_nul", frame(f'{{"a":{{{entry}}}}}\0\0\0'.encode(), b"x")),
        "float_offset": ("offsets_type", frame(b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2e0]}}', b"xx")),
        "float_shape": ("shape_type", frame(b'{"a":{"dtype":"U8","shape":[2.0],"data_offsets":[0,2]}}', b"xx")),
        "hole": ("hole", frame(f'{{"a":{{{entry}}},{second % (1, 2, 3)}}}'.encode(), b"xxx")),
        "overlap": ("overlap", frame(f'{{"a":{{"dtype":"U8","shape":[2],"data_offsets":[0,2]}},{second % (2, 1, 3)}}}'.encode(), b"xxx")),
        "alias": ("alias", frame(f'{{"a":{{{entry}}},{second % (1, 0, 1)}}}'.encode(), b"x")),
        "reversed": ("offsets_reversed", frame(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}', b"x")),
        "shape_overflow": ("shape_overflow", frame(b'{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}')),
        "size_mismatch": ("size_mismatch", frame(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,1]}}', b"x")),
        "dtype_unknown": ("dtype_unknown", frame(b'{"a":{"dtype":"F7","shape":[1],"data_offsets":[0,1]}}', b"x")),
        "odd_nibbles": ("subbyte_size", frame(b'{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}', b"xx")),
        "not_utf8": ("not_utf8", frame(b'{"\xff":{' + entry.encode() + b"}}", b"x")),
        "not_json": ("not_json", frame(b'{"a":', b"x")),
        "noise": ("header_start", frame(b"\x93" * 64, b"x")),
    }
    for name, (rule, data) in files.items():
        directory = out / f"file_{name}"
        directory.mkdir()
        (directory / "model.safetensors").write_bytes(data)
        yield Case(f"file_{name}", directory, f"refused:{rule}")


def _broken_layouts(base: Path, out: Path) -> Iterator[Case]:
    tensors = read_tensors(base)

    def sharded(name: str, *, index: bool = True) -> Path:
        return make_checkpoint(out / f"layout_{name}", tensors, shards=4, index=index)

    def case(name: str, rule: str, path: Path) -> Case:
        return Case(f"layout_{name}", path, f"refused:{rule}")

    def with_map(name: str, change: Callable[[dict[str, str]], object]) -> Path:
        directory = sharded(name)
        index = json.loads((directory / "model.safetensors.index.json").read_text())["weight_map"]
        change(index)
        write_index(directory, index)
        return directory

    third = "model-00003-of-00004.safetensors"
    for name, index in (("shard_absent", True), ("number_absent", False)):
        directory = sharded(name, index=index)
        (directory / third).unlink()
        yield case(name, "missing_shard", directory)
    yield case(
        "assigned_elsewhere",
        "tensor_misplaced",
        with_map("assigned_elsewhere", lambda m: m.update({"model.scale": _other(m, "model.scale")})),
    )
    yield case("index_names_absent", "tensor_missing", with_map("index_names_absent", lambda m: m.update({"ghost": third})))
    yield case("index_path", "index_path", with_map("index_path", lambda m: m.update({"model.scale": "../other.safetensors"})))
    yield case("index_absolute", "index_path", with_map("index_absolute", lambda m: m.update({"model.scale": "/etc/passwd"})))
    yield case("index_number", "index_type", with_map("index_number", lambda m: m.update({"model.scale": 3})))
    for name, index in (("tensor_twice", True), ("tensor_twice_no_index", False)):
        directory = sharded(name, index=index)
        write_safetensors(directory / third, {name: tensors[name] for name in [*list(tensors)[2::4], "model.scale", "lm_head.weight"]})
        yield case(name, "tensor_twice", directory)
    directory = sharded("index_not_json")
    (directory / "model.safetensors.index.json").write_text("<html>")
    yield case("index_not_json", "not_json", directory)
    directory = sharded("index_duplicate")
    path = directory / "model.safetensors.index.json"
    path.write_text(path.read_text().replace('"weight_map": {', '"weight_map": {"model.scale": "model-00001-of-00004.safetensors", '))
    yield case("index_duplicate", "duplicate_key", directory)
    directory = out / "layout_unrelated"
    directory.mkdir()
    for letter in "ab":
        write_safetensors(directory / f"{letter}.safetensors", {letter: ("U8", (1,), b"x")})
    yield case("unrelated", "ambiguous_shards", directory)
    directory = out / "layout_no_shards"
    directory.mkdir()
    (directory / "pytorch_model.bin").write_bytes(b"PK\x03\x04")
    yield case("no_shards", "no_shards", directory)


def flip(data: bytes, position: int) -> bytes:
    """`data` with one bit changed."""
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def _other(weight_map: Mapping[str, str], tensor: str) -> str:
    return next(shard for shard in sorted(set(weight_map.values())) if shard != weight_map[tensor])


def _copy(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def _write_by_package(directory: Path, tensors: Mapping[str, Tensor]) -> None:
    """What numpy has dtypes for by the `safetensors` package itself, which sorts by dtype and name; the rest in a second shard."""
    import numpy
    from safetensors.numpy import save_file

    names = {"F16": "float16", "F32": "float32", "F64": "float64", "I64": "int64"}
    known = {name: tensor for name, tensor in tensors.items() if tensor[0] in names}
    arrays = {name: numpy.frombuffer(data, dtype=names[dtype]).reshape(shape) for name, (dtype, shape, data) in known.items()}
    save_file(arrays, directory / "model-00001-of-00002.safetensors", metadata={"format": "np"})
    write_safetensors(directory / "model-00002-of-00002.safetensors", {name: tensors[name] for name in tensors if name not in known})
