"""The messages between replicas: what is written is read, and what is cut or absurd is refused."""

import struct
from uuid import UUID

import pytest

from headrace.broker.replicas import messages
from headrace.broker.replicas.messages import Answer, Refusal, Sender
from headrace.broker.replication.facts import ReplicaFetch
from headrace.broker.replication.lives import Lives
from headrace.broker.replication.state import EpochStart
from headrace.wire.errors import MalformedFrame

TOPIC = UUID(int=(1 << 126) + 5)
KEY = (TOPIC, 3)
SENDER = Sender(2, 1 << 40, 7)
FETCH = ReplicaFetch(
    topic_id=messages.topic_word(TOPIC),
    broker_id=2,
    leader_epoch=4,
    lives=Lives(memory="memory:é", disk="disk:x"),
    fetch_offset=100,
    written_offset=90,
    flushed_offset=80,
    log_start_offset=10,
    last_epoch=3,
    last_crc=-1,
    is_damaged=True,
)
ANSWER = Answer(KEY, 1, 4, 100, 90, 10, (EpochStart(leader_epoch=4, start_offset=50),), ((120, 1 << 41),), memoryview(b"batches"))


def test_what_a_follower_tells_is_read() -> None:
    assert messages.decode_tell(memoryview(messages.encode_tell(SENDER, [(KEY, FETCH), (KEY, FETCH)]))) == (
        SENDER,
        [(KEY, FETCH)] * 2,
    )
    assert messages.decode_poll(memoryview(messages.encode_poll(SENDER))) == SENDER


def test_what_a_leader_answers_is_read() -> None:
    encoded = [messages.encode_answer(ANSWER), messages.encode_refusal(Refusal(KEY, -1)), messages.encode_answer(ANSWER)]
    assert list(messages.decode_response(memoryview(messages.encode_response(encoded)))) == [ANSWER, Refusal(KEY, -1), ANSWER]


def test_a_cut_message_is_refused() -> None:
    told = messages.encode_tell(SENDER, [(KEY, FETCH)])
    for length in range(len(told)):
        with pytest.raises(MalformedFrame):
            messages.decode_tell(memoryview(told)[:length])
    answered = messages.encode_response([messages.encode_answer(ANSWER)])
    for length in range(len(answered)):
        with pytest.raises(MalformedFrame):
            list(messages.decode_response(memoryview(answered)[:length]))


def test_counts_have_a_bound() -> None:
    head = messages.encode_tell(SENDER, [])[:-4]
    for count in (-1, messages.MOST_FETCHES + 1):
        with pytest.raises(MalformedFrame, match="at most"):
            messages.decode_tell(memoryview(head + struct.pack(">i", count)))
    whole = messages.encode_answer(ANSWER._replace(epochs=(), gaps=(), batches=memoryview(b"")))
    for at in (12, 8, 4):
        broken = whole[: len(whole) - at] + struct.pack(">i", messages.MOST_LISTED + 1) + whole[len(whole) - at + 4 :]
        with pytest.raises(MalformedFrame):
            list(messages.decode_response(memoryview(messages.encode_response([broken]))))
