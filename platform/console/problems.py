"""What is wrong with the platform, worst first, each with its cause and what to do. Pure: values in, values out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ..audit.model.windows import in_words
from ..local.supervisor.faults import remedy
from ..local.supervisor.state import ProcessState

SILENT_BEATS = 10
MOST_NAMED = 5


class Rank(IntEnum):
    """How bad a problem is; the lowest is the worst."""

    LOST = 0
    """Records are missing or have changed."""
    DOWN = 1
    """A part does not work."""
    DOUBLED = 2
    UNKNOWN = 3
    """Nobody can say whether records are missing."""
    WAITING = 4
    """It is expected to pass without help."""
    NOTED = 5
    """An operator ordered it, or should look at it some day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong."""

    rank: Rank
    about: str
    """What it is about: of several problems about the same thing the worst is shown."""
    what: str
    why: str
    remedy: str
    """What to do, as a sentence or a command."""
    href: str | None = None
    """The page that shows more."""


def in_order(found: Iterable[Problem]) -> list[Problem]:
    """Return the problems worst first, one about each thing."""
    kept: dict[str, Problem] = {}
    for one in sorted(found, key=lambda one: (one.rank, one.about, one.what)):
        kept.setdefault(one.about, one)
    return list(kept.values())


def of_processes(processes: Iterable[ProcessState], logs: Path) -> list[Problem]:
    """Return a problem for each process that is not ready, as `headrace status` names it, and a note for each that is held."""
    found = []
    for one in processes:
        where = f" at {one.address}" if one.address else ""
        if one.state != "ready":
            found.append(
                Problem(
                    rank=Rank.WAITING if one.state in ("waiting", "starting") else Rank.DOWN,
                    about=one.name,
                    what=f"{one.name}{where} is {one.state}",
                    why=one.reason or "it gives no reason",
                    remedy=remedy(one, logs / f"{one.name}.log"),
                    href="/processes",
                )
            )
        elif one.notice is not None:
            resume = "headrace mirror resume" if one.name == "mirror" else "an operator ordered this"
            found.append(
                Problem(
                    rank=Rank.NOTED,
                    about=one.name,
                    what=f"{one.name} is held back",
                    why=one.notice,
                    remedy=resume,
                    href="/mirror",
                )
            )
    return found


def of_windows(troubled: Iterable[Mapping[str, Any]]) -> list[Problem]:
    """Return a problem for each topic and verdict. `troubled`: the `windows` of `GET /api/problems`."""
    found = []
    for one in troubled:
        topic, verdict, windows, start = one["topic"], one["verdict"], one["windows"], one["window_start_ms"]
        figures = [f"{one[name]:,} {name}" for name in ("missing", "doubled", "altered") if one[name]]
        count = f"{windows:,} window{'' if windows == 1 else 's'}"
        match verdict:
            case "UNKNOWN":
                rank, why = Rank.UNKNOWN, "a participant does not respond, so it is not known whether records are missing"
            case "DOUBLED":
                rank, why = Rank.DOUBLED, f"records are there twice: {', '.join(figures)}"
            case _:
                rank, why = Rank.LOST, f"records are not as they were sent: {', '.join(figures)}"
        latest = "" if start is None else f"; the latest one begins at {in_words(start)} UTC"
        query = {"topic": topic} if start is None else {"topic": topic, "start": start}
        found.append(
            Problem(
                rank=rank,
                about=f"topic {topic} {verdict}",
                what=f"{topic}: {count} {'is' if windows == 1 else 'are'} {verdict}",
                why=why + latest,
                remedy="open the window: it names the records, and who does not respond",
                href=f"{'/topic' if start is None else '/window'}?{urlencode(query)}",
            )
        )
    return found


def of_hearing(faults: Iterable[str]) -> list[Problem]:
    """Return a problem for each fault that the audit reports of itself. `faults`: of `GET /api/problems`."""
    return [
        Problem(
            rank=Rank.UNKNOWN,
            about=f"audit: {fault}",
            what="The audit does not see everything",
            why=fault,
            remedy="start what it names; windows stay UNKNOWN until then",
            href="/processes",
        )
        for fault in faults
    ]


def of_mirror(status: Mapping[str, Any] | None, *, now_ms: int) -> list[Problem]:
    """Return what the mirror's status file reports. None: no mirror has written one here, which is no problem by itself."""
    if status is None:
        return []
    found = []
    age_ms = now_ms - int(status.get("at_ms", 0))
    if status.get("state") != "stopping" and age_ms > SILENT_BEATS * int(status.get("beat_every_ms", 1_000)):
        found.append(
            Problem(
                rank=Rank.DOWN,
                about="mirror",
                what=f"mirror has written no status for {age_ms // 1000:,} s",
                why="it hangs, or does not run",
                remedy="headrace restart mirror",
                href="/mirror",
            )
        )
    errors: Sequence[Mapping[str, Any]] = status.get("errors") or ()
    if errors:
        named = "; ".join(f"{one['topic']}-{one['partition']}: {one['error']}" for one in errors[:MOST_NAMED])
        more = f"; and {len(errors) - MOST_NAMED:,} more" if len(errors) > MOST_NAMED else ""
        found.append(
            Problem(
                rank=Rank.DOWN,
                about="mirror partitions",
                what=f"mirror has stopped copying {len(errors):,} partition{'' if len(errors) == 1 else 's'}",
                why=named + more,
                remedy="mend what it names; `headrace mirror verify` compares the two logs",
                href="/mirror",
            )
        )
    return found


def of_producers(quiet: Mapping[str, Any]) -> list[Problem]:
    """Return one note if producers are quiet that have not sent their final report. `quiet`: of `GET /api/problems`."""
    count = quiet["count"]
    if not count:
        return []
    are = "producer has" if count == 1 else "producers have"
    return [
        Problem(
            rank=Rank.NOTED,
            about="producers",
            what=f"{count:,} {are} sent nothing for an hour, and no final report",
            why="their windows stay open: " + ", ".join(quiet["instances"]),
            remedy="if one has ended and will not come back: `headrace audit retire-producer INSTANCE --reason …`",
            href="/producers",
        )
    ]
