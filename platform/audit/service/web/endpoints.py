"""The audit over HTTP: completeness as JSON, metrics, the probes, recounts. Translates; decides nothing.

The pages are the console's (`headrace console run`); their addresses here lead there.
"""

import json
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ....client.callers import Caller
from ....client.errors import ClientError
from ....runtime.clock import Clock
from ....runtime.serving.guard import CALLER
from ....runtime.serving.threads import Threads
from ...model.books import TopicBook
from ...model.errors import AuditError
from ...model.tiers import READ_BACK
from ..errors import StoreError
from ..judge import Judge
from ..repairs import Repairs
from ..store.ledger import Ledger
from ..store.verdicts import Verdicts
from . import page_facts
from .in_time import InTime
from .metrics import Metrics
from .repaired import with_repaired
from .sequences import sequences

MOST_CHANGES = 1_000
MOST_WINDOWS = 1_000
"""Windows in one answer; `after` asks for more."""
MOST_SENT_MS = 86_400_000
"""The longest time of which sequence numbers are told at once."""
NUMBERS = range(-(1 << 31), 1 << 31)
INSTANTS = range(-(1 << 62), 1 << 62)
"""Milliseconds that a query may name. The store holds 64 bits, and adds and subtracts less than this."""
HEALTH_THREADS = 2
LIST_MS = 500
"""How long a list of all topics judges what is new before it is answered."""
MOST_TOPICS = 100
MOST_HOURS = 48
"""Of one answer of `/api/overview`."""
MOST_PRODUCERS = 1_000
QUIET_MS = 3_600_000
"""A producer that has sent nothing for so long, and no final report, is worth a look."""
NO_PAGES = """This is the audit's API: /api/completeness has the verdicts. The pages are in the console: `headrace console run`.
To make this address lead there, start the audit with `headrace audit run --console URL`.
"""
OF_TOPIC = frozenset(
    f"/api/{name}"
    for name in ("changes", "completeness", "latencies", "sequences", "tiers", "topic", "unreadable", "unsealed", "window")
)
"""Show nothing but the topics that their query names, where it names any."""
FOR_ALL = frozenset({"/", "/window", "/api/overview", "/api/summary", "/api/topics"})
"""Leave out the topics that the caller may not read."""
_NUMBER = re.compile(r"-?[0-9]{1,19}")


class BadQuestion(Exception):
    """A parameter of a request is wrong; the message says which and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the pages need of the rest of the service."""

    not_ready: Callable[[], list[str]]
    """Why the service is not ready; empty when it is."""
    faults: Callable[[], list[str]]
    """What cannot be reached now."""
    recount: Callable[[str, str], None]
    """Have a tier that is read back (of a topic) counted anew. Raises ClientError."""
    console: str | None = None
    """Where the console with the pages is; None: not known."""
    repairs: Repairs = field(default_factory=Repairs)


