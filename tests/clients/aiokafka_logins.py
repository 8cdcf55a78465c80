"""aiokafka, in its own environment: logs in over TLS with each mechanism that it has, and with a certificate; writes and reads.

The broker's sessions last 1.5 s, and aiokafka does not renew them (KIP-368): it connects again, and loses nothing. It prints a
line for each login, as the programs in other languages do.
"""

import asyncio
import os
import ssl
import uuid
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError

COUNT = 30
EVERY_S = 0.1
"""So that a session ends on the way."""


class Token(AbstractTokenProvider):
    """One token, from the environment."""

    async def token(self) -> str:
        return os.environ["TOKEN"]


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=os.environ["CA"])


def ways() -> Mapping[str, Mapping[str, Any]]:
    """Return the settings of each login."""
    common = {"bootstrap_servers": os.environ["SECURED"], "security_protocol": "SASL_SSL", "ssl_context": trusting()}
    found = {
        mechanism: {**common, "sasl_mechanism": mechanism, "sasl_plain_username": "alice", "sasl_plain_password": "secret"}
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
    }
    found["OAUTHBEARER"] = {**common, "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Token()}
    shown = trusting()
    shown.load_cert_chain(os.environ["CERTIFICATE"], os.environ["KEY"])
    found["certificate"] = {"bootstrap_servers": os.environ["MTLS"], "security_protocol": "SSL", "ssl_context": shown}
    return found


async def write_and_read(way: str, settings: Mapping[str, Any]) -> None:
    topic = f"aiokafka-{way}-{uuid.uuid4().hex[:6]}"
    producer = AIOKafkaProducer(**settings, acks="all", enable_idempotence=True)
    await producer.start()
    reader = AIOKafkaConsumer(topic, **settings, auto_offset_reset="earliest", group_id=topic, enable_auto_commit=False)
    await producer.send_and_wait(topic, b"0", partition=0)
    await reader.start()
    found: list[int] = []

    async def read() -> None:
        while len(found) < COUNT:
            found.append(int((await reader.getone()).value))

    reading = asyncio.create_task(read())
    for number in range(1, COUNT):
        await producer.send_and_wait(topic, b"%d" % number, partition=0)
        await asyncio.sleep(EVERY_S)
    await asyncio.wait_for(reading, 60)
    await producer.stop()
    await reader.stop()
    if found != list(range(COUNT)):
        raise SystemExit(f"{way}: {found}")
    print(f"wrote and read with {way}", flush=True)


async def be_refused(way: str, settings: Mapping[str, Any]) -> None:
    producer = AIOKafkaProducer(**settings)
    try:
        await asyncio.wait_for(producer.start(), 60)
    except KafkaError as error:
        print(f"refused with {way}: {type(error).__name__}", flush=True)
    else:
        raise SystemExit(f"{way}: a wrong password is taken")
    finally:
        await producer.stop()


async def main() -> None:
    known = ways()
    await asyncio.gather(*(write_and_read(way, settings) for way, settings in known.items()))
    wrong = {"sasl_plain_password": "Secret"}
    for way in ("SCRAM-SHA-512", "PLAIN"):
        await be_refused(way, {**known[way], **wrong})


if __name__ == "__main__":
    asyncio.run(main())
