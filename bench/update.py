"""Seconds per step of a training loop that updates a live model: save, load, attach and swap; against reading the files anew."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from places import checkpoint, places, wcache
from rows import Row, main, ratio, timing

STEPS = 10
UPDATE = "update: attach and swap"
FRESH = "transformers' from_pretrained of the same files, warm page cache"


def measure() -> list[Row]:
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
            timed(UPDATE, began)
            if not all(mine.equal(theirs) for mine, theirs in zip(engine.parameters(), trainer.parameters(), strict=True)):
                raise SystemExit(f"step {step}: the live model does not have the trainer's weights")
            if previous:
                wcache(environ, "release", previous)
            previous = loaded["residency"]
            began = time.perf_counter()
            fresh = AutoModelForCausalLM.from_pretrained(place)
            timed(FRESH, began)
            del fresh
            for file in place.glob("*.safetensors"):
                file.unlink()
    rows = [timing(what, found, "s") for what, found in seconds.items()]
    pairs = list(zip(seconds[UPDATE], seconds[FRESH], strict=True))
    return [*rows, ratio("update / from_pretrained", pairs, FRESH)]


if __name__ == "__main__":
    main(__doc__, measure)
