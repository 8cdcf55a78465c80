"""The sequence of orders: what must be durable stands before what depends on it, because a process may die between two."""

from dataclasses import replace

from headrace.broker.replication.events import AnswerReceived, FetchReceived, LogChanged, NodeRead, Produce, SwapAnswered, Tick
from headrace.broker.replication.facts import BatchFacts, FetchAnswer, LogFacts, Progress, ReplicaFetch
from headrace.broker.replication.lives import Lives
from headrace.broker.replication.model import step
from headrace.broker.replication.orders import (
    AdvanceStart,
    Append,
    AppendCopied,
    AskSwap,
    BeginEmpty,
    BeginEpoch,
    Cut,
    Note,
    Order,
    Refuse,
)
from headrace.broker.replication.replica import Following, Leading, Replica, TakingOver
from headrace.broker.replication.state import EpochStart, Member, State
from headrace.broker.replication.swaps import Answer, Swap

FIRST = (EpochStart(leader_epoch=1, start_offset=0),)
MEMBERS = (Member(broker_id=1, life="memory:1"), Member(broker_id=2, life="memory:2"))
NODE = State(leader=1, start_number=1, leader_epoch=1, members=MEMBERS, epochs=FIRST, replicas=(1, 2), version=5)


def replica(end: int = 40) -> Replica:
    log = LogFacts(end_offset=end, flushed_offset=end, epochs=FIRST, last_crc=7)
    return Replica(topic_id="t", broker_id=2, start_number=3, lives=Lives(memory="memory:2", disk="disk:2"), log=log)


def names(orders: list[Order]) -> list[str]:
    return [type(order).__name__ for order in orders]


def test_a_node_is_noted_before_it_is_obeyed() -> None:
    _, orders = step(replica(), NodeRead(state=NODE, is_synced=True))
    assert names(list(orders)) == ["Note", "CloseConnections", "SendFetch"]


def test_nothing_is_fetched_before_the_cut_is_done() -> None:
    later = replace(NODE, leader_epoch=2, epochs=(*FIRST, EpochStart(leader_epoch=2, start_offset=30)), version=6)
    following, orders = step(replica(), NodeRead(state=later, is_synced=True))
    assert names(list(orders)) == ["Note", "CloseConnections", "Cut"]
    assert Cut(to_offset=30) in orders
    cut = replace(following.log, end_offset=30, flushed_offset=30, incarnation=1)
    _, orders = step(following, LogChanged(log=cut))
    assert names(list(orders)) == ["SendFetch"]


def test_an_epoch_is_durable_before_its_first_batch() -> None:
    later = replace(NODE, leader_epoch=2, epochs=(*FIRST, EpochStart(leader_epoch=2, start_offset=40)), version=6)
    following, _ = step(replica(), NodeRead(state=later, is_synced=True))
    assert isinstance(following.role, Following)
    answer = FetchAnswer(
        topic_id="t",
        leader=1,
        leader_epoch=2,
        fetch_offset=40,
        batches=(BatchFacts(position=40, next_offset=50, crc=1), BatchFacts(position=50, next_offset=60, crc=2)),
        epochs=later.epochs,
        gaps=(),
        high_watermark=40,
        log_start_offset=0,
    )
    _, orders = step(following, AnswerReceived(answer=answer))
    kept = [order for order in orders if isinstance(order, BeginEpoch | AppendCopied)]
    assert names(kept) == ["BeginEpoch", "AppendCopied", "AppendCopied"]


def test_nothing_is_appended_while_a_takeover_is_unsettled_and_a_lost_answer_settles_nothing() -> None:
    mine = replace(NODE, leader=2, start_number=3, leader_epoch=2, version=6)
    swap = Swap(version=5, wanted=mine, fence=None)
    waiting = replace(replica(), node=NODE, role=TakingOver(dead=frozenset({1})), undecided=(swap,))
    lost, _ = step(waiting, SwapAnswered(swap=swap, answer=Answer.LOST))
    assert lost.undecided == (swap,)
    _, orders = step(lost, Produce(token=1))
    assert isinstance(orders[0], Refuse)
    read, orders = step(lost, NodeRead(state=NODE, is_synced=True))
    assert isinstance(read.role, TakingOver)
    assert not orders
    leading, orders = step(lost, SwapAnswered(swap=swap, answer=Answer.LANDED))
    assert isinstance(leading.role, Leading)
    assert [type(order) for order in orders if isinstance(order, Note | BeginEpoch)] == [Note, BeginEpoch]
    _, orders = step(leading, Produce(token=2))
    assert orders == [Append(token=2, leader_epoch=2)]


