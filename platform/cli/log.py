"""`headrace log check|dump|repair DIR`: examines and repairs a partition's folder or a whole data folder, without a broker."""

import argparse
import base64
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..broker.log.folder import segment_bases
from ..broker.log.segment.segment_name import file_name
from ..broker.log.tools.check import check
from ..broker.log.tools.data_folder import held, is_held, partition_folders
from ..broker.log.tools.dump import dump
from ..broker.log.tools.problem import Problem
from ..broker.log.tools.repair import Step, carry_out, plan

HELP = """Look at logs on disk, or put them in order. DIR is a partition's folder (<topic>-<number>) or a broker's data folder,
in its place or a copy.

  check   every invariant of every log. Exit code 0: nothing is lost or at stake; 1: something is
  dump    batches, and with --records what is in them, from any offset on
  repair  cut torn tails (a copy is kept), note damage, make sidecars again. Refuses a folder that a broker holds

example: headrace log check /var/lib/headrace/data
         headrace log dump data/clicks-0 --from-offset 120000 --limit 5 --records
         headrace log repair data/clicks-0 --dry-run"""


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="check|dump|repair")
    for name, what in (
        ("check", "say what is wrong, change nothing"),
        ("dump", "show what is in a log"),
        ("repair", "put a log in order that no broker holds"),
    ):
        command = commands.add_parser(name, help=what)
        command.add_argument("folder", metavar="DIR", type=Path)
        command.add_argument("--json", action="store_true", help="print JSON, one object a line")
        if name == "dump":
            command.add_argument("--from-offset", type=int, default=0, metavar="N", help="begin at this offset (default 0)")
            command.add_argument("--limit", type=int, metavar="N", help="show at most N batches of each log")
            command.add_argument("--records", action="store_true", help="show the records too; bytes that are not text as base64")
        if name == "repair":
            command.add_argument("--dry-run", action="store_true", help="only print what would be done")


def run(arguments: argparse.Namespace) -> int:
    try:
        folders = partition_folders(arguments.folder)
        match arguments.action:
            case "check":
                return _check(arguments, folders)
            case "dump":
                return _dump(arguments, folders)
            case _:
                return _repair(arguments, folders)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"headrace log: {where}{error.strerror or error}: see to its permissions and the disk", file=sys.stderr)
        return 1


def _check(arguments: argparse.Namespace, folders: list[Path]) -> int:
    if is_held(arguments.folder):
        print("headrace log check: a broker is writing here: what it has just begun may look torn", file=sys.stderr)
    progress = _Progress(folders)
    harm = 0
    for folder in folders:
        problems = check(folder, progress=progress)
        harm += sum(not problem.kind.is_harmless for problem in problems)
        for problem in problems:
            progress.clear()
            print(json.dumps(_problem(folder, problem)) if arguments.json else _problem_line(problem))
    progress.end()
    if not arguments.json:
        print(f"{len(folders)} {'log' if len(folders) == 1 else 'logs'}, {harm or 'no'} {'problem' if harm == 1 else 'problems'}")
    return 1 if harm else 0


def _problem(folder: Path, problem: Problem) -> dict[str, object]:
    return {
        "log": folder.name,
        "file": str(problem.path),
        "kind": problem.kind.name.lower(),
        "is_harmless": problem.kind.is_harmless,
        "from_offset": problem.from_offset,
        "to_offset": problem.to_offset,
        "position": problem.position,
        "what": problem.kind.value,
        "reason": problem.reason,
        "what_to_do": problem.kind.what_to_do,
    }


def _problem_line(problem: Problem) -> str:
    return f"{'note' if problem.kind.is_harmless else 'PROBLEM'}: {problem}\n  what to do: {problem.kind.what_to_do}"


def _dump(arguments: argparse.Namespace, folders: list[Path]) -> int:
    for folder in folders:
        if len(folders) > 1 and not arguments.json:
            print(f"{folder.name}:")
        shown = dump(folder, from_offset=arguments.from_offset, records=arguments.records)
        for line in _limited(shown, arguments.limit):
            if arguments.json:
                print(json.dumps({"log": folder.name, **{name: _plain(value) for name, value in line.items()}}))
            else:
                print(_line(line))
    return 0


