"""A program of the soak: an engine that attaches through the real loader when it is told to, and says what it mapped.

Obeys JSON lines on stdin and answers each with one on stdout; the end of stdin ends it. `attach`: one attach of `path`, under `policy`;
kept until `drop` where `keep` is set; `copy` takes the bytes into memory of its own. `check`: the digests of what is still mapped.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from pathlib import Path
from typing import Any

from wcache.core.model.vocabulary import Mode
from wcache.loader.attach import Attachment, attach
from wcache.loader.mapping import ShardMap


class Held:
    """An attachment and its mappings, in shard order."""

    def __init__(self, attachment: Attachment, expected: str) -> None:
        self.attachment = attachment
        self.shards: list[ShardMap] = [attachment.shard(name) for name in sorted(attachment.segments)]
        self.expected = expected

    def digest(self) -> str:
        found = hashlib.sha256()
        for shard in self.shards:
            found.update(shard.memory)
        return found.hexdigest()


def main() -> None:
    logging.disable(logging.CRITICAL)
    held: list[Held] = []
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        if order["do"] == "drop":
            for one in held:
                one.attachment.close()
            held.clear()
            answer: dict[str, Any] = {}
        elif order["do"] == "check":
            answer = {"checked": len(held), "changed": sum(one.digest() != one.expected for one in held)}
        else:
            attachment = attach(order["path"], **order["policy"])
            answer = {"hit": attachment.hit, "attach": attachment.attach, "reason": attachment.decision.reason, "seq": attachment.seq}
            if attachment.hit:
                one = Held(attachment, "")
                if order["copy"]:
                    parts = [bytes(shard.memory) for shard in one.shards]
                    answer["digest"] = hashlib.sha256(b"".join(parts)).hexdigest()
                else:
                    answer["digest"] = one.digest()
                attachment.report_mapped(1.0, mode=Mode.COPY if order["copy"] else Mode.ZERO_COPY)
                one.expected = answer["digest"]
                answer["hit"] = attachment.hit
                if order["keep"]:
                    held.append(one)
                else:
                    attachment.close()
            else:
                attachment.fell_back(sum(file.stat().st_size for file in Path(order["path"]).glob("*.safetensors")), 0.01)
        sys.stdout.write(json.dumps(answer, default=str) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
