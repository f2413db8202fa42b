"""One engine process: loads a checkpoint through wcache and answers one prompt greedily.

Policy and places come from `WCACHE_*`, as they do for any engine. The answer is the one line on stdout; wcache's own lines go to stderr.
"""

from __future__ import annotations

import argparse
import logging
import sys


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("prompt", nargs="?", default="The capital of France is")
    parser.add_argument("--tokens", type=int, default=2)
    args = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("wcache").setLevel(logging.INFO)

    from wcache.core.model.errors import WcacheError

    try:
        sys.stdout.write(f"{answer(args.checkpoint, args.prompt, args.tokens)!r}\n")
    except WcacheError as error:
        sys.stderr.write(f"wcache: {error.diagnostics()}\n")
        return error.exit_code
    return 0


def answer(checkpoint: str, prompt: str, tokens: int) -> str:
    """The greedy continuation, special tokens included, so that a broken model cannot hide behind an empty string."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as transformers_logging

    from wcache.loader import from_pretrained

    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    torch.set_num_threads(1)  # so small a model gains nothing from a second one, and loses much where the machine is busy
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = from_pretrained(AutoModelForCausalLM, checkpoint, dtype=torch.bfloat16)
    inputs = tokenizer(prompt, return_tensors="pt")
    with torch.no_grad():
        output = model.generate(**inputs, max_new_tokens=tokens, do_sample=False, pad_token_id=tokenizer.eos_token_id)
    return str(tokenizer.decode(output[0][inputs["input_ids"].shape[1] :]))


if __name__ == "__main__":
    sys.exit(main())
