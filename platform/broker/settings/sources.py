"""Where a broker's settings are said: a properties file, the environment, flags; each value with the place it was said at.

The file is written as Kafka's `server.properties` is: `name=value` a line, `#` or `!` before a comment, a backslash at the end of
a line that goes on. Pure: text and mappings in, what was said out.
Knows no setting's meaning; faults go into the caller's list."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

ENVIRONMENT_PREFIX = "HEADRACE_BROKER_"


class Said(NamedTuple):
    """One value and where it was said."""

    value: str
    where: str
    """`broker.properties:12`, `HEADRACE_BROKER_NUM_PARTITIONS`, `--set`, `--port`, `default`."""


def from_file(text: str, path: str, faults: list[str]) -> dict[str, Said]:
    """Return what a properties file says. A name that it says twice is a fault: one of the two was meant."""
    said: dict[str, Said] = {}
    for number, line in _logical_lines(text):
        name, value = _pair(line)
        where = f"{path}:{number}"
        if name is None:
            faults.append(f"{where}: {line!r} is not name=value")
        elif name in said:
            faults.append(f"{where}: {name} was given before, at {said[name].where}: keep one of the two")
        else:
            said[name] = Said(value, where)
    return said


def from_environment(environment: Mapping[str, str], names: Sequence[str], faults: list[str]) -> dict[str, Said]:
    """Return what the environment says of these names: `HEADRACE_BROKER_` and the name in capitals, dots as underscores."""
    by_variable = {variable_of(name): name for name in names}
    said = {}
    for variable, value in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        if variable in by_variable:
            said[by_variable[variable]] = Said(value.strip(), variable)
        else:
            faults.append(f"{variable} in the environment names no setting{did_you_mean(variable, list(by_variable))}")
    return said


def from_words(words: Sequence[str], faults: list[str]) -> dict[str, Said]:
    """Return what `--set name=value` words say; of two for one name the last one counts, as with every flag."""
    said = {}
    for word in words:
        name, value = _pair(word) if "=" in word else (None, "")
        if name is None:
            faults.append(f"--set {word!r} is not name=value")
        else:
            said[name] = Said(value, "--set")
    return said


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "_")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return `: did you mean X?` when a known name is near, else nothing."""
    import difflib  # only a start that fails needs it

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f": did you mean {near[0]}?" if near else ""


def _pair(line: str) -> tuple[str | None, str]:
    """Split at the first `=` or `:`, whichever comes first."""
    at = min((at for at in (line.find("="), line.find(":")) if at >= 0), default=-1)
    if at <= 0 or not (name := line[:at].strip()):
        return None, ""
    return name, line[at + 1 :].strip()


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Return each line that says something, joined with those it goes on in, under the number of its first."""
    lines: list[tuple[int, str]] = []
    begun: tuple[int, str] | None = None
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line = line.strip()
        if begun is not None:
            number, line = begun[0], begun[1] + line
            begun = None
        elif not line or line[0] in "#!":
            continue
        if line.endswith("\\") and not line.endswith("\\\\"):
            begun = (number, line[:-1].rstrip())
        else:
            lines.append((number, line))
    if begun is not None:
        lines.append(begun)
    return lines
