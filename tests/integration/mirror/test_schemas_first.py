"""A real mirror, killed with -9 under load: no record is offline before its schema, and an offline registry serves equal ids."""

import json
import struct
import threading
from pathlib import Path

from confluent_kafka import Producer

from headrace.runtime.layout import SCHEMAS_TOPIC
from headrace.wire.batch.record_batch import iter_records
from tests.integration.mirror.pair import Pair
from tests.support.processes import eventually
from tests.support.registry import RegistryProcess

KILLS = 2
TOPIC = "clicks"


def schema_of(number: int) -> dict[str, object]:
    return {"type": "record", "name": "Click", "fields": [{"name": f"f{number}", "type": "int", "default": 0}]}


def test_no_record_arrives_before_its_schema_and_the_offline_registry_has_equal_ids(fresh: Pair, tmp_path: Path) -> None:
    with RegistryProcess(tmp_path / "registry", fresh.live.address, SCHEMAS_TOPIC) as live:
        is_over = threading.Event()
        ids: list[int] = []
        loading = threading.Thread(target=load, args=(fresh, live, ids, is_over))
        fresh.start_mirror()
        loading.start()
        try:
            for number in range(KILLS):
                eventually(lambda least=15 * (number + 1): len(ids) >= least, what="schemas under load", within_ms=60_000)
                check(fresh)
                fresh.kill_mirror()
                fresh.start_mirror()
        finally:
            is_over.set()
            loading.join(30)
        eventually(lambda: len(offline_ids(fresh)) == 2 * len(ids), what="all data offline", within_ms=60_000)
        check(fresh)
        offline = RegistryProcess(tmp_path / "offline-registry", fresh.offline.address, SCHEMAS_TOPIC, "--read-only")
        with offline:
            for schema_id in ids:
                assert offline.ask("GET", f"/schemas/ids/{schema_id}") == live.ask("GET", f"/schemas/ids/{schema_id}")
            assert offline.ask("GET", "/subjects") == live.ask("GET", "/subjects")
            assert offline.ask("GET", "/mode") == (200, {"mode": "READONLY"})
            for refused in (
                offline.register("new-value", schema_of(9_999)),
                offline.ask("PUT", "/mode", {"mode": "READWRITE"}),
                offline.ask("PUT", "/config", {"compatibility": "NONE"}),
                offline.ask("DELETE", "/subjects/s0-value"),
            ):
                assert (refused[0], refused[1]["error_code"]) == (422, 42205)
            assert offline.register("s0-value", schema_of(0)) == (200, {"id": ids[0]})


def load(pair: Pair, registry: RegistryProcess, ids: list[int], is_over: threading.Event) -> None:
    """Register a schema and send two records with its id at once, again and again."""
    producer = Producer({"bootstrap.servers": pair.live.address, "linger.ms": 0})
    while not is_over.is_set():
        schema_id = registry.register(f"s{len(ids)}-value", schema_of(len(ids)))[1]["id"]
        ids.append(schema_id)
        for _ in range(2):
            producer.produce(TOPIC, b"\x00" + struct.pack(">I", schema_id) + b"\x02")
        producer.flush(10)


def offline_ids(pair: Pair) -> list[int]:
    """Return the schema id of every record that is offline now."""
    return [struct.unpack(">I", value[1:5])[0] for value in pair.all_values(pair.offline, TOPIC)]


def check(pair: Pair) -> None:
    """The data first, the schemas then: what came meanwhile can only be more schemas."""
    arrived = offline_ids(pair)
    known = set()
    for _, batch in pair.batches(pair.offline, SCHEMAS_TOPIC, 0):
        for record in iter_records(batch):
            if record.value is not None:
                known.add(json.loads(record.value).get("id"))
    assert set(arrived) <= known
