"""Who takes over first from a dead leader, and how many replicas may wait for the disk at once."""

from headrace.broker.assembly import MOST_REPLICAS
from headrace.broker.event_loop.worker import Worker
from headrace.broker.replicas.replicas import place_in_line
from headrace.broker.replication.state import Member, State

NODE = State(leader=1, members=tuple(Member(broker_id=one, life=f"memory:{one}") for one in (1, 2, 3)), replicas=(1, 3, 2))


def test_the_first_live_member_in_the_list_of_replicas_takes_over_at_once() -> None:
    assert [place_in_line(NODE, one, dead=()) for one in (3, 2)] == [0, 1]
    assert place_in_line(NODE, 2, dead={3}) == 0
    assert place_in_line(State(leader=1, members=NODE.members[:2], replicas=(1, 3, 2)), 2, dead=()) == 0, "3 is no member"


def test_more_replicas_than_the_usual_queue_of_a_worker_may_wait_for_the_disk() -> None:
    """A replica whose order is refused stops: with the usual 1,000 places, a change of 2,000 leaders stopped half of them."""
    worker = Worker("notes", lambda call: None, capacity=MOST_REPLICAS)
    assert all(worker.submit(lambda: None, lambda _: None, lambda _: None) for _ in range(20_000))
