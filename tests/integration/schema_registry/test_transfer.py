"""`headrace schema export|import`: another registry holds the same ids, versions, references and levels afterwards."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.consumer import group_requests
from headrace.client.fetch.fetched import TopicPartition
from tests.support.avro_schemas import field, record
from tests.support.broker import BrokerProcess
from tests.support.registry import RegistryProcess


@pytest.fixture
def other(tmp_path: Path, broker: BrokerProcess) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path / "other", broker.address, f"_schemas.other-{tmp_path.name}") as running:
        yield running


def test_an_export_is_imported_with_equal_ids_and_once_more_without_change(
    registry: RegistryProcess, other: RegistryProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    money = record(field("amount", "long"), name="Money", namespace="shop")
    registry.register("gap-value", record(field("gone", "int")))
    registry.register("money-value", money)
    reference = {"name": "shop.Money", "subject": "money-value", "version": 1}
    registry.register("a/order-value", record(field("price", "shop.Money"), name="Order"), references=[reference])
    order = {"schema": json.dumps(record(field("price", "shop.Money"), name="Order")), "references": [reference]}
    registry.ask("POST", "/subjects/an-order-value/versions", order)
    registry.register("gap-value", record(field("gone", "int"), field("more", "int", 0)))
    registry.ask("DELETE", "/subjects/gap-value/versions/1")
    registry.ask("PUT", "/config/money-value", {"compatibility": "FULL_TRANSITIVE"})
    registry.ask("PUT", "/config", {"compatibility": "FORWARD"})
    file = tmp_path / "export.json"
    assert main(["schema", "export", str(file), "--registry", registry.url]) == 0
    assert main(["schema", "import", str(file), "--registry", other.url, "--dry-run"]) == 0
    assert other.ask("GET", "/subjects?deleted=true") == (200, [])
    for _ in range(2):
        assert main(["schema", "import", str(file), "--registry", other.url]) == 0
        for path in ("/schemas?deleted=true", "/subjects?deleted=true", "/config", "/config/money-value", "/mode"):
            assert other.ask("GET", path) == registry.ask("GET", path)
    assert other.ask("GET", "/mode/money-value")[1]["error_code"] == 40409
    assert (
        other.register("new-value", record(field("x", "int")))[1]["id"]
        == registry.register("new-value", record(field("x", "int")))[1]["id"]
    )


def test_an_id_that_is_taken_by_another_schema_is_refused_with_its_subject(
    registry: RegistryProcess, other: RegistryProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.register("a-value", record(field("x", "int")))
    other.register("b-value", record(field("y", "string")))
    file = tmp_path / "export.json"
    assert main(["schema", "export", str(file), "--registry", registry.url]) == 0
    assert main(["schema", "import", str(file), "--registry", other.url]) == 1
    told = capsys.readouterr().err
    assert "a-value version 1" in told
    assert "42205" in told
    assert other.ask("GET", "/mode/a-value")[1]["error_code"] == 40409
    assert other.ask("GET", "/subjects") == (200, ["b-value"])


def test_check_names_the_groups_that_read_the_topic(
    registry: RegistryProcess, broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.register("visits-value", record(field("page", "string"), field("took", "int")))
    cluster = Cluster(broker.address, client_id="test")
    try:
        create_topic(cluster, "visits", 1, {}, timeout_ms=10_000)
        for group, partition in (("visit-readers", TopicPartition("visits", 0)),):
            group_requests.commit_offsets(cluster.coordinator(group), group, {partition: 0})
    finally:
        cluster.close()
    (tmp_path / "visits.avsc").write_text(json.dumps(record(field("page", "string"))))
    words = ["schema", "check", str(tmp_path / "visits.avsc"), "--registry", registry.url, "--bootstrap", broker.address]
    assert main(words) == 0
    assert "consumer groups of topic visits that would read it: visit-readers" in capsys.readouterr().out
