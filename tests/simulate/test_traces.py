"""The traces of decisions 66 and 73 end as they must."""

import pytest

from .traces import TRACES


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_ends_well(name: str) -> None:
    TRACES[name]()


def test_each_trace_is_there() -> None:
    """The fifteenth, of two coordinators of a group, is played in a real ZooKeeper: `tests/integration/coordination`."""
    assert {name[:2] for name in TRACES} == {f"{number:02}" for number in range(1, 20)} - {"15"}
