"""Sends each mail that is dropped into a folder, and moves it to `sent/` once it is stored (or, with a journal, journaled).

    python examples/mail_directory/producer.py outbox [--bootstrap 127.0.0.1:9092 --registry http://127.0.0.1:8081]
    python examples/mail_directory/producer.py outbox --journal .headrace/journals     (headrace agent ships it)

Killed at any moment it loses nothing: what is not in `sent/` is sent again. The consumer writes a mail that comes twice once.
"""

import argparse
import sys
import time
from pathlib import Path

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.sdk import EventLogger, event_schema
from headrace.sdk.journal import JournalSettings

TOPIC = "mails"
MOST_BYTES = 4 << 20
"""Of a message of this topic; a broker takes 1 MB where nothing else is said."""
MAIL = event_schema("Mail", [{"name": "name", "type": "string"}, {"name": "content", "type": "bytes"}])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--registry", default="http://127.0.0.1:8081")
    parser.add_argument("--journal", type=Path, help="journal them here, and let `headrace agent` send them")
    parser.add_argument("--topic", default=TOPIC)
    parser.add_argument("--once", action="store_true", help="end when the folder is empty")
    arguments = parser.parse_args()
    make_topic(arguments.bootstrap, arguments.topic)
    journal = None if arguments.journal is None else JournalSettings(root=arguments.journal, is_durable=True)
    with EventLogger(
        arguments.topic,
        MAIL,
        application="mail_directory",
        bootstrap=arguments.bootstrap,
        registry_url=arguments.registry,
        journal=journal,
        batch_bytes=MOST_BYTES,
        key="name",
    ) as logger:
        while True:
            sent = send_all(logger, arguments.folder)
            if arguments.once and not sent:
                return 0
            time.sleep(0 if sent else 0.2)


def make_topic(bootstrap: str, topic: str) -> None:
    """Make the topic unless it is there."""
    cluster = Cluster(bootstrap, client_id="mail_directory")
    try:
        if topic not in cluster.topics():
            create_topic(cluster, topic, partitions=1, config={"max.message.bytes": str(MOST_BYTES)})
    finally:
        cluster.close()


def send_all(logger: EventLogger, folder: Path) -> int:
    """Send what is there; return how many mails that were."""
    mails = sorted(path for path in folder.glob("*.eml") if path.is_file())
    for path in mails:
        if not logger.log({"name": path.name, "content": path.read_bytes()}):
            raise SystemExit(f"{path} was not taken: {logger.ledger()}")
    if mails:
        logger.flush()
        done = folder / "sent"
        done.mkdir(exist_ok=True)
        for path in mails:
            path.rename(done / path.name)
            sys.stdout.write(f"sent {path.name}\n")
        sys.stdout.flush()
    return len(mails)


if __name__ == "__main__":
    sys.exit(main())
