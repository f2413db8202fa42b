"""RFC 6962's tree against its definitions, written down once more and as plainly as the RFC has them."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wcache.ledger.merkle import (
    EMPTY_ROOT,
    Frontier,
    Tree,
    leaf_hash,
    node_hash,
    subtrees,
    verify_consistency,
    verify_inclusion,
)

ENTRIES = [
    bytes.fromhex(text) for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
LEAVES = [leaf_hash(entry) for entry in ENTRIES]
MANY = [leaf_hash(bytes([number])) for number in range(33)]


def split(count: int) -> int:
    power = 1
    while power * 2 < count:
        power *= 2
    return power


def mth(entries: list[bytes]) -> bytes:
    """Section 2.1: MTH(D[n])."""
    if not entries:
        return sha256(b"").digest()
    if len(entries) == 1:
        return sha256(b"\x00" + entries[0]).digest()
    k = split(len(entries))
    return sha256(b"\x01" + mth(entries[:k]) + mth(entries[k:])).digest()


def path(m: int, entries: list[bytes]) -> list[bytes]:
    """Section 2.1.1: PATH(m, D[n])."""
    if len(entries) == 1:
        return []
    k = split(len(entries))
    if m < k:
        return [*path(m, entries[:k]), mth(entries[k:])]
    return [*path(m - k, entries[k:]), mth(entries[:k])]


def subproof(m: int, entries: list[bytes], whole: bool) -> list[bytes]:
    """Section 2.1.2: SUBPROOF(m, D[n], b)."""
    if m == len(entries):
        return [] if whole else [mth(entries)]
    k = split(len(entries))
    if m <= k:
        return [*subproof(m, entries[:k], whole), mth(entries[k:])]
    return [*subproof(m - k, entries[k:], False), mth(entries[:k])]


ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
"""Roots over the first n of ENTRIES that logs of Certificate Transparency have tested themselves with for a decade."""


def test_roots_of_certificate_transparency() -> None:
    for size, root in enumerate(ROOTS):
        assert Tree(LEAVES).root(size).hex() == root
        assert mth(ENTRIES[:size]).hex() == root


@given(st.lists(st.integers(0, 12), max_size=8))
def test_a_frontier_grows_in_any_steps_to_the_same_root(steps: list[int]) -> None:
    frontier = Frontier()
    entries: list[bytes] = []
    for step in steps:
        more = [bytes([len(entries) + number]) for number in range(step)]
        frontier.extend(map(leaf_hash, more))
        entries += more
        frontier = Frontier(frontier.size, frontier.nodes)  # as it comes back from a file
        assert (frontier.size, frontier.root()) == (len(entries), mth(entries))


def test_a_tree_grows_by_the_subtrees_of_leaves_that_were_hashed_elsewhere() -> None:
    for begin in range(len(MANY)):
        for end in range(begin, len(MANY) + 1):
            tree, whole = Frontier(), Frontier()
            tree.extend(MANY[:begin])
            whole.extend(MANY[:end])
            for level, node in subtrees(begin, MANY[begin:end]):
                tree.join(level, node)
            assert (tree.size, tree.nodes) == (whole.size, whole.nodes)
    with pytest.raises(ValueError, match="no subtree of 4 begins"):
        Frontier(2, [MANY[0]]).join(2, MANY[1])


def test_proofs_are_those_of_the_definition_and_verify() -> None:
    entries = [bytes([number]) for number in range(len(MANY))]
    tree = Tree(MANY)
    for size in range(1, len(MANY) + 1):
        root = mth(entries[:size])
        for index in range(size):
            proof = tree.inclusion_proof(index, size)
            assert proof == path(index, entries[:size])
            assert verify_inclusion(MANY[index], index, size, proof, root)
        for old in range(1, size + 1):
            proof = tree.consistency_proof(old, size)
            assert proof == subproof(old, entries[:size], True)
            assert verify_consistency(old, mth(entries[:old]), size, root, proof)
        assert verify_consistency(0, EMPTY_ROOT, size, root, tree.consistency_proof(0, size))


def test_a_tree_whose_first_leaves_are_gone_makes_the_same_proofs() -> None:
    whole = Tree(MANY)
    for gone in range(len(MANY)):
        before = Frontier()
        before.extend(MANY[:gone])
        tree = Tree(MANY[gone:], before)
        for size in range(max(gone, 1), len(MANY) + 1):
            assert tree.root(size) == whole.root(size)
            assert [tree.inclusion_proof(index, size) for index in range(gone, size)] == [
                whole.inclusion_proof(index, size) for index in range(gone, size)
            ]
            assert [tree.consistency_proof(old, size) for old in range(gone, size + 1)] == [
                whole.consistency_proof(old, size) for old in range(gone, size + 1)
            ]
        if gone:
            with pytest.raises(ValueError, match="cannot be proved"):
                tree.inclusion_proof(gone - 1, len(MANY))
            with pytest.raises(ValueError, match="cannot be computed"):
                tree.root(gone - 1)


def test_nothing_else_verifies() -> None:
    """Every other index, size, root, leaf, and every proof with a hash changed, missing, added or exchanged."""
    tree = Tree(MANY[:13])
    for index, size in ((at, count) for count in (1, 2, 5, 8, 13) for at in range(count)):
        proof, root = tree.inclusion_proof(index, size), tree.root(size)
        for other in (*range(index), *range(index + 1, size + 1), -1):
            assert not verify_inclusion(MANY[index], other, size, proof, root)
        assert not verify_inclusion(MANY[index], index, size, proof, node_hash(root, root))
        assert not verify_inclusion(leaf_hash(b"x"), index, size, proof, root)
        for wrong in mutations(proof):
            assert not verify_inclusion(MANY[index], index, size, wrong, root)
    for old, size in ((at, count) for count in (2, 5, 8, 13) for at in range(1, count + 1)):
        proof, root, before = tree.consistency_proof(old, size), tree.root(size), tree.root(old)
        assert not verify_consistency(old, node_hash(before, before), size, root, proof)
        assert not verify_consistency(old, before, size, node_hash(root, root), proof)
        assert not verify_consistency(size + 1, before, size, root, proof)
        for wrong in mutations(proof):
            assert not verify_consistency(old, before, size, root, wrong)
    assert not verify_consistency(0, tree.root(1), 13, tree.root(13), [])


def mutations(proof: list[bytes]) -> list[list[bytes]]:
    found = [[*proof[:at], leaf_hash(b"x"), *proof[at + 1 :]] for at in range(len(proof))]
    found += [[*proof[:at], *proof[at + 1 :]] for at in range(len(proof))]
    found += [[*proof[:at], leaf_hash(b"x"), *proof[at:]] for at in range(len(proof) + 1)]
    found += [proof[::-1]] if proof != proof[::-1] else []
    return found


@pytest.mark.parametrize(("size", "nodes"), [(1, []), (0, [bytes(32)]), (3, [bytes(32)]), (1, [bytes(31)]), (-1, [])])
def test_a_frontier_of_other_nodes_than_its_size_has_is_refused(size: int, nodes: list[bytes]) -> None:
    with pytest.raises(ValueError, match="no frontier"):
        Frontier(size, nodes)
