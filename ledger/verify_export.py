"""Checks what `wcache ledger export` wrote against a signed checkpoint, without wcache: Python 3.8 or later and nothing else.

    python3 verify_export.py EXPORT.jsonl CHECKPOINT PUBLIC_KEY

CHECKPOINT is a file: take it from where it was posted. PUBLIC_KEY is the line name+id+base64: take it from whoever signs.
Exit status: 0 all is as it was signed, 1 it is not (each problem is a line), 2 nothing was checked. Format: wcache's ledger-format.md.
"""

import base64
import functools
import json
import struct
import sys
from hashlib import sha256, sha512

P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493  # edwards25519 (RFC 8032, 5.1): the field, the base point's order
D = -121665 * pow(121666, -1, P) % P


def point(text):  # 5.1.3; a point has one spelling
    y, odd = int.from_bytes(text, "little") & (1 << 255) - 1, text[31] >> 7
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if x * x % P == square else x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square or y >= P or (x == 0 and odd):
        raise ValueError("a key or signature that is none")
    return (x if x % 2 == odd else P - x), y


def add(p, q):
    (a, b), (c, d), e = p, q, D * p[0] * p[1] * q[0] * q[1]
    return (a * d + b * c) * pow(1 + e, -1, P) % P, (b * d + a * c) * pow(1 - e, -1, P) % P


def times(number, p):
    rest = times(number >> 1, add(p, p)) if number else (0, 1)
    return add(rest, p) if number & 1 else rest


def is_signed(public, text, signature):  # 5.1.7: S B = R + k A
    k, s = (int.from_bytes(part, "little") for part in (sha512(signature[:32] + public + text).digest(), signature[32:]))
    return s < L and times(s, point(b"\x58" + b"\x66" * 31)) == add(point(signature[:32]), times(k % L, point(public)))


def open_note(note, key):  # https://c2sp.org/signed-note and tlog-checkpoint: origin line, size, root
    name, _, encoded = key.strip().split("+", 2)
    public = base64.b64decode(encoded, validate=True)
    key_id = sha(name.encode(), b"\n", public)[:4]
    text, lines = note.rsplit("\n\n", 1)
    for dash, signer, encoded in (line.split(" ") for line in lines.splitlines()):
        raw = base64.b64decode(encoded, validate=True)
        if (dash, signer, raw[:4], len(raw)) == ("\u2014", name, key_id, 68) and is_signed(public[1:], text.encode() + b"\n", raw[4:]):
            origin, size, root = text.split("\n")[:3]
            return origin, int(size), base64.b64decode(root, validate=True)
    raise ValueError("the checkpoint is not signed by this key")


def sha(*parts):
    return sha256(b"".join(parts)).digest()


def frame(value):
    part = struct.pack(">q", value) if isinstance(value, int) else value.encode() if isinstance(value, str) else value
    return struct.pack(">Q", len(part)) + part


def check(lines, signed, size, root, say):
    row = head = json.loads(next(lines))
    seq, link, redacted, allowed = head["after_seq"], head["chain"], set(), set()
    sizes = (1 << bit for bit in range(63, -1, -1) if seq >> bit & 1)
    tree = [(count, bytes.fromhex(node)) for count, node in zip(sizes, head["frontier"])]  # noqa: B905 RFC 6962: subtrees, left to right
    for line in lines:
        row = json.loads(line)
        if json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" != line:
            say(seq + 1, "the line is not spelt as it was exported")
        if row["kind"] != "event":
            break
        if row["seq"] != seq + 1:
            say(row["seq"], f"it does not follow {seq}")
        seq, payload, hashed = row["seq"], row["payload"], row["payload_hash"]
        if payload is None:
            redacted.add(seq)
        elif sha(b"wcache/payload/1\n", bytes.fromhex(row["salt"]), payload.encode()).hex() != hashed:
            say(seq, "the payload is not the one that was hashed")
        elif row["type"] == "payload.redacted":
            allowed.add(json.loads(payload)["target_seq"])
        fields = [row[name] for name in ("seq", "stream", "version", "type", "schema", "event_id", "occurred_ns", "recorded_ns")]
        origin = row.get("origin", head["origin"])  # another one before a backup was restored
        leaf = sha(b"wcache/leaf/1\n", *map(frame, [bytes.fromhex(origin), *fields, bytes([row["late"]]), bytes.fromhex(hashed)]))
        link, before = row["chain"], link
        if sha(b"wcache/chain/1\n", bytes.fromhex(before), leaf).hex() != link:
            say(seq, "the row is not the one that was chained")
        tree.append((1, sha(b"\x00", leaf)))
        while len(tree) > 1 and tree[-1][0] == tree[-2][0]:
            tree[-2:] = [(2 * tree[-1][0], sha(b"\x01", tree[-2][1], tree[-1][1]))]
        if seq == size:
            found = functools.reduce(lambda right, left: sha(b"\x01", left, right), [node for _, node in tree[::-1]])
            if (signed, root) != ("wcache/ledger/" + origin, found):
                say(seq, "the events up to here are not those that were signed")
    if (row["kind"], row.get("head_seq"), row.get("events")) != ("end", seq, seq - head["after_seq"]) or next(lines, None) is not None:
        say(seq, "the export does not end as it should")
    if not head["after_seq"] < size <= seq:
        say(seq, f"{size} events were signed; here are those from {head['after_seq'] + 1} to {seq}")
    for number in sorted(redacted - allowed):
        say(number, "the payload is missing, and no payload.redacted says why")
    return f"seq {head['after_seq'] + 1} to {seq}, signed up to {size}, {len(redacted)} redacted"


if __name__ == "__main__":
    found = []
    try:
        with open(sys.argv[1], encoding="utf-8", newline="\n") as export, open(sys.argv[2], encoding="utf-8", newline="\n") as note:
            verdict = check(export, *open_note(note.read(), sys.argv[3]), lambda seq, what: found.append(f"seq {seq}: {what}"))
    except (OSError, IndexError) as error:
        sys.exit(print(__doc__ if len(sys.argv) != 4 else error, file=sys.stderr) or 2)
    except Exception as error:
        found.append(f"it cannot be read on: {type(error).__name__}: {error}")
    print("\n".join(found[:50] + [f"and {len(found) - 50} more"] * (len(found) > 50)) or f"ok: {verdict}")
    sys.exit(bool(found))
