"""Lets a request pass to its handler without what its client has no right to, and completes the handler's response.

A request is decoded once: the handler gets the decoded one (`DecodedBody`). Where everything is allowed, which is nearly always,
the response goes out as the handler made it. Otherwise it is decoded, completed and encoded again.

Trap: an old version that kio lacks is handled as the next one, and its response is written as the old one.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from ....wire.errors import ErrorCode
from ....wire.messages import control, list_offsets_v0, offset_commit_v1, old_versions
from ...event_loop.deferred_response import Chunks, DeferredResponse
from ...event_loop.response_generators import ResponseGenerator
from ...rights.rule import Operation, Resource
from ..request import Request
from .asking import Asking
from .checks import DENIED_ON, Asked, Check, Edit, Fields, Refused

if TYPE_CHECKING:
    from ..broker import Answer, Broker

LIST_OFFSETS, OFFSET_COMMIT = 2, 8

Handler = Callable[["Broker", Request], "Answer | ResponseGenerator"]
Passed = Callable[[Any], None]
"""Takes note of the request as it is carried out."""


def guarded(
    broker: "Broker", api_key: int, handler: Handler, request: Request, check: Check, asking: Asking, passed: Passed
) -> ResponseGenerator:
    """Return the response of `handler` to what `check` lets pass of the request. `request` outlives the pauses."""
    version = request.version
    if (api_key, version) == (LIST_OFFSETS, 0):
        return (yield from _list_offsets_v0(broker, handler, request, asking))
    read_as, body = version, request.body
    if (api_key, version) == (OFFSET_COMMIT, 1):
        read_as, body = offset_commit_v1.AS_VERSION, (yield from offset_commit_v1.as_v2_in_steps(body))
        decoded = yield from control.decode_in_steps(api_key, read_as, body)
    else:
        decoded = yield from control.decode_in_steps(api_key, version, body)
        if (old := old_versions.TABLE.get((api_key, version))) is not None:
            read_as = old.read_as
    outcome = yield from check.steps(Asked(asking, api_key, read_as, decoded, broker.topics.catalog))
    if isinstance(outcome, Refused):
        return (yield from control.encode_in_steps(api_key, version, outcome.response))
    passed(outcome.request)
    if outcome.edit is None:
        if (api_key, version) != (OFFSET_COMMIT, 1):
            request = request.with_body(version, control.DecodedBody.of(decoded))
        return (yield from handled(broker, handler, request))
    answer = yield from handled(broker, handler, request.with_body(read_as, control.DecodedBody.of(outcome.request)))
    return (yield from completed(answer, api_key, read_as, version, outcome.edit))


def handled(broker: "Broker", handler: Handler, request: Request) -> Generator[None, None, bytes | DeferredResponse]:
    """Return what the handler returns, which is a generator's result where it is a generator."""
    made = handler(broker, request)
    if isinstance(made, Generator):
        made = yield from made
    assert isinstance(made, bytes | DeferredResponse), "only Produce and Fetch answer otherwise"
    return made


def completed(
    answer: bytes | DeferredResponse, api_key: int, read_as: int, version: int, edit: Edit
) -> Generator[None, None, bytes | DeferredResponse]:
    """Return the response, a pending one too, after `edit`; as one of `version`."""
    if isinstance(answer, bytes):
        return (yield from control.encode_in_steps(api_key, version, _edited(answer, api_key, read_as, edit)))

    def complete(chunks: Chunks) -> Chunks:
        if not all(isinstance(chunk, bytes) for chunk in chunks):
            return chunks  # a generator's fault: sending it closes the connection
        body = b"".join(chunk for chunk in chunks if isinstance(chunk, bytes))
        return (control.encode_response(api_key, version, _edited(body, api_key, read_as, edit)),)

    answer.wrap(complete)
    return answer


def _edited(body: bytes, api_key: int, version: int, edit: Edit) -> Fields:
    response = control.fields_of(control.decode_response(api_key, version, body))
    edit(response)
    return response


def _list_offsets_v0(broker: "Broker", handler: Handler, request: Request, asking: Asking) -> ResponseGenerator:
    """Refuse the request whole where a topic is denied: the version is older than Kafka's own rights."""
    topics = yield from list_offsets_v0.decode_in_steps(request.body)
    allowed = [asking.may(Operation.DESCRIBE, Resource.TOPIC, name) for name, _ in topics]
    if all(allowed):
        return (yield from handled(broker, handler, request))
    error: ErrorCode = DENIED_ON[Resource.TOPIC]
    answers = [
        {
            "name": name,
            "partitions": [{"partition_index": one.partition, "error_code": error, "old_style_offsets": ()} for one in wanted],
        }
        for name, wanted in topics
    ]
    return (yield from control.encode_in_steps(LIST_OFFSETS, 0, {"topics": answers}))
