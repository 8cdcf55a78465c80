"""Prometheus' text format, version 0.0.4: families of numbers in, the page's text out. Pure.

Numbers keep every digit: a counter of a billion that is rounded to six digits shows no rate. Source: Prometheus' documentation,
"Exposition formats". Prometheus' own library would be one more package for every application that imports the SDK.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_LABELS = 1_000
"""Values of one label that are shown one by one; the rest is summed under an empty one."""
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class Histogram(NamedTuple):
    """One histogram: (upper bound, values up to it), bounds and counts ascending; the last bound is infinite."""

    buckets: Sequence[tuple[float, float]]
    total: float
    """The sum of all values."""


class Metric(NamedTuple):
    """One family: its name with unit and, for a counter, `_total`; the kind; one line that explains it."""

    name: str
    kind: str
    """`gauge`, `counter` or `histogram`."""
    doc: str
    samples: Sequence[tuple[Mapping[str, str], float | Histogram]]


def one(value: float) -> list[tuple[Mapping[str, str], float]]:
    """Return the samples of a metric without labels."""
    return [({}, value)]


def each(label: str, values: Mapping[str, float], *, most: int = MOST_LABELS) -> list[tuple[Mapping[str, str], float]]:
    """Return one sample for each entry, the largest `most` by name of the label; the others summed under an empty name."""
    kept = sorted(values, key=lambda name: (-values[name], name))[:most]
    samples: list[tuple[Mapping[str, str], float]] = [({label: name}, values[name]) for name in sorted(kept)]
    if len(values) > len(kept):
        samples.append(({label: ""}, sum(values.values()) - sum(values[name] for name in kept)))
    return samples


def text(metrics: Iterable[Metric]) -> str:
    """Return the page. Raises ValueError for a name, a kind or a label that Prometheus would refuse."""
    lines: list[str] = []
    for name, kind, doc, samples in metrics:
        if (
            not _NAME.fullmatch(name)
            or kind not in ("gauge", "counter", "histogram")
            or (kind == "counter") != name.endswith("_total")
        ):
            raise ValueError(f"{name} is not a name of a {kind}")
        lines += [f"# HELP {name} {_escaped(doc, quotes=False)}", f"# TYPE {name} {kind}"]
        for labels, value in samples:
            lines += _of_histogram(name, labels, value) if isinstance(value, Histogram) else [_line(name, labels, value)]
    return "\n".join(lines) + "\n"


def number(value: float) -> str:
    """Return the number with all its digits, a whole one without a point."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"inf": "+Inf", "-inf": "-Inf"}.get(str(value), "NaN")
    return str(int(value)) if value == int(value) else repr(float(value))


def _of_histogram(name: str, labels: Mapping[str, str], value: Histogram) -> list[str]:
    buckets = [_line(f"{name}_bucket", {**labels, "le": number(bound)}, count) for bound, count in value.buckets]
    return [*buckets, _line(f"{name}_count", labels, value.buckets[-1][1]), _line(f"{name}_sum", labels, value.total)]


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    return f"{name}{_labels(labels)} {number(value)}"


def _labels(labels: Mapping[str, str]) -> str:
    for name in labels:
        if not _LABEL.fullmatch(name):
            raise ValueError(f"{name} is not a name of a label")
    words = ",".join(f'{name}="{_escaped(value, quotes=True)}"' for name, value in labels.items())
    return f"{{{words}}}" if words else ""


def _escaped(value: str, *, quotes: bool) -> str:
    value = value.replace("\\", r"\\").replace("\n", r"\n")
    return value.replace('"', r"\"") if quotes else value
