"""How long tests take: what a run measured, beside what an earlier run on a machine at rest recorded in `times.json`.

The recorded seconds of files decide which begin first. The processor seconds of rooms show a room that grows. On a slower
machine all rooms take longer, so a room is compared with the others of its run.
"""

import json
import statistics
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

RECORD = Path(__file__).with_name("times.json")
LONG_FILE_S = 5
"""A shorter file may begin whenever a worker is free."""
FEWEST_ROOMS = 4
"""With fewer, a room would be compared with itself."""
GREW = 1.1


@dataclass(slots=True)
class Times:
    """Seconds: of the processor by room, and by the clock of each long test file by its path."""

    rooms: dict[str, float] = field(default_factory=dict)
    files: dict[str, float] = field(default_factory=dict)


def recorded(path: Path = RECORD) -> Times:
    return Times(**json.loads(path.read_text())) if path.exists() else Times()


def record(times: Times, path: Path = RECORD) -> None:
    """Write what was measured; rooms and files of rooms that did not run keep their earlier times."""
    known = recorded(path)
    kept = {file: seconds for file, seconds in known.files.items() if file.split("/")[1] not in times.rooms}
    long = {file: round(seconds) for file, seconds in times.files.items() if seconds >= LONG_FILE_S}
    merged = Times(known.rooms | {room: round(seconds) for room, seconds in times.rooms.items()}, kept | long)
    path.write_text(json.dumps(asdict(merged), indent=1, sort_keys=True) + "\n")


def by_test(report: Path) -> dict[tuple[str, str], float]:
    """Return the seconds of each test in pytest's JUnit file by (module, name); nothing if the file cannot be read."""
    found: Counter[tuple[str, str]] = Counter()
    try:
        for case in ElementTree.parse(report).iter("testcase"):
            found[case.get("classname", ""), case.get("name", "")] += float(case.get("time", 0))  # type: ignore[assignment]
    except (OSError, ElementTree.ParseError):
        return {}
    return dict(found)


def by_file(tests: Mapping[tuple[str, str], float], top: Path) -> dict[str, float]:
    """Return the seconds of each file, by its path below `top`."""
    found: dict[str, float] = {}
    for (module, _), seconds in tests.items():
        if (file := file_of(module, top)) is not None:
            found[file] = found.get(file, 0.0) + seconds
    return found


def file_of(name: str, top: Path) -> str | None:
    """Return the path below `top` of the file of a test, or of a class of tests, with this dotted name."""
    path = top
    for word in name.split("."):
        path /= word
        if path.with_suffix(".py").is_file():
            return path.with_suffix(".py").relative_to(top).as_posix()
        if not path.is_dir():
            return None
    return None


def grown(now: Mapping[str, float], known: Mapping[str, float]) -> dict[str, float]:
    """Return the rooms that grew by a tenth, and to how many times their recorded share: 1.25 is a quarter more."""
    ratios = {room: now[room] / known[room] for room in now if known.get(room)}
    if len(ratios) < FEWEST_ROOMS:
        return {}
    machine = statistics.median(ratios.values())
    return {room: ratio / machine for room, ratio in ratios.items() if ratio > machine * GREW}
