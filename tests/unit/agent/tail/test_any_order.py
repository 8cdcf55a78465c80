"""Whatever happens to files, in whatever order: every line once, in its file's order. A search over histories (hypothesis).

Truncation has its stated exclusion: it happens after a look at all that was written (or the rest is in a copy beside).
"""

import gzip
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.runtime.clock import ManualClock
from tests.support import tailing

NOW_MS = 1_800_000_000_000
TURN_MS = 7_000
EXAMPLES = int(os.environ.get("HEADRACE_TAIL_HISTORIES", "100"))
"""How many of each kind; with the variable they are others in every run. A failing one is not shrunk: that takes minutes."""
IS_LONG = "HEADRACE_TAIL_HISTORIES" in os.environ


class Files(RuleBasedStateMachine):
    """A service that logs, a rotation, and an agent that is killed now and then."""

    copies_and_truncates = False

    @initialize(
        chunk_bytes=st.sampled_from([12, 40, 4_096]),
        most_open_files=st.sampled_from([2, 64]),
    )
    def begin(self, chunk_bytes: int, most_open_files: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tail"))
        self.clock = ManualClock(NOW_MS)
        self.log = self.folder / "a.log"
        section = tailing.settings(
            self.folder,
            paths=[f"{self.folder}/a.log*"],
            most_open_files=most_open_files,
            copytruncate=self.copies_and_truncates,
        )
        self.agent = tailing.Tailing(section, self.clock, chunk_bytes=chunk_bytes, tries_again=True)
        self.count = 0
        self.written: list[str] = []
        """Every line, the current rest excluded."""
        self.rest = ""
        self.old: list[Path] = []

    def teardown(self) -> None:
        if not hasattr(self, "agent"):
            return
        if self.rest:
            self.write("\n")
        self.settle()
        assert sorted(self.agent.lines()) == sorted(self.written)
        for rows in self.agent.rows_of.values():
            numbers = [int(line.split(".")[0]) for line in self.agent.lines(rows)]
            assert numbers == sorted(numbers)
        self.agent.kill()
        self.settle()
        assert sorted(self.agent.lines()) == sorted(self.written)
        self.agent.group.close()
        shutil.rmtree(self.folder)

    def settle(self) -> None:
        for _ in range(6):
            self.clock.advance(TURN_MS)
            self.agent.run_dry()

    def write(self, text: str) -> None:
        with self.log.open("a") as file:
            file.write(text)
        *lines, self.rest = (self.rest + text).split("\n")
        self.written += lines

    @rule(lines=st.integers(1, 4), length=st.integers(0, 30), is_cut=st.booleans())
    def log_some(self, lines: int, length: int, is_cut: bool) -> None:
        text = "\n" if self.rest else ""
        for _ in range(lines):
            self.count += 1
            text += f"{self.count}.{'x' * length}\n"
        self.write(text[:-1] if is_cut else text)

    @rule(after_ms=st.sampled_from([100, 600, TURN_MS]))
    def scan(self, after_ms: int = TURN_MS) -> None:
        self.clock.advance(after_ms)
        self.agent.scan()

    @rule(size=st.integers(1, 200))
    def write_beside(self, size: int) -> None:
        """As logrotate keeps its state: a file that no pattern matches takes an inode that was a log's."""
        new = self.folder / "state.tmp"
        new.write_text("s" * size + "\n")
        new.rename(self.folder / "state")

    @rule()
    def read(self) -> None:
        self.agent.read_one()

    @rule()
    def acknowledge(self) -> None:
        self.agent.acknowledge_one()

    @rule()
    def kill(self) -> None:
        self.agent.kill()

    @invariant()
    def nothing_twice(self) -> None:
        if hasattr(self, "agent"):
            rows = self.agent.lines()
            assert len(rows) == len(set(rows))


class Renamed(Files):
    """Rotation by new names, and gzip later."""

    def close_line(self) -> None:
        # The rest of a file that was rotated away is a line.
        if self.rest:
            self.written.append(self.rest)
            self.rest = ""

    @rule()
    def rotate(self) -> None:
        if not self.log.exists():
            return
        for path in reversed(self.old):
            number = int(path.name.split(".")[2])
            path.rename(path.with_name(path.name.replace(f".{number}", f".{number + 1}", 1)))
        self.log.rename(self.folder / "a.log.1")
        self.old = sorted(self.folder.glob("a.log.*"), key=lambda path: int(path.name.split(".")[2]))
        self.close_line()
        self.log.touch()

    @rule(is_seen_between=st.booleans())
    def compress(self, is_seen_between: bool) -> None:
        plain = [path for path in self.old if path.suffix != ".gz"]
        if not plain:
            return
        path = plain[-1]
        compressed = Path(f"{path}.gz")
        whole = gzip.compress(path.read_bytes())
        compressed.write_bytes(whole[: len(whole) // 2])
        if is_seen_between:
            self.scan()
        compressed.write_bytes(whole)
        if is_seen_between:
            self.scan()
        path.unlink()
        self.old[self.old.index(path)] = compressed

    @rule()
    def delete_the_oldest_when_all_is_read(self) -> None:
        if len(self.old) > 2:
            self.settle()
            self.old.pop().unlink()


class Truncated(Files):
    """Rotation by a copy and a truncation. A head of its own tells one content of the file from the next."""

    copies_and_truncates = True

    @rule()
    def rotate(self) -> None:
        if not self.log.exists() or self.rest or not self.log.stat().st_size:
            return
        self.settle()  # the file was met before, and what is written from here on may be in the copy only
        self.log_some(1, 3, False)
        for path in reversed(self.old):
            number = int(path.name.split(".")[2])
            path.rename(path.with_name(f"a.log.{number + 1}"))
        shutil.copyfile(self.log, self.folder / "a.log.1")
        self.old = sorted(self.folder.glob("a.log.*"), key=lambda path: int(path.name.split(".")[2]))
        self.log.write_text("")
        self.log_some(1, 0, False)


class Stepwise(Files):
    """As logrotate does it, call by call: the agent scans, reads and is killed between any two of them. The service continues
    writing into the file that it has open until it is told; a file system gives the inode of a deleted file away at once.
    """

    @initialize(
        chunk_bytes=st.sampled_from([12, 40, 4_096]),
        most_open_files=st.sampled_from([2, 64]),
        way=st.sampled_from(["compress", "nocompress", "delaycompress"]),
    )
    def begin(self, chunk_bytes: int, most_open_files: int, way: str = "compress") -> None:
        super().begin(chunk_bytes, most_open_files)
        self.way = way
        self.is_moved = False
        self.steps: Iterator[None] = iter(())
        self.log.touch()
        self.file = self.log.open("a")

    def teardown(self) -> None:
        if hasattr(self, "steps"):
            for _ in self.steps:
                pass
        super().teardown()
        if hasattr(self, "file"):
            self.file.close()

    def write(self, text: str) -> None:
        # The rest of a file that was rotated away is taken for a line after `rest_wait_ms`: this service leaves none there.
        text += "\n" if self.is_moved and not text.endswith("\n") else ""
        self.file.write(text)
        self.file.flush()
        self.touch(Path(f"/proc/self/fd/{self.file.fileno()}"))
        *lines, self.rest = (self.rest + text).split("\n")
        self.written += lines

    def touch(self, path: Path) -> None:
        """Give a file the time that it is in this history."""
        at_ns = self.clock.now_ms() * 1_000_000
        os.utime(path, ns=(at_ns, at_ns))

    @rule(count=st.integers(1, 6))
    def rotate_on(self, count: int) -> None:
        for _ in range(count):
            if next(self.steps, self) is self:
                self.steps = self.rotation()

    @rule(count=st.integers(1, 3), after_ms=st.sampled_from([0, 100, 600, TURN_MS]), is_killed=st.booleans())
    def rotate_seen(self, count: int, after_ms: int, is_killed: bool) -> None:
        """As `rotate_on`, with a look behind each call: the agent's thread runs all the time."""
        for _ in range(count):
            self.rotate_on(1)
            self.scan(after_ms)
            self.agent.read_one()
        if is_killed:
            self.agent.kill()

    def numbered(self, number: int) -> Path:
        return self.folder / f"a.log.{number}"

    def rotation(self) -> Iterator[None]:
        if self.way == "delaycompress":
            yield from self.compression(self.numbered(1))
        numbers = [int(path.name.split(".")[2]) for path in self.folder.glob("a.log.*")]
        for number in sorted(numbers, reverse=True):
            for suffix in ("", ".gz"):
                old = self.folder / f"a.log.{number}{suffix}"
                if old.exists():
                    old.rename(self.folder / f"a.log.{number + 1}{suffix}")
                    yield
        if self.rest:
            self.write("\n")
        self.log.rename(self.numbered(1))
        self.is_moved = True
        yield
        self.log.touch()
        self.touch(self.log)
        yield
        self.file.close()
        self.file = self.log.open("a")
        self.is_moved = False
        yield
        if self.way == "compress":
            yield from self.compression(self.numbered(1))
        state = self.folder / "state.new"
        state.touch()
        yield
        state.write_text("state of logs\n" * 9)
        yield
        state.rename(self.folder / "state")

    def compression(self, path: Path) -> Iterator[None]:
        if not path.exists():
            return
        compressed = path.with_name(f"{path.name}.gz")
        whole = gzip.compress(path.read_bytes())
        for end in (0, 8, len(whole) // 2, len(whole)):
            compressed.write_bytes(whole[:end])
            self.touch(compressed)
            yield
        stat = path.stat()
        os.utime(compressed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        yield
        path.unlink()
        yield


TestRenamed = Renamed.TestCase
TestRenamed.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=25,
    deadline=None,
    derandomize=not IS_LONG,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[*HealthCheck],
)
TestTruncated = Truncated.TestCase
TestTruncated.settings = TestRenamed.settings
TestStepwise = Stepwise.TestCase
TestStepwise.settings = settings(TestRenamed.settings, stateful_step_count=40)
