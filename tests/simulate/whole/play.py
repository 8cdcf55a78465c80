"""Plays one run: starts the cluster and its clients, lets the faults happen, heals, and checks."""

import gc
import json
import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from headrace.wire.errors import ErrorCode

from .administration import Administrator, create_topic
from .checkers import Wrong, check_files, check_groups, check_records, check_starts
from .clients import CLIENTS, PARTITIONS, Client, Connections, Member, Producer, Reader
from .cluster import TOPIC, Cluster, NotedLog
from .disks import disks_of
from .faults import arrange, heal
from .history import History
from .plans import Plan
from .scheduler import MS, Process, SimulatedThread, Simulation
from .short_topic import NAME, ShortTopic

BEGIN_MS = 30_000
"""When the topic must be there at the latest."""
HEAL_MS = 60_000
"""How long a healed cluster may take until everything is answered and read."""
LAST_MS = 2_000
"""Between the last fault and the end of all."""
SETTLE_MS = 2_000
RETENTION_MS = 3_000
"""Until retention has nothing more to delete."""
LAST_IDLE = 5
"""Answers without a record that end the last reading."""
SHM = Path("/dev/shm")


class Outcome(NamedTuple):
    """What happened in a run."""

    takeovers: int
    acknowledged: int
    seen: int
    commits: int
    transcript: list[str]
    why: str | None
    kind: str | None = None


class _Plays:
    COLLECTED_EVERY = 8
    """Runs between two collections of garbage, which take as long as a fifth of a run."""
    count = 0


def play(plan: Plan, folder: Path | None = None) -> Outcome:
    """Return the outcome; `why` is None when nothing is wrong."""
    base = Path(tempfile.mkdtemp(prefix="whole-", dir=folder or (SHM if os.access(SHM, os.W_OK) else None)))
    sim = Simulation(plan.seed)
    history = History()
    noted, logger = NotedLog(sim), logging.getLogger("headrace")
    level, propagates = logger.level, logger.propagate
    logger.addHandler(noted)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    gc_was_on = gc.isenabled()
    gc.disable()  # objects of dead brokers close their files when they are freed: at the end
    why = kind = None
    cluster: Cluster | None = None
    try:
        with disks_of(sim, base / "disks") as disks:
            cluster = Cluster(sim, disks, plan.settings, plan.brokers)
            try:
                _play(sim, cluster, history, plan)
            except Exception as error:
                why, kind = f"{type(error).__name__}: {error}", error.kind if isinstance(error, Wrong) else type(error).__name__
                for note in getattr(error, "__notes__", ()):
                    why += f"\n  {note}"
                if not isinstance(error, Wrong):
                    import traceback

                    why += "\n" + "".join(traceback.format_exception(error))
            for host in cluster.hosts.values():
                sim.kill(host.process)
    finally:
        logger.removeHandler(noted)
        logger.setLevel(level)
        logger.propagate = propagates
        if gc_was_on:
            gc.enable()
        _Plays.count += 1
        if _Plays.count % _Plays.COLLECTED_EVERY == 0:
            gc.collect()
        try:
            base.rmdir()
        except OSError:
            pass
    return Outcome(
        takeovers=0 if cluster is None else takeovers(cluster),
        acknowledged=sum(len(one.values) for one in history.acknowledged),
        seen=sum(len(one.records) for one in history.seen),
        commits=len(history.committed),
        transcript=sim.transcript,
        why=why,
        kind=kind,
    )


def takeovers(cluster: Cluster) -> int:
    """Return how many leader epochs have begun after the first of each partition."""
    epochs: dict[str, set[int]] = {}
    for transaction in cluster.ensemble.log:
        for act in transaction.acts:
            if act.what == "write" and act.path.startswith("/replicas/"):
                epochs.setdefault(act.path, set()).add(json.loads(act.data)["leader_epoch"])
    return sum(len(each) - 1 for each in epochs.values())


