"""Which listings of a node prove that the same names are the same nodes."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.coordination.node import Listing


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=12), st.integers(0, 12))
def test_a_node_that_was_replaced_between_two_listings_is_noticed(changes: list[tuple[str, bool]], split: int) -> None:
    """Counts what is made and removed as ZooKeeper does, and remembers which life of a name is the present one."""
    present, lives, count = dict[str, int](), 0, 0
    seen: list[tuple[Listing, dict[str, int]]] = []
    for number, (name, makes) in enumerate(changes):
        if number == split:
            seen.append((Listing(names=frozenset(present), created_zxid=7, change_count=count), dict(present)))
        if makes and name not in present:
            lives += 1
            present[name], count = lives, count + 1
        elif not makes and name in present:
            del present[name]
            count += 1
    if not seen:
        return
    (before, then), now = seen[0], Listing(names=frozenset(present), created_zxid=7, change_count=count)
    if now.same_names_are_same_nodes(before):
        assert all(present[name] == then[name] for name in present.keys() & then.keys())
    elif all(present.get(name) == life for name, life in then.items()):
        assert count - before.change_count > len(present.keys() ^ then.keys()), "one came and went: reading again does no harm"


def test_a_parent_that_was_made_anew_proves_nothing() -> None:
    before = Listing(names=frozenset("a"), created_zxid=7, change_count=1)
    assert not Listing(names=frozenset("a"), created_zxid=9, change_count=1).same_names_are_same_nodes(before)
    assert Listing(names=frozenset("a"), created_zxid=7, change_count=1).same_names_are_same_nodes(before)
