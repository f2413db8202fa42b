"""What `wcache exec` puts on PYTHONPATH: when a program imports safetensors, its `safe_open` is replaced. Nothing else happens.

Python's `site` imports `sitecustomize` at every start (https://docs.python.org/3/library/site.html), in every virtual environment and in
every process that a server spawns. A program's own sitecustomize, which this one hides, runs right after. Nothing of wcache, which the
program's environment may not have, is imported before safetensors is.
"""

# Every start of a Python pays for what is imported here: neither typing nor pathlib are.
# ruff: noqa: PTH100, PTH120

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_WATCHED = "safetensors"


class _Watcher:
    """A finder (importlib.abc.MetaPathFinder) that finds what the others find, and has `safe_open` replaced once that is imported."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _WATCHED:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    """The real loader, then the replacement. The module keeps the real one, by which its resources are looked up."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._real.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        self._real.exec_module(module)
        _replace(module)


def _replace(package: ModuleType) -> None:
    try:
        from wcache.loader.standin import install

        install(package)
    except Exception as error:  # whatever is wrong with wcache there, the program goes on without it
        why = f"{sys.executable} has no usable wcache ({type(error).__name__}: {error})"
        sys.stderr.write(f"wcache: weights are not mapped here: {why}; install wcache-ledger into that environment\n")


def _run_hidden() -> None:
    """The sitecustomize that would have been found without this one, as if it had been: under its name in sys.modules."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    if _WATCHED in sys.modules:  # by a path file, which `site` reads first
        _replace(sys.modules[_WATCHED])
    else:
        sys.meta_path.insert(0, _Watcher())
    _run_hidden()
