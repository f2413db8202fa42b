"""Seconds per step of a training loop that updates a live model: save, load, attach and swap; against reading the files anew."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from places import checkpoint, places, wcache

STEPS = 10


def measure() -> list[dict[str, object]]:
    import transformers
    from transformers import AutoModelForCausalLM

    from wcache.loader import from_pretrained, update

    transformers.utils.logging.disable_progress_bar()
    seconds: dict[str, list[float]] = {}

    def timed(what: str, began_s: float) -> None:
        seconds.setdefault(what, []).append(time.perf_counter() - began_s)

    with places() as environ:
        os.environ.update(environ)
        scratch = Path(environ["WCACHE_STATE_DIR"]).parent
        wcache(environ, "daemon", "start")
        trainer = AutoModelForCausalLM.from_pretrained(checkpoint())
        previous, engine = "", from_pretrained(None, checkpoint(), on_miss="fallback")
        for step in range(STEPS):
            for parameter in trainer.parameters():
                parameter.data.add_(0.001)  # what the step is makes no difference to the update
            began = time.perf_counter()
            trainer.save_pretrained(place := scratch / f"step-{step}")
            timed("save_pretrained", began)
            began = time.perf_counter()
            loaded: Any = json.loads(wcache(environ, "load", str(place), "--json"))
            timed("wcache load (waits until the files are 2 s old)", began)
            began = time.perf_counter()
            update(engine, place, on_miss="strict")
            timed("update: attach and swap", began)
            if not all(mine.equal(theirs) for mine, theirs in zip(engine.parameters(), trainer.parameters(), strict=True)):
                raise SystemExit(f"step {step}: the live model does not have the trainer's weights")
            if previous:
                wcache(environ, "release", previous)
            previous = loaded["residency"]
            began = time.perf_counter()
            fresh = AutoModelForCausalLM.from_pretrained(place)
            timed("transformers' from_pretrained of the same files, warm page cache", began)
            del fresh
            for file in place.glob("*.safetensors"):
                file.unlink()
    rows: list[dict[str, object]] = []
    for what, found in seconds.items():
        rows.append({"what": f"{what}, median of {STEPS}", "value": round(statistics.median(found), 4), "unit": "s", "goal": ""})
        rows.append({"what": f"{what}, slowest", "value": round(max(found), 4), "unit": "s", "goal": ""})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = measure()
    if args.json:
        sys.stdout.write(json.dumps(rows) + "\n")
    else:
        for row in rows:
            sys.stdout.write(f"{row['what']}: {row['value']} {row['unit']}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
