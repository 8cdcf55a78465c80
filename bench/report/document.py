"""Writes docs/BENCHMARKS.md from a result: targets, tables, machine, versions, what was skipped. Pure but for the file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import targets
from .judges import BUSY, rate
from .targets import TargetOutcome

Result = Mapping[str, Any]

_INTRODUCTION = """# Benchmarks
Written by `make bench` from `{source}`; do not edit. Everything below was measured side by side in one run on one machine:
the cases of a measure take turns within each round, in an order drawn by lot and each on a machine at rest, so that
whatever the machine did meanwhile happened to all of them; figures are medians of the rounds. Client and server share it.
Run it on yours: `make bench` (about {minutes:.0f} minutes here), `python -m bench --quick` for a first look,
`python -m bench --only produce,consume` for a part of it.

How to read it: **messages/s** belong to this machine; **ratios within a row** and **the server's CPU seconds for a million
messages** (s/M) travel better. 'Client' is how much of one core the client used: from {busy:.0%} on the client sets the
pace, and CPU a message decides instead. All servers keep messages in files, and none is forced to sync before it
acknowledges, except where a table says so. Counts and bytes on disk are checked after each run; a run that does not add up is
a failure, not a figure.
"""

_CLIENTS = """Ours and Kafka are driven by the same C client (librdkafka) with the same settings, or by the same raw client;
each other peer by its fastest C or Java client. `bench/drivers/` holds them all. Kafka runs as a single KRaft node from the
jars of Maven Central with the flags of kafka-server-start (`-Xmx1G -Xms1G`, G1), and once more 'tuned' (4 GiB, parallel
collector, fewer threads, larger socket buffers); it is warmed up before it is measured. A ZooKeeper belongs to ours and its
CPU is counted in.
"""


def write(result: Result, path: Path, *, source: str, figures: Sequence[Path]) -> None:
    """Write the page. `figures` are the pictures' files, in the page's folder or below."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(result, source=source, figures=[figure.relative_to(path.parent).as_posix() for figure in figures]))


def with_later(whole: Result, later: Sequence[Result]) -> dict[str, Any]:
    """Return a whole run's result with measures of later runs in place of its own, each marked with the time of its run."""
    measures = dict(whole["measures"])
    for result in later:
        measures |= {name: {**measure, "measured_again": result["at"]} for name, measure in result["measures"].items()}
    return {**whole, "measures": measures}


def page(result: Result, *, source: str, figures: Sequence[str]) -> str:
    """Return the page. `figures` are paths relative to it."""
    verdicts = targets.verdicts(targets.medians_of(result["measures"]))
    parts = [_INTRODUCTION.format(source=source, minutes=result["took_s"] / 60, busy=BUSY)]
    if result["quick"]:
        parts.append(
            "**This was a quick run** (`--quick`): few rounds of few messages. It shows that everything runs, little else.\n"
        )
    if again := [
        f"{name} ({measure['measured_again']})" for name, measure in result["measures"].items() if "measured_again" in measure
    ]:
        parts.append(f"**Not of that one run, but measured again later, whole and by themselves**: {', '.join(again)}.\n")
    parts.append("## What was to be reached\n" + f"{targets.summary(verdicts)}.\n\n" + verdict_table(verdicts))
    shown = {Path(figure).stem: figure for figure in figures}
    parts.append("## The paper's two figures\n" + _images(shown, ("producer", "consumer")))
    rest = [name for name in shown if name not in ("producer", "consumer")]
    parts.append("## More figures\n" + _images(shown, rest))
    parts.append("## Every table\n" + _CLIENTS)
    for measure in result["measures"].values():
        parts.append(f"### {measure['title']}\n" + measure_table(measure))
    parts.append("## Machine and versions\n" + _facts(result))
    parts.append("## Skipped\n" + (_skipped(result) or "Nothing.\n"))
    return "\n".join(parts)


def verdict_table(verdicts: Sequence[TargetOutcome]) -> str:
    """Return the table of targets with what was found."""
    words = {True: "reached", False: "**not reached**", None: "–"}
    lines = ["| measure | to reach | found | |", "|---|---|---|---|"]
    lines += [f"| {one.what} | {one.wanted} | {one.found} | {words[one.reached]} |" for one in verdicts]
    return "\n".join(lines) + "\n"


