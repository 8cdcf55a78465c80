"""The console over real processes: what its pages show is what the clients of other projects, and the audit, say."""

import json
import re
import socket
import threading
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from tests.support.group_reading import consume
from tests.support.processes import Process, eventually, free_port

from .conftest import EVENTS, TOPIC, Platform, log_events

PAGES = ("/", "/topics", "/groups", "/schemas", "/mirror", "/warehouse", "/producers", "/processes")


@pytest.fixture(scope="module")
def group(platform: Platform) -> str:
    """A group that has read every event and left."""
    assert len(consume(platform.broker.address, TOPIC, "readers", EVENTS)) == EVENTS
    return "readers"


def committed(platform: Platform, group: str) -> dict[int, int]:
    """Return what librdkafka says that the group has committed."""
    consumer = Consumer({"bootstrap.servers": platform.broker.address, "group.id": group})
    try:
        topic = consumer.list_topics(TOPIC, timeout=10).topics[TOPIC]
        return {
            one.partition: one.offset for one in consumer.committed([Place(TOPIC, at) for at in topic.partitions], timeout=10)
        }
    finally:
        consumer.close()


def test_every_page_answers_and_home_has_nothing_to_say_of_what_is_well(platform: Platform) -> None:
    for path in PAGES:
        status, page = platform.get(path)
        assert status == 200, (path, page)
        assert "<h1>" in page
    _, home = platform.get("/")
    assert "Everything is all right." in home, home
    assert f'href="/topic?topic={TOPIC}"' in home


def test_the_topic_s_windows_and_its_partitions_are_shown(platform: Platform) -> None:
    _, proof = platform.get("/topic", topic=TOPIC)
    assert "COMPLETE" in proof
    assert f">{EVENTS}</td>" in proof or f"{EVENTS:,}" in proof
    _, settings = platform.get("/settings", topic=TOPIC)
    assert "retention.ms" in settings
    assert ">1</td>" in settings, "the leader"
    _, listed = platform.get("/topics", q="click")
    assert ">clicks</a>" in listed
    assert "_headrace.audit" not in listed


def test_messages_are_decoded_filtered_and_read_from_a_place(platform: Platform) -> None:
    _, newest = platform.get("/messages", topic=TOPIC)
    shown = re.findall(r"<code>(\{&#34;.*?)</code>", newest)
    assert len(shown) == EVENTS
    assert any("/29&#34;" in one for one in shown)
    _, some = platform.get("/messages", topic=TOPIC, **{"from": "earliest", "where": "status >= 500"})
    assert len(re.findall(r"<code>\{&#34;", some)) == 3
    assert platform.get("/messages", topic=TOPIC, where="status >=")[0] == 400
    assert platform.get("/messages", topic="nothing")[0] == 400
    assert platform.get("/messages", topic=TOPIC, **{"from": "2099-01-01T00:00:00Z"})[0] == 200


def test_messages_come_live_and_only_those_that_match(platform: Platform) -> None:
    host, port = platform.url.removeprefix("http://").split(":")
    path = f"/messages/live?topic={TOPIC}&where={quote('status >= 500')}"
    with socket.create_connection((host, int(port)), timeout=30) as stream:
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        heard = b""
        while b"the stream has begun" not in heard:
            heard += stream.recv(4_096)
        assert b"text/event-stream" in heard
        done = threading.Event()

        def log_on() -> None:
            # The reading begins at the log's end as it is then: events come until one of them was heard.
            while not done.is_set():
                log_events(platform.broker, platform.registry, range(100, 111))

        writer = threading.Thread(target=log_on)
        writer.start()
        try:
            while b"data: " not in heard or b"\n\n" not in heard.partition(b"data: ")[2]:
                piece = stream.recv(65_536)
                assert piece, heard
                heard += piece
        finally:
            done.set()
            writer.join()
    data = json.loads(heard.partition(b"data: ")[2].partition(b"\n\n")[0].split(b"\r\n")[0])
    assert data["rows"]
    assert all(json.loads(one["text"])["status"] == 500 for one in data["rows"])


def test_a_group_s_lag_is_counted_in_records_and_a_reset_moves_what_the_dry_run_showed(platform: Platform, group: str) -> None:
    before = committed(platform, group)
    _, page = platform.get("/group", group=group)
    assert "coordinates at the broker" in page
    _, planned = platform.get("/group", group=group, to="earliest")
    order = json.loads(re.search(r'data-order="([^"]*)"', planned)[1].replace("&#34;", '"'))  # type: ignore[index]
    read = [at for at, offset in before.items() if offset >= 0]
    assert {at: offset for _, at, offset in order["offsets"]} == dict.fromkeys(read, 0)
    assert committed(platform, group) == before, "a dry run moves nothing"
    body = json.dumps(order).encode()
    assert platform.post("/api/group/move", body, **{"Content-Type": "text/plain"})[0] == 415
    foreign = {"Content-Type": "application/json", "Origin": "http://evil.example"}
    assert platform.post("/api/group/move", body, **foreign)[0] == 403
    assert committed(platform, group) == before
    status, moved = platform.post("/api/group/move", body, **{"Content-Type": "application/json", "Origin": platform.url})
    assert (status, json.loads(moved)) == (200, order)
    assert committed(platform, group) == {**before, **dict.fromkeys(read, 0)}
    _, behind = platform.get("/group", group=group)
    lags = [int(one.replace(",", "")) for one in re.findall(r"clicks-\d+</a></th>(?:<td>[^<]*</td>){2}<td>([\d,]+)</td>", behind)]
    assert sum(lags) >= EVENTS
    assert len(lags) == len(read)


def test_a_group_with_members_keeps_its_offsets(platform: Platform) -> None:
    consumer = Consumer({"bootstrap.servers": platform.broker.address, "group.id": "busy", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([TOPIC])
        assert eventually(lambda: consumer.consume(1, timeout=0.5), what="a record")
        consumer.commit(asynchronous=False)
        _, page = platform.get("/group", group="busy", to="latest")
        assert "which keep its offsets: stop them first" in page
        assert "data-order" not in page
        order = json.dumps({"group": "busy", "offsets": [[TOPIC, 0, 0]]}).encode()
        assert platform.post("/api/group/move", order, **{"Content-Type": "application/json"})[0] == 409
    finally:
        consumer.close()


def test_the_schema_s_versions_are_compared_and_its_readers_named(platform: Platform, group: str) -> None:
    _, page = platform.get("/schema", subject=f"{TOPIC}-value")
    assert "What changed from version 1 to 2" in page
    assert "user" in page
    assert f'href="/group?group={group}"' in page
    assert platform.get("/schema", subject=f"{TOPIC}-value", new=9)[0] == 400


def test_pages_say_how_to_start_what_is_down_and_are_whole_again_with_it(platform: Platform) -> None:
    platform.audit.process.kill()
    try:
        _, home = platform.get("/")
        assert "headrace start audit" in home
        assert platform.get("/topic", topic=TOPIC)[0] == 503
        assert platform.get("/topics")[0] == 200
    finally:
        platform.audit.start()
    eventually(lambda: "Everything is all right." in platform.get("/")[1], what="home is well again", within_ms=60_000)
    assert "Traceback" not in platform.console.output()


def test_another_address_than_the_loopback_wants_a_token(platform: Platform, tmp_path: Path) -> None:
    command = [*platform.console.command[:-2], "--port", str(free_port()), "--host", "0.0.0.0"]
    refused = Process(command, tmp_path / "refused.log").start()
    assert refused.wait(30_000) == 1
    assert "refused to listen on 0.0.0.0" in refused.output()
