"""`/metrics` of running processes as Prometheus' own library reads them, and what rules and dashboards name."""

import re
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.deploy.site import DEPLOY
from tests.support.scraping import get

_NAMED = re.compile(r"(?<![\w:])(?:headrace|process)_[a-z_]+(?![\w:=])")
"""The name of a metric; no label and no recorded rule."""
MOST_SERIES = 1_000
"""Of one process on a small platform: a label that grows with what passes through would exceed it."""


class Page:
    """One page, parsed."""

    def __init__(self, text: str) -> None:
        self._families: list[Metric] = list(text_string_to_metric_families(text))
        names = [family.name for family in self._families]
        assert len(set(names)) == len(names), "a family is told twice"
        samples = [(sample.name, *sorted(sample.labels.items())) for family in self._families for sample in family.samples]
        assert len(set(samples)) == len(samples), "a sample is told twice"
        assert len(samples) < MOST_SERIES
        assert all(family.documentation and family.type != "unknown" for family in self._families)

    def sum(self, name: str, **labels: str) -> float:
        """Return the sum of the samples with these labels; fail where there are none."""
        found = [s.value for f in self._families for s in f.samples if s.name == name and labels.items() <= s.labels.items()]
        assert found, f"no {name} with {labels}"
        return sum(found)

    def names(self) -> set[str]:
        """Return every name that can be asked for, also of families without a sample yet."""
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        return {family.name + end for family in self._families for end in endings.get(family.type, ("",))}


def page(port: int, login: str | None = None) -> Page:
    status, text, content_type = get(port, "/metrics", login)
    assert status == 200, text
    assert content_type.startswith("text/plain; version=")
    return Page(text)


def named() -> dict[str, set[str]]:
    """Return the metrics that each file of rules and each dashboard names."""
    files = [*(DEPLOY / "alerts").glob("*.rules.yml"), *(DEPLOY / "grafana").glob("*.json")]
    return {path.name: _names_in(path) for path in files}


def _names_in(path: Path) -> set[str]:
    lines = path.read_text().splitlines()
    told = [line for line in lines if "expr" in line or "query" in line]
    return {name for line in told for name in _NAMED.findall(line)}
