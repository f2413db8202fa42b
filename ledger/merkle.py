"""The Merkle tree of RFC 6962, section 2.1 (the same in RFC 9162): roots, inclusion proofs, consistency proofs, and their verification.

Pure: what is hashed as a leaf is decided elsewhere (`ledger.leaves`). Everything here takes and returns leaf hashes and node hashes of
32 bytes. Indexes begin at 0, sizes count leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()


def leaf_hash(entry: bytes) -> bytes:
    return sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """What must be known of the first `size` leaves to let the tree grow: the roots of the complete subtrees that they consist of, one
    for each bit of `size`. At most 64 hashes, whatever became of the leaves."""

    def __init__(self, size: int = 0, nodes: Sequence[bytes] = ()) -> None:
        """`nodes` as the property of that name gives them. Raises ValueError for another number of nodes than the size has bits."""
        if size < 0 or len(nodes) != bin(size).count("1") or any(len(node) != HASH_BYTES for node in nodes):
            raise ValueError(f"{len(nodes)} nodes are no frontier of {size} leaves")
        self.size = size
        left = iter(reversed(nodes))
        self._levels: list[bytes | None] = [next(left) if size >> level & 1 else None for level in range(size.bit_length())]

    @property
    def nodes(self) -> tuple[bytes, ...]:
        """From left to right, so the largest subtree first."""
        return tuple(node for node in reversed(self._levels) if node is not None)

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Appends leaf hashes. A level at a time: a million leaves take about a second."""
        nodes = list(leaves)
        self.size += len(nodes)
        level = 0
        while nodes:
            if level == len(self._levels):
                self._levels.append(None)
            waiting = self._levels[level]
            if waiting is not None:
                nodes.insert(0, waiting)
            self._levels[level] = nodes.pop() if len(nodes) % 2 else None
            pairs = iter(nodes)
            nodes = [sha256(b"\x01" + left + right).digest() for left, right in zip(pairs, pairs, strict=True)]
            level += 1

    def join(self, level: int, node: bytes) -> None:
        """Appends a complete subtree of 2 ** `level` leaves. Raises ValueError where none can begin."""
        if self.size % (1 << level):
            raise ValueError(f"behind {self.size} leaves no subtree of {1 << level} begins")
        self.size += 1 << level
        self._levels += [None] * (level + 1 - len(self._levels))
        while (waiting := self._levels[level]) is not None:
            self._levels[level] = None
            node = node_hash(waiting, node)
            level += 1
            if level == len(self._levels):
                self._levels.append(None)
        self._levels[level] = node

    def root(self) -> bytes:
        found: bytes | None = None
        for node in self._levels:
            if node is not None:
                found = node if found is None else node_hash(node, found)
        return EMPTY_ROOT if found is None else found

    def spans(self) -> list[tuple[int, int, bytes]]:
        """Each node with the leaves that it stands for: from, up to (not including), hash."""
        found, begin = [], 0
        for level in reversed(range(len(self._levels))):
            node = self._levels[level]
            if node is not None:
                found.append((begin, begin + (1 << level), node))
                begin += 1 << level
        return found


def subtrees(begin: int, leaves: Sequence[bytes]) -> list[tuple[int, bytes]]:
    """The largest complete subtrees that these leaves, of which the first is number `begin`, consist of: level and hash of each, from left
    to right, as `Frontier.join` takes them. Of n leaves there are at most 2 log2(n)."""
    found, at = [], 0
    while at < len(leaves):
        number = begin + at
        level = (len(leaves) - at).bit_length() - 1
        if number:
            level = min(level, (number & -number).bit_length() - 1)
        nodes = list(leaves[at : at + (1 << level)])
        while len(nodes) > 1:
            pairs = iter(nodes)
            nodes = [sha256(b"\x01" + left + right).digest() for left, right in zip(pairs, pairs, strict=True)]
        found.append((level, nodes[0]))
        at += 1 << level
    return found


