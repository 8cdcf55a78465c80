"""What users see of a replicated topic, and of a broker that is killed: commands, metadata, metrics."""

import uuid

from confluent_kafka.admin import AdminClient

from headrace.cli.main import main
from tests.support.cluster import BrokerCluster


def test_smoke(whole: BrokerCluster) -> None:
    topic = f"t_{uuid.uuid4().hex[:8]}"
    whole.create(topic, 3)
    places = whole.places(topic)
    print(places)
    killed = whole.kill_leader(topic)
    print(killed, whole.places(topic))
    whole.brokers[killed].restart()
    whole.await_in_sync(topic, 3)
    print(whole.places(topic))