def application(ledger: Ledger, judge: Judge, clock: Clock, site: Site) -> ASGIApp:
    """Return the ASGI application."""
    metrics = Metrics(ledger, judge, clock)
    health = Threads(HEALTH_THREADS)

    def completeness(request: Request) -> Response:
        topic = request.query_params.get("topic")
        from_ms, to_ms, before = (_instant(request, name) for name in ("from_ms", "to_ms", "before"))
        limit = _whole(request, "limit")
        limit = MOST_WINDOWS if limit is None else max(0, min(limit, MOST_WINDOWS))
        by = request.query_params.get("by", "window")
        if by not in ("window", "day"):
            raise BadQuestion(f"by={by!r} is neither window nor day")
        after = _after(request)
        if request.query_params.get("stored") != "1":
            judge.bring_up_to_date(topic, within_ms=LIST_MS)
        newest = _whole(request, "newest")
        if newest is not None:
            if topic is None:
                raise BadQuestion("newest needs one topic: give topic, too")
            count = max(0, min(newest, MOST_WINDOWS))
            latest = ledger.books.verdict(lambda stored: stored.newest(topic, before=before, days=by == "day", limit=count))
            return _tagged(request, with_repaired(ledger, site.repairs, latest[::-1]))
        found = ledger.books.verdict(
            lambda stored: stored.page(topic, from_ms=from_ms, to_ms=to_ms, after=after, days=by == "day", limit=limit)
        )
        return _tagged(request, with_repaired(ledger, site.repairs, found))

    def summary(request: Request) -> Response:
        """Return topic → verdict → windows, from `after` (a topic) on."""
        rows, readable = ledger.books.verdict(lambda stored: stored.tallies()), _readable(request)
        after = request.query_params.get("after", "")
        limit = _whole(request, "limit")
        topics: dict[str, dict[str, object]] = {}
        for name, verdict, windows, missing, doubled, altered in rows:
            if name <= after or (readable is not None and name not in readable):
                continue
            if name not in topics and limit is not None and len(topics) >= limit:
                break
            mine = topics.setdefault(name, {"windows": {}, "missing": 0, "doubled": 0, "altered": 0})
            mine["windows"][verdict] = windows  # type: ignore[index]
            for figure, count in (("missing", missing), ("doubled", doubled), ("altered", altered)):
                mine[figure] += count  # type: ignore[operator]
        return _tagged(request, topics)

    def changes(request: Request) -> Response:
        limit = _whole(request, "limit")
        limit = 100 if limit is None else max(0, min(limit, MOST_CHANGES))
        topic, start = request.query_params.get("topic"), _instant(request, "start")
        return JSONResponse(ledger.books.ask(lambda notes: notes.verdict_changes(topic, limit, start)))

    def unreadable(request: Request) -> Response:
        topic = request.query_params.get("topic")
        return JSONResponse(ledger.books.ask(lambda notes: notes.unreadable(topic)))

    def recount(request: Request) -> Response:
        tier, topic = request.query_params.get("tier", ""), request.query_params.get("topic", "")
        if tier not in READ_BACK:
            raise BadQuestion(f"tier={tier!r} is not counted by the audit itself: tier is one of {', '.join(READ_BACK)}")
        if topic not in ledger.books.topics():
            raise BadQuestion(f"topic={topic!r} is not known: no tier has reported it. GET /api/topics lists those that are")
        try:
            site.recount(tier, topic)
        except (ClientError, AuditError) as error:
            return JSONResponse({"error": f"nothing was changed: {error}"}, status_code=503)
        return JSONResponse({"tier": tier, "topic": topic, "recounting": True}, status_code=202)

    def sent(request: Request) -> Response:
        topic, from_ms, to_ms = request.query_params.get("topic", ""), _instant(request, "from_ms"), _instant(request, "to_ms")
        if from_ms is None or to_ms is None or not from_ms <= to_ms <= from_ms + MOST_SENT_MS:
            raise BadQuestion(f"from_ms and to_ms are needed, and to_ms is at most {MOST_SENT_MS} ms after from_ms")

        def ranges(book: TopicBook) -> list[dict[str, object]]:
            starts = sorted(start for start in book.windows if from_ms <= start < to_ms)
            return [{"window_start_ms": start, **sequences(book.windows[start])} for start in starts]

        return JSONResponse(ledger.books.look(topic, ranges) or [])

    def unsealed(request: Request) -> Response:
        return JSONResponse(ledger.unsealed(request.query_params.get("topic")))

    def producers(request: Request) -> Response:
        """Return some of the producers that have not sent their final report, and how many there are."""
        limit = _within(request, "limit", MOST_PRODUCERS)
        return JSONResponse(page_facts.producers(ledger, request.query_params.get("q", ""), limit))

    def tiers(request: Request) -> Response:
        """Return the tiers of the topics that are named (without one: those of which an operator said something)."""
        asked: Sequence[str | None] = request.query_params.getlist("topic")[:MOST_TOPICS] or [None]
        tier = request.query_params.get("tier")
        found = [one for topic in asked for one in ledger.tiers(topic)]
        return JSONResponse([one for one in found if tier is None or one["tier"] == tier])

    def topics(request: Request) -> Response:
        return JSONResponse(_seen(request, ledger.books.topics()))

    def latencies(request: Request) -> Response:
        return JSONResponse(ledger.latencies_of(request.query_params.get("topic", "")))

    def hearing(request: Request) -> Response:
        return JSONResponse({**ledger.hearing(), "faults": site.faults()})

    async def healthz(request: Request) -> Response:
        return JSONResponse({"state": "up"})

    async def readyz(request: Request) -> Response:
        reasons = await to_thread.run_sync(site.not_ready, limiter=health.limiter())
        if reasons:
            return JSONResponse({"state": "not ready", "reasons": reasons}, status_code=503)
        return JSONResponse({"state": "ready"})

    def exposition(request: Request) -> Response:
        return Response(metrics.page(ready=not site.not_ready()), media_type="text/plain; version=0.0.4")

    def overview(request: Request) -> Response:
        """Return some topics' latest hours with their worst verdicts, and each topic's windows by verdict."""
        q, after = request.query_params.get("q", ""), request.query_params.get("after", "")
        limit, hours = _within(request, "limit", MOST_TOPICS), _within(request, "hours", MOST_HOURS)
        known = _seen(request, ledger.books.topics())
        shown = [name for name in known if q in name and name > after]
        names = shown[:limit]
        window_ms = ledger.books.settings.window_ms

        def rows(stored: Verdicts) -> dict[str, object]:
            found = stored.hours(names, hours, window_ms)
            return {name: {"hours": sorted(mine.items()), "windows": stored.tally(name)} for name, mine in found.items()}

        return _tagged(
            request,
            {
                "topics": ledger.books.verdict(rows),
                "total": len(known),
                "after": names[-1] if names and len(shown) > limit else None,
                "window_ms": window_ms,
            },
        )

    def problems(request: Request) -> Response:
        """Return the topics with windows that are not as they should be, what the audit cannot reach, and quiet producers."""
        limit, quiet_ms = _within(request, "limit", MOST_TOPICS), _whole(request, "quiet_ms", INSTANTS)
        found = page_facts.problems(ledger, site.faults(), limit=limit, quiet_ms=QUIET_MS if quiet_ms is None else quiet_ms)
        return _tagged(request, found)

    def topic_page(request: Request) -> Response:
        """Return what the page of one topic shows."""
        topic, before = request.query_params.get("topic"), _instant(request, "before")
        if topic is None:
            raise BadQuestion("topic is missing: give ?topic=NAME")
        return _tagged(request, {**page_facts.topic_page(ledger, site.repairs, topic, before), "faults": site.faults()})

    def window(request: Request) -> Response:
        topic, start = request.query_params.get("topic", ""), _instant(request, "start")
        if start is None:
            raise BadQuestion("start is missing: the window's start in milliseconds")
        found = ledger.books.verdict(lambda stored: stored.window(topic, start))
        if found is None:
            raise BadQuestion(f"no tier has reported a window of {topic!r} that begins at {start}")
        return _tagged(request, with_repaired(ledger, site.repairs, [found])[0])

    def pages(request: Request) -> Response:
        if site.console is None:
            return PlainTextResponse(NO_PAGES, 404)
        path = "/topic" if request.url.path == "/" and "topic" in request.query_params else request.url.path
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"{site.console.rstrip('/')}{path}{query}", 307)

    def refused(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, status_code=400)

    def away(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, status_code=503)

    app = Starlette(
        routes=[
            Route("/", pages),
            Route("/window", pages),
            Route("/api/overview", overview),
            Route("/api/problems", problems),
            Route("/api/topic", topic_page),
            Route("/api/window", window),
            Route("/api/completeness", completeness),
            Route("/api/summary", summary),
            Route("/api/changes", changes),
            Route("/api/unreadable", unreadable),
            Route("/api/sequences", sent),
            Route("/api/unsealed", unsealed),
            Route("/api/producers", producers),
            Route("/api/tiers", tiers),
            Route("/api/topics", topics),
            Route("/api/latencies", latencies),
            Route("/api/hearing", hearing),
            Route("/api/recount", recount, methods=["POST"]),
            Route("/metrics", exposition),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
        ],
        exception_handlers={BadQuestion: refused, StoreError: away, ClientError: away},
    )
    return InTime(app)


