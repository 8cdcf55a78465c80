"""What the mirror copies, how far it is behind, what is stopped or held back."""

from typing import Any

from .. import problems
from ..answers import Answers
from ..asked import Asked
from ..rendering import render

PARTITIONS = 200


def page(answers: Answers, asked: Asked) -> str:
    """Return the page: partitions that need attention first, then those that are furthest behind."""
    q = asked.text("q")
    status = answers.status("mirror")
    partitions: list[dict[str, Any]] = [one for one in (status or {}).get("partitions", ()) if q in one["topic"]]
    partitions.sort(key=lambda one: (not one["trouble"], -one["lag_bytes"], one["topic"], one["partition"]))
    now_ms = answers.clock.now_ms()
    return render(
        "mirror",
        status=status,
        file=answers.layout.run / "mirror.json",
        age_ms=None if status is None else now_ms - int(status.get("at_ms", 0)),
        problems=problems.of_mirror(status, now_ms=now_ms),
        orders=(status or {}).get("orders") or {},
        rows=partitions[:PARTITIONS],
        total=len(partitions),
        q=q,
        now_ms=now_ms,
    )
