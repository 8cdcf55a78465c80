"""A store rebuilt from a base and increments is, table by table, the store that was lost, whichever checkpoint was damaged.

The tables are read by SQLite alone: nothing of the code that writes or applies checkpoints compares them.
"""

import json
import random
import re
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.service.checkpoints import chains, checkpointer
from headrace.audit.service.checkpoints.form import taken_apart
from headrace.audit.service.store.loading import load_runs
from headrace.audit.service.store.opening import database_at
from headrace.audit.service.store.tables import LISTS, TABLES
from tests.unit.audit.service.checkpoints.test_checkpointer import History, Story, shown, undisturbed

Dump = dict[str, list[tuple[Any, ...]]]


def dump(path: str) -> Dump:
    """Return every row of every table, but for the notes of what changed, and the store's own id."""
    with closing(sqlite3.connect(path)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        kept = [name for name in names if not name.startswith("changed_") and name != "made_checkpoints"]
        found = {name: sorted(db.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in kept}
    assert found.keys() == {*TABLES, *LISTS}
    found["facts"] = [row for row in found["facts"] if row[0] != "store_id"]
    return found


def checkpoint(story: Story) -> tuple[str, Dump] | None:
    """Write a checkpoint; return its name and what the store held then. None: nothing had changed."""
    held = len(story.topic.values)
    before = dump(str(story.service.store))
    story.checkpoint(None)
    if len(story.topic.values) == held:
        return None
    last = story.topic.values[-1]
    return taken_apart(last).checkpoint, before


def change(story: Story, chance: random.Random) -> None:
    match chance.randrange(5):
        case 0:
            story.read_on(chance.randrange(1, 3))
        case 1:
            story.service.hear()
            story.service.windows()
        case 2:
            story.service.ledger.books.note(lambda notes: notes.note_malformed(0, chance.randrange(99), "noise", 1))
        case _:
            story.hear(chance.randrange(1, 4))


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=40)
def test_every_table_of_a_rebuilt_store_is_that_of_the_lost_one(seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="headrace-increments-") as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "GROWTH", chance.choice((1, 1_000)))
        history = History(chance, chance.randrange(4, 12))
        story = Story(Path(name), history)
        held: dict[str, Dump] = {}
        for _ in range(chance.randrange(5, 30)):
            change(story, chance)
            match chance.choice(["checkpoint", "checkpoint", "killed", "roll up", "recount", "lose", "nothing"]):
                case "checkpoint":
                    made = checkpoint(story)
                    held |= dict([made] if made else [])
                case "killed":
                    before = dump(str(story.service.store))
                    known = len(story.topic.values)
                    story.checkpoint(chance.randrange(6))
                    held |= {taken_apart(value).checkpoint: before for value in story.topic.values[known:]}
                case "roll up":
                    story.service.clock.advance(4 * 86_400_000)
                    story.service.judge.roll_up()
                case "recount":
                    story.service.ledger.logs.recount("live", "clicks", {})
                case "lose" if len(story.checkpointer._seen(None)) > 0:
                    newest = list(chains.plans(story.checkpointer._seen(None)))[-1]
                    assert story.lose_store()
                    assert dump(str(story.service.store)) == held[newest]
        story.close()


