"""Rounds of faults under load, and the checks after each of them and at the end.

The sleeps are how long a fault lasts, drawn from the seed. What is to follow is awaited by a condition with a deadline.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer
from confluent_kafka.admin import NewTopic

from .clients import GroupReading, Reading, Sending, consumer, end_of, read_all
from .cluster import Cluster, within
from .downstream import Downstream
from .growing_check import GrowingCheck
from .history import History, faults, faults_of_readers, unseen
from .java_client import JavaSending
from .kinds import KINDS
from .logging_rounds import LOGGED
from .plans import Plan, draw
from .zookeeper_group import ZooKeeperGroupReading

UNSEEN_S = 30
"""So long after a round its last value may be on the way to a reader."""
REJOIN_S = 60
"""A group's members may have to wait for sessions and joins before."""
DECIDED_S = 120
"""Until the audit has decided every window."""
ANSWERED_S = 150
LOOK_S = 0.5
"""Between two looks at all that was read."""
MOST_TOLD = 20
WHOLE_EVERY = 25
"""Rounds after which the whole history is checked. The others check what is new."""

Tell = Callable[[str], None]


def kinds_of(cluster: Cluster) -> list[str]:
    """Return the kinds of faults that the cluster can have."""
    return [
        name
        for name, kind in KINDS.items()
        if (cluster.is_wide or not kind.needs_wide)
        and (cluster.is_ours or not kind.is_ours)
        and (cluster.downstream is not None or not kind.needs_downstream)
    ]


