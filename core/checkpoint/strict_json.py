"""JSON that two readers cannot understand differently: what the header and the index of a checkpoint are written in.

RFC 8259 leaves duplicate keys, byte order marks, lone surrogates and number ranges to the reader; here each is refused by name, and so is
everything that serde_json (which the `safetensors` package uses) refuses.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from wcache.core.model.errors import CheckpointInvalid

DEPTH_LIMIT = 32  # a header is three levels deep; serde_json itself stops at 128
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


class _Refused(Exception):
    """Carries rule and sentence out of the decoder's hooks, which do not know which file they read."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(what)
        self.rule = rule
        self.what = what


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Refused("duplicate_key", f"the key {shown(key)} occurs twice in one object, so readers disagree about its value")
            seen.add(key)
    return found


def _constant(literal: str) -> NoReturn:
    raise _Refused("nan_literal", f"{literal} is no JSON value")


def _float(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise _Refused("number_range", f"the number {literal[:40]} is out of range")
    return value


def _int(literal: str) -> int | float:
    # serde_json reads -0 as a floating point number, which is no size and no offset.
    return -0.0 if literal == "-0" else int(literal)


def parse_strict(raw: bytes, *, where: str, what: str) -> Any:
    """The value that `raw` (UTF-8 JSON, nothing but white space after it) holds, or CheckpointInvalid with one rule: `byte_order_mark`,
    `not_utf8`, `trailing_nul`, `not_json`, `nan_literal`, `duplicate_key`, `number_range`, `lone_surrogate`, `too_deep`.

    `what` says in messages what is parsed ("the header", "the index").
    """
    if raw.startswith(b"\xef\xbb\xbf"):
        raise CheckpointInvalid("byte_order_mark", f"{what} starts with a byte order mark", where=where)
    if raw.endswith(b"\0"):
        raise CheckpointInvalid("trailing_nul", f"{what} ends in NUL bytes; only spaces may pad it", where=where)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointInvalid("not_utf8", f"{what} is no UTF-8 at byte {error.start}", where=where) from None
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique_pairs,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_int if b"-0" in raw else None,
        )
    except _Refused as refused:
        raise CheckpointInvalid(refused.rule, f"{what}: {refused.what}", where=where) from None
    except RecursionError:
        raise CheckpointInvalid("too_deep", f"{what} nests deeper than {DEPTH_LIMIT} levels", where=where) from None
    except json.JSONDecodeError as error:
        raise CheckpointInvalid("not_json", f"{what} is no JSON: {error.msg} at character {error.pos}", where=where) from None
    except ValueError:  # an integer of more digits than the interpreter converts
        raise CheckpointInvalid("number_range", f"{what}: a number has thousands of digits", where=where) from None
    if _SURROGATE_ESCAPE.search(raw):
        _refuse_lone_surrogates(value, where=where, what=what)
    return value


def _refuse_lone_surrogates(value: Any, *, where: str, what: str) -> None:
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            try:
                item.encode("utf-8")
            except UnicodeEncodeError:
                raise CheckpointInvalid("lone_surrogate", f"{what}: the string {shown(item)} is no Unicode text", where=where) from None
        elif isinstance(item, dict):
            todo.extend(item.keys())
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)


def shown(value: Any) -> str:
    """A value in a message: short, and safe for whatever a file may hold."""
    if isinstance(value, (dict, list)):
        return f"a {type(value).__name__}"
    text = repr(value if not isinstance(value, str) else value[:100])
    return text if len(text) <= 100 else text[:97] + "..."


def deeper_than(value: Any, limit: int) -> bool:
    """Whether `value` nests more than `limit` containers deep; never recurses."""
    level = [value]
    for _ in range(limit + 1):
        containers = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, (dict, list))]
        level = [child for container in containers for child in container]
        if not level:
            return False
    return True