def a_chain(
    folder: Path, patch: pytest.MonkeyPatch, length: int = 6, most: int | None = None
) -> tuple[Story, list[tuple[str, Dump]]]:
    """Return a story of two bases with increments behind each, and what each of its checkpoints held."""
    patch.setattr(chains, "GROWTH", 1_000)
    patch.setattr(chains, "MOST_INCREMENTS", most or length // 2)
    story = Story(folder, History(random.Random(7), length + 2))
    made = []
    for number in range(length):
        story.hear(2)
        # Changes once, so that it is in this period's changes alone.
        story.service.ledger.books.note(lambda notes, number=number: notes.note_malformed(0, number, "noise", 1))  # type: ignore[misc]
        story.read_on(1)
        story.service.hear()
        story.service.windows()
        one = checkpoint(story)
        assert one is not None
        made.append(one)
    return story, made


def kinds(story: Story) -> str:
    """Return B for a base and i for an increment, of what the topic holds."""
    values = [taken_apart(value) for _, value in story.topic.read()]
    return "".join("i" if one.header["after"] else "B" for one in values if one.kind == "begin")


def test_bases_and_increments_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story, _ = a_chain(tmp_path, monkeypatch, length=10)
    # Of BBiiiiiBii the first base is no more needed.
    assert kinds(story) == "BiiiiiBii"
    story.close()


@pytest.mark.situation(
    "audit's own data",
    "the store is lost and a checkpoint message is damaged",
    shown="the same verdicts, from the newest whole checkpoint",
    when="seconds after the restart",
    do="nothing",
)
@pytest.mark.parametrize(("length", "most", "expected_kinds"), [(6, 6, "BBiiii"), (6, 3, "BiiiB"), (7, 3, "BiiiBi")])
def test_whichever_message_is_damaged_a_store_is_rebuilt_as_it_was_at_the_newest_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int, most: int, expected_kinds: str
) -> None:
    story, made = a_chain(tmp_path, monkeypatch, length, most)
    assert kinds(story) == expected_kinds
    held = dict(made)
    names = [name for name, _ in made]
    whole = dict(story.topic.read())
    tried = set()
    for offset, value in whole.items():
        assert value is not None
        hit = taken_apart(value).checkpoint
        tried.add(hit)
        for damaged in (None, value[:-1], value[:20] + bytes([value[20] ^ 1]) + value[21:]):
            story.topic.values[offset] = damaged
            assert story.lose_store(), f"with message {offset} damaged"
            # A base in the place of another: what was damaged is nobody's only way.
            expected = names[-2] if hit == names[-1] else names[-1]
            assert dump(str(story.service.store)) == held[expected], f"with message {offset} damaged"
            story.topic.values[offset] = value
    assert len(tried) == len(expected_kinds)
    story.close()


def test_a_kill_at_any_message_of_an_increment_leaves_the_checkpoints_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lives in range(3):
        story, made = a_chain(tmp_path / str(lives), monkeypatch, length=5)
        story.hear(2)
        story.checkpoint(lives)  # begin, rows, end: killed before the last
        assert story.lose_store()
        assert dump(str(story.service.store)) == made[-1][1]
        story.close()


def test_with_two_neighbours_damaged_it_is_told_and_nothing_unproven_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    story, made = a_chain(tmp_path, monkeypatch)
    complete = {one["window_start_ms"] for one in undisturbed(tmp_path, story.history)[0] if one["verdict"] == "COMPLETE"}
    hit = {made[-1][0], made[-2][0]}
    for offset, value in list(story.topic.read()):
        if value is not None and taken_apart(value).checkpoint in hit and taken_apart(value).kind == "end":
            story.topic.values[offset] = None
    assert story.topic.audit_start[0] > 0
    assert story.lose_store() is False, "the audit topic does not reach back to the checkpoints that are whole"
    assert "checkpoint_skipped" in caplog.text
    assert "checkpoint_not_usable" in caplog.text
    start = story.topic.audit_start[0]
    rest = story.history.audit[start:]
    assert story.service.ledger.take_reports(rest, {}, {0: start + len(rest)})
    story.service.hear()
    assert not {one["window_start_ms"] for one in shown(story.service) if one["verdict"] == "COMPLETE"} - complete
    story.close()


def test_an_increment_whose_checkpoints_are_gone_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    story, _ = a_chain(tmp_path, monkeypatch)
    bases = {taken_apart(value).checkpoint for _, value in story.topic.read() if not taken_apart(value).header.get("after", 1)}
    for offset, value in list(story.topic.read()):
        if taken_apart(value).checkpoint in bases:
            story.topic.values[offset] = None
    assert story.lose_store() is False
    assert any("gone or not whole" in getattr(record, "fields", {}).get("reason", "") for record in caplog.records)
    story.close()