class Run:
    """Producers and readers on a cluster that runs, for several rounds."""

    def __init__(self, cluster: Cluster, tell: Tell, *, has_java: bool = False) -> None:
        self.cluster, self.history = cluster, History()
        self._growing = GrowingCheck(self.history)
        self._compared_to: dict[int, int] = {}
        """By partition, up to where the bytes of the logs were the same."""
        self._played = 0
        self._tell = tell
        self._has_java = has_java
        self._stack = ExitStack()
        self._patience = 1 if cluster.is_wide or not cluster.is_ours else 4
        """The few rounds among all tests share a busy machine: there, a deadline only ends a hang."""
        self.longest_pauses_s: dict[str, list[float]] = {}

    def __enter__(self) -> "Run":
        with ExitStack() as stack:
            cluster, history = self.cluster, self.history
            self.reading = stack.enter_context(Reading(cluster, history.read))
            if cluster.is_wide:
                cluster.create(NewTopic(LOGGED, cluster.partitions, replication_factor=3, config=cluster.config))
                cluster.downstream = stack.enter_context(Downstream(cluster.folder / "downstream", cluster))
                history.mirrored = cluster.downstream.copied
            protocols = ("classic", "consumer") if cluster.serves_consumer_protocol else ("classic",)
            self.groups: list[GroupReading | ZooKeeperGroupReading] = [
                stack.enter_context(GroupReading(cluster, history, each, protocol=each)) for each in protocols
            ]
            if cluster.is_wide:
                self.groups.append(stack.enter_context(ZooKeeperGroupReading(cluster, history)))
            self.sending: list[Sending | JavaSending] = [
                stack.enter_context(Sending(cluster, history, name)) for name in ("a", "b")
            ]
            if self._has_java:
                self.sending.append(stack.enter_context(JavaSending(cluster, history, "j")))
            self._ends: Consumer = consumer(cluster, "ends")
            stack.callback(self._ends.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def play(self, plan: Plan) -> list[str]:
        """Play one round; return what is wrong after it."""
        cluster, downstream = self.cluster, self.cluster.downstream
        time.sleep(plan.calm_s)
        logging = None if downstream is None else downstream.log(plan.number)
        for sending in self.sending:
            sending.longest_pause_s = 0.0
        begun_s = time.monotonic()
        for place, name in enumerate(plan.kinds):
            if place:
                time.sleep(plan.apart_s)
            KINDS[name].begin(cluster, plan.chance(place))
        time.sleep(plan.lasts_s)
        cluster.heal()
        if downstream is not None:
            downstream.heal()
        cluster.await_whole()
        counts = [one.count for one in self.sending]
        assert within(60, partial(self._have_sent, counts)), f"a producer gets no acknowledgement: {counts}\n{cluster.told()}"
        pause_s = max(one.longest_pause_s for one in self.sending)
        for name in plan.kinds:
            self.longest_pauses_s.setdefault(name, []).append(pause_s)
        wrong = [] if logging is None else logging.end()
        wrong += self.check()
        took_s = time.monotonic() - begun_s
        self._tell(f"{plan}: {took_s:.1f} s, longest pause {pause_s:.2f} s, {len(self.history.acknowledged)} acknowledged")
        return wrong

    def check(self) -> list[str]:
        """Let the producers rest, and compare what was acknowledged, what was read, and the bytes of the three logs."""
        self._played += 1
        is_whole = self._played % WHOLE_EVERY == 0
        for one in self.sending:
            one.pause()
        within(ANSWERED_S, lambda: all(one.is_answered for one in self.sending))
        late = [one.name for one in self.sending if not one.is_answered]
        wrong = [f"values that producer {name} sent are neither acknowledged nor refused" for name in late]
        within(UNSEEN_S * self._patience, self._has_read_all, LOOK_S)
        within(REJOIN_S * self._patience, self._have_all_read_all, LOOK_S)
        wrong += [f"consumer: {error}" for error in self._reader_errors()]
        wrong += [*self._growing.unseen(), *self._growing.faults]
        if is_whole:
            wrong += [*unseen(self.history), *faults_of_readers(self.history)]
        if (downstream := self.cluster.downstream) is not None:
            within(DECIDED_S, lambda: not downstream.faults(), LOOK_S)
            wrong += downstream.faults()
        self.cluster.await_whole()
        wrong += self._differences(is_whole=is_whole)
        for one in self.sending:
            one.resume()
        return wrong[:MOST_TOLD]

    def end(self) -> list[str]:
        """Send no more, read everything again, and return what is wrong."""
        for one in self.sending:
            one.end()
        within(REJOIN_S * self._patience, self._have_all_read_all, LOOK_S)
        self.history.read_again = read_all(self.cluster, self.history.acknowledged)
        copied: list[str] = []
        if (downstream := self.cluster.downstream) is not None:
            copied = downstream.final_faults(set(self.history.acknowledged))
            self.history.mirrored = downstream.copied
        self.cluster.await_whole()
        wrong = [f"consumer: {error}" for error in self._reader_errors()] + copied
        wrong += faults(self.history) + self._differences(is_whole=True)
        wrong += [error for error in self.cluster.errors() if "Traceback" in error]
        return wrong[:MOST_TOLD]

    def _reader_errors(self) -> list[str]:
        return [*self.reading.errors, *(error for group in self.groups for error in group.errors)]

    def _has_read_all(self) -> bool:
        self._growing.take()
        return not self._growing.unseen(["consumer"])

    def _have_all_read_all(self) -> bool:
        self._growing.take()
        return not self._growing.unseen()

    def _have_sent(self, counts: Sequence[int]) -> bool:
        return all(one.count > count + 5 for one, count in zip(self.sending, counts, strict=True))

    def _differences(self, *, is_whole: bool) -> list[str]:
        """Compare the files below the ends that consumers may read to, from the beginning or from the last such end."""
        wrong = []
        for index in range(self.cluster.partitions):
            end = end_of(self._ends, index)
            begin = 0 if is_whole else self._compared_to.get(index, 0)
            wrong += [f"partition {index}: {difference}" for difference in self.cluster.differences(index, end, begin)]
            self._compared_to[index] = end
        return wrong


def play(
    folder: Path,
    *,
    seed: int,
    rounds: int,
    first: int = 1,
    tell: Tell = lambda line: None,
    least: int = 0,
    is_wide: bool = False,
    has_java: bool = False,
    make: Callable[..., Cluster] = Cluster,
) -> tuple[History, list[str]]:
    """Play the rounds from `first` on; return the history, and what is wrong: the run ends with the round that found it.

    `least`: fewer acknowledgements are a fault, too.
    """
    with make(folder, config={"segment.bytes": "65536"}, is_wide=is_wide) as cluster:
        with Run(cluster, tell, has_java=has_java) as run:
            names = kinds_of(cluster)
            wrong: list[str] = []
            for number in range(first, first + rounds):
                plan = draw(seed, number, names)
                try:
                    found = run.play(plan)
                except BaseException as error:  # told before the clients wait for what they have sent
                    tell(f"{plan}: {error}\n{cluster.told()}")
                    raise
                if found:
                    wrong = [f"found in {plan}", *found]
                    break
            wrong = wrong or run.end()
            tell(f"{cluster.epochs()} leader epochs in {cluster.partitions} partitions")
        if len(run.history.acknowledged) < least:
            wrong.append(f"only {len(run.history.acknowledged)} records were acknowledged: nothing was tested")
        if not wrong and cluster.is_ours:  # Kafka's last node does not stop without the controllers on the others
            for broker_id in cluster.brokers:
                cluster.stop(broker_id)
        return run.history, [*wrong, *([cluster.told()] if wrong else [])]
