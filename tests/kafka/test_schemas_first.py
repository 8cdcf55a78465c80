"""Schemas before data with Apache Kafka at one end or both: offsets differ there, ids do not; the copy is served read-only."""

import struct
from pathlib import Path

import pytest

from headrace.runtime.layout import SCHEMAS_TOPIC
from tests.kafka.copying import Cluster, Copying, make_topic, send
from tests.support.processes import eventually
from tests.support.registry import RegistryProcess

PAIRS = [("other_kafka", "kafka"), ("other_kafka", "ours")]
"""One schemas topic a cluster: what is copied to one is not written there by a registry, too."""


@pytest.mark.parametrize(("source", "destination"), PAIRS)
def test_ids_are_equal_behind_a_mirror_that_numbers_anew(
    source: str, destination: str, request: pytest.FixtureRequest, topic: str, tmp_path: Path
) -> None:
    here: Cluster = request.getfixturevalue(source)
    there: Cluster = request.getfixturevalue(destination)
    make_topic(here, topic)
    with RegistryProcess(tmp_path / "registry", here.address, SCHEMAS_TOPIC) as live:
        with Copying(tmp_path, here, there, name=topic, words=["--topics", topic]) as copying:
            copying.start()
            ids, values = [], []
            for number in range(10):
                schema = {"type": "enum", "name": "E", "symbols": [f"{topic}_{number}"]}
                ids.append(live.register(f"{topic}{number}-value", schema)[1]["id"])
                values.append(b"\x00" + struct.pack(">I", ids[-1]) + b"\x00")
                send(here, topic, values[-1:])
                if number == 5:
                    copying.kill()
                    copying.start()
            copying.await_copied({(topic, 0): values})
            assert eventually(lambda: copying.status()["schemas"]["state"] == "copying", what="the schemas' state")
            with RegistryProcess(tmp_path / "copy", there.address, SCHEMAS_TOPIC, "--read-only") as offline:
                for schema_id in ids:
                    assert offline.ask("GET", f"/schemas/ids/{schema_id}") == live.ask("GET", f"/schemas/ids/{schema_id}")
                assert offline.ask("PUT", "/mode", {"mode": "IMPORT"})[1]["error_code"] == 42205
