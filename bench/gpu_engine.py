"""A program of the GPU tests and measurements: one transformers engine that says what it computes, then does what its input says.

    gpu_engine.py CHECKPOINT {disk|wcache|copy}

It says `ready` once everything is imported, the model's own code included, and builds the model at a line `go` on its standard input. A
line `write` adds one to a parameter in place, `again` computes again, the end of the input ends the engine. Each answer is one line of
JSON: tokens of a greedy answer, a digest of the first logits, how many parameters lie in the daemon's memory, seconds until the model was
there, and what torch itself holds of the GPU's memory.
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys
import time
from typing import Any

TOKENS = 24


def main() -> None:
    checkpoint, how = sys.argv[1:]
    import torch
    import transformers

    from wcache.core.model.errors import WcacheError
    from wcache.loader import attachment_of, from_pretrained

    transformers.logging.disable_progress_bar()
    transformers.AutoModelForCausalLM._model_mapping[type(transformers.AutoConfig.from_pretrained(checkpoint))]
    torch.zeros(1, device="cuda").add_(1)
    torch.cuda.synchronize()
    gc.collect()
    print(json.dumps("ready"), flush=True)
    if sys.stdin.readline().strip() != "go":
        return
    began = time.perf_counter()
    if how == "disk":
        model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype="auto", device_map="cuda:0")
    else:
        model = from_pretrained(None, checkpoint, dtype="auto", device="cuda:0", mode="copy" if how == "copy" else None)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    attachment = attachment_of(model)
    print(json.dumps({**computed(model), "seconds": seconds}), flush=True)
    for line in sys.stdin:
        if line.strip() == "write":
            try:
                with attachment.explained_writes() if attachment is not None else torch.no_grad(), torch.no_grad():
                    model.model.norm.weight.add_(1)
            except WcacheError as error:
                print(json.dumps({"error": error.diagnostics()}), flush=True)
                return
        print(json.dumps(computed(model)), flush=True)


def computed(model: Any) -> dict[str, Any]:
    import torch

    from wcache.loader import attachment_of

    prompt = torch.arange(7, 19, device="cuda")[None]
    with torch.no_grad():
        logits = model(prompt).logits
        tokens = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=TOKENS, do_sample=False, use_cache=True, pad_token_id=0
        )
    raw = logits.contiguous().view(torch.uint8).cpu().numpy().tobytes()
    parameters = list({parameter.data_ptr(): parameter for parameter in model.parameters()}.values())
    return {
        "tokens": tokens[0].tolist(),
        "logits": hashlib.sha256(raw).hexdigest(),
        "parameters": len(parameters),
        "mapped": sum(attachment_of(parameter) is not None for parameter in parameters),
        "on_gpu": all(tensor.is_cuda for tensor in (*parameters, *model.buffers())),
        "torch_mib": torch.cuda.memory_reserved() >> 20,
    }


if __name__ == "__main__":
    main()
