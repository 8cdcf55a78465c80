"""The scrub reads within its rate, asks a broker that does not answer once a round, and begins again after its interval."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from headrace.broker.errors import PeerSilent
from headrace.broker.log import BadRange
from headrace.broker.replicas import scrub as module
from headrace.broker.replicas import scrub_messages
from headrace.broker.replicas.damage_book import DamageBook
from headrace.broker.replicas.scrub import Scrub, ScrubSettings
from headrace.broker.replicas.scrub_messages import Kind, State
from tests.support.small_logs import twelve_batches

KEY = (UUID(int=5), 0)
OWN, SECOND, THIRD = 1, 2, 3
INTERVAL_MS, RATE = 60_000, 100_000


class Scene:
    """Broker 1 leads one partition with several closed segments; the others have the same bytes."""

    def __init__(self, folder: Path) -> None:
        self.log = twelve_batches(folder / "events-0", segment_bytes=300)
        self.due: list[tuple[int, Callable[[], None]]] = []
        self.asked: list[tuple[int, Kind, int, int]] = []
        self.silent: set[int] = set()
        self.found: list[tuple[BadRange, ...]] = []
        self.has_room = True
        node = SimpleNamespace(copies=(OWN, SECOND, THIRD), replicas=(OWN, SECOND, THIRD), leader_epoch=7)
        self.driver: Any = SimpleNamespace(
            key=KEY,
            topic="events",
            index=0,
            leads=True,
            is_gone=False,
            node=node,
            log=self.log,
            comparable_log=self.log,
            machine=SimpleNamespace(high_watermark=self.log.log_end_offset),
        )
        self.loop: Any = SimpleNamespace(now_ms=0, call_at=lambda at_ms, call: self.due.append((at_ms, call)))
        replicas: Any = SimpleNamespace(
            broker_id=OWN,
            wall_ms=1_000,
            drivers=lambda: [self.driver],
            find=lambda key: self.driver,
            behind_upkeep=self.run,
        )
        self.book = DamageBook()
        settings = ScrubSettings(interval_ms=INTERVAL_MS, bytes_per_second=RATE)
        peers: Any = SimpleNamespace(ask=self.ask)
        self.scrub = Scrub(self.loop, replicas, peers, self.book, settings, lambda _, wrong: self.found.append(wrong))
        self.scrub.start()

    def run(self, job: Any, done: Any, failed: Any) -> bool:
        if self.has_room:
            done(job())
        return self.has_room

    def ask(self, broker_id: int, key: int, body: bytes, answered: Any, failed: Any, **limits: Any) -> None:
        asked = scrub_messages.decode_compare(memoryview(body))
        self.asked.append((broker_id, asked.kind, asked.from_offset, asked.to_offset))
        if broker_id in self.silent:
            failed(PeerSilent(broker_id, "it is frozen"))
        else:
            answered(scrub_messages.encode_state(State.SAME))

    def until(self, rounds: int) -> None:
        while self.book.rounds < rounds:
            assert len(self.due) == 1
            at_ms, call = self.due.pop()
            self.loop.now_ms = at_ms
            call()


def test_a_round_compares_every_closed_segment_with_each_follower_within_the_rate(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.until(1)
    closed_to = scene.log.segments[-1].base_offset
    for broker_id in (SECOND, THIRD):
        spans = [(begin, end) for one, _, begin, end in scene.asked if one == broker_id]
        assert [begin for begin, _ in spans] == [0, *(end for _, end in spans[:-1])]
        assert spans[-1][1] == closed_to
    assert scene.book.compared_bytes == closed_to
    began_ms = min(INTERVAL_MS, module.FIRST_ROUND_MS)
    assert scene.loop.now_ms - began_ms >= closed_to * 1_000 // RATE - len(scene.asked)
    ((again_ms, _),) = scene.due
    assert again_ms == began_ms + INTERVAL_MS


def test_a_broker_that_does_not_answer_is_asked_once_a_round(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.silent = {THIRD}
    scene.until(1)
    assert len([one for one in scene.asked if one[0] == THIRD]) == 1
    assert len([one for one in scene.asked if one[0] == SECOND]) > 2
    scene.until(2)
    assert len([one for one in scene.asked if one[0] == THIRD]) == 2


def test_own_damage_is_found_and_a_range_waits_while_the_worker_has_no_room(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.log.comparison.note_bad(bad := BadRange(0, 40, "flipped"))
    scene.has_room = False
    for _ in range(3):
        ((at_ms, call),) = scene.due
        scene.due.clear()
        scene.loop.now_ms = at_ms
        call()
    assert (scene.found, scene.book.compared_bytes) == ([], 0)
    scene.has_room = True
    scene.until(1)
    assert scene.found == [(bad,)]


def test_nothing_is_compared_where_this_broker_leads_no_more(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.driver.leads = False
    scene.until(2)
    assert scene.asked == []
