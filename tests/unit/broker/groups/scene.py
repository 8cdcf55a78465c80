"""A coordinator whose clock the test sets, and clients that record their answers."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from headrace.broker.groups.coordinator import Coordinator
from headrace.broker.groups.limits import GroupLimits
from headrace.broker.groups.messages import JoinAnswer, JoinRequest, Leaver, ProtocolOffer, SyncAnswer, SyncRequest
from headrace.wire.errors import ErrorCode

RANGE = (ProtocolOffer("range", b"for range"),)


def offers(*names: str) -> list[ProtocolOffer]:
    return [ProtocolOffer(name, name.encode()) for name in names]


class Asked:
    """A join or sync. `answers` has its answer, at most one."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def ticket(self, answer: Any) -> None:
        self.answers.append(answer)

    @property
    def is_parked(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> Any:
        (only,) = self.answers
        return only

    @property
    def error(self) -> ErrorCode:
        error: ErrorCode = self.answer.error
        return error


class Scene:
    """One coordinator; time passes when the test says so."""

    def __init__(self, new_member_id: Callable[[str], str] | None = None, **limits: int) -> None:
        numbers = count(1)
        self.coordinator = Coordinator(
            GroupLimits(**{"initial_rebalance_delay_ms": 0, **limits}),
            new_member_id or (lambda name: f"{name}-{next(numbers)}"),
        )
        self.now_ms = 1_000

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        offers: Sequence[ProtocolOffer] = RANGE,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        protocol_type: str = "consumer",
        id_first: bool = False,
        name: str = "m",
    ) -> Asked:
        request = JoinRequest(
            group_id=group,
            member_id=member_id,
            instance_id=instance,
            client_id=name,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            offers=offers,
            asks_for_id_first=id_first,
        )
        asked = Asked()
        answer = self.coordinator.join(request, asked.ticket, self.now_ms)
        return self._answered(asked, answer)

    def sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, *, group: str = "g", **more: Any
    ) -> Asked:
        request = SyncRequest(
            group_id=group, generation=generation, member_id=member_id, assignments=list((assignments or {}).items()), **more
        )
        asked = Asked()
        return self._answered(asked, self.coordinator.sync(request, asked.ticket, self.now_ms))

    def heartbeat(self, member_id: str, generation: int, *, instance: str | None = None, group: str = "g") -> ErrorCode:
        return self.coordinator.heartbeat(group, generation, member_id, instance, self.now_ms)

    def leave(self, member_id: str, *, instance: str | None = None, group: str = "g") -> ErrorCode:
        (error,) = self.leave_all([Leaver(member_id, instance)], group=group)
        return error

    def leave_all(self, leavers: Sequence[Leaver], *, group: str = "g") -> list[ErrorCode]:
        errors = self.coordinator.leave(group, leavers, self.now_ms)
        self.deliver()
        return errors

    def may_commit(self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None) -> ErrorCode:
        return self.coordinator.may_commit(group, generation, member_id, instance, self.now_ms)

    def cancel(self, asked: Asked, *, group: str = "g") -> None:
        self.coordinator.cancel(group, asked.ticket, self.now_ms)
        self.deliver()

    def pass_ms(self, passed_ms: int) -> list[str]:
        """Let time pass in one step; return the members whose sessions ended."""
        self.now_ms += passed_ms
        evictions = self.coordinator.tick(self.now_ms)
        self.deliver()
        return [member_id for _, member_ids in evictions for member_id in member_ids]

    def state(self, group: str = "g") -> str | None:
        found = self.coordinator.get(group)
        return None if found is None else found.state.value

    def members(self, group: str = "g") -> list[str]:
        found = self.coordinator.get(group)
        return [] if found is None else list(found.members)

    def deliver(self) -> None:
        while self.coordinator.replies:
            ticket, answer = self.coordinator.replies.pop(0)
            ticket(answer)

    def stable(self, number: int, *, static: bool = False, **more: Any) -> list[str]:
        """Return the ids of a stable group's members: all joined, the leader has given each its own id as assignment."""
        first = self.join(instance="i0" if static else None, name="m0", **more)
        asked = [first, *(self.join(instance=f"i{n}" if static else None, name=f"m{n}", **more) for n in range(1, number))]
        if number > 1:
            asked[0] = self.join(first.answer.member_id, instance="i0" if static else None, **more)
        ids = [one.answer.member_id for one in asked]
        generation = asked[0].answer.generation
        for member_id in reversed(ids):
            self.sync(member_id, generation, {one: one.encode() for one in ids} if member_id == ids[0] else None)
        assert self.state() == "Stable"
        return ids

    def _answered(self, asked: Asked, answer: JoinAnswer | SyncAnswer | None) -> Asked:
        if answer is not None:
            asked.ticket(answer)
        self.deliver()
        return asked
