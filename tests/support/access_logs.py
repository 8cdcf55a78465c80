"""Access logs for tests: the real one where it lies beside the project, generated ones, and counts made from the file alone.

The counting here is on purpose not the project's parser: a regular expression for the time stamp, nothing else.
"""

import datetime
import os
import random
import re
from collections import Counter
from pathlib import Path

WINDOW_MS = 600_000
REAL = Path(os.environ.get("HEADRACE_TEST_LOG") or Path(__file__).parents[3] / "shared" / "data" / "apache_access.log")
_TIME = re.compile(rb"\[(\d\d)/(\w{3})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)\]")
_MONTHS = [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"]
_PATHS = ["/", "/index.html", "/images/logo.png", "/blog/tags/puppet", "/robots.txt", "/search?q=a%20b", "/style2.css"]
_AGENTS = ["Mozilla/5.0 (X11; Linux x86_64)", "curl/8.0", 'odd \\"quoted\\" agent']


def time_ms(line: bytes) -> int:
    """Return the time stamp of one line, in milliseconds since the epoch."""
    found = _TIME.search(line)
    assert found is not None, line
    day, month, year, hour, minute, second, sign, zone_hours, zone_minutes = found.groups()
    zone = datetime.timedelta(hours=int(zone_hours), minutes=int(zone_minutes)) * (1 if sign == b"+" else -1)
    at = datetime.datetime(
        int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second), tzinfo=datetime.UTC
    )
    return int((at - zone).timestamp() * 1000)


def window_counts(path: Path) -> Counter[int]:
    """Return how many lines of the file lie in each window, bad lines included."""
    counts: Counter[int] = Counter()
    with path.open("rb") as file:
        for line in file:
            at_ms = time_ms(line)
            counts[at_ms - at_ms % WINDOW_MS] += 1
    return counts


def line(at: datetime.datetime, randomness: random.Random) -> str:
    """Return one well-formed line of combined format."""
    stamp = at.strftime("%d/%b/%Y:%H:%M:%S +0000")
    size = randomness.choice(["-", str(randomness.randrange(1, 90_000))])
    client = ".".join(str(randomness.randrange(1, 255)) for _ in range(4))
    status = randomness.choice([200, 200, 200, 304, 404, 500])
    path, agent = randomness.choice(_PATHS), randomness.choice(_AGENTS)
    return f'{client} - - [{stamp}] "GET {path} HTTP/1.1" {status} {size} "-" "{agent}"\n'


def generate(
    path: Path, *, lines: int, hours: int, seed: int, year: int = 2015, late_share: float = 0.02, bad_every: int | None = None
) -> Path:
    """Write a log with several windows an hour, late events, events one second around window borders, and cut lines.

    `late_share` of the lines carry a time up to three hours before their neighbours'; with `bad_every`, each such line loses its
    closing quote.
    """
    randomness = random.Random(seed)
    start = datetime.datetime(year, 5, 17, 10, 0, 0, tzinfo=datetime.UTC)
    span_s = hours * 3600
    with path.open("w") as file:
        for number in range(1, lines + 1):
            at_s = span_s * number // (lines + 1)
            if randomness.random() < late_share:
                at_s = max(0, at_s - randomness.randrange(10_800))
            elif randomness.random() < 0.05:
                at_s = max(0, (at_s + 300) // 600 * 600 + randomness.choice([-1, 0, 1]))
            text = line(start + datetime.timedelta(seconds=at_s), randomness)
            if bad_every is not None and number % bad_every == 0:
                text = text.rstrip('"\n') + "\n"
            file.write(text)
    return path


def real_or_like_it(folder: Path) -> tuple[Path, int]:
    """Return a log of 10,000 lines and the number of its one cut line: the real one where it is, else one like it."""
    if REAL.is_file():
        return REAL, 8899
    made = generate(folder / "like_it.log", lines=10_000, hours=84, seed=2015, bad_every=8_899)
    return made, 8899