def test_a_process_that_was_started_again_stops_and_answers_all() -> None:
    swap = Swap(version=5, wanted=replace(NODE, version=6), fence=None)
    leading = replace(replica(), node=NODE, undecided=(swap,))
    stopped, _ = step(leading, SwapAnswered(swap=swap, answer=Answer.FENCED))
    _, orders = step(stopped, Produce(token=1))
    assert [type(order) for order in orders] == [Refuse]
    assert not [order for order in orders if isinstance(order, AskSwap)]


def following(log: LogFacts) -> Replica:
    one, _ = step(replace(replica(), log=log), NodeRead(state=NODE, is_synced=True))
    assert isinstance(one.role, Following)
    return one


def answer(*, fetch_offset: int, log_start_offset: int, batches: tuple[BatchFacts, ...] = ()) -> AnswerReceived:
    facts = FetchAnswer(
        topic_id="t",
        leader=1,
        leader_epoch=1,
        fetch_offset=fetch_offset,
        batches=batches,
        epochs=FIRST,
        gaps=(),
        high_watermark=70,
        log_start_offset=log_start_offset,
    )
    return AnswerReceived(answer=facts)


KEPT = BatchFacts(position=50, next_offset=70, crc=1)


def test_a_log_begins_where_the_first_batch_does_that_the_leader_has_kept() -> None:
    """DeleteRecords may name an offset inside a batch (found by seed 9 of the whole brokers)."""
    one = following(LogFacts(end_offset=40, flushed_offset=40, epochs=FIRST, last_crc=7))
    _, orders = step(one, answer(fetch_offset=40, log_start_offset=60, batches=(KEPT,)))
    assert [order for order in orders if isinstance(order, BeginEmpty)] == [BeginEmpty(at_offset=50, epochs=FIRST)]


def test_an_empty_log_inside_the_leaders_first_batch_begins_again_before_it() -> None:
    one = following(LogFacts(log_start_offset=60, end_offset=60, flushed_offset=60, epochs=FIRST))
    _, orders = step(one, answer(fetch_offset=60, log_start_offset=60, batches=(KEPT,)))
    assert BeginEmpty(at_offset=50, epochs=FIRST) in orders


def test_an_unsound_batch_says_nothing_of_where_a_log_begins() -> None:
    one = following(LogFacts(end_offset=40, flushed_offset=40, epochs=FIRST, last_crc=7))
    damaged = replace(KEPT, is_sound=False)
    _, orders = step(one, answer(fetch_offset=40, log_start_offset=60, batches=(damaged,)))
    assert BeginEmpty(at_offset=60, epochs=FIRST) in orders


def test_a_damaged_replica_deletes_what_its_leader_has_deleted_and_copies_nothing() -> None:
    """What was damaged may be deleted by then, and no other replica could repair it."""
    one = following(LogFacts(end_offset=40, flushed_offset=40, epochs=FIRST, last_crc=7, is_damaged=True))
    more = BatchFacts(position=40, next_offset=50, crc=2)
    _, orders = step(one, answer(fetch_offset=40, log_start_offset=30, batches=(more,)))
    assert [order for order in orders if isinstance(order, AdvanceStart | AppendCopied)] == [AdvanceStart(to_offset=30)]


def test_a_member_that_has_left_the_set_comes_in_again_by_a_new_fetch_only() -> None:
    """A leader took a stopping follower back, and removed it again when it was dead: two swaps too many for each partition."""
    lives = Lives(memory="memory:2", disk="disk:2")
    had = Progress(lives=lives, written_offset=40, flushed_offset=40, log_start_offset=0, is_damaged=False, heard_ms=0)
    role = Leading(leader_epoch=1, start_offset=0, began_ms=0, progress={2: had})
    mine = replace(replica(), broker_id=1, start_number=1, lives=Lives(memory="memory:1", disk="disk:1"), min_insync_replicas=1)
    leading = replace(mine, node=NODE, role=role, high_watermark=40)
    left = replace(NODE, members=MEMBERS[:1], version=6)
    leading, _ = step(leading, NodeRead(state=left, is_synced=False))
    leading, orders = step(leading, Tick(now_ms=1))
    assert not [order for order in orders if isinstance(order, AskSwap)]
    fetch = ReplicaFetch(
        topic_id="t",
        broker_id=2,
        leader_epoch=1,
        lives=lives,
        fetch_offset=40,
        written_offset=40,
        flushed_offset=40,
        log_start_offset=0,
        last_epoch=1,
        last_crc=7,
    )
    _, orders = step(leading, FetchReceived(fetch=fetch, own_epoch=1, own_crc=7, now_ms=2))
    assert [order.swap.wanted.members for order in orders if isinstance(order, AskSwap)] == [MEMBERS]
