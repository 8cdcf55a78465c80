"""Decides what a join leads to: a new member, an id first, a rebalance, the same generation again, or a refusal. Pure.

The group carries it out. Source: KIP-62, KIP-345 (static members), KIP-394 (an id before the first join)."""

from collections.abc import Callable

from ...wire.errors import ErrorCode
from .group import Group, GroupState
from .limits import GroupLimits
from .member import Member
from .messages import JoinAnswer, JoinRequest, Ticket
from .subscription import subscribed_topics

NewMemberId = Callable[[str], str]
"""Returns a new, unique id, made from the client's or the instance's name."""


def join(
    group: Group, request: JoinRequest, ticket: Ticket, now_ms: int, *, limits: GroupLimits, new_member_id: NewMemberId
) -> JoinAnswer | None:
    """Return the answer, or None when the ticket is kept until the next generation is complete."""
    if not _has_room(group, request, limits):
        return _refused(ErrorCode.GROUP_MAX_SIZE_REACHED, request)
    if request.member_id:
        return _known(group, request, ticket, now_ms)
    if request.instance_id is not None and request.instance_id in group.roster.instances:
        return _static_returns(group, request, ticket, now_ms, new_member_id(request.instance_id))
    if not group.roster.could_agree(request.protocol_type, request.offers):
        return _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request)
    member_id = new_member_id(request.instance_id or request.client_id)
    if request.asks_for_id_first and request.instance_id is None:
        group.add_pending(member_id, now_ms + request.session_timeout_ms)
        return JoinAnswer(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
    group.enter(Member.of(request, member_id), request.protocol_type, ticket, now_ms)
    return None


def _known(group: Group, request: JoinRequest, ticket: Ticket, now_ms: int) -> JoinAnswer | None:
    """Answer a join that carries a member id."""
    if request.member_id in group.roster.pending_members:
        if request.instance_id is not None and request.instance_id in group.roster.instances:
            return _refused(ErrorCode.FENCED_INSTANCE_ID, request)
        if not group.roster.could_agree(request.protocol_type, request.offers):
            group.forget_pending(request.member_id, now_ms)
            return _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request)
        group.enter(Member.of(request, request.member_id), request.protocol_type, ticket, now_ms)
        return None
    member = group.roster.find(request.member_id, request.instance_id)
    if isinstance(member, ErrorCode):
        return _refused(member, request)
    if not group.roster.could_agree(request.protocol_type, request.offers, apart_from=member):
        return _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request)
    member.knows_its_id = True
    is_same = tuple(request.offers) == tuple(member.offers)
    is_leader = member.member_id == group.leader_id
    # A leader that joins again in a stable group has seen a change (of partitions, say) and wants to assign them again.
    if is_same and (group.state is GroupState.COMPLETING or (group.state is GroupState.STABLE and not is_leader)):
        group.renew_session(member, now_ms)
        return group.answer_of_generation(member)
    group.roster.renew(member, request.offers, request.protocol_type)
    member.session_timeout_ms, member.rebalance_timeout_ms = request.session_timeout_ms, request.rebalance_timeout_ms
    group.park_join(member, ticket, now_ms)
    return None


def _static_returns(group: Group, request: JoinRequest, ticket: Ticket, now_ms: int, member_id: str) -> JoinAnswer | None:
    """Replace a static member's old process by its new one. In a stable group the other members notice nothing."""
    old = group.members[group.roster.instances[str(request.instance_id)]]
    if not group.roster.could_agree(request.protocol_type, request.offers, apart_from=old):
        return _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request)
    old_leader_id = group.leader_id
    new = Member.of(request, member_id)
    group.replace(old, new, request.protocol_type)
    if group.state is not GroupState.STABLE or group.choice() != group.protocol or _reads_other_topics(group.protocol, old, new):
        group.park_join(new, ticket, now_ms)
        return None
    new.knows_its_id = True
    group.renew_session(new, now_ms)
    # The answer names the leader by its old id, so that it does not act as leader: assignments that it sent now would be ignored.
    return JoinAnswer(
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader_id=old_leader_id or "",
        member_id=member_id,
    )


def _reads_other_topics(protocol: str | None, old: Member, new: Member) -> bool:
    """Return whether the new process reads other topics. The rest of its metadata (what it owned, say) always differs."""
    before, after = subscribed_topics(old.metadata(protocol)), subscribed_topics(new.metadata(protocol))
    return before is not None and after is not None and before != after


def _has_room(group: Group, request: JoinRequest, limits: GroupLimits) -> bool:
    roster = group.roster
    if (
        request.member_id in roster.members
        or request.member_id in roster.pending_members
        or request.instance_id in roster.instances
    ):
        return True
    return len(roster.members) + len(roster.pending_members) < limits.members_per_group


def _refused(error: ErrorCode, request: JoinRequest) -> JoinAnswer:
    return JoinAnswer(error=error, member_id=request.member_id)