def measure_table(measure: Mapping[str, Any]) -> str:
    """Return one measure's rows, with every column that at least one of them has."""
    if measure.get("failed"):
        return f"Failed: {_one_line(measure['failed'])}\n"
    if not measure["rows"]:
        return "Skipped.\n"
    columns = [column for column in _COLUMNS if any(column in row["median"] for row in measure["rows"])]
    head = " | ".join(_COLUMNS[column][0] for column in columns)
    lines = [f"| subject | shape | {head} | how |", "|---|---|" + "---|" * (len(columns) + 1)]
    for row in measure["rows"]:
        if row.get("failed"):
            cells = ["failed", *["–"] * (len(columns) - 1)]
        else:
            cells = [_COLUMNS[column][1](row["median"][column]) if column in row["median"] else "–" for column in columns]
        lines.append(f"| {row['subject']} | {row['shape']} | {' | '.join(cells)} | {row['how']} |")
    failures = [f"- {row['subject']}, {row['shape']}: {_one_line(row['failed'])}" for row in measure["rows"] if row.get("failed")]
    return (
        "\n".join(lines) + f"\n\nRounds: {measure['rounds']}.\n" + ("\n".join(["Failed:", *failures]) + "\n" if failures else "")
    )


def _number(digits: int, unit: str = "") -> Any:
    return lambda value: f"{value:,.{digits}f}{unit}"


_COLUMNS: Mapping[str, tuple[str, Any]] = {
    "messages_per_s": ("messages/s", rate),
    "rows_per_s": ("rows/s", rate),
    "cpu_us_per_row": ("CPU µs a row, all processes", _number(2)),
    "cpu_s": ("CPU s", _number(1)),
    "mb_per_s": ("MB/s", _number(0)),
    "line_mb_per_s": ("MB/s over the line", _number(2)),
    "mb_per_cpu_s": ("MB a CPU second", _number(1)),
    "mb_per_broker_cpu_s": ("MB a CPU second of both brokers", _number(0)),
    "server_cpu_s_per_million": ("server CPU s/M", _number(3)),
    "server_cpu_s_per_gb": ("server CPU s/GB", _number(3)),
    "client_busy": ("client", lambda value: f"{value:.0%}"),
    "server_busy": ("server", lambda value: f"{value:.0%}"),
    "disk_bytes_per_message": ("bytes on disk", _number(1)),
    "produce_messages_per_s": ("produced/s", rate),
    "consume_messages_per_s": ("consumed/s", rate),
    "produce_server_cpu_s_per_million": ("server CPU s/M, producing", _number(3)),
    "consume_server_cpu_s_per_million": ("consuming", _number(3)),
    "p50_ms": ("p50 ms", _number(2)),
    "p99_ms": ("p99 ms", _number(2)),
    "p999_ms": ("p99.9 ms", _number(2)),
    "flush_ms": ("ms for a flush of this disk", _number(2)),
    "in_all_us": ("CPU µs an event, in all", _number(2)),
    "caller_us": ("on the caller's thread", _number(2)),
    "p50_us": ("p50 µs", _number(1)),
    "p99_us": ("p99 µs", _number(1)),
    "p999_us": ("p99.9 µs", _number(1)),
    "seconds": ("seconds", _number(2)),
    "rss_mb": ("MB resident", _number(0)),
    "zookeeper_rss_mb": ("its ZooKeeper, MB", _number(0)),
    "log_gb": ("GB of log", _number(1)),
}
"""Figure → heading, format. Other figures are in the JSON only."""


def _images(shown: Mapping[str, str], names: Sequence[str]) -> str:
    found = [f"![{name.replace('_', ' ')}]({shown[name]})\n" for name in names if name in shown]
    return "\n".join(found) or "None were drawn.\n"


def _facts(result: Result) -> str:
    lines = [
        "| | |",
        "|---|---|",
        f"| measured | {result['at']}, {result['rounds']} rounds, {result['took_s'] / 60:.0f} minutes |",
    ]
    lines += [f"| {name.replace('_', ' ')} | {value} |" for name, value in result["machine"].items()]
    lines += [f"| {name.replace('_', ' ')} MB/s | {value:,.0f} |" for name, value in result["limits_mb_per_s"].items()]
    lines += [f"| {name} | {version} |" for name, version in result["versions"].items()]
    return "\n".join(lines) + "\n"


def _skipped(result: Result) -> str:
    return "".join(f"- **{name}**: {_one_line(reason)}\n" for name, reason in result["skipped"].items())


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300].replace("|", "/")