class Tree:
    """Leaf hashes that proofs can be made of: `leaves` follow those that `before` stands for and that may be gone."""

    def __init__(self, leaves: Sequence[bytes], before: Frontier | None = None) -> None:
        self._leaves = leaves
        self._before = before or Frontier()
        self._gone = self._before.spans()
        self.size = self._before.size + len(leaves)

    def root(self, size: int | None = None) -> bytes:
        """The root over the first `size` leaves. Raises ValueError where these are not known."""
        size = self.size if size is None else size
        if not self._before.size <= size <= self.size:
            raise ValueError(f"the root of {size} leaves cannot be computed from leaves {self._before.size} to {self.size}")
        return self._range(0, size)

    def inclusion_proof(self, index: int, size: int) -> list[bytes]:
        """PATH(index, D[size]) of RFC 6962, section 2.1.1. Raises ValueError for a leaf that is not there (any more)."""
        if not self._before.size <= index < size <= self.size:
            raise ValueError(f"leaf {index} cannot be proved in a tree of {size}: known are leaves {self._before.size} to {self.size}")
        proof: list[bytes] = []
        begin, end = 0, size
        while end - begin > 1:
            middle = begin + _split(end - begin)
            if index < middle:
                proof.append(self._range(middle, end))
                end = middle
            else:
                proof.append(self._range(begin, middle))
                begin = middle
        return proof[::-1]

    def consistency_proof(self, old: int, size: int) -> list[bytes]:
        """PROOF(old, D[size]) of RFC 6962, section 2.1.2; empty where `old` is 0 or `size`. Raises ValueError as `root`."""
        if not (old == 0 or self._before.size <= old) or not old <= size <= self.size:
            raise ValueError(f"{old} and {size} leaves cannot be compared: known are leaves {self._before.size} to {self.size}")
        if old in (0, size):
            return []
        proof: list[bytes] = []
        begin, end = 0, size
        while end > old:
            middle = begin + _split(end - begin)
            if old <= middle:
                proof.append(self._range(middle, end))
                end = middle
            else:
                proof.append(self._range(begin, middle))
                begin = middle
        if begin > 0:  # otherwise the old tree is a subtree of the new one, and its root is known to who asks
            proof.append(self._range(begin, end))
        return proof[::-1]

    def _range(self, begin: int, end: int) -> bytes:
        """The hash over leaves `begin` to `end`, a node of the tree. Whatever a proof for leaves that are there needs of those that are
        gone is one node of the frontier, or begins with whole ones: both are aligned to their size."""
        for known_begin, known_end, node in self._gone:
            if (known_begin, known_end) == (begin, end):
                return node
        gone = self._before.size
        grown = Frontier(max(0, gone - begin), [node for known_begin, _, node in self._gone if known_begin >= begin])
        grown.extend(self._leaves[max(begin, gone) - gone : end - gone])
        return grown.root()


def _split(count: int) -> int:
    """The largest power of two below `count`."""
    return 1 << (count - 1).bit_length() - 1


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether `proof` shows that `leaf` is leaf `index` of the tree of `size` leaves that has this root (RFC 9162, section 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    at, last, found = index, size - 1, leaf
    for node in proof:
        if last == 0:
            return False
        if at & 1 or at == last:
            found = node_hash(node, found)
            while not at & 1 and at:  # up to the level where this node has a sibling
                at, last = at >> 1, last >> 1
        else:
            found = node_hash(found, node)
        at, last = at >> 1, last >> 1
    return last == 0 and found == root


def verify_consistency(old: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether `proof` shows that the tree of `old` leaves is a prefix of that of `size` leaves (RFC 9162, section 2.1.4.2).

    Nothing is a prefix of every tree, and then `old_root` must be the empty one.
    """
    if old == 0 or old == size:
        return not proof and (old_root == EMPTY_ROOT if old == 0 else old_root == root)
    if not 0 < old < size:
        return False
    path = list(proof)
    at, last = old - 1, size - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    if at == 0:
        path.insert(0, old_root)  # the old tree is complete, so its root is where the path begins
    if not path:
        return False
    before = now = path[0]
    for node in path[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            before, now = node_hash(node, before), node_hash(node, now)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            now = node_hash(now, node)
        at, last = at >> 1, last >> 1
    return last == 0 and before == old_root and now == root