def _play(sim: Simulation, cluster: Cluster, history: History, plan: Plan) -> None:
    for broker_id in cluster.brokers:
        cluster.start(broker_id)
    clients = Process(sim, CLIENTS, CLIENTS)
    is_made: list[bool] = []

    def make() -> None:
        code = None
        while code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            code = create_topic(Connections(cluster, clients), TOPIC, PARTITIONS, dict(plan.config))
            sim.note("topic created:", None if code is None else code.name)
            sim.sleep(100)
        is_made.append(True)

    SimulatedThread(clients, make, "make the topic").start()
    _until(sim, BEGIN_MS, lambda: bool(is_made), "the topic to be made")
    running: list[Client] = [Producer(cluster, clients, history, f"producer-{number}") for number in (1, 2)]
    running += [Reader(cluster, clients, history, f"reader-{number}", partitions=range(PARTITIONS)) for number in (1, 2)]
    running += [Member(cluster, clients, history, f"member-{number}") for number in (1, 2)]
    if plan.has_short_topic:
        running.append(ShortTopic(cluster, clients, history, NAME))
    sim.run(sim.now_us + 1_000 * MS)
    arrange(cluster, Administrator(cluster, clients, history), plan)
    sim.run(sim.now_us + (max((fault.at_ms for fault in plan.faults), default=0) + LAST_MS) * MS)
    sim.note("heal")
    heal(cluster)
    # Clients continue for a while, so that what was under way is settled while there is traffic.
    sim.run(sim.now_us + SETTLE_MS * MS)
    for one in running:
        if not isinstance(one, Reader):
            one.is_ending = True
    _until(
        sim, HEAL_MS, lambda: all(one.is_done for one in running if not isinstance(one, Reader)), "producers and members to end"
    )
    for one in running:
        one.is_ending = True
    _until(sim, HEAL_MS, lambda: all(one.is_done for one in running), "readers to end")
    if plan.retention_bytes is not None:
        sim.run(sim.now_us + RETENTION_MS * MS)
    _check(sim, cluster, clients, history, plan)


def _check(sim: Simulation, cluster: Cluster, clients: Process, history: History, plan: Plan) -> None:
    """Raises Wrong."""
    last = _last_reader(sim, cluster, clients)
    if not plan.is_damaged:
        for what in history.damaged:
            raise Wrong("damaged", what)
    check_starts(history, last.starts, last.high_watermarks, plan.retention_bytes)
    final: dict[int, list[tuple[int, bytes]]] = {partition: [] for partition in range(PARTITIONS)}
    for seen in last.history.seen:
        final[seen.partition] += seen.records
    check_records(history, final, last.starts)
    check_groups(history, cluster.ensemble.log)
    _until(sim, HEAL_MS, lambda: _is_whole(cluster), "all replicas to be in sync")
    for partition, state in cluster.states().items():
        if state["lost"]:
            raise Wrong("needless-recovery", f"partition {partition}: {state['lost']} was given up, and all had it")
    sim.run(sim.now_us + 1_000 * MS)
    if plan.is_damaged:
        _until(
            sim,
            HEAL_MS,
            lambda: _why_different(cluster, last) is None,
            "damage to be repaired",
            lambda: _why_different(cluster, last),
        )
    elif (wrong := _why_different(cluster, last)) is not None:
        raise wrong


def _why_different(cluster: Cluster, last: Reader) -> Wrong | None:
    for partition, state in cluster.states().items():
        folders = {one: cluster.disks.folder(f"broker-{one}") / f"{TOPIC}-{partition}" for one in state["replicas"]}
        try:
            check_files(folders, last.high_watermarks[partition], last.starts[partition])
        except Wrong as wrong:
            return wrong
    return None


def _last_reader(sim: Simulation, cluster: Cluster, clients: Process) -> Reader:
    """Read everything again, with a fresh reader that has a history of its own."""
    reader = Reader(cluster, clients, History(), "last reader", partitions=range(PARTITIONS))
    _until(
        sim,
        HEAL_MS,
        lambda: all(
            reader.idle[partition] >= LAST_IDLE and reader.offsets[partition] >= reader.high_watermarks[partition]
            for partition in reader.offsets
        ),
        "everything to be read",
    )
    reader.is_ending = True
    _until(sim, HEAL_MS, lambda: reader.is_done, "the last reader to end")
    for refused in reader.history.refused:
        if refused.asked_offset >= reader.starts[refused.partition]:
            raise Wrong("refused", f"{refused} of the last reader")
    return reader


def _is_whole(cluster: Cluster) -> bool:
    states = cluster.states()
    return len(states) == PARTITIONS and all(
        not state["targets"] and {int(one[0]) for one in state["members"]} == set(state["replicas"]) for state in states.values()
    )


def _until(
    sim: Simulation, within_ms: int, is_so: Callable[[], bool], what: str, why_not: Callable[[], object] = lambda: ""
) -> None:
    deadline_us = sim.now_us + within_ms * MS
    while not is_so():
        if sim.now_us >= deadline_us:
            raise Wrong("liveness", f"{within_ms} ms were not enough for {what} {why_not() or ''}")
        sim.run(sim.now_us + 50 * MS)


def failure_of(plan: Plan) -> str | None:
    """Return why a run is wrong, None when it is right."""
    return play(plan).why


def shrunk(plan: Plan, fails: Callable[[Plan], bool], *, most_plays: int = 200) -> Plan:
    """Return a plan that still fails, with as few faults as removing some of them can give."""
    faults, plays = list(plan.faults), 0
    size = max(1, len(faults) // 2)
    while size:
        at = 0
        while at < len(faults) and plays < most_plays:
            fewer = faults[:at] + faults[at + size :]
            plays += 1
            if fails(plan._replace(faults=tuple(fewer))):
                faults = fewer
            else:
                at += size
        size //= 2
    return plan._replace(faults=tuple(faults))
