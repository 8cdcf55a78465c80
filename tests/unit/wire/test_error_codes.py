"""Kafka's error codes, held against kio's and kafka-python's tables."""

from kafka import errors as kafka_errors
from kio.schema.errors import ErrorCode as KioErrorCode

from headrace.wire.errors import ErrorCode, MalformedFrame


def test_names_numbers_and_retriability_are_kafkas() -> None:
    assert {code.name.lower(): int(code) for code in ErrorCode} == {code.name: int(code) for code in KioErrorCode}
    assert {code for code in ErrorCode if code.retriable} == {int(code) for code in KioErrorCode if code.retriable}


def test_kafka_python_knows_the_codes_that_we_answer_with_under_the_same_numbers() -> None:
    assert kafka_errors.OffsetOutOfRangeError.errno == ErrorCode.OFFSET_OUT_OF_RANGE
    assert kafka_errors.OutOfOrderSequenceNumberError.errno == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert kafka_errors.PolicyViolationError.errno == ErrorCode.POLICY_VIOLATION


def test_a_number_from_the_future_is_an_unknown_error() -> None:
    assert ErrorCode.of(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.of(31_000) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_wire_errors_are_never_retriable() -> None:
    assert not MalformedFrame.retriable
