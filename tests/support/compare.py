"""When two tallies say the same."""

import numpy as np


def assert_same(a, b, *, exact=True, folds=True):
    """Every sum of two tallies agrees: bit for bit, or up to the order of summation; folds depend on how users are called."""

    def close(left, right):
        assert left.shape == right.shape and left.dtype == right.dtype
        if exact:
            assert np.array_equal(left, right)
        else:
            np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-10 * max(1, np.abs(right).max(initial=0)))

    assert a.groups == b.groups and [type(label) for label in a.groups] == [type(label) for label in b.groups]
    assert a.lattice == b.lattice
    assert (a.n_spanning, a.binary, set(a.cross)) == (b.n_spanning, b.binary, set(b.cross))
    assert np.isclose(a.centre, b.centre, rtol=0 if exact else 1e-12, atol=0)
    both = list(zip(a.group_tallies, b.group_tallies, strict=True))
    for left, right in both:
        assert (left.n_users, left.n_rows, left.n_unlabelled) == (right.n_users, right.n_rows, right.n_unlabelled)
        assert left.blocks.keys() == right.blocks.keys()
        close(left.cell_users, right.cell_users)
        for name in left.blocks:
            if not name.endswith("pairs") and (name != "folds" or folds):
                close(left.blocks[name].values, right.blocks[name].values)
    own = [(x.blocks[name], y.blocks[name]) for x, y in both for name in x.blocks if name.endswith("pairs")]
    for name, cross in a.cross_blocks.items():
        assert set(cross) == set(b.cross_blocks.get(name, {}))
    between = [(sums, b.cross_blocks[name][pair]) for name, cross in a.cross_blocks.items() for pair, sums in cross.items()]
    assert (a.item, a.item_counts, a.items is None) == (b.item, b.item_counts, b.items is None)
    if a.items is not None:
        for name in ("item", "group", "cell"):
            assert np.array_equal(getattr(a.items, name), getattr(b.items, name))
        close(a.items.values, b.items.values)
    for left, right in own + between:
        assert np.array_equal(left.pairs, right.pairs)
        close(left.values, right.values)
