"""Each process of this machine's platform: its health, as `headrace status` shows it, and links to what it serves itself."""

from ...local import control
from ...local.supervisor.faults import remedy
from ...runtime.clock import SystemClock
from ...runtime.layout import LOOPBACK, Layout
from ..answers import Answers
from ..asked import Asked
from ..rendering import render

METRICS = {
    "broker-live": 9094,
    "broker-offline": 9194,
    "registry": 8081,
    "audit": 8090,
    "console": 8088,
    "mirror": 9095,
    "consumer-1": 9098,
    "consumer-2": 9099,
    "agent": 9097,
}
"""Process → the port of its `/metrics`, before the shift."""


def page(answers: Answers, asked: Asked) -> str:
    """Return the page."""
    layout = answers.layout
    state = control.state(layout)
    now_ms = SystemClock().now_ms()
    return render(
        "processes",
        home=layout.home,
        is_running=state is not None,
        rows=[
            {
                "process": one,
                "uptime_ms": None if one.started_at_ms is None else max(0, now_ms - one.started_at_ms),
                "remedy": "" if one.state == "ready" else remedy(one, layout.logs / f"{one.name}.log"),
                "metrics": _metrics(layout, one.name),
                "log": layout.logs / f"{one.name}.log",
            }
            for one in (() if state is None else state.processes)
        ],
        airflow=layout.airflow_url,
        addresses={
            "live cluster": layout.live_bootstrap,
            "offline cluster": layout.offline_bootstrap,
            "schema registry": layout.registry_url,
            "audit": layout.audit_url,
        },
        now_ms=answers.clock.now_ms(),
    )


def _metrics(layout: Layout, name: str) -> str | None:
    port = METRICS.get(name)
    return (
        None
        if port is None or (layout.engine == "kafka" and name.startswith("broker"))
        else (f"http://{LOOPBACK}:{layout.port(port)}/metrics")
    )
