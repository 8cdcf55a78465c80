"""Is everything all right, and if not, what do I do? Problems worst first, then topics by hour, the newest first."""

from typing import Any

from ...audit import client as audit
from ...errors import HeadraceError
from ...local import control
from ...runtime.disk_room import look, why_no_room
from .. import hours, problems, words
from ..answers import ASK_MS, Answers, not_here
from ..asked import Asked
from ..problems import Problem, Rank
from ..rendering import render

TOPICS = 50
HOURS = 24
MOST_PROBLEMS = 20


def page(answers: Answers, asked: Asked) -> str:
    """Return the page."""
    q, after = asked.text("q"), asked.text("after")
    found = problems_now(answers)
    overview: dict[str, Any] | None = None
    try:
        overview = audit.overview(answers.audit_url, q=q, after=after, limit=TOPICS, hours=HOURS, timeout_ms=ASK_MS)
    except HeadraceError:
        pass  # it is among the problems
    columns = hours.columns(hour for one in (overview or {"topics": {}})["topics"].values() for hour, _ in one["hours"])
    rows = [
        {
            "topic": topic,
            "trouble": words.trouble_words(one["windows"]),
            "cells": _cells(dict(one["hours"]), columns),
        }
        for topic, one in (overview or {"topics": {}})["topics"].items()
    ]
    return render(
        "home",
        problems=found[:MOST_PROBLEMS],
        left_out=max(0, len(found) - MOST_PROBLEMS),
        is_well=not any(one.rank < Rank.NOTED for one in found),
        overview=overview,
        q=q,
        columns=columns,
        days=hours.days(columns),
        rows=rows,
        now_ms=answers.clock.now_ms(),
    )


def problems_now(answers: Answers) -> list[Problem]:
    """Return what is wrong now, worst first."""
    layout = answers.layout
    found: list[Problem] = []
    platform = control.state(layout)
    if platform is not None:
        found += problems.of_processes(platform.processes, layout.logs)
    elif not layout.elsewhere:
        found.append(
            Problem(
                rank=Rank.DOWN,
                about="platform",
                what=f"No platform runs in {layout.home}",
                why="its supervisor is not there: it was stopped, or never started",
                remedy="headrace up",
            )
        )
    no_room = why_no_room(look(layout.home))
    if no_room is not None:
        remedy = "make room: no process can write there"
        found.append(Problem(rank=Rank.DOWN, about="disk", what="There is no room to write", why=no_room, remedy=remedy))
    url = answers.audit_url
    try:
        told = audit.problems(url, timeout_ms=ASK_MS)
        found += problems.of_windows(told["windows"])
        found += problems.of_hearing(told["faults"])
        found += problems.of_producers(told["quiet"])
    except HeadraceError as error:
        away = not_here(layout, error)
        found.append(Problem(rank=Rank.DOWN, about="audit", what=away.what, why=away.why, remedy=away.remedy, href="/processes"))
    found += problems.of_mirror(answers.status("mirror"), now_ms=answers.clock.now_ms())
    return problems.in_order(found)


def _cells(mine: dict[int, Any], columns: list[hours.Column]) -> list[words.CellView]:
    return [words.CellView("", "gap") if one.start_ms is None else words.hour_cell(mine.get(one.start_ms)) for one in columns]
