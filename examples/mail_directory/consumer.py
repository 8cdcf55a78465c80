"""Writes each mail of a topic into a folder: a member of the group `mail_directory`, at least once, in whole files.

    python examples/mail_directory/consumer.py inbox [--topic mails]

A mail is written under a hidden name, renamed, and only then committed. One that comes twice (after a kill) replaces itself.
"""

import argparse
import io
import json
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import fastavro

from headrace.client.consumer.group_consumer import GroupConsumer
from headrace.schema_registry.client import RegistryClient
from headrace.wire.schema_id import unframe


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--registry", default="http://127.0.0.1:8081")
    parser.add_argument("--topic", default="mails")
    parser.add_argument("--most", type=int, help="end after so many mails")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    registry = RegistryClient(arguments.registry)

    @lru_cache(maxsize=100)
    def schema_of(schema_id: int) -> Any:
        return fastavro.parse_schema(json.loads(registry.schema(schema_id)))

    count = 0
    with GroupConsumer(arguments.bootstrap, f"mail_directory-{arguments.topic}", [arguments.topic]) as consumer:
        for message in consumer.stream():
            schema_id, body = unframe(message.value or b"")
            mail: Any = fastavro.schemaless_reader(io.BytesIO(body), schema_of(schema_id), None)
            write(arguments.folder, mail["name"], mail["content"])
            consumer.commit()
            sys.stdout.write(f"received {mail['name']}\n")
            sys.stdout.flush()
            count += 1
            if count == arguments.most:
                break
    return 0


def write(folder: Path, name: str, content: bytes) -> None:
    """Write a mail so that no reader sees half of it; a name never leads out of the folder."""
    safe = os.path.basename(name).lstrip(".") or "unnamed"
    hidden = folder / f".{safe}.{os.getpid()}"
    with hidden.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    hidden.rename(folder / safe)


if __name__ == "__main__":
    sys.exit(main())
