"""The paper's consumer: message streams, blocking and endless, n of them for a topic. docs/CONSUMERS.md is the manual.

`ConsumerConnector` coordinates through ZooKeeper, `GroupConnector` by Kafka's group protocol. Inside: `stream_set` passes the
group's partitions to the streams, as `placement` says; `message_streams` is one iterator; `connector` holds them and commits.
"""

from ..consumer.message_stream import Callbacks
from ..consumer.stream_message import Message
from .group_connector import GroupConnector
from .message_streams import KafkaStream
from .settings import ConnectorSettings
from .zookeeper_connector import ConsumerConnector

__all__ = ["Callbacks", "ConnectorSettings", "ConsumerConnector", "GroupConnector", "KafkaStream", "Message"]
