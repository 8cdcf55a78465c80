"""A reader: a client in its own process, with commands and responses as lines.

    ends TOPIC                  begin and end of partition 0
    read TOPIC FROM TO          assign, seek, and read until the client's own position is TO
    group TOPIC GROUP MOST TO   continue at the group's offset until MOST records came or the position is TO, and commit
    idle TOPIC FROM TO MS       read, then keep polling for MS

Responses: `record OFFSET VALUE`; `begin`, `end`, `position`, `committed`, `lag` with a number; `idle` and `over` when they
happen; finally `done` or `failed WHY`.
"""

import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

LONGEST_S = 60
"""The longest time of a command: readers give up after 20 s."""
_SHOWN = ("begin", "end", "position", "committed", "lag")


class Answer(NamedTuple):
    records: list[tuple[int, bytes]]
    told: dict[str, int]


class ReaderFailed(AssertionError):
    """The client did not do what the command said."""


class Reader:
    """The constructor only stores; the first command starts the program."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self._command = command
        self._folder = folder
        self._environment = environment
        self._log = log
        self._child: subprocess.Popen[str] | None = None

    def ends(self, topic: str) -> tuple[int, int]:
        told = self._ask("ends", topic).told
        return told["begin"], told["end"]

    def read(self, topic: str, from_: int, to: int) -> Answer:
        return self._ask("read", topic, from_, to)

    def group(self, topic: str, group: str, most: int, to: int) -> Answer:
        return self._ask("group", topic, group, most, to)

    def idle(self, topic: str, from_: int, to: int, for_ms: int, **on: Callable[[], object]) -> Answer:
        """`on`: functions to call when the reader says `idle`, and when it says `over`."""
        return self._ask("idle", topic, from_, to, for_ms, on=on)

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def _ask(self, *words: object, on: Mapping[str, Callable[[], object]] | None = None) -> Answer:
        asked = " ".join(map(str, words))
        child = self._child = self._child or self._started()
        assert child.stdin is not None
        late = threading.Timer(LONGEST_S, child.kill)
        late.start()
        try:
            child.stdin.write(asked + "\n")
            child.stdin.flush()
            return self._answer(child, asked, on or {})
        except BrokenPipeError as error:
            raise self._ended(asked) from error
        finally:
            late.cancel()

    def _started(self) -> subprocess.Popen[str]:
        with self._log.open("a") as log:
            return subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def _answer(self, child: subprocess.Popen[str], asked: str, on: Mapping[str, Callable[[], object]]) -> Answer:
        answer = Answer([], {})
        assert child.stdout is not None
        for line in child.stdout:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "record":
                offset, _, value = rest.partition(" ")
                answer.records.append((int(offset), value.encode()))
            elif word == "done":
                return answer
            elif word == "failed":
                raise ReaderFailed(f"{self.name}, {asked}: {rest} ({len(answer.records)} records came)")
            elif word in _SHOWN:
                answer.told[word] = int(rest)
            elif word in ("idle", "over"):
                if word in on:
                    on[word]()
            else:
                raise ReaderFailed(f"{self.name}, {asked}: said {line!r}")
        raise self._ended(asked)

    def _ended(self, asked: str) -> ReaderFailed:
        self.stop()
        return ReaderFailed(f"{self.name} ended, or took {LONGEST_S} s, at: {asked}\n{self._log.read_text()[-2000:]}")
