"""A program of bench/vllm_start.py: one vLLM engine in a new process, up to its answer.

    vllm_engine.py BEGAN_S ARGUMENTS

BEGAN_S is when the process was started, on the monotonic clock of the machine; ARGUMENTS are those of vllm.LLM, as JSON. One line of
its output is JSON: seconds until the engine was ready, seconds until the first token, and the tokens of a greedy answer.
"""

from __future__ import annotations

import json
import sys
import time

PROMPT = list(range(7, 39))
TOKENS = 16


def main() -> None:
    began_s, arguments = float(sys.argv[1]), json.loads(sys.argv[2])
    from vllm import LLM, SamplingParams

    engine = LLM(**arguments)
    ready_s = time.monotonic() - began_s

    def answer(count: int) -> list[int]:
        wanted = SamplingParams(temperature=0, max_tokens=count, ignore_eos=True, detokenize=False)
        (found,) = engine.generate([{"prompt_token_ids": PROMPT}], wanted, use_tqdm=False)
        return list(found.outputs[0].token_ids)

    answer(1)
    first_s = time.monotonic() - began_s
    print(json.dumps({"ready_s": ready_s, "first_token_s": first_s, "tokens": answer(TOKENS)}), flush=True)


if __name__ == "__main__":  # vLLM starts its own processes by running this file again
    main()
