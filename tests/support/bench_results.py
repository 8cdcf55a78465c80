"""A small result as a run would write it, for tests of what is made from one."""

from typing import Any


def row(subject: str, shape: str, *runs: dict[str, float], failed: str | None = None) -> dict[str, Any]:
    """Return one row whose median is its middle run."""
    middle = runs[len(runs) // 2] if runs else {}
    return {"subject": subject, "shape": shape, "how": "librdkafka, C", "median": middle, "samples": list(runs)} | (
        {"failed": failed} if failed else {}
    )


def rate(messages_per_s: float, cpu: float = 1.0, client: float = 0.5) -> dict[str, float]:
    """Return the figures of one run."""
    return {"messages_per_s": messages_per_s, "server_cpu_s_per_million": cpu, "client_busy": client}


def result(**measures: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a whole result with these measures."""
    return {
        "at": "2026-11-21T11:00:00Z",
        "took_s": 1200.0,
        "rounds": 5,
        "quick": False,
        "machine": {"processor": "a processor", "cores": 2},
        "limits_mb_per_s": {"loopback_tcp": 2500.0},
        "versions": {"Headrace": "Headrace 0.1.0"},
        "skipped": {"RabbitMQ": "RabbitMQ: there is no rabbitmq-server\n(Debian: rabbitmq-server)"},
        "measures": {name: {"title": name, "rounds": 5, "took_s": 1.0, "rows": rows} for name, rows in measures.items()},
    }
