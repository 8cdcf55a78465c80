"""What the audit said last of every window, and of days of windows that were added up. Questions read from here, page by page.

Written by the judge, in the transaction that the caller has begun. `tally` adds up each topic's windows by verdict.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ....runtime.layout import SCRATCH_PREFIX
from .database import Database
from .sink_rows import SEVERITY, SinkTally, in_a_day, together
from .window_json import restored, stored

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
UNDECIDED = ("OPEN", "UNKNOWN")
TROUBLED = ("UNKNOWN", "DOUBLED", "ALTERED", "INCOMPLETE")
MOST_RECORDS = 100
"""Ranges of records that a day keeps of each difference."""
NOT_SCRATCH = f"substr(topic, 1, {len(SCRATCH_PREFIX)}) <> '{SCRATCH_PREFIX}'"
"""Topics of drills are shown only to who asks for them by name."""
_SINK_TOPIC = "sink_topic:"
"""Begins the name of the fact that a sink has had a row in a window of the topic."""
_COLUMNS = "topic, window_start_ms, span_ms, verdict, missing, doubled, altered, at_ms, body"

Window = dict[str, Any]


class Verdicts:
    """The windows' verdicts in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sinks: SinkTally | None = None
        self._sink_topics: set[str] = set()
        """Those that are noted in the store, as far as is known."""

    @property
    def sinks(self) -> SinkTally:
        """What the rows of sinks in the windows add up to: counted once, and kept up to date with each window that is written.

        Only windows of topics that ever had a sink are read for it: the others may be millions.
        """
        if self._sinks is None:
            self._sink_topics = set(self._database.facts(_SINK_TOPIC))
            of_topic = f"SELECT {_COLUMNS} FROM verdicts WHERE topic = ? AND span_ms < 86400000"
            rows = (row for topic in sorted(self._sink_topics) for row in self._database.rows(of_topic, (topic,)))
            self._sinks = SinkTally(map(restored, rows))
        return self._sinks

    def forget_sinks(self) -> None:
        """Count the rows of sinks again when somebody asks: the store is another one than was written, or was rolled back."""
        self._sinks, self._sink_topics = None, set()

    # -- one window --------------------------------------------------------------------------------------------------

    def window(self, topic: str, window_start_ms: int) -> Window | None:
        """Return what was said of a window, None where nothing was."""
        rows = self._database.rows(
            f"SELECT {_COLUMNS} FROM verdicts WHERE topic = ? AND window_start_ms = ? AND span_ms < 86400000",
            (topic, window_start_ms),
        )
        return restored(rows[0]) if rows else None

    def put(self, window: Window, before: Window | None, at_ms: int, *, is_new: bool = True) -> None:
        """Store what is said of a window now. `before`: what `window` gave. Without `is_new` it is as old as `before`: nobody has
        said anything since.
        """
        if before is not None and not is_new:
            where = "topic = ? AND window_start_ms = ? AND span_ms < 86400000"
            rows = self._database.rows(f"SELECT at_ms FROM verdicts WHERE {where}", (window["topic"], window["window_start_ms"]))
            at_ms = rows[0][0]
        self._database.put("verdicts", stored(window, at_ms))
        if window["sinks"] and window["topic"] not in self._sink_topics:
            self._database.put_fact(f"{_SINK_TOPIC}{window['topic']}", 1)
            self._sink_topics.add(window["topic"])
        if self._sinks is not None:
            if before is not None:
                self._sinks.add(before, -1)
            self._sinks.add(window)
        figures = [window[name] - (before[name] if before is not None else 0) for name in ("missing", "doubled", "altered")]
        if before is None or before["verdict"] != window["verdict"] or any(figures):
            if before is not None:
                self._count(before, -1)
            self._count(window, 1)

    def drop(self, window: Window) -> None:
        """Forget a window that no tier mentions any more, or that was added to a day."""
        span_ms = window["window_end_ms"] - window["window_start_ms"]
        self._database.delete("verdicts", topic=window["topic"], window_start_ms=window["window_start_ms"], span_ms=span_ms)
        if span_ms < DAY_MS:
            self._count(window, -1)
            if self._sinks is not None:
                self._sinks.add(window, -1)

    def _count(self, window: Window, by: int) -> None:
        key = (window["topic"], window["verdict"])
        known = self._database.rows("SELECT windows, missing, doubled, altered FROM tally WHERE topic = ? AND verdict = ?", key)
        figures = (by, *(by * window[name] for name in ("missing", "doubled", "altered")))
        total = [mine + more for mine, more in zip(known[0] if known else (0, 0, 0, 0), figures, strict=True)]
        self._database.put("tally", (*key, *total))

    def undecided(self, topic: str) -> list[int]:
        """Return the windows of the topic whose verdict time alone may change."""
        rows = self._database.rows(
            "SELECT window_start_ms FROM verdicts WHERE topic = ? AND verdict IN ('OPEN', 'UNKNOWN') AND span_ms < 86400000",
            (topic,),
        )
        return [start for (start,) in rows]

    def undecided_topics(self) -> list[str]:
        """Return the topics that have such windows."""
        rows = self._database.rows(
            "SELECT DISTINCT topic FROM tally WHERE windows > 0 AND verdict IN ('OPEN', 'UNKNOWN') ORDER BY topic"
        )
        return [topic for (topic,) in rows]

    def with_undecided_sinks(self, topic: str) -> list[int]:
        """Return the windows of the topic in which time alone may change a sink's row: nothing else in a body has a verdict."""
        rows = self._database.rows(
            "SELECT window_start_ms FROM verdicts WHERE topic = ? AND span_ms < 86400000 AND (body LIKE ? OR body LIKE ?)",
            (topic, *(f'%"verdict":"{verdict}"%' for verdict in UNDECIDED)),
        )
        return [start for (start,) in rows]

    def starts(self, topic: str) -> list[int]:
        """Return every window of the topic that has a verdict."""
        rows = self._database.rows("SELECT window_start_ms FROM verdicts WHERE topic = ? AND span_ms < 86400000", (topic,))
        return [start for (start,) in rows]

    # -- many windows ------------------------------------------------------------------------------------------------

    def page(
        self,
        topic: str | None,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        after: tuple[str, int] | None = None,
        days: bool = False,
        limit: int,
    ) -> list[Window]:
        """Return windows (or days) that overlap [from_ms, to_ms), by topic and time, at most `limit`, those behind `after`."""
        where = ["span_ms >= 86400000" if days else "span_ms < 86400000"]
        values: list[Any] = []
        for condition, value in (
            ("topic = ?", topic),
            ("window_start_ms + span_ms > ?", from_ms),
            ("window_start_ms < ?", to_ms),
        ):
            if value is not None:
                where.append(condition)
                values.append(value)
        if from_ms is not None:
            # Lets the key be used: no window is wider than a day.
            where.append("window_start_ms > ?")
            values.append(from_ms - DAY_MS - 1)
        if topic is None:
            where.append(NOT_SCRATCH)
        if after is not None:
            where.append("(topic, window_start_ms) > (?, ?)")
            values += after
        statement = f"SELECT {_COLUMNS} FROM verdicts WHERE {' AND '.join(where)} ORDER BY topic, window_start_ms LIMIT ?"
        return [restored(row) for row in self._database.rows(statement, (*values, limit))]

    def newest(self, topic: str, *, before: int | None = None, days: bool = False, limit: int) -> list[Window]:
        """Return the topic's latest windows (or days), newest first; with `before` those that begin before it."""
        span = "span_ms >= 86400000" if days else "span_ms < 86400000"
        rows = self._database.rows(
            f"SELECT {_COLUMNS} FROM verdicts WHERE topic = ? AND {span} AND window_start_ms < ?"
            " ORDER BY window_start_ms DESC LIMIT ?",
            (topic, (1 << 63) - 1 if before is None else before, limit),
        )
        return [restored(row) for row in rows]

    def hours(self, topics: Sequence[str], limit: int, window_ms: int) -> dict[str, dict[int, tuple[str, int]]]:
        """Return topic → hour's start → (worst verdict, records that are not as they should be), of their latest hours."""
        found: dict[str, dict[int, tuple[str, int]]] = {topic: {} for topic in topics}
        starts: set[int] = set()
        for topic in topics:
            rows = self._database.rows(
                "SELECT window_start_ms, verdict, missing + doubled + altered FROM verdicts"
                " WHERE topic = ? AND span_ms < 86400000 ORDER BY window_start_ms DESC LIMIT ?",
                (topic, limit * max(1, HOUR_MS // window_ms)),
            )
            mine = found[topic]
            for start, verdict, records in rows:
                hour = start - start % HOUR_MS
                if hour not in mine and len(mine) == limit:
                    break
                worst, known = mine.get(hour, (verdict, 0))
                mine[hour] = max(worst, verdict, key=SEVERITY.index), known + records
            starts |= mine.keys()
        latest = set(sorted(starts)[-limit:])
        return {topic: {hour: one for hour, one in mine.items() if hour in latest} for topic, mine in found.items()}

    def tally(self, topic: str) -> dict[str, int]:
        """Return verdict → windows of the topic."""
        rows = self._database.rows(
            "SELECT verdict, windows FROM tally WHERE topic = ? AND windows > 0 ORDER BY verdict", (topic,)
        )
        return dict(rows)

    def tallies(self) -> list[tuple[str, str, int, int, int, int]]:
        """Return (topic, verdict, windows, missing, doubled, altered) of every topic."""
        return [
            tuple(row)
            for row in self._database.rows(f"SELECT * FROM tally WHERE windows > 0 AND {NOT_SCRATCH} ORDER BY topic, verdict")
        ]

    def troubles(self, limit: int) -> list[dict[str, Any]]:
        """Return topic, verdict, windows, missing, doubled, altered and the latest such window's start, of windows that are not
        as they should be.
        """
        marks = ", ".join("?" * len(TROUBLED))
        rows = self._database.rows(
            f"SELECT topic, verdict, windows, missing, doubled, altered FROM tally WHERE windows > 0 AND verdict IN ({marks})"
            f" AND {NOT_SCRATCH} ORDER BY topic, verdict LIMIT ?",
            (*TROUBLED, limit),
        )
        names = ("topic", "verdict", "windows", "missing", "doubled", "altered")
        return [{**dict(zip(names, row, strict=True)), "window_start_ms": self._latest(row[0], row[1])} for row in rows]

    def _latest(self, topic: str, verdict: str) -> int | None:
        """Return the start of the latest window with this verdict; None if only days have it."""
        rows = self._database.rows(
            "SELECT window_start_ms FROM verdicts WHERE topic = ? AND verdict = ? AND span_ms < 86400000"
            " ORDER BY window_start_ms DESC LIMIT 1",
            (topic, verdict),
        )
        return next((int(start) for (start,) in rows), None)

    # -- days --------------------------------------------------------------------------------------------------------

    def settled(self, before_ms: int, limit: int) -> list[Window]:
        """Return decided windows of which nothing new was said since `before_ms`, those longest ago first."""
        rows = self._database.rows(
            f"SELECT {_COLUMNS} FROM verdicts WHERE at_ms <= ? AND span_ms < 86400000 AND verdict NOT IN ('OPEN', 'UNKNOWN')"
            " ORDER BY at_ms, topic, window_start_ms LIMIT ?",
            (before_ms, limit),
        )
        return [restored(row) for row in rows]

    def never_decided(self, before_ms: int, limit: int) -> list[Window]:
        """Return undecided windows of which no tier said anything new since `before_ms`, by topic and time.

        (`at_ms` does not tell: the words change with the length of a silence and with each restart of the audit. A window that a
        run holds and nobody has mentioned stays as long as the run.)
        """
        said = " AND ".join(
            f"NOT EXISTS (SELECT 1 FROM {table} WHERE {table}.topic = verdicts.topic"
            f" AND {table}.window_start_ms = verdicts.window_start_ms AND {table}.{column} > ?)"
            for table, column in (("found", "updated_ms"), ("sent", "heard_ms"))
        )
        said += (
            " AND EXISTS (SELECT 1 FROM windows WHERE windows.topic = verdicts.topic"
            " AND windows.window_start_ms = verdicts.window_start_ms)"
        )
        rows = self._database.rows(
            f"SELECT {_COLUMNS} FROM verdicts WHERE span_ms < 86400000 AND verdict IN ('OPEN', 'UNKNOWN') AND {said}"
            " ORDER BY topic, window_start_ms LIMIT ?",
            (before_ms, before_ms, limit),
        )
        return [restored(row) for row in rows]

    def day(self, topic: str, window_start_ms: int) -> Window | None:
        """Return the day of a window, where windows of it were added up."""
        rows = self._database.rows(
            f"SELECT {_COLUMNS} FROM verdicts WHERE topic = ? AND window_start_ms = ? AND span_ms = ?",
            (topic, window_start_ms // DAY_MS * DAY_MS, DAY_MS),
        )
        return restored(rows[0]) if rows else None

    def is_in_a_day(self, topic: str, window_start_ms: int) -> bool:
        """Return whether the window was added to its day."""
        day = self.day(topic, window_start_ms)
        return day is not None and window_start_ms - day["window_start_ms"] in day["offsets"]

    def add_to_day(self, window: Window, at_ms: int) -> None:
        """Add a window to its day and forget it by itself. One that is OPEN is UNKNOWN from now on: nothing waits any more."""
        final = window | {"verdict": "UNKNOWN"} if window["verdict"] == "OPEN" else window
        day = added(self.day(window["topic"], window["window_start_ms"]), final)
        self._database.put("verdicts", stored(day, at_ms))
        self.drop(window)

    def note_late(self, topic: str, window_start_ms: int, count: int, at_ms: int) -> None:
        """Note records of a window that came after it was added to its day: they are not compared any more."""
        day = self.day(topic, window_start_ms)
        if day is not None:
            self._database.put("verdicts", stored(day | {"late": day["late"] + count}, at_ms))

    def forget_days(self, before_ms: int) -> None:
        """Forget days to which nothing was added since `before_ms`."""
        self._database.delete_where("verdicts", "at_ms <= ? AND span_ms >= 86400000", (before_ms,))


def added(day: Window | None, window: Mapping[str, Any]) -> Window:
    """Return the day with one more window in it: counts, losses and differences add up, the worst verdict stands.

    `windows`: verdict → how many. `offsets`: where in the day the windows begin, in milliseconds. `unknown`: why a window was
    never decided → the offsets of those windows.
    """
    day_start_ms = window["window_start_ms"] // DAY_MS * DAY_MS
    offset = window["window_start_ms"] - day_start_ms
    sinks = in_a_day(window["sinks"])
    base = dict(window) | {"window_start_ms": day_start_ms, "window_end_ms": day_start_ms + DAY_MS, "sinks": sinks}
    if day is None:
        verdicts = {window["verdict"]: 1}
        unknown = _with_reason({}, window, offset)
        return base | {"windows": verdicts, "offsets": [offset], "unknown": unknown, "reason": _day_reason(verdicts, unknown)}
    unknown = _with_reason(day.get("unknown", {}), window, offset)
    verdicts = dict(Counter(day["windows"]) + Counter({window["verdict"]: 1}))
    sums = {
        name: day[name] + window[name]
        for name in ("missing", "doubled", "altered", "quarantined", "unaudited", "redelivered", "erased", "late")
    }
    if "compared_tiers" in day and "compared_tiers" in window:
        sums["compared_identities"] = day["compared_identities"] + window["compared_identities"]
        sums["compared_tiers"] = min(day["compared_tiers"], window["compared_tiers"])
    differences = {(one["tier"], one["partition"]): one for one in day["differences"]}
    for one in window["differences"]:
        key = one["tier"], one["partition"]
        differences[key] = _together(differences[key], one) if key in differences else one
    worst = max(day["verdict"], window["verdict"], key=SEVERITY.index)
    return base | sums | {
        "verdict": worst,
        "windows": verdicts,
        "offsets": sorted({*day["offsets"], offset}),
        "unknown": unknown,
        "reason": _day_reason(verdicts, unknown),
        "tiers": _summed(day["tiers"], window["tiers"]),
        "accounted": dict(Counter(day["accounted"]) + Counter(window["accounted"])),
        "losses": dict(Counter(day["losses"]) + Counter(window["losses"])),
        "silent": list(dict.fromkeys([*day["silent"], *window["silent"]]))[:MOST_RECORDS],
        "retired": list(dict.fromkeys([*day["retired"], *window["retired"]]))[:MOST_RECORDS],
        "first_bad_tier": day["first_bad_tier"] or window["first_bad_tier"],
        "differences": list(differences.values()),
        "sinks": together(day["sinks"], sinks),
    }  # fmt: skip


def _together(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    records = [*one["records"], *other["records"]]
    return {
        **one,
        **{name: one[name] + other[name] for name in ("missing", "doubled", "altered")},
        "records": records[:MOST_RECORDS],
        "more": one["more"] + other["more"] + sum(record["count"] for record in records[MOST_RECORDS:]),
    }


def _summed(one: Mapping[str, int | None], other: Mapping[str, int | None]) -> dict[str, int | None]:
    names = dict.fromkeys([*one, *other])
    known = {name: [count for count in (one.get(name), other.get(name)) if count is not None] for name in names}
    return {name: sum(counts) if counts else None for name, counts in known.items()}


def _with_reason(unknown: Mapping[str, list[int]], window: Mapping[str, Any], offset: int) -> dict[str, list[int]]:
    if window["verdict"] != "UNKNOWN":
        return dict(unknown)
    reason = window["reason"]
    return {**unknown, reason: sorted({*unknown.get(reason, ()), offset})}


def _day_reason(verdicts: Mapping[str, int], unknown: Mapping[str, list[int]]) -> str:
    words = f"{sum(verdicts.values())} windows of the day, added up"
    if unknown:
        reason, offsets = max(unknown.items(), key=lambda one: len(one[1]))
        more = f", and {len(unknown) - 1} more reasons" if len(unknown) > 1 else ""
        words += f"; never decided, {len(offsets)}: {reason}{more}"
    return words
