"""Safeguards of whole brokers, each with the way to switch it off. Decision 87 has the seeds within which the search notices."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from headrace.broker.log.jobs import flush_job
from headrace.broker.log.partition_log import PartitionLog
from headrace.broker.partitions import open_logs
from headrace.broker.partitions.replicated_partition import ReplicatedPartition
from headrace.broker.replicas import driver, recovering, scrub
from headrace.broker.replicas.driver import ReplicaDriver
from headrace.broker.replicas.scrub_vote import Verdict
from headrace.broker.replication import (
    acknowledging,
    following,
    leading,
    lives,
    model,
    reassignment,
    replica,
    set_changes,
    swaps,
)
from headrace.coordination import group_claims, replica_states
from headrace.coordination.operations import Check, Operation

from .plans import drawn
from .play import play


class Safeguard(NamedTuple):
    off: tuple[tuple[object, str, Callable[..., Any]], ...]
    must: tuple[str, ...]
    """What the runs of the search must contain."""
    is_noticed_soon: bool = False
    """Whether a third of such runs notice, or more: then CI looks, too."""


def _yes(*_: Any, **__: Any) -> bool:
    return True


def _no(*_: Any, **__: Any) -> bool:
    return False


def _unfenced_commit(real: Callable[..., list[Operation]]) -> Callable[..., list[Operation]]:
    def acts(fence: str, values: Mapping[str, bytes], there: Mapping[str, object] | None = None) -> list[Operation]:
        return [Check(path="/"), *real(fence, values, there)[1:]]

    return acts


def _acknowledged_at_once(self: ReplicatedPartition, end_offset: int, acks: int, timeout_ms: int, done: Any) -> None:
    done(None)


def _sure_at_once(self: ReplicaDriver, done: Callable[[bool], None]) -> None:
    done(self.leads)


def _without_producers(real: Callable[..., None]) -> Callable[..., None]:
    def publish(self: ReplicaDriver, role: Any) -> None:
        self.log.producers.restore(())
        real(self, role)

    return publish


def _unflushed(self: flush_job.FlushWork) -> None:
    pass


def _written(member: Any, log: Any, **_: Any) -> int:
    return int(log.end_offset)


def _reached_in_memory(member: Any, progress: Any, **_: Any) -> int:
    return -1 if progress is None or member.life not in progress.lives else int(progress.written_offset)


def _all_of_the_log(one: replica.Replica) -> int | None:
    return one.log.end_offset if isinstance(one.role, replica.Leading) else None


def _by_broker(one: replica.Replica, node: Any) -> bool:
    return bool(node.leader == one.broker_id)


def _start_alone(one: replica.Replica, *_: Any) -> int:
    return one.log.log_start_offset


def _is_wanted(node: Any, _: int) -> bool:
    return bool(node.targets)


def _first_is_right(answers: Any, replica_count: int) -> Any:
    """The leader's bytes are right: it is asked first."""
    _, *others = answers.items()
    wrong = {one: digest.damaged for one, digest in others if digest.damaged}
    return Verdict(wrong, ())


def _any_folder(_: Any) -> None:
    return None


def _one(place: object, name: str, stand_in: Callable[..., Any]) -> tuple[tuple[object, str, Callable[..., Any]], ...]:
    return ((place, name, stand_in),)


def _unfenced_swap(path: str, version: int = -1) -> Check:
    return Check(path=path)


SAFEGUARDS: dict[str, Safeguard] = {
    "a commit checks its coordinator's claim": Safeguard(
        _one(group_claims, "_acts", _unfenced_commit(group_claims._acts)), ("pause", "expire", "from zookeeper")
    ),
    "an acknowledgement waits for the set": Safeguard(
        _one(ReplicatedPartition, "when_acknowledged", _acknowledged_at_once), ("kill", "alone"), is_noticed_soon=True
    ),
    "proposed sets must have it, too": Safeguard(
        _one(acknowledging, "needed", lambda held, _: frozenset(held.members)), ("newcomer", "kill")
    ),
    "readers see what every member has": Safeguard(
        _one(driver, "visible_end", _all_of_the_log), ("kill", "alone"), is_noticed_soon=True
    ),
    "out of range is said by a leader that is sure": Safeguard(
        _one(ReplicaDriver, "when_sure", _sure_at_once), ("pause", "strays")
    ),
    "the next leader knows the producers": Safeguard(
        _one(ReplicaDriver, "_publish", _without_producers(ReplicaDriver._publish)),
        ("kill", "from clients", "alone"),
        is_noticed_soon=True,
    ),
    "what the leader never had is cut": Safeguard(
        _one(following, "cut_if_needed", _yes), ("pause", "alone", "kill"), is_noticed_soon=True
    ),
    "a flush reaches the disk": Safeguard(_one(flush_job.FlushWork, "run", _unflushed), ("power",), is_noticed_soon=True),
    "an acknowledgement waits for the disk": Safeguard(
        ((acknowledging, "own_reach", _written), (acknowledging, "reached", _reached_in_memory)), ("power", "slow disk")
    ),
    "lost memory is a new life": Safeguard(_one(lives, "survives_in_memory", _yes), ("power", "power of one")),
    "a swap is fenced by its process": Safeguard(
        _one(replica_states, "Check", _unfenced_swap), ("elect", "orphaned swap", "kill")
    ),
    "only this process's own swap makes it lead": Safeguard(_one(leading, "leads", _by_broker), ("power", "power of one")),
    "a swap is settled by a swap": Safeguard(
        _one(swaps, "settles", lambda swap, read: read.version >= swap.version),
        ("elect", "unanswered swap", "slow network", "kill"),
    ),
    "a replica that comes in has everything": Safeguard(_one(set_changes, "joins", _yes), ("newcomer", "kill")),
    "never fewer than min.insync.replicas": Safeguard(
        (
            (set_changes, "may_be_without", lambda members, _: len(members) > 1),
            (model.set_changes, "may_be_without", lambda members, _: len(members) > 1),
        ),
        ("last power", "power of one"),
    ),
    "a folder belongs to a topic's id": Safeguard(_one(open_logs.topic_note, "read", _any_folder), ("remake", "kill")),
    "a deletion is answered by all": Safeguard(
        _one(leading, "deleted_by_all", _start_alone), ("delete records", "alone", "kill")
    ),
    "a move ends when its replicas have the log": Safeguard(
        _one(reassignment, "is_complete", _is_wanted), ("move", "last power", "power of one")
    ),
    "a recovery is for a loss": Safeguard(_one(recovering, "is_due", _yes), ("recover", "kill", "alone")),
    "a batch's CRC is checked before it is copied": Safeguard(_one(following, "is_sound", _yes), ("damage", "move", "kill")),
    "readers do not jump over damage": Safeguard(_one(PartitionLog, "_check_damage", _no), ("damage", "kill")),
    "the majority's bytes are right": Safeguard(_one(scrub, "judge", _first_is_right), ("damage", "kill", "elect")),
}


@contextmanager
def without(name: str) -> Iterator[None]:
    """Switch a safeguard off."""
    with pytest.MonkeyPatch.context() as patch:
        for place, attribute, stand_in in SAFEGUARDS[name].off:
            patch.setattr(place, attribute, stand_in)
        yield


def first_noticed(name: str, most_seeds: int) -> tuple[int, str] | None:
    """Return the lowest seed whose run fails without the safeguard, and how. None: not in so many."""
    for seed in range(most_seeds):
        with without(name):
            outcome = play(drawn(seed, SAFEGUARDS[name].must))
        if outcome.kind is not None:
            return seed, outcome.kind
    return None
