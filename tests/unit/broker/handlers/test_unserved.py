"""Requests that are not served: the protocol's own error where it has one, else an end that the log explains."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.handlers.api_table import TABLE
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import control
from tests.support.raw_kafka import RawClient, frame
from tests.support.serving_broker import ServingBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"clicks": 1}) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


@pytest.mark.parametrize(
    ("api_key", "version"), [(1, 17), (22, 5), (26, 3), (41, 2), (66, 0), (60, 2), (68, 0), (71, 0), (3, 13)]
)
def test_what_is_not_served_is_answered_in_its_own_shape_and_the_connection_goes_on(
    client: RawClient, api_key: int, version: int
) -> None:
    assert api_key not in TABLE or version > TABLE[api_key].highest
    answer = control.decode_response(api_key, version, client.request(api_key, version, b"\0" * 30))
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    if getattr(answer, "error_message", None) is not None:
        assert "not served here" in answer.error_message
    assert client.request(18, 0, b"")


@pytest.mark.parametrize(("api_key", "version"), [(3, 14), (28, 0), (999, 7), (-1, 0), (1, 99), (0, -1)])
def test_where_there_is_no_such_answer_the_connection_ends_and_the_log_says_who_asked_what(
    broker: ServingBroker, client: RawClient, api_key: int, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        client.socket.sendall(frame(api_key, version, 1, b"", client_id="somebody"))
        assert client.is_closed_by_peer()
    (line,) = [record for record in caplog.records if record.getMessage() == "frame_refused"]
    told = str(line.__dict__)
    assert "somebody" in told
    assert f"version {version}" in told
    assert f"API key {api_key}" in told
    if api_key in TABLE:
        assert f"{TABLE[api_key].name} " in told
        assert f"{TABLE[api_key].served_from} to {TABLE[api_key].highest}" in told


def test_a_stranger_cannot_fill_the_log(broker: ServingBroker, client: RawClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            client.socket.sendall(frame(68, 0, 1, b"", client_id="x" * 20_000))
        for _ in range(50):
            client.receive(68, 0)
    lines = [record for record in caplog.records if record.getMessage() == "request_not_served"]
    assert 1 <= len(lines) <= 5
    assert all(len(str(line.__dict__)) < 5_000 for line in lines)


def test_everything_that_is_advertised_is_answered_and_ends_no_connection(client: RawClient) -> None:
    _, ranges = control.decode_api_versions(0, client.request(18, 0, b""))
    assert ranges == {key: (api.lowest, api.highest) for key, api in TABLE.items()}
    unread = {
        key: (api.lowest, api.served_from) for key, api in TABLE.items() if api.served_from > api.lowest and api.below is None
    }
    assert unread.keys() <= {8}
