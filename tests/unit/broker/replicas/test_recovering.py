"""Recoveries: messages, and what is said when none is due."""

from uuid import UUID

import pytest

from headrace.broker.handlers.describe_recovery import response
from headrace.broker.replicas import recovering
from headrace.broker.replicas.recovering import Prospect, RecoverOrder
from headrace.broker.replication.facts import LogFacts
from headrace.broker.replication.lives import Lives
from headrace.broker.replication.recovery import UNKNOWN_BYTES, Candidate
from headrace.broker.replication.state import EpochStart, Member, State
from headrace.wire.errors import ErrorCode, MalformedFrame
from headrace.wire.messages import describe_recovery

KEY = (UUID(int=7), 3)


def candidate(broker_id: int, end: int, *, life: str = "new") -> Candidate:
    epochs = (EpochStart(leader_epoch=4, start_offset=0),)
    log = LogFacts(log_start_offset=2, end_offset=end, flushed_offset=1, epochs=epochs, is_damaged=True)
    return Candidate(broker_id=broker_id, lives=Lives(memory=life, disk="d"), log=log, damaged=((3, 5),), high_watermark=4)


NODE = State(members=(Member(broker_id=1, life="m1"), Member(broker_id=2, life="m2")), replicas=(1, 2, 3))


def prospect(*candidates: Candidate, node: State = NODE) -> Prospect:
    return Prospect(node=node, candidates=candidates, silent={2: "it is not registered"})


def test_messages_are_read_as_they_were_written() -> None:
    assert recovering.decode_key(recovering.encode_key(KEY)) == KEY
    for one in (None, candidate(1, 9)):
        assert recovering.decode_candidate(recovering.encode_candidate(one)) == one
    order = RecoverOrder(key=KEY, version=5, start_offset=900, log_start_offset=2)
    assert recovering.decode_order(recovering.encode_order(order)) == order
    assert describe_recovery.decode_request(describe_recovery.encode_request("clicks", 3)) == ("clicks", 3)
    for found in (response(prospect(candidate(1, 9), candidate(2, 0))), response(prospect()), response(None)):
        assert describe_recovery.decode_response(describe_recovery.encode_response(found)) == found


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b'{"topic_id": "x", "partition": 0}', b"\xff", b"[" * 100_000])
def test_other_bytes_are_refused(body: bytes) -> None:
    decoders = (
        recovering.decode_key,
        recovering.decode_candidate,
        recovering.decode_order,
        describe_recovery.decode_request,
        describe_recovery.decode_response,
    )
    for decode in decoders:
        with pytest.raises(MalformedFrame):
            decode(body)


def test_the_plan_names_what_each_replica_would_give_up() -> None:
    found = response(prospect(candidate(1, 9), candidate(2, 0), candidate(3, 7)))
    assert (found.error_code, found.chosen, found.start_offset) == (ErrorCode.NONE, 1, 9 + UNKNOWN_BYTES)
    assert [one.lost[-1][0] for one in found.replicas] == [9, 0, 7]


def test_a_broker_that_was_not_heard_is_named() -> None:
    error, why = prospect(candidate(1, 9), candidate(3, 9)).why_not()
    assert error == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert "broker 2: it is not registered" in why
    assert "broker 1" not in why


def test_no_recovery_is_due_while_a_member_is_whole_or_nothing_was_led() -> None:
    whole = prospect(candidate(1, 9, life="m1"), candidate(2, 0))
    assert whole.plan is None
    assert whole.why_not()[0] == ErrorCode.ELECTION_NOT_NEEDED
    assert "broker 1" in whole.why_not()[1]
    fresh = prospect(candidate(1, 0), node=State(replicas=(1, 2, 3)))
    assert fresh.plan is None
    assert fresh.why_not()[0] == ErrorCode.ELECTION_NOT_NEEDED
