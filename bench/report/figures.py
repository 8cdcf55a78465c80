"""The pictures of a result, and the figures of each. The first two are the paper's: producer and consumer throughput."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from . import svg
from .judges import rate
from .svg import Picture, Row

Result = Mapping[str, Any]


def write(result: Result, folder: Path) -> list[Path]:
    """Draw every picture for which the result has figures. Return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, make in PICTURES.items():
        picture = make(result)
        if picture.rows:
            path = folder / f"{name}.svg"
            path.write_text(svg.draw(picture))
            written.append(path)
    return written


def _rows(
    result: Result,
    measure: str,
    figure: str,
    text: Callable[[float], str],
    wanted: Callable[[str, str], bool] = lambda subject, shape: True,
) -> Iterator[Row]:
    for row in result["measures"].get(measure, {}).get("rows", []):
        value = row["median"].get(figure)
        if value and wanted(row["subject"], row["shape"]):
            runs = [sample[figure] for sample in row["samples"] if sample.get(figure)]
            shape = "" if row["shape"] == "its own" else f", {row['shape']}"
            label = f"{row['subject']}{shape}"
            yield Row(subject=row["subject"], label=label, value=value, low=min(runs), high=max(runs), text=text(value))


def _producer(result: Result) -> Picture:
    rows = _rows(result, "produce", "messages_per_s", rate, lambda _, shape: not shape.endswith("acks 0"))
    return Picture(
        title="Producer: 200-byte messages",
        axis="messages a second (logarithmic), median and range of the runs",
        rows=_falling(rows),
    )


def _consumer(result: Result) -> Picture:
    rows = _rows(result, "consume", "messages_per_s", rate, lambda _, shape: "of 1," not in shape)
    return Picture(
        title="Consumer: 200-byte messages",
        axis="messages a second (logarithmic), median and range of the runs",
        rows=_falling(rows),
    )


def _cpu(measure: str, title: str) -> Callable[[Result], Picture]:
    def make(result: Result) -> Picture:
        rows = _rows(
            result,
            measure,
            "server_cpu_s_per_million",
            lambda value: f"{value:.3g} s",
            lambda _, s: "acks 0" not in s and "cold" not in s,
        )
        axis = "the server's CPU seconds for a million messages: less is better"
        return Picture(title=title, axis=axis, rows=list(reversed(_falling(rows))))

    return make


def _latency(result: Result) -> Picture:
    rows = []
    for figure, label in (("p50_ms", "p50"), ("p99_ms", "p99"), ("p999_ms", "p99.9")):
        for row in _rows(result, "latency", figure, lambda value: f"{value:.3g} ms"):
            rows.append(Row(**{**{name: getattr(row, name) for name in Row.__slots__}, "label": f"{row.subject}, {label}"}))
    return Picture(
        title="Latency, produce → consume, at 10,000 messages a second", axis="milliseconds: less is better", rows=rows
    )


def _durable(result: Result) -> Picture:
    rows = _falling(_rows(result, "durable", "messages_per_s", rate))
    return Picture(title="Acknowledged on disk: 64 requests of one message in flight", axis="messages a second", rows=rows)


def _growth(result: Result) -> Picture:
    rows = list(_rows(result, "growth", "messages_per_s", rate))
    return Picture(title="Cost as it grows: near and far end", axis="messages a second, raw client, 50 a batch", rows=rows)


def _bare(result: Result) -> Picture:
    rows = list(_rows(result, "bare", "mb_per_s", lambda value: f"{value:,.0f} MB/s"))
    return Picture(title="Against a bare loop on the same machine", axis="MB a second", rows=rows)


def _falling(rows: Iterator[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -row.value)


PICTURES: Mapping[str, Callable[[Result], Picture]] = {
    "producer": _producer,
    "consumer": _consumer,
    "producer_cpu": _cpu("produce", "Producing: the server's CPU"),
    "consumer_cpu": _cpu("consume", "Consuming: the server's CPU"),
    "latency": _latency,
    "durable": _durable,
    "bare": _bare,
    "growth": _growth,
}
"""File name → function."""
