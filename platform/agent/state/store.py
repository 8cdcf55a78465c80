"""The state's rows, written and read. Nothing is decided here, and nothing is on disk before `commit`."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from ...client.producer.delivery import BatchNumbers
from ..plan.entries import ChunkPlan
from ..source import AuditRun, Position
from .database import Database
from .rows import BatchRow, ChunkRow, EndRow, ReportRow, RunRow, SourceRow

_Numbers = tuple[BatchNumbers, ...]


class Store:
    """One agent's state, for one thread."""

    def __init__(self, folder: Path) -> None:
        """Raises StateRefused."""
        self._db = Database(folder)
        self.path = self._db.path
        self._next = {
            table: self._db.rows(f"SELECT coalesce(max(id), 0) + 1 FROM {table}")[0][0]
            for table in ("runs", "sources", "chunks", "batches", "reports")
        }

    def commit(self) -> None:
        """Return when everything written is on disk."""
        self._db.commit()

    def close(self) -> None:
        self._db.close()

    def next_id(self, table: str) -> int:
        """Return an id that no row of the table has; ids rise, and none is used for another row while this store is open."""
        found: int = self._next[table]
        self._next[table] = found + 1
        return found

    # -- one value -------------------------------------------------------------------------------------------------------

    def meta(self, name: str) -> str | None:
        rows = self._db.rows("SELECT value FROM meta WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def topics(self) -> set[str]:
        """Return every topic that is enrolled."""
        return {topic for (topic,) in self._db.rows("SELECT topic FROM topics")}

    def add_topic(self, topic: str) -> None:
        self._db.execute("INSERT OR IGNORE INTO topics VALUES (?)", (topic,))

    def add_total(self, name: str, count: int) -> None:
        """Add to a number that only `status` reads."""
        self._db.execute(
            "INSERT INTO totals VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET count = count + excluded.count", (name, count)
        )

    def totals(self) -> dict[str, int]:
        return dict(self._db.rows("SELECT name, count FROM totals"))

    # -- runs and producers ----------------------------------------------------------------------------------------------

    def runs(self) -> list[RunRow]:
        ids: dict[int, list[tuple[int, int]]] = {}
        for owner, producer_id, epoch in self._db.rows(
            "SELECT owner, producer_id, producer_epoch FROM producer_ids ORDER BY number"
        ):
            ids.setdefault(owner, []).append((producer_id, epoch))
        return [
            RunRow(
                id=row[0],
                epoch=row[1],
                facts=_run_of(row[2]),
                topics=tuple(json.loads(row[3])),
                next_sequence=row[4],
                moved_past_ms=row[5],
                announced_ids=row[6],
                is_closing=bool(row[7]),
                producer_ids=tuple(ids.get(row[0], ())),
            )
            for row in self._db.rows(
                "SELECT id, epoch, facts, topics, next_sequence, moved_past_ms, announced_ids, is_closing FROM runs ORDER BY id"
            )
        ]

    def put_run(self, run: RunRow) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO runs (id, instance, epoch, facts, topics, next_sequence, moved_past_ms, announced_ids, "
            "is_closing) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                run.id,
                run.facts.instance,
                run.epoch,
                json.dumps(asdict(run.facts)),
                json.dumps(run.topics),
                run.next_sequence,
                run.moved_past_ms,
                run.announced_ids,
                run.is_closing,
            ),
        )

    def delete_run(self, run_id: int) -> None:
        """Forget a run and its sources: the audit has acknowledged its last report."""
        self._db.execute("DELETE FROM seen_losses WHERE source_id IN (SELECT id FROM sources WHERE run_id = ?)", (run_id,))
        for table, column in (
            ("sources", "run_id"), ("losses", "run_id"), ("ends", "run_id"), ("reports", "run_id"), ("runs", "id"),
            ("producer_ids", "owner"), ("sequences", "owner"),
        ):  # fmt: skip
            self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", (run_id,))

    def producer_ids(self, owner: int) -> list[tuple[int, int]]:
        """Return every (producer id, epoch) of an owner, the current one last."""
        words = "SELECT producer_id, producer_epoch FROM producer_ids WHERE owner = ? ORDER BY number"
        return self._db.rows(words, (owner,))

    def add_producer_id(self, owner: int, producer_id: int, producer_epoch: int) -> None:
        words = "INSERT INTO producer_ids (owner, producer_id, producer_epoch) VALUES (?, ?, ?)"
        self._db.execute(words, (owner, producer_id, producer_epoch))

    def sequences(self) -> dict[tuple[int, str, int], tuple[int, int, int]]:
        """Return (owner, topic, partition) → (producer id, epoch, the next batch's sequence)."""
        return {(row[0], row[1], row[2]): (row[3], row[4], row[5]) for row in self._db.rows("SELECT * FROM sequences")}

    def put_sequence(self, owner: int, topic: str, partition: int, numbers: tuple[int, int, int]) -> None:
        self._db.execute("INSERT OR REPLACE INTO sequences VALUES (?, ?, ?, ?, ?, ?)", (owner, topic, partition, *numbers))

    # -- sources, chunks, batches ----------------------------------------------------------------------------------------

    def sources(self) -> list[SourceRow]:
        return [
            SourceRow(id=row[0], name=row[1], run_id=row[2], settled=Position(row[3]), planned=Position(row[4]))
            for row in self._db.rows("SELECT id, name, run_id, settled, planned FROM sources")
        ]

    def put_source(self, source: SourceRow) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO sources VALUES (?, ?, ?, ?, ?)",
            (source.id, source.name, source.run_id, source.settled, source.planned),
        )

    def delete_source(self, source_id: int) -> None:
        self._db.execute("DELETE FROM seen_losses WHERE source_id = ?", (source_id,))
        self._db.execute("DELETE FROM sources WHERE id = ?", (source_id,))

    def seen_losses(self, source_id: int) -> dict[tuple[int, str], int]:
        """Return the totals of a source's own losses that are in the losses of its run."""
        words = "SELECT window_start_ms, name, count FROM seen_losses WHERE source_id = ?"
        return {(row[0], row[1]): row[2] for row in self._db.rows(words, (source_id,))}

    def put_seen_loss(self, source_id: int, window_start_ms: int, name: str, count: int) -> None:
        self._db.execute("INSERT OR REPLACE INTO seen_losses VALUES (?, ?, ?, ?)", (source_id, window_start_ms, name, count))

    def chunks(self) -> list[ChunkRow]:
        """Return every chunk with batches that are not settled, oldest first; of each, its batches in order."""
        columns = "c.id, c.source_id, s.name, c.start, c.end, c.topic, c.schema_id, c.refusal, c.planned_ms, s.run_id"
        found = {
            row[0]: ChunkRow(
                id=row[0],
                source_id=row[1],
                run_id=row[9],
                plan=ChunkPlan(
                    source=row[2],
                    start=Position(row[3]),
                    end=Position(row[4]),
                    topic=row[5],
                    schema_id=row[6],
                    refusal=row[7],
                    planned_ms=row[8],
                ),
            )
            for row in self._db.rows(f"SELECT {columns} FROM chunks c JOIN sources s ON s.id = c.source_id ORDER BY c.id")
        }
        for row in self._db.rows("SELECT * FROM batches ORDER BY id"):
            found[row[1]].batches.append(_batch_of(row))
        return list(found.values())

    def put_chunk(self, chunk: ChunkRow) -> None:
        plan = chunk.plan
        self._db.execute(
            "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (chunk.id, chunk.source_id, plan.start, plan.end, plan.topic, plan.schema_id, plan.refusal, plan.planned_ms),
        )

    def delete_chunk(self, chunk_id: int) -> None:
        self._db.execute("DELETE FROM chunks WHERE id = ?", (chunk_id,))

    def put_batch(self, batch: BatchRow) -> None:
        producer_id, epoch, sequence, crc = batch.numbers
        self._db.execute(
            "INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                batch.id, batch.chunk_id, batch.owner, batch.topic, batch.partition, batch.kind, batch.window_start_ms,
                producer_id, epoch, sequence, crc, batch.record_count, batch.picks, batch.search_from,
                batch.planned_ms, json.dumps(batch.earlier),
            ),
        )  # fmt: skip

    def delete_batch(self, batch_id: int) -> None:
        self._db.execute("DELETE FROM batches WHERE id = ?", (batch_id,))

    # -- what is to be reported ------------------------------------------------------------------------------------------

    def ends(self) -> list[EndRow]:
        return [
            EndRow(
                run_id=row[0],
                topic=row[1],
                window_start_ms=row[2],
                partition=row[3],
                numbers=_numbers_of(row[4]),
                record_count=row[5],
                is_acknowledged=bool(row[6]),
            )
            for row in self._db.rows(
                "SELECT run_id, topic, window_start_ms, partition, numbers, record_count, is_acknowledged FROM ends ORDER BY id"
            )
        ]

    def add_end(self, end: EndRow) -> None:
        self._db.execute(
            "INSERT INTO ends (run_id, topic, window_start_ms, partition, numbers, record_count, is_acknowledged) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                end.run_id, end.topic, end.window_start_ms, end.partition, json.dumps(end.numbers), end.record_count,
                end.is_acknowledged,
            ),
        )  # fmt: skip

    def delete_ends(self, run_id: int) -> None:
        self._db.execute("DELETE FROM ends WHERE run_id = ?", (run_id,))

    def losses(self) -> list[tuple[int, str, int, str, int]]:
        """Return (run id, topic, window start, name, records) of every loss, totals of each run."""
        return self._db.rows("SELECT run_id, topic, window_start_ms, name, count FROM losses")

    def add_loss(self, run_id: int, topic: str, window_start_ms: int, name: str, count: int) -> None:
        self._db.execute(
            "INSERT INTO losses VALUES (?, ?, ?, ?, ?) ON CONFLICT (run_id, topic, window_start_ms, name) "
            "DO UPDATE SET count = count + excluded.count",
            (run_id, topic, window_start_ms, name, count),
        )

    def reports(self) -> list[ReportRow]:
        return [
            ReportRow(id=row[0], run_id=row[1], body=row[2], announces=row[3], topics=row[4])
            for row in self._db.rows("SELECT id, run_id, body, announces, topics FROM reports ORDER BY id")
        ]

    def add_report(self, report: ReportRow) -> None:
        values = (report.id, report.run_id, report.body, report.announces, report.topics)
        self._db.execute("INSERT INTO reports VALUES (?, ?, ?, ?, ?)", values)

    def delete_reports(self, ids: Iterable[int]) -> None:
        for one in ids:
            self._db.execute("DELETE FROM reports WHERE id = ?", (one,))


def _batch_of(row: tuple) -> BatchRow:  # type: ignore[type-arg]
    return BatchRow(
        id=row[0],
        chunk_id=row[1],
        owner=row[2],
        topic=row[3],
        partition=row[4],
        kind=row[5],
        window_start_ms=row[6],
        numbers=BatchNumbers(row[7], row[8], row[9], row[10]),
        record_count=row[11],
        picks=row[12],
        search_from=row[13],
        planned_ms=row[14],
        earlier=_numbers_of(row[15]),
    )


def _numbers_of(text: str) -> _Numbers:
    return tuple(BatchNumbers(*one) for one in json.loads(text))


def _run_of(text: str) -> AuditRun:
    words = json.loads(text)
    between = words["only_between_ms"]
    return AuditRun(**{**words, "only_between_ms": None if between is None else (between[0], between[1])})
