"""What an undecided verdict waits for that is no news of its topic: moments that pass by themselves. Pure.

A wait is a subject and a number: the verdict is made again once the subject's value is greater. The subjects:

    HEARD            as of when the audit topic was read to its end
    QUARANTINES      as of when it is known that the topic has no quarantine topic
    End              as of when a log that the audit reads back was read to its end
    Word             when a run was last heard
    Silence          for how long a run has not been heard, while the audit was listening

News (`windows.News`) are everything else: reports, and what is read of a log. Who began to listen anew, or hears nothing at all,
makes every verdict again: no window waits for that by itself.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, Protocol

from .runs import RunKey

HEARD: Final = "heard"
QUARANTINES: Final = "quarantines"


class End(NamedTuple):
    """The end of a log that the audit reads."""

    tier: str
    partition: int


class Word(NamedTuple):
    """The last word of a run."""

    run: RunKey


class Silence(NamedTuple):
    """The silence of a run, in milliseconds. A run that beats never reaches its deadline."""

    run: RunKey


Subject = Literal["heard", "quarantines"] | End | Word | Silence
Waits = Mapping[Subject, int]
"""Subject → the number that its value must pass."""


class Moments(Protocol):
    """The subjects' values of one topic, now."""

    def heard_ms(self) -> int: ...

    def value(self, topic: str, subject: Subject) -> int: ...


def earliest(waits: Iterable[Waits]) -> dict[Subject, int]:
    """Return the waits as one: of each subject the number that it passes first."""
    found: dict[Subject, int] = {}
    for one in waits:
        for subject, number in one.items():
            found[subject] = min(number, found.get(subject, number))
    return found


def has_passed(waits: Waits, topic: str, moments: Moments) -> bool:
    """Return whether any of the subjects has passed its number."""
    return any(moments.value(topic, subject) > number for subject, number in waits.items())


def quiet_until_ms(waits: Waits, topic: str, moments: Moments) -> int | None:
    """Return a value of HEARD up to which none of the waits can pass; None where it does not depend on time alone."""
    times = []
    for subject, number in waits.items():
        if subject == HEARD:
            times.append(number)
        elif isinstance(subject, Silence):
            times.append(moments.heard_ms() + number - moments.value(topic, subject))
        else:
            return None
    return min(times, default=None)
