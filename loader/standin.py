"""What stands at `safetensors.safe_open`'s place in programs that know nothing of wcache (`wcache exec`).

It behaves as the reference does. Importing this module costs nothing: the rest of the loader comes with the first file that is asked for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

CHECKPOINTS = "WCACHE_EXEC_CHECKPOINTS"
"""Variable: real paths of directories and files, with `:` between several. When set, every other file is the reference's alone."""

_FRAMEWORKS = frozenset({"pt", "torch", "pytorch", "np", "numpy"})
_BACKENDS = frozenset({"mmap", "pread"})
_DEVICES = frozenset({"cpu", "cuda", "mps", "npu", "xpu", "xla", "mlu", "musa", "hpu"})  # of safetensors 0.8; others it refuses
_aside: ContextVar[bool] = ContextVar("wcache_stand_in_aside", default=False)


@contextmanager
def reference_only() -> Iterator[None]:
    """Inside, the stand-in is the reference: for a loader that has decided already and reads the disk on purpose."""
    token = _aside.set(True)
    try:
        yield
    finally:
        _aside.reset(token)


def install(package: ModuleType) -> None:
    """Replace `safe_open` in the package safetensors, and in those of its modules that have it already. Once is enough."""
    reference = package.safe_open
    if hasattr(reference, "__wrapped__"):
        return

    class Kind(type):
        def __instancecheck__(cls, found: object) -> bool:
            """What this class makes is the reference's, or ours."""
            tracked = sys.modules.get("wcache.loader.tracked")
            return isinstance(found, reference) or (tracked is not None and isinstance(found, tracked.TrackedFile))

    class safe_open(metaclass=Kind):
        __doc__ = reference.__doc__
        __wrapped__ = reference

        def __new__(cls, filename: Any, framework: Any, device: Any = "cpu", **more: Any) -> Any:
            if not _is_served(filename, framework, device, more):
                return reference(filename, framework, device, **more)
            from wcache.loader.tracked import TrackedFile

            return TrackedFile(filename, framework, device, **more)

    safe_open.__module__, safe_open.__qualname__ = reference.__module__, reference.__qualname__
    for name in (package.__name__, f"{package.__name__}.torch", f"{package.__name__}.numpy"):
        module = sys.modules.get(name)
        if module is not None and getattr(module, "safe_open", None) is reference:
            vars(module)["safe_open"] = safe_open


def _is_served(filename: Any, framework: Any, device: Any, more: Mapping[str, Any]) -> bool:
    """Whether wcache decides on this call. The others are answered, or refused, by the reference, and nothing is recorded."""
    if _aside.get() or framework not in _FRAMEWORKS or more.keys() - {"backend"} or more.get("backend", "mmap") not in _BACKENDS:
        return False
    if not _is_device(device):
        return False
    if "wcache.daemon" in sys.modules:  # one that the command started: it would ask itself
        return False
    try:
        path = os.fsdecode(filename)
    except TypeError:
        return False
    named = os.environ.get(CHECKPOINTS)
    if not named:
        return True
    places = named.split(os.pathsep)
    return os.path.realpath(path) in places or os.path.realpath(os.path.dirname(path) or ".") in places  # noqa: PTH120 (bytes are none)


def _is_device(device: Any) -> bool:
    if device is None:
        return True
    if isinstance(device, int):
        return not isinstance(device, bool) and device >= 0
    name, colon, number = device.partition(":") if isinstance(device, str) else ("", "", "")
    return name in _DEVICES and (not colon or (number.isdecimal() and name != "cpu"))
