from headrace.sdk.direct.pre_schema_buffer import PreSchemaBuffer


def test_what_sends_directly_is_ready_before_anybody_sees_the_id() -> None:
    """Names a fault: a thread that logged just when the id was known met `AssertionError('it is set before the id')`."""
    early = PreSchemaBuffer("clicks", 1_000, 600_000)
    assert early.keep(b"first", 1, None, 0)
    steps: list[object] = []
    early.let_go(7, lambda body, timestamp_ms, key: steps.append(body), lambda: steps.append(early.schema_id))
    assert (steps, early.schema_id) == ([b"first", None], 7)
