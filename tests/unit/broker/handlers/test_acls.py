"""Requests about ACLs, which are not supported: each is refused in its own format. Real sockets; ZooKeeper is simulated."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.wire.errors import ErrorCode
from tests.support.raw_kafka import RawClient
from tests.support.serving_broker import ServingBroker

FILTER = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
RULE = {
    "resource_type": 2,
    "resource_name": "clicks",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RawClient]:
    with ServingBroker(tmp_path) as broker, broker.client() as raw:
        yield raw


def told(one: Any) -> tuple[int, bool]:
    return int(one.error_code), "no authorizer" in one.error_message


REFUSED = (int(ErrorCode.SECURITY_DISABLED), True)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_it_is_said_that_there_is_no_authorizer(client: RawClient, version: int) -> None:
    described = client.ask(29, version, FILTER)
    assert (told(described), described.resources) == (REFUSED, ())
    assert [told(one) for one in client.ask(30, version, {"creations": [RULE, RULE]}).results] == [REFUSED] * 2
    deleted = client.ask(31, version, {"filters": [FILTER, FILTER, FILTER]}).filter_results
    assert [(told(one), one.matching_acls) for one in deleted] == [(REFUSED, ())] * 3
