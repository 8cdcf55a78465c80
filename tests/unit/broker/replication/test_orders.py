"""The sequence of orders: what must be durable stands before what depends on it, because a process may die between two."""

from dataclasses import replace

from headrace.broker.replication.events import AnswerReceived, LogChanged, NodeRead, Produce, SwapAnswered
from headrace.broker.replication.facts import BatchFacts, FetchAnswer, LogFacts
from headrace.broker.replication.lives import Lives
from headrace.broker.replication.model import step
from headrace.broker.replication.orders import Append, AppendCopied, AskSwap, BeginEpoch, Cut, Note, Order, Refuse
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
