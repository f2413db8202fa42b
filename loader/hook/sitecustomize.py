"""What `wcache exec` puts on PYTHONPATH: when a program imports safetensors, its `safe_open` is replaced. Nothing else happens.

Python's `site` imports `sitecustomize` at every start (docs.python.org/3/library/site.html), in every virtual environment and in every
process that a server spawns. A program's own sitecustomize, which this one hides, runs right after. This file imports nothing of
wcache, which the program's environment may not have, until safetensors is there.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (pathlib would cost every start some milliseconds)
_WATCHED = "safetensors"


class _Watcher:
    """A finder (importlib.abc.MetaPathFinder) that finds what the others find, and replaces `safe_open` once it is imported."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name != _WATCHED:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    """The real loader, followed by the replacement. The module keeps the real one: its resources are looked up there."""

    def __init__(self, real):  # type: ignore[no-untyped-def]
        self._real = real

    def __getattr__(self, name):  # type: ignore[no-untyped-def]
        return getattr(self._real, name)

    def create_module(self, spec):  # type: ignore[no-untyped-def]
        return self._real.create_module(spec)

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        module.__spec__.loader = module.__loader__ = self._real
        self._real.exec_module(module)
        _replace(module)


def _replace(module):  # type: ignore[no-untyped-def]
    try:
        from wcache.loader.standin import install

        install(module)
    except Exception as error:  # whatever is wrong with wcache here, the program goes on without it
        what = "weights are not mapped here: %s has no usable wcache (%s: %s)" % (sys.executable, type(error).__name__, error)  # noqa: UP031
        sys.stderr.write("wcache: " + what + "; install wcache-ledger into that environment\n")


def _run_hidden():  # type: ignore[no-untyped-def]
    """The sitecustomize that would have been found without this one, as if it had been: in its place in sys.modules."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]  # noqa: PTH100
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    if _WATCHED in sys.modules:
        _replace(sys.modules[_WATCHED])
    else:
        sys.meta_path.insert(0, _Watcher())
    _run_hidden()