def _readable(request: Request) -> frozenset[str] | None:
    """Return the topics that the caller may read; None: all. Raises ClientError."""
    caller: Caller | None = request.scope.get(CALLER)
    return None if caller is None else caller.readable()


def _seen(request: Request, topics: Sequence[str]) -> list[str]:
    readable = _readable(request)
    return [one for one in topics if readable is None or one in readable]


def _tagged(request: Request, words: object) -> Response:
    """Return the words as JSON; only that nothing changed, to who has them already."""
    body = json.dumps(words, separators=(",", ":")).encode()
    tag = f'"{len(body):x}-{zlib.crc32(body):08x}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(body, media_type="application/json", headers={"ETag": tag})


def _after(request: Request) -> tuple[str, int] | None:
    text = request.query_params.get("after")
    if not text:
        return None
    topic, _, start = text.rpartition("/")
    topic = topic or request.query_params.get("topic", "")
    if not topic or not _NUMBER.fullmatch(start) or int(start) not in INSTANTS:
        raise BadQuestion(
            f"after={text[:80]!r} is not TOPIC/WINDOW_START_MS of the last window that was returned: milliseconds from "
            f"{INSTANTS.start} to {INSTANTS.stop - 1}"
        )
    return topic, int(start)


def _whole(request: Request, name: str, within: range = NUMBERS) -> int | None:
    """Return a number of the query. Raises BadQuestion for what is none, or is outside the range."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return None
    number = int(text) if _NUMBER.fullmatch(text) else None
    if number is None or number not in within:
        raise BadQuestion(f"{name}={text[:40]!r} is not a whole number from {within.start} to {within.stop - 1}")
    return number


def _within(request: Request, name: str, most: int) -> int:
    """Return a number of the query from 1 to `most`, which it is without one."""
    number = _whole(request, name)
    return most if number is None else max(1, min(number, most))


def _instant(request: Request, name: str) -> int | None:
    return _whole(request, name, INSTANTS)
