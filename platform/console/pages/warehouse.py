"""Hours in the warehouse: loaded, proven, published, late; the proof of one hour; the query that reads it."""

from datetime import UTC, datetime
from typing import Any

from ..answers import Answers
from ..asked import Asked
from ..errors import BadRequest
from ..rendering import render
from ..warehouse_asking import Asking

HOURS = 200


def list_page(answers: Answers, asked: Asked, asking: Asking) -> str:
    """Return the page of all tables, or of one topic's hours, newest first."""
    topic, before = asked.text("topic"), asked.whole("before")
    found = asking.ask("hours" if topic else "tables", topic)
    hours = (found.answer or {}).get("hours", ())
    shown = [one for one in hours if before is None or one["hour"] < before]
    return render(
        "warehouse",
        topic=topic,
        found=found,
        tables=(found.answer or {}).get("tables", ()),
        rows=[{**one, "name": hour_words(one["hour"]), "query": query_of(topic, one["hour"])} for one in shown[:HOURS]],
        before=shown[HOURS - 1]["hour"] if len(shown) > HOURS else None,
        now_ms=answers.clock.now_ms(),
    )


def proof_page(answers: Answers, asked: Asked, asking: Asking) -> str:
    """Return the page of one hour's proofs."""
    topic, hour = asked.needed("topic"), asked.whole("hour", range(-1, 1 << 40))
    if hour is None:
        raise BadRequest("hour is missing in the address: hours since 1970")
    found = asking.ask("proofs", topic, str(hour))
    proofs: list[dict[str, Any]] = (found.answer or {}).get("proofs", [])
    return render(
        "proof",
        topic=topic,
        hour=hour,
        name=hour_words(hour),
        found=found,
        proofs=proofs,
        query=query_of(topic, hour),
        now_ms=answers.clock.now_ms(),
    )


def hour_words(hour: int) -> str:
    """Return an hour in UTC; all hours before 1970 are one."""
    if hour < 0:
        return "before 1970"
    try:
        return datetime.fromtimestamp(hour * 3_600, UTC).strftime("%Y-%m-%d %H:00")
    except (OverflowError, ValueError, OSError):
        return f"hour {hour}"


def query_of(topic: str, hour: int) -> str:
    """Return the command that reads an hour's published rows."""
    if hour < 0:
        where = "_timestamp < TIMESTAMPTZ '1970-01-01 00:00+00'"
    else:
        begin, end = (hour_words(one).replace(":00", ":00+00") for one in (hour, hour + 1))
        where = f"_timestamp >= TIMESTAMPTZ '{begin}' AND _timestamp < TIMESTAMPTZ '{end}'"
    return f'''headrace query "SELECT * FROM \\"{topic}\\" WHERE {where}"'''
