"""Agents and producers: when each last reported, what it has shipped, and who has not sent a final report."""

from ...audit import client as audit
from ..answers import AGENT_FILE, ASK_MS, Answers, part
from ..asked import Asked
from ..rendering import render
from .topic import producer_row

PRODUCERS = 200
SOURCES = 100


def page(answers: Answers, asked: Asked) -> str:
    """Return the page."""
    q = asked.text("q")
    found, away = part(answers.layout, lambda: audit.producers(answers.audit_url, q=q, limit=PRODUCERS, timeout_ms=ASK_MS))
    agent = answers.agent()
    return render(
        "producers",
        q=q,
        away=away,
        rows=[producer_row(one) for one in (found or {}).get("producers", ())],
        total=(found or {}).get("total"),
        agent=agent,
        sources=(agent or {}).get("sources", [])[:SOURCES],
        file=answers.layout.home / AGENT_FILE,
        now_ms=answers.clock.now_ms(),
    )
