"""Go clients: franz-go, segmentio's kafka-go and sarama (their tests are in go/)."""

from tests.clients.building import HERE, run
from tests.clients.secured import SecuredBroker
from tests.support.broker import BrokerProcess


def test_go_clients(broker: BrokerProcess, secured: SecuredBroker) -> None:
    command = ["go", "test", "-count=1", "-timeout=10m", "./..."]
    run(command, folder=HERE / "go", environment={"BOOTSTRAP": broker.address, **secured.words})
