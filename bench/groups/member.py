"""`python -m bench.groups.member BOOTSTRAP ZOOKEEPER TOPIC SESSION_MS NAME…`: members of the group, each with a stream and a
thread, until standard input ends.
"""

import sys
import threading

from headrace.client.streams import ConnectorSettings, ConsumerConnector, KafkaStream

GROUP = "measured"


def _read(stream: KafkaStream) -> None:
    for _ in stream:
        pass


def main() -> None:
    bootstrap, zookeeper, topic, session_ms, *names = sys.argv[1:]
    settings = ConnectorSettings(session_timeout_ms=int(session_ms), queue_bytes=1 << 20)
    connectors = [ConsumerConnector(bootstrap, zookeeper, GROUP, consumer_id=name, settings=settings) for name in names]

    def join(connector: ConsumerConnector) -> None:
        (stream,) = connector.create_message_streams({topic: 1}, timeout_ms=120_000)[topic]
        _read(stream)

    for connector in connectors:
        threading.Thread(target=join, args=(connector,), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
