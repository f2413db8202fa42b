"""Builds the environment of the tests that need an SGLang: `sglang_environment.py DIRECTORY VLLM_DIRECTORY`, run by the Python of the
development environment.

SGLang's wheel asks for many GB of CUDA libraries, none of which it needs to load a model without a GPU. It is installed without them, and
with the few libraries that neither the development environment nor that of vLLM has. There is none for Python 3.10.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from vllm_environment import FEW_COLLECTIONS

CONSTRAINTS = Path(__file__).resolve().parent.parent.parent / "constraints-sglang.txt"
WANTED = ("sglang", "orjson", "soundfile", "torchvision", "ipython", "traitlets")


def main() -> None:
    target, vllm = sys.argv[1:]
    if sys.version_info < (3, 11):
        print("there is no SGLang for this Python; its tests are skipped")
        return
    venv.create(target, clear=True, with_pip=True, symlinks=True)
    python = Path(target).absolute() / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", vars={"base": target, "platbase": target})).absolute()
    theirs = Path(sysconfig.get_path("purelib", vars={"base": vllm, "platbase": vllm})).absolute()
    shared = [str(theirs), *(path for path in sys.path if path.endswith("-packages"))]
    (site / "shared.pth").write_text("".join(f"{path}\n" for path in shared) + FEW_COLLECTIONS, encoding="utf-8")
    command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--constraint", CONSTRAINTS, *WANTED]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
