"""What a check of a request's rights is, and the kinds of checks that most APIs have.

A check looks at the decoded request. It refuses the request whole, or lets it pass without what is denied; then it also says how
the handler's response is completed. So handlers know nothing of rights. Pure: who may do what comes with `Asking`.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ....wire.errors import ErrorCode
from ....wire.messages.message_types import message_type
from ....wire.messages.refusals import empty_fields
from ...partitions.catalog import Catalog
from ...rights.rule import Operation, Resource
from .asking import Asking

Fields = dict[str, Any]
Edit = Callable[[Fields], None]
"""Completes a response: its fields by kio's names."""

DENIED_ON: Mapping[Resource, ErrorCode] = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Asked(NamedTuple):
    """A request with what its check may need."""

    asking: Asking
    api_key: int
    version: int
    """The version that `request` is of."""
    request: Any
    catalog: Catalog


class Refused(NamedTuple):
    """The request is refused whole, with this response."""

    response: Fields


class Passed(NamedTuple):
    """The request may be carried out, in this form; `edit` completes the response."""

    request: Any
    edit: Edit | None = None


Steps = Generator[None, None, Refused | Passed]


class Need(NamedTuple):
    """A right that an API wants, for the manual."""

    operation: Operation
    resource: Resource
    note: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """How the requests of one API are checked."""

    needs: tuple[Need, ...]
    steps: Callable[[Asked], Steps]
    is_admin: bool = False
    """Whether what it does is written into the trail."""

    def then(self, other: "Check") -> "Check":
        """Return a check that makes both, one after the other."""

        def steps(asked: Asked) -> Steps:
            first = yield from self.steps(asked)
            if isinstance(first, Refused):
                return first
            second = yield from other.steps(asked._replace(request=first.request))
            if isinstance(second, Refused):
                return second
            return Passed(second.request, joined(first.edit, second.edit))

        return Check((*self.needs, *other.needs), steps, self.is_admin or other.is_admin)


def joined(*edits: Edit | None) -> Edit | None:
    """Return one edit that makes all of them; None for none."""
    given = [edit for edit in edits if edit is not None]
    if len(given) < 2:
        return given[0] if given else None

    def edit(response: Fields) -> None:
        for one in given:
            one(response)

    return edit


def adding(array: str, elements: Iterable[Any]) -> Edit:
    """Return an edit that adds elements to an array of the response."""

    def edit(response: Fields) -> None:
        response[array] = [*(response[array] or ()), *elements]

    return edit


def top_level(asked: Asked, error: ErrorCode) -> Fields:
    """Return a response with this error code, and everything else empty."""
    response = empty_fields(message_type("response", asked.api_key, asked.version))
    if "error_message" in response:
        response["error_message"] = MESSAGES[error]
    return {**response, "error_code": error}


Response = Callable[[Asked, ErrorCode], Fields]


def on_cluster(operation: Operation, refused: Response = top_level, *, is_admin: bool = False) -> Check:
    """Return a check of a right on the cluster."""

    def steps(asked: Asked) -> Steps:
        if asked.asking.may(operation, Resource.CLUSTER):
            return Passed(asked.request)
        return Refused(refused(asked, DENIED_ON[Resource.CLUSTER]))
        yield

    return Check((Need(operation, Resource.CLUSTER),), steps, is_admin)


def on_group(operation: Operation, refused: Response = top_level) -> Check:
    """Return a check of a right on the group that the request names."""

    def steps(asked: Asked) -> Steps:
        if asked.asking.may(operation, Resource.GROUP, str(asked.request.group_id)):
            return Passed(asked.request)
        return Refused(refused(asked, DENIED_ON[Resource.GROUP]))
        yield

    return Check((Need(operation, Resource.GROUP),), steps)


def on_each(
    needs: tuple[Need, ...],
    array: str,
    verdict: Callable[[Asked, Any], ErrorCode],
    *,
    answered: str,
    answer: Callable[[Any, ErrorCode], Fields],
    is_admin: bool = False,
) -> Check:
    """Return a check of each element of the request's `array`. Those with an error in `verdict` are left out of the request, and
    `answer` makes their elements of the response's array `answered`.
    """

    def steps(asked: Asked) -> Steps:
        allowed, denied = [], []
        for one in getattr(asked.request, array) or ():
            error = verdict(asked, one)
            if error is ErrorCode.NONE:
                allowed.append(one)
            else:
                denied.append(answer(one, error))
            yield
        if not denied:
            return Passed(asked.request)
        return Passed(replace(asked.request, **{array: tuple(allowed)}), adding(answered, denied))

    return Check(needs, steps, is_admin)


class Places(NamedTuple):
    """What the fields are called of topics with partitions."""

    array: str = "topics"
    name: str = "name"
    partitions: str = "partitions"
    number: str = "partition_index"

    def of(self, topic: Any) -> tuple[str, list[int]]:
        """Return a topic's name and partitions. Where `number` is empty, the partitions are numbers themselves."""
        partitions = getattr(topic, self.partitions) or ()
        return str(getattr(topic, self.name)), [int(getattr(one, self.number) if self.number else one) for one in partitions]

    def with_error(self, name: str, indexes: Iterable[int], error: ErrorCode, others: Fields) -> Fields:
        """Return a topic of the response in which every partition has the error."""
        partitions = [{self.number: index, "error_code": error, **others} for index in indexes]
        return {self.name: name, self.partitions: partitions}


PLACES = Places()


def on_topics(
    operation: Operation,
    *,
    asked_in: Places = PLACES,
    answered_in: Places = PLACES,
    others: Fields | None = None,
    unless: Callable[[Asking], bool] | None = None,
    is_admin: bool = False,
) -> Check:
    """Return a check of a right on each topic, for requests and responses that name partitions. `others` are the other fields of
    a denied partition. `unless`: another right that is enough.
    """

    def verdict(asked: Asked, topic: Any) -> ErrorCode:
        if unless is not None and unless(asked.asking):
            return ErrorCode.NONE
        name = str(getattr(topic, asked_in.name))
        return ErrorCode.NONE if asked.asking.may(operation, Resource.TOPIC, name) else DENIED_ON[Resource.TOPIC]

    def answer(topic: Any, error: ErrorCode) -> Fields:
        return answered_in.with_error(*asked_in.of(topic), error, others or {})

    needs = (Need(operation, Resource.TOPIC),)
    return on_each(needs, asked_in.array, verdict, answered=answered_in.array, answer=answer, is_admin=is_admin)


MESSAGES: Mapping[ErrorCode, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "the client has no right to do this with the topic: see docs/RIGHTS.md",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "the client has no right to do this with the group: see docs/RIGHTS.md",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the client has no right to do this with the cluster: see docs/RIGHTS.md",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the client has no right to use this transactional id: see docs/RIGHTS.md",
}