def _limited(shown: Iterable[dict[str, object]], batches: int | None) -> Iterable[dict[str, object]]:
    for line in shown:
        if batches is not None and line["kind"] != "record":
            if batches == 0:
                return
            batches -= 1
        yield line


def _line(line: dict[str, object]) -> str:
    if line["kind"] == "damage":
        return (
            f"{line['from_offset']}  DAMAGED up to {line['to_offset']} ({line['file']} byte {line['position']}): {line['reason']}"
        )
    if line["kind"] == "record":
        headers = "".join(f" {name}={_text(value)}" for name, value in _pairs(line["headers"]))
        return f"    {line['offset']}  {line['timestamp_ms']}  key {_text(line['key'])}  value {_text(line['value'])}{headers}"
    producer = f"  producer {line['producer_id']}/{line['producer_epoch']} sequence {line['base_sequence']}"
    return (
        f"{line['base_offset']}  to {line['next_offset']}  {line['record_count']} records  {line['size_bytes']} bytes  "
        f"{line['codec']}  {line['base_timestamp_ms']}..{line['max_timestamp_ms']}"
        f"{producer if line['producer_id'] != -1 else ''}  {line['file']} byte {line['position']}"
    )


def _pairs(headers: Any) -> list[tuple[str, bytes | None]]:
    return [(name, value) for name, value in headers]


def _plain(value: object) -> object:
    """Return a value that JSON can hold: bytes as text if they are UTF-8, else {"base64": …}."""
    if isinstance(value, bytes):
        text = _as_text(value)
        return {"base64": base64.b64encode(value).decode()} if text is None else text
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _text(value: object) -> str:
    if not isinstance(value, bytes):
        return "null"
    text = _as_text(value)
    return "base64:" + base64.b64encode(value).decode() if text is None else json.dumps(text, ensure_ascii=False)


def _as_text(value: bytes) -> str | None:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if all(letter.isprintable() or letter in "\t\r\n" for letter in text) else None


def _repair(arguments: argparse.Namespace, folders: list[Path]) -> int:
    now_ms = time.time_ns() // 1_000_000
    progress = _Progress(folders)
    with held(arguments.folder):
        for folder in folders:
            steps = plan(folder, progress=progress)
            progress.clear()
            aside = folder.absolute().parent / f"{folder.name}.cut.{now_ms}"
            for step in steps:
                print(json.dumps(_step(folder, step)) if arguments.json else str(step))
            if not arguments.dry_run and steps:
                carry_out(folder, steps, aside=aside, now_ms=now_ms)
                if aside.exists() and not arguments.json:
                    print(f"kept in {aside}")
    progress.end()
    if arguments.dry_run and not arguments.json:
        print("nothing was changed (--dry-run)")
    return 0


def _step(folder: Path, step: Step) -> dict[str, object]:
    return {
        "log": folder.name,
        "what": step.what,
        "file": str(step.path),
        "offset": step.offset,
        "position": step.position,
        "why": step.why,
    }


class _Progress:
    """Shows how much has been read: a bar on a terminal, a line every few seconds elsewhere, nothing if it is quick."""

    FIRST_AFTER_S = 2.0

    def __init__(self, folders: list[Path]) -> None:
        files = (folder / file_name(base) for folder in folders for base in segment_bases(folder))
        self._total_bytes = max(1, sum(path.stat().st_size for path in files))
        self._done_bytes = 0
        self._is_terminal = sys.stderr.isatty()
        self._every_s = 0.2 if self._is_terminal else 5.0
        self._next = time.monotonic() + self.FIRST_AFTER_S
        self._is_shown = False

    def __call__(self, size_bytes: int) -> None:
        self._done_bytes += size_bytes
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every_s
        share = min(1.0, self._done_bytes / self._total_bytes)
        if self._is_terminal:
            self._is_shown = True
            bar = "#" * int(30 * share) + "-" * (30 - int(30 * share))
            print(f"\r[{bar}] {share:4.0%} of {self._total_bytes / 1e9:.1f} GB", end="", file=sys.stderr, flush=True)
        else:
            print(f"{share:.0%} of {self._total_bytes / 1e9:.1f} GB read", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Clear the bar's line for other output."""
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_shown = False

    def end(self) -> None:
        self.clear()
