import random
import socket
import threading

import pytest

from headrace.client.connection import control_plane
from headrace.client.connection.connection import PROGRESS_BYTES, Connection, _send_gathered
from headrace.client.errors import BadAnswer, BrokerUnreachable, RequestTimedOut, UnsupportedApi
from headrace.wire.messages import control
from tests.support.processes import eventually, free_port
from tests.support.scripted_broker import API_VERSIONS, FETCH, METADATA, Fault, ScriptedBroker

METADATA_OF_NONE = bytes(4)
"""A request of Metadata version 1 for no topic."""


def _ask(connection: Connection) -> set[str]:
    return set(control_plane.ask_metadata(connection, None, may_create=False).topics)


def test_requests_are_answered_in_turn_on_one_connection(broker: ScriptedBroker) -> None:
    connection = Connection("127.0.0.1", broker.port)
    assert _ask(connection) == {"clicks", "views"}
    assert _ask(connection) == {"clicks", "views"}
    assert broker.count(API_VERSIONS) == 1


def test_a_connection_that_the_broker_closed_while_idle_is_renewed_without_a_failure(broker: ScriptedBroker) -> None:
    connection = Connection("127.0.0.1", broker.port)
    _ask(connection)
    broker.drop_connections()
    eventually(lambda: not broker.connections)
    assert _ask(connection) == {"clicks", "views"}
    assert broker.count(API_VERSIONS) == 2


