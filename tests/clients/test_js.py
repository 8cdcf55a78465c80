"""KafkaJS and @platformatic/kafka on Node (their tests are in js/)."""

from pathlib import Path

from tests.clients.building import run
from tests.clients.secured import SecuredBroker
from tests.support.broker import BrokerProcess


def test_clients_of_node(broker: BrokerProcess, secured: SecuredBroker, node_folder: Path) -> None:
    run(["node", "--test", "."], folder=node_folder, environment={"BOOTSTRAP": broker.address, **secured.words}, within_s=300)
