"""`headrace journal inspect|verify PATH`: what is in a journal of applications' events, read without touching it."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import HeadraceError
from ..sdk.journal import START, Journal, JournalChunk, Kind, Unreadable
from ..sdk.journal.files.head import HEAD_FILE

HELP = """Look at the journals that applications keep for `headrace agent`. PATH is one journal's folder, or a folder of journals.
Nothing is changed, and no lock is taken: also beside a running application and agent.

  inspect  whose it is, whether its writer lives, how many events wait, what was dropped
  verify   read every record. Exit code 0: all is readable; 1: something is damaged or missing

example: headrace journal inspect /var/lib/headrace/journals
         headrace journal verify /var/lib/headrace/journals/frontend --json"""

_CHUNK_BYTES = 1 << 20


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="inspect|verify")
    for name, what in (("inspect", "show what is in a journal"), ("verify", "read every record of it")):
        command = commands.add_parser(name, help=what)
        command.add_argument("path", metavar="PATH", type=Path)
        command.add_argument("--json", action="store_true", help="print JSON, one object a journal")


def run(arguments: argparse.Namespace) -> int:
    folders = journal_folders(arguments.path)
    if not folders:
        print(f"no journal is in {arguments.path}: give the folder that applications journal to", file=sys.stderr)
        return 1
    is_sound = True
    for folder in folders:
        try:
            facts = facts_of(Journal(folder))
        except HeadraceError as error:
            facts = {"folder": str(folder), "fault": str(error)}
        is_sound = is_sound and "fault" not in facts and not facts["unreadable"] and not facts["lacks_tail"]
        print(json.dumps(facts) if arguments.json else _in_words(facts))
    return 0 if is_sound or arguments.action == "inspect" else 1


def journal_folders(path: Path) -> list[Path]:
    """Return the folders of journals at or below `path`."""
    if (path / HEAD_FILE).exists():
        return [path]
    return sorted({found.parent for pattern in ("*", "*/*") for found in path.glob(f"{pattern}/{HEAD_FILE}")})


def facts_of(journal: Journal) -> dict[str, Any]:
    """Return what a journal holds. Raises `JournalError`."""
    head, counts = journal.head, Counter[Kind]()
    unreadable: list[Unreadable] = []
    first_ms: int | None = None
    last_ms: int | None = None
    end = START
    segments = journal.segments()
    for chunk in _chunks(journal):
        end = chunk.end
        unreadable += chunk.unreadable
        for record in chunk.records:
            counts[record.kind] += 1
            first_ms = record.timestamp_ms if first_ms is None else first_ms
            last_ms = record.timestamp_ms
    losses = journal.losses()
    is_ended = journal.is_ended(end)
    return {
        "folder": str(journal.folder),
        "topic": head.topic,
        "application": head.application,
        "instance": head.instance,
        "epoch": head.epoch,
        "process_id": head.writer.process_id,
        "is_durable": head.is_durable,
        "is_alive": journal.is_alive,
        "is_ended": is_ended,
        "lacks_tail": is_ended and journal.lacks_tail(end),
        "segments": len(segments),
        "bytes": len(segments) * head.segment_bytes,
        "events": counts[Kind.EVENT],
        "quarantined": counts[Kind.QUARANTINE],
        "first_ms": first_ms,
        "last_ms": last_ms,
        "unreadable": [{"start": gap.start, "end": gap.end, "bytes": gap.bytes, "records": gap.records} for gap in unreadable],
        "losses": [[window, name, count] for (window, name), count in sorted(losses.counts.items())],
        "losses_unassigned": losses.unassigned,
    }


def _chunks(journal: Journal) -> Iterator[JournalChunk]:
    segments = journal.segments()
    # An agent deletes what it has shipped: what is gone at the beginning is not missing.
    position = START if not segments else START._replace(segment=segments[0])
    first = True
    while (chunk := journal.read(position, _CHUNK_BYTES)).end != position:
        yield chunk
        position, first = chunk.end, False
    if first:
        yield chunk


def _in_words(facts: dict[str, Any]) -> str:
    if "fault" in facts:
        return f"{facts['folder']}\n    cannot be read: {facts['fault']}"
    life = "its writer lives" if facts["is_alive"] else "it is ended" if facts["is_ended"] else "its writer is dead"
    lines = [
        facts["folder"],
        f"    {facts['application']} → {facts['topic']}, process {facts['process_id']}: {life}",
        f"    {facts['events']} events and {facts['quarantined']} refused ones, in {facts['segments']} segments "
        f"({facts['bytes']} bytes of disk)",
    ]
    lines += [f"    dropped {count} as {name}, window {window}" for window, name, count in facts["losses"]]
    if facts["losses_unassigned"]:
        lines.append(f"    dropped {facts['losses_unassigned']} more; the table of losses was full")
    lines += [f"    unreadable: {gap['bytes']} bytes at {gap['start']}, {gap['records']} records" for gap in facts["unreadable"]]
    if facts["lacks_tail"]:
        lines.append("    after a power cut: how many events are missing at its end is not known")
    return "\n".join(lines)