def test_requests_from_many_threads_do_not_mix_their_answers(broker: ScriptedBroker) -> None:
    connection = Connection("127.0.0.1", broker.port)
    answers: list[set[str]] = []

    def ask(topic: str) -> None:
        for _ in range(20):
            answers.append({topic} ^ set(control_plane.ask_metadata(connection, [topic], may_create=False).topics))

    threads = [threading.Thread(target=ask, args=(topic,)) for topic in ("clicks", "views", "none")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [set()] * 60


@pytest.mark.parametrize("cut_at", [0, 2, 4, 9, 30])
def test_a_cut_answer_names_the_broker_and_the_next_request_reconnects(broker: ScriptedBroker, cut_at: int) -> None:
    connection = Connection("127.0.0.1", broker.port)
    broker.fail(METADATA, Fault(cut_at=cut_at))
    with pytest.raises(BrokerUnreachable, match=f"Metadata to broker 127.0.0.1:{broker.port}.*closed the connection") as caught:
        _ask(connection)
    assert caught.value.was_sent
    assert caught.value.retriable
    assert _ask(connection) == {"clicks", "views"}


def test_a_wrong_correlation_id_is_a_bad_answer_and_the_next_request_reconnects(broker: ScriptedBroker) -> None:
    connection = Connection("127.0.0.1", broker.port)
    broker.fail(METADATA, Fault(wrong_correlation_id=True))
    with pytest.raises(BadAnswer, match="it answers request"):
        _ask(connection)
    assert _ask(connection) == {"clicks", "views"}


def test_garbage_in_an_answer_is_a_bad_answer(broker: ScriptedBroker) -> None:
    connection = Connection("127.0.0.1", broker.port)
    broker.fail(METADATA, Fault(garbage=True))
    with pytest.raises(BadAnswer, match="cannot be read"):
        _ask(connection)


def test_an_answer_that_does_not_come_in_time_is_a_timeout(broker: ScriptedBroker) -> None:
    connection = Connection("127.0.0.1", broker.port, timeout_ms=100)
    _ask(connection)
    broker.fail(METADATA, Fault(delay_ms=500))
    with pytest.raises(RequestTimedOut, match="no answer within 100 ms"):
        _ask(connection)


def test_a_long_answer_over_a_slow_line_has_its_time_anew_as_long_as_it_comes(broker: ScriptedBroker) -> None:
    """Fault: a fetch that took longer than the whole timeout, as over a far and lossy line, failed and was asked for again, for
    ever: a mirror stood still.
    """
    connection = Connection("127.0.0.1", broker.port, timeout_ms=1_000)
    _ask(connection)
    broker.fail(METADATA, Fault(padding_bytes=5 * PROGRESS_BYTES, drip=(PROGRESS_BYTES, 300)))
    assert len(connection.request(METADATA, 1, METADATA_OF_NONE)) > 5 * PROGRESS_BYTES


def test_a_large_request_in_many_pieces_arrives_as_it_is() -> None:
    """Of more pieces than the kernel takes at once, to a peer that reads slowly; empty ones among them."""
    draw = random.Random(5)
    pieces = [draw.randbytes(draw.choice([0, 1, 700, 5_000])) for _ in range(3_000)] + [memoryview(draw.randbytes(1 << 20))]
    ours, theirs = socket.socketpair()
    received = bytearray()

    def read() -> None:
        while came := theirs.recv(70_000):
            received.extend(came)

    reader = threading.Thread(target=read)
    reader.start()
    with ours:
        _send_gathered(ours, pieces, 30)
    reader.join(30)
    theirs.close()
    assert bytes(received) == b"".join(pieces)


def test_a_large_request_to_a_peer_that_does_not_read_is_a_timeout() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(TimeoutError):
        _send_gathered(ours, [bytes(1 << 24)], 0.2)


def test_an_answer_that_only_drips_is_a_timeout(broker: ScriptedBroker) -> None:
    connection = Connection("127.0.0.1", broker.port, timeout_ms=300)
    _ask(connection)
    broker.fail(METADATA, Fault(padding_bytes=20_000, drip=(1_000, 50)))
    with pytest.raises(RequestTimedOut, match="no answer within 300 ms"):
        connection.request(METADATA, 1, METADATA_OF_NONE)


def test_a_late_answer_is_never_taken_for_the_next_requests(broker: ScriptedBroker) -> None:
    connection = Connection("127.0.0.1", broker.port, timeout_ms=200)
    broker.fail(METADATA, Fault(delay_ms=400))
    with pytest.raises(RequestTimedOut):
        control_plane.ask_metadata(connection, ["clicks"], may_create=False)
    connection.timeout_ms = 2_000
    assert set(control_plane.ask_metadata(connection, ["views"], may_create=False).topics) == {"views"}


def test_no_listener_is_said_with_address_and_advice() -> None:
    port = free_port()
    with pytest.raises(
        BrokerUnreachable, match=f"connect to broker 127.0.0.1:{port} failed: .*check that a broker runs there"
    ) as caught:
        _ask(Connection("127.0.0.1", port))
    assert not caught.value.was_sent


def test_a_version_that_the_broker_lacks_is_said_with_both_ranges(broker: ScriptedBroker) -> None:
    broker.served[FETCH] = (13, 17)
    del broker.served[METADATA]
    connection = Connection("127.0.0.1", broker.port)
    with pytest.raises(UnsupportedApi, match=r"Fetch .*supports versions 4 to 12, the broker serves versions 13 to 17"):
        connection.version(FETCH, 4, 12)
    with pytest.raises(UnsupportedApi, match=r"Metadata .*does not serve it"):
        _ask(connection)


def test_the_highest_common_version_is_spoken(broker: ScriptedBroker) -> None:
    broker.served[FETCH] = (0, 7)
    assert Connection("127.0.0.1", broker.port).version(FETCH, 4, 12) == 7


def test_a_web_server_is_told_from_a_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(BadAnswer, match=r"it claims 1213486160 bytes.*not HTTP"):
            _ask(Connection("127.0.0.1", listener.getsockname()[1]))


def test_closing_from_another_thread_ends_a_request_that_waits(broker: ScriptedBroker) -> None:
    connection = Connection("127.0.0.1", broker.port)
    broker.fail(METADATA, Fault(delay_ms=5_000))
    failures: list[Exception] = []

    def ask() -> None:
        try:
            _ask(connection)
        except BrokerUnreachable as error:
            failures.append(error)

    waiting = threading.Thread(target=ask)
    waiting.start()
    eventually(lambda: broker.count(METADATA) == 1)
    connection.close()
    waiting.join(timeout=2)
    assert "this client closed the connection" in str(failures[0])
    with pytest.raises(BrokerUnreachable, match="this client closed"):
        _ask(connection)


def test_a_second_request_in_flight_is_refused_and_the_first_answer_still_comes(broker: ScriptedBroker) -> None:
    connection = Connection("127.0.0.1", broker.port)
    body = control.encode_request(METADATA, 4, {"topics": None, "allow_auto_topic_creation": False})
    connection.begin(METADATA, 4, body)
    with pytest.raises(BrokerUnreachable, match="a request is in flight"):
        connection.begin(METADATA, 4, body)
    assert len(control.decode_response(METADATA, 4, connection.finish()).topics) == 2
