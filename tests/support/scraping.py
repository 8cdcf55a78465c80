"""A broker's HTTP pages as a monitoring system reads them."""

import base64
import json
import urllib.error
import urllib.request
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

PREFIX = "headrace_broker_"


class Scrape:
    """The samples of one `/metrics` page."""

    def __init__(self, port: int) -> None:
        status, body, content_type = get(port, "/metrics")
        assert status == 200, body
        assert content_type.startswith("text/plain; version=")
        self.families = list(text_string_to_metric_families(body))
        self._samples = [sample for family in self.families for sample in family.samples]

    def sum(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels; fail when there is none."""
        values = self.all(name, **labels)
        assert values, f"no {name} with {labels}"
        return sum(values)

    def all(self, name: str, **labels: str) -> list[float]:
        wanted = labels.items()
        return [one.value for one in self._samples if one.name in (name, PREFIX + name) and wanted <= one.labels.items()]

    def label_values(self, name: str, label: str) -> set[str]:
        return {one.labels[label] for one in self._samples if one.name == PREFIX + name}


def get(port: int, path: str, login: str | None = None) -> tuple[int, str, str]:
    """Return status, body and content type. `login`: user:password."""
    shown = {} if login is None else {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
    try:
        asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=shown)
        with urllib.request.urlopen(asked, timeout=10) as response:
            return response.status, response.read().decode(), response.headers["Content-Type"]
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers["Content-Type"]


def health(port: int, path: str) -> tuple[int, dict[str, Any]]:
    """Return status and JSON of a health page."""
    status, body, _ = get(port, path)
    return status, json.loads(body)
