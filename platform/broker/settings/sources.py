"""Parses the sources of a broker's settings: a properties file, the environment, `--set` flags. Each value keeps its source.

The file has the format of Kafka's `server.properties`: `name=value` in a line, `#` or `!` before a comment, a backslash at the
end of a line that is continued. Pure: text and mappings in, values out. Knows no setting's meaning. Faults go into the caller's
list."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

ENVIRONMENT_PREFIX = "HEADRACE_BROKER_"


class Given(NamedTuple):
    """One value and its source."""

    value: str
    source: str
    """`broker.properties:12`, `HEADRACE_BROKER_NUM_PARTITIONS`, `--set`, `--port`, `default`."""


def from_file(text: str, path: str, faults: list[str]) -> dict[str, Given]:
    """Return the values in a properties file. A name that occurs twice is a fault: only one of the two was meant."""
    given: dict[str, Given] = {}
    for number, line in _logical_lines(text):
        name, value = _pair(line)
        where = f"{path}:{number}"
        if name is None:  # the line is not repeated: it may be a password
            faults.append(f"{where}: it is not name=value")
        elif name in given:
            faults.append(f"{where}: {name} was given before, at {given[name].source}: keep one of the two")
        else:
            given[name] = Given(value, where)
    return given


def from_environment(environment: Mapping[str, str], names: Sequence[str], faults: list[str]) -> dict[str, Given]:
    """Return the values in the environment. A variable is `HEADRACE_BROKER_` and the name in capitals, dots as underscores."""
    by_variable = {variable_of(name): name for name in names}
    given = {}
    for variable, value in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        if variable in by_variable:
            given[by_variable[variable]] = Given(value.strip(), variable)
        else:
            faults.append(f"{variable} in the environment names no setting{did_you_mean(variable, list(by_variable))}")
    return given


def from_words(words: Sequence[str], faults: list[str]) -> dict[str, Given]:
    """Return the values of `--set name=value` words. Of two for one name the last one counts, as with every flag."""
    given = {}
    for word in words:
        name, value = _pair(word) if "=" in word else (None, "")
        if name is None:
            faults.append(f"--set {word!r} is not name=value")
        else:
            given[name] = Given(value, "--set")
    return given


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "_")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return `: did you mean X?` when a known name is similar, else an empty string."""
    import difflib  # imported here: only a failed start needs it

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f": did you mean {near[0]}?" if near else ""


def _pair(line: str) -> tuple[str | None, str]:
    """Return name and value, split at the first `=` or `:`."""
    at = min((at for at in (line.find("="), line.find(":")) if at >= 0), default=-1)
    if at <= 0 or not (name := line[:at].strip()):
        return None, ""
    return name, line[at + 1 :].strip()


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Return the numbered lines that are neither empty nor comments. A continued line is joined under its first number."""
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
