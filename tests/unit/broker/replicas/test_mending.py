"""A damaged replica asks one member after the other, waits where none can help, and a damaged leader first asks for a new one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from headrace.broker.errors import PeerSilent
from headrace.broker.log import BadRange
from headrace.broker.replicas import mending as module
from headrace.broker.replicas import scrub_messages
from headrace.broker.replicas.damage_book import DamageBook
from headrace.broker.replicas.mending import Mending
from headrace.broker.replicas.scrub_messages import COMPARE_KEY, READ_KEY, Compare, Kind, Read, State
from tests.support.small_logs import NOW_MS, fetched, twelve_batches

KEY = (UUID(int=5), 0)
OWN, LEADER, OTHER = 1, 2, 3


class Scene:
    """Broker 1 with one damaged replica; peers answer what `answers` says, by broker."""

    def __init__(self, folder: Path, *, leads: bool = False) -> None:
        self.log = twelve_batches(folder / "events-0", segment_bytes=10_000)
        self.made = fetched(self.log)
        self.bad = BadRange(self.made[4][0].position, self.made[5][0].position, "flipped")
        self.asked: list[tuple[int, int]] = []
        self.bodies: list[bytes] = []
        self.answers: dict[int, bytes | Exception] = {}
        self.heirs = [LEADER, OTHER]
        self.has_room = True
        members = tuple(SimpleNamespace(broker_id=one) for one in (OWN, LEADER, OTHER))
        self.driver: Any = SimpleNamespace(
            key=KEY,
            topic="events",
            index=0,
            leads=leads,
            node=SimpleNamespace(members=members, leader=OWN if leads else LEADER, leader_epoch=7),
            comparable_log=self.log,
            is_damaged=False,
            is_log=lambda log: log is self.log,
            undamaged_members=lambda: self.heirs,
            damage_noted=lambda: setattr(self.driver, "is_damaged", True),
            damage_repaired=lambda: setattr(self.driver, "is_damaged", bool(self.log.bad_ranges)),
            machine=SimpleNamespace(high_watermark=self.log.log_end_offset),
        )
        self.loop: Any = SimpleNamespace(now_ms=0, call_at=lambda at_ms, call: None)
        replicas: Any = SimpleNamespace(
            broker_id=OWN,
            wall_ms=1_000,
            drivers=lambda: [self.driver],
            find=lambda key: self.driver if key == KEY else None,
            behind_upkeep=self.run,
            take_over=lambda key, leader_epoch: True,
        )
        peers: Any = SimpleNamespace(ask=self.ask)
        self.book = DamageBook()
        self.mending = Mending(self.loop, replicas, peers, self.book)

    def run(self, job: Any, done: Any, failed: Any) -> bool:
        if self.has_room:
            try:
                made = job()
            except OSError as error:
                failed(error)
            else:
                done(made)
        return self.has_room

    def ask(self, broker_id: int, key: int, body: bytes, answered: Any, failed: Any, **limits: Any) -> None:
        self.asked.append((broker_id, key))
        self.bodies.append(body)
        answer = self.answers.get(broker_id, b"")
        if isinstance(answer, Exception):
            failed(answer)
        else:
            answered(answer)

    def look(self, at_ms: int) -> None:
        self.loop.now_ms = at_ms
        self.mending._look()


def test_a_replica_asks_its_leader_first_and_then_the_other_members(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.answers = {LEADER: PeerSilent(LEADER, "it is frozen"), OTHER: scene.made[4][1]}
    scene.mending.found(scene.driver, (scene.bad,))
    assert [(one.from_offset, one.to_offset) for one in scene.book.damages()] == [scene.bad[:2]]
    scene.look(250)
    assert scene.asked == [(LEADER, READ_KEY), (OTHER, READ_KEY)]
    assert fetched(scene.log) == scene.made
    assert [(one.from_offset, one.record_count) for one in scene.book.repairs] == [
        (scene.bad.from_offset, scene.made[4][0].record_count)
    ]
    scene.look(500)
    assert scene.book.damages() == []


def test_damage_in_which_the_log_begins_is_asked_for_from_there_and_repaired(tmp_path: Path) -> None:
    """Seed 23 of the whole simulation: after DeleteRecords, no member had the range from its begin on."""
    scene = Scene(tmp_path)
    scene.answers = {LEADER: scene.made[5][1]}
    bad = scene.bad._replace(to_offset=scene.made[6][0].position)
    scene.mending.found(scene.driver, (bad,))
    start = scene.made[5][0].position + 1
    scene.log.advance_start(start, NOW_MS)
    scene.look(250)
    assert scrub_messages.decode_read(memoryview(scene.bodies[0])) == Read(KEY, start, bad.to_offset)
    assert scene.log.bad_ranges == []
    assert fetched(scene.log) == scene.made[5:]


@pytest.mark.parametrize("answer", [b"", b"no batch at all", PeerSilent(LEADER, "it is frozen"), None])
def test_where_no_member_can_help_it_waits_before_it_asks_again(tmp_path: Path, answer: bytes | Exception | None) -> None:
    scene = Scene(tmp_path)
    wrong = scene.made[5][1] if answer is None else answer
    scene.answers = {LEADER: wrong, OTHER: wrong}
    scene.mending.found(scene.driver, (scene.bad,))
    scene.look(250)
    scene.look(500)
    assert len(scene.asked) == 2
    assert [bad[:2] for bad in scene.log.bad_ranges] == [scene.bad[:2]]
    scene.look(250 + module.PAUSE_MS)
    assert len(scene.asked) == 4


def test_a_repair_for_which_the_worker_has_no_room_is_tried_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.answers = {LEADER: scene.made[4][1], OTHER: scene.made[4][1]}
    scene.has_room = False
    scene.mending.found(scene.driver, (scene.bad,))
    scene.look(250)
    assert scene.log.bad_ranges
    scene.has_room = True
    scene.look(250 + module.PAUSE_MS)
    assert scene.log.bad_ranges == []


def test_a_damaged_leader_asks_for_another_one_and_repairs_when_it_leads_no_more(tmp_path: Path) -> None:
    scene = Scene(tmp_path, leads=True)
    scene.answers = {LEADER: scene.made[4][1], OTHER: scene.made[4][1]}
    scene.mending.found(scene.driver, (scene.bad,))
    for at_ms in (0, 250, 500, module.ASK_AGAIN_MS):
        scene.look(at_ms)
    assert scene.asked == [(LEADER, COMPARE_KEY), (OTHER, COMPARE_KEY)]
    assert scene.log.bad_ranges
    scene.driver.leads = False
    scene.look(1_250)
    assert scene.log.bad_ranges == []


@pytest.mark.parametrize("heirs", [[], [LEADER]])
def test_a_damaged_leader_without_another_one_repairs_while_it_leads(tmp_path: Path, heirs: list[int]) -> None:
    scene = Scene(tmp_path, leads=True)
    scene.heirs = heirs
    scene.answers = {LEADER: scene.made[4][1]}
    scene.mending.found(scene.driver, (scene.bad,))
    scene.look(0)
    assert bool(scene.log.bad_ranges) == bool(heirs)
    scene.look(module.LEAD_MS)
    assert scene.log.bad_ranges == []


def test_a_replica_answers_only_its_own_leader_and_leads_only_without_damage(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    def asked(kind: Kind, epoch: int = 7) -> bytes:
        one = Compare(kind, KEY, epoch, *scene.bad[:2], reason="differs")
        answer = scene.mending.compare(memoryview(scrub_messages.encode_compare(one)))
        assert isinstance(answer, bytes)
        return answer

    not_here, same = scrub_messages.encode_state(State.NOT_HERE), scrub_messages.encode_state(State.SAME)
    assert asked(Kind.LEAD, epoch=6) == not_here
    assert asked(Kind.LEAD) == same
    assert asked(Kind.DAMAGED, epoch=6) == not_here
    assert scene.log.bad_ranges == []
    assert asked(Kind.DAMAGED) == same
    assert [bad[:2] for bad in scene.log.bad_ranges] == [scene.bad[:2]]
    assert asked(Kind.LEAD) == not_here


def test_a_digest_that_is_older_than_a_repair_does_not_damage_the_range_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.answers = {LEADER: scene.made[4][1]}
    scene.mending.found(scene.driver, (scene.bad,))
    scene.look(250)
    scene.mending.found(scene.driver, (scene.bad,))
    assert scene.log.bad_ranges == []
    later = BadRange(scene.made[7][0].position, scene.made[8][0].position, "flipped")
    scene.mending.found(scene.driver, (later,))
    assert scene.log.bad_ranges == [later]
