"""The page of the paper's test: what ran, two figures, two tables. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from .series import Series

PAPER_MESSAGES = 10_000_000
_PAGE = """\
# The paper's producer and consumer test
Made by `python -m bench.paper`. Do not edit. Section 5 of the 2011 paper sends 10,000,000 messages of 200 bytes with one
producer, in batches of 1 and of 50, without waiting for acknowledgements, and reads them with one consumer; beside ActiveMQ and
RabbitMQ.
{trial}
{messages:,} messages of 200 bytes, {at}. {machine}

Servers: {versions}. All on one machine, on loopback, one after the other; none forces its log to the disk. A queue that takes
longer than {peer_s:.0f} s is ended there, and its curve with it. The method of everything else: `docs/BENCHMARKS.md`.

## Producer
![Producer](figures/paper_producer.svg)

{producers}

## Consumer
![Consumer](figures/paper_consumer.svg)

{consumers}

In the paper (two machines of 2011, a network of 1 Gb/s) Kafka produced about 50,000 messages a second in batches of 1 and
400,000 in batches of 50, orders of magnitude above ActiveMQ and at least twice RabbitMQ; it consumed 22,000 a second, more than
4 times the others.
"""


def page(result: Mapping[str, Any], producers: Sequence[Series], consumers: Sequence[Series]) -> str:
    """Return the page as Markdown."""
    messages = result["messages"]
    trial = ""
    if messages < PAPER_MESSAGES:
        trial = f"\n**A trial of {messages:,} messages**, to see that it runs: the paper's size is {PAPER_MESSAGES:,}.\n"
    text = _PAGE.format(
        trial=trial,
        messages=messages,
        at=result["at"],
        machine=", ".join(f"{name.replace('_', ' ')} {value}" for name, value in result["machine"].items()),
        versions="; ".join(result["versions"].values()),
        peer_s=result["peer_s"],
        producers=_table(producers),
        consumers=_table(consumers),
    )
    skipped = [f"- {name}: {reason}" for name, reason in result["skipped"].items()]
    return text + ("\n## Not measured\n" + "\n".join(skipped) + "\n" if skipped else "")


def _table(series: Sequence[Series]) -> str:
    rows = ["| subject | messages a second | messages | seconds | how |", "|---|---|---|---|---|"]
    for one in series:
        how = f"{one.how}; {one.note}" if one.note else one.how
        rows.append(f"| {one.subject} | {one.messages_per_s:,.0f} | {one.messages:,} | {one.seconds:,.1f} | {how} |")
    return "\n".join(rows)