def test_the_topic_holds_at_most_two_bases_and_what_they_allow_behind_them(tmp_path: Path) -> None:
    """Reaches the bound: 150 checkpoints of a store that changes a little each time."""
    story = Story(tmp_path, History(random.Random(5), 12))
    story.hear(12)
    most = 0
    for number in range(150):
        story.service.ledger.books.note(lambda notes, number=number: notes.note_malformed(0, number, "x" * 40, number))  # type: ignore[misc]
        story.checkpointer._written_mark = None
        assert story.checkpointer.write()
        whole = story.checkpointer._seen(None)
        largest = max(one.payload_bytes for one in whole if one.is_base)
        each = max(one.payload_bytes for one in whole)
        assert sum(one.is_base for one in whole) <= chains.KEPT
        assert sum(one.payload_bytes for one in whole) <= chains.KEPT * ((1 + chains.GROWTH) * largest + each)
        assert all(len(plan) <= 1 + chains.MOST_INCREMENTS for plan in chains.plans(whole).values())
        most = max(most, len(whole))
    assert most > 4, "increments were written"
    story.close()


def test_what_a_transaction_took_back_and_a_later_one_wrote_is_in_the_increment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story, _ = a_chain(tmp_path, monkeypatch, length=5)
    database = story.service.database

    def fail() -> None:
        with database.transaction():
            database.put("topics", ("other", "1"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with database.transaction():
        database.put("topics", ("other", "2"))
    story.hear(1)
    assert checkpoint(story) is not None
    assert kinds(story).endswith("i")
    held = dump(str(story.service.store))
    assert ("other", "2") in held["topics"]
    assert story.lose_store()
    assert dump(str(story.service.store)) == held
    story.close()


def test_a_store_of_the_layout_before_is_added_to_and_begins_with_a_base(tmp_path: Path) -> None:
    story = Story(tmp_path, History(random.Random(3), 4))
    story.hear(4)
    story.service.database.close()
    with closing(sqlite3.connect(str(story.service.store))) as db:
        own = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE name LIKE 'changed_%'")]
        for name in (*own, "made_checkpoints"):
            db.execute(f"DROP TABLE {name}")
        db.execute("UPDATE facts SET value = '3' WHERE name = 'layout'")
        db.commit()
    story.service.begin()
    story.begin()
    assert story.heard == 4
    assert checkpoint(story) is not None
    assert kinds(story) == "B"
    held = dump(str(story.service.store))
    assert story.lose_store()
    assert dump(str(story.service.store)) == held
    story.close()


def test_a_store_whose_runs_lack_later_fields_are_taken_on(tmp_path: Path) -> None:
    story = Story(tmp_path, History(random.Random(3), 4))
    story.hear(4)
    story.service.database.close()
    with closing(sqlite3.connect(str(story.service.store))) as db:
        for instance, epoch, text in db.execute("SELECT instance, epoch, words FROM runs").fetchall():
            words = {name: value for name, value in json.loads(text).items() if name not in ("holds", "unsettled")}
            db.execute("UPDATE runs SET words = ? WHERE instance = ? AND epoch = ?", (json.dumps(words), instance, epoch))
        db.execute("UPDATE facts SET value = '4' WHERE name = 'layout'")
        db.commit()
        count = len(db.execute("SELECT instance FROM runs").fetchall())
    assert count
    story.service.begin()
    story.begin()
    assert story.heard == 4
    assert [run.holds for run in load_runs(story.service.database)] == [None] * count
    story.close()


def test_a_checkpoint_of_the_layout_before_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(tmp_path, History(random.Random(3), 4))
    story.hear(4)
    held = dump(str(story.service.store))
    monkeypatch.setattr(checkpointer, "LAYOUT", 4)
    with story.service.database.transaction():
        story.service.database.put_fact("layout", 4)
    assert checkpoint(story) is not None
    monkeypatch.undo()
    assert story.lose_store()
    assert dump(str(story.service.store)) == held
    story.close()


def test_rows_are_written_in_one_place_so_that_no_change_goes_unnoted() -> None:
    """A change without a note is in no increment."""
    folder = Path(database_at.__code__.co_filename).parents[1]
    writes = re.compile(r"\b(INSERT INTO|DELETE FROM|UPDATE \w+ SET|REPLACE INTO|TRUNCATE)\b")
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*.py") if writes.search(path.read_text())}
    found.remove("origins/stored_batches.py")  # a private database, read again from the mirror's ledger
    assert found == {"store/database.py", "store/tables.py", "store/changes.py", "checkpoints/rows.py"}
