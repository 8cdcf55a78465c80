"""The registry of quotas in a real ZooKeeper: Kafka's nodes, and what another broker reads after changes."""

from headrace.coordination.quotas import MOST_NAMED, QuotaRegistry
from headrace.coordination.users import UserRegistry

from .conftest import OpenSession

RATE = {"producer_byte_rate": "1"}


def test_changes_are_in_kafkas_nodes_and_each_broker_reads_those_that_it_missed(open_session: OpenSession) -> None:
    session = open_session("one")
    registry, users = QuotaRegistry(session), UserRegistry(session)
    assert registry.read() == (-1, {}, True)
    users.change("ann", lambda _: {"SCRAM-SHA-256": "salt"})
    registry.change(("ann", None), lambda present: {**present, **RATE})
    number, configs, is_all = registry.read(None)
    assert (configs, is_all) == ({("ann", None): {"SCRAM-SHA-256": "salt", **RATE}}, True)
    assert registry.read(number) == (number, {}, False)
    for entity in (("ann", "app"), ("<default>", None), (None, "app"), (None, "<default>")):
        registry.change(entity, lambda _: RATE)
    last, news, is_all = registry.read(number)
    assert (last, is_all) == (number + 4, False)
    assert {*news} == {("ann", "app"), ("<default>", None), (None, "app"), (None, "<default>")}
    tree = session.tree
    for path in ("users/ann/clients/app", "users/<default>", "clients/app", "clients/<default>"):
        node = tree.read(f"/config/{path}")
        assert node is not None
        assert node.data == b'{"config":{"producer_byte_rate":"1"},"version":1}'
    assert users.list() == ["ann"], "defaults are no user"
    registry.change(("ann", "app"), lambda _: {})
    assert tree.read("/config/users/ann/clients/app") is None
    assert registry.read(last) == (last + 1, {("ann", "app"): {}}, False)
    users.change("ann", lambda present: {key: value for key, value in present.items() if "SCRAM" not in key})
    assert registry.read().configs[("ann", None)] == RATE, "a user without credentials keeps its quotas"
    registry.change(("ann", None), lambda present: present)
    assert registry.read().number == last + 1, "what changes nothing is no change"
    for each in range(MOST_NAMED + 1):
        registry.change((None, "app"), lambda _, each=each: {"producer_byte_rate": str(each + 2)})
    assert registry.read(last).is_all, "a broker that missed too many changes reads all quotas"
    assert not registry.read(last + 2).is_all
