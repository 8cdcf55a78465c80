"""One topic's windows, and one window: which records are not as they should be, where, and the command that reads them."""

from typing import Any

from ...audit import client as audit
from ...audit.client import ServiceRefused
from ...audit.service.web import report
from .. import words
from ..answers import ASK_MS, Answers, part
from ..asked import Asked
from ..errors import BadRequest
from ..rendering import render

HEARING_MS = 2_000
ENDED = "it has ended, and reports of it are missing"


def topic_page(answers: Answers, asked: Asked) -> str:
    """Return the page of one topic: its windows by tier, newest first, and what else is known of it."""
    topic, before = asked.needed("topic"), asked.whole("before")
    found = audit.topic_page(answers.audit_url, topic, before=before, timeout_ms=ASK_MS)
    windows, days = found["windows"], found["days"]
    tiers, day_tiers = words.columns(windows), words.columns(days)
    rows = [words.row(one, tiers) for one in windows]
    return render(
        "topic",
        topic=topic,
        is_known=found["is_known"],
        tiers=tiers,
        rows=rows,
        shows={name: any(one[name] for one in rows) for name in ("readers", "sinks", "quarantined", "late")},
        before=found["before"],
        day_tiers=day_tiers,
        days=[words.row(one, day_tiers) for one in days],
        changes=found["changes"],
        producers=[producer_row(one) for one in found["producers"]],
        latencies=found["latencies"],
        faults=found["faults"],
        now_ms=answers.clock.now_ms(),
    )


def window_page(answers: Answers, asked: Asked) -> str:
    """Return the page of one window."""
    topic, start = asked.needed("topic"), asked.whole("start")
    if start is None:
        raise BadRequest("start is missing in the address: the window's start in milliseconds")
    try:
        found = audit.window(answers.audit_url, topic, start, timeout_ms=ASK_MS)
    except ServiceRefused as error:
        raise BadRequest(str(error)) from error
    tiers = report.tiers([found])
    layout = answers.layout
    return render(
        "window",
        topic=topic,
        window=found,
        why=words.full_why(found),
        tiers=tiers,
        cells=words.cells(found, tiers),
        sinks=[{"name": name, **row} for name, row in sorted((found.get("sinks") or {}).items())],
        records=[
            {
                **one,
                "offsets": report.span_words(one.get("first_offset"), one["count"]),
                "producer": words.producer_words(one),
                "sequences": report.span_words(one.get("first_sequence"), one["count"]),
                "command": report.read_command(topic, one, live=layout.live_bootstrap, offline=layout.offline_bootstrap),
            }
            for one in report.records(found)
        ],
        more=report.unnamed(found),
        changes=audit.changes(answers.audit_url, topic, start_ms=start, limit=30, timeout_ms=ASK_MS),
        faults=_faults(answers),
        now_ms=answers.clock.now_ms(),
    )


def producer_row(one: dict[str, Any]) -> dict[str, Any]:
    """Return a run of a producer that has not sent its final report."""
    retired = one["retired"]
    state = f"retired by {retired['by']}: {retired['reason']}" if retired else ENDED if one["is_closed"] else "no final report"
    return {**one, "state": state}


def _faults(answers: Answers) -> list[str]:
    def ask() -> dict[str, Any]:
        return audit.hearing(answers.audit_url, timeout_ms=ASK_MS)

    found, away = part(answers.layout, lambda: answers.remembered("hearing", HEARING_MS, ask).value)
    return [away.what] if away is not None else list((found or {}).get("faults", ()))
