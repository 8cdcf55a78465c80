"""What happens at the edges of a history: to the quarantine topic, the warehouse and the ends of logs, to the host's clock, to
the audit topic, and what comes from another topic. Each is drawn by itself: a seed without any is as it was before.

Some combinations are not drawn, because no report and no log is left that shows them:
- The offline log loses its tail, and copies it again with another content. The load may have copied the tail before, and it does
  not report the content of rows.
- Others change rows of the warehouse, and the load's next report on these offsets is lost. The report before it stays in force.
- The live log loses its tail, and a tier that had copied the tail never reports that (`_can_be_known`).
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.audit.model.checks.digests import digest_of_tier
from headrace.audit.model.messages import KnownDifference
from headrace.audit.model.tiers import OFFLINE, WAREHOUSE
from headrace.audit.service.hearing import other_audits
from headrace.audit.service.hearing.other_audits import Position

from .quarantine_topic import QuarantineTopic
from .records import TOPIC, Batch, Entry, Log
from .tiers import Tier

if TYPE_CHECKING:
    from .world import World

EDGES = ("quarantine", "crossing", "clock", "second", "unread", "midway", "word", "shrink", "cut", "others")
SHARE = 0.15
LATE_SINK = "sink:late"
OTHER_TOPIC = "orders"


class Edges:
    """The edges of one history."""

    def __init__(self, world: "World") -> None:
        from .producers import Run

        self.world = world
        self.faults = {name for name in EDGES if random.Random(f"edge {name} {world.seed}").random() < SHARE}
        self.random = random.Random(f"edges {world.seed}")
        self.is_at_rest = False
        """Nothing is logged any more."""
        self.runs: list[Run] = []
        """Of another topic."""
        self.other_logs = {partition: Log() for partition in world.partitions}
        if "crossing" in self.faults:
            self.runs.append(Run(world, "host/orders", world.now_ms - 3_000, 770, topic=OTHER_TOPIC))
        self.quarantine = None
        if "quarantine" in self.faults:
            world.faults.add("quarantine")
            self.quarantine = QuarantineTopic(world, self.random)
        self.late = Tier(world, LATE_SINK, world.live, has_batches=False)
        self.second_heard: list[int] = []
        """What of the audit topic a second audit, with a store of its own, has read."""
        self._second_at = 0
        self._trimmed_to = 0
        self.words: dict[int, Counter[tuple[str, int, int]]] = {}
        """Window → what differed at the warehouse when an operator accepted it."""
        self._copied_below = dict.fromkeys(world.partitions, 0)
        """Partition → up to where the offline log had copied when it lost its tail."""
        self.has_changed = False
        """What was true of a window before is not true of it now."""

    @property
    def is_second(self) -> bool:
        return "second" in self.faults

    def deeds(self) -> list[Callable[[], None]]:
        of = self.faults
        deeds: list[Callable[[], None]] = []
        if self.quarantine is not None:
            deeds += [self.quarantine.read, self.quarantine.happens]
        deeds += [self._jump] if "clock" in of else []
        deeds += [self._second_listens, self._trim] if "second" in of else []
        deeds += [self.late.step, self.late.tell] if self.late.begins else [self._begin_late] if "midway" in of else []
        deeds += [self._shrink] if "shrink" in of else []
        deeds += [self._cut] if "cut" in of and self.is_at_rest else []
        deeds += [self._roll_back, self._add_rows] if "others" in of else []
        deeds += [self._accept, self._exchange] if "word" in of else []
        return deeds

    def end(self, look: Callable[["World"], None] | None) -> None:
        """Let everybody come to an end, before the audit listens for the last time. `look` is called before the quarantine topic
        is read.
        """
        if "midway" in self.faults and self.late.begins:
            self.late.step(to_end=True)
            self.late.tell(to_end=True)
        if "word" in self.faults:
            self.world.listen()
            self._accept()
            self._exchange()
            self.world.warehouse.tell(to_end=True)
        if self.quarantine is not None:
            self.world.listen()
            self.world.now_ms += 100
            if look is not None:
                look(self.world)
            self.quarantine.read(to_end=True)
            for _ in range(self.random.randint(0, 3)):
                self.quarantine.happens()
            self.quarantine.read(to_end=True)
        self.second_heard += range(self._second_at, len(self.world.topic))

    def put_aside(self, tier: Tier, log: Log, entry: Entry) -> None:
        """The load writes a quarantine record."""
        if self.quarantine is not None:
            partition = next(partition for partition, one in tier.logs.items() if one is log)
            self.quarantine.put(partition, entry)

    # -- other topics ----------------------------------------------------------------------------------------------------

    def log_of(self, batch: Batch) -> Log | None:
        """Return the log that a batch of another topic goes to; None: it goes astray to ours (KAFKA-19012), or is ours."""
        if batch.run not in self.runs or self.random.random() < 0.4:
            return None
        return self.other_logs[batch.partition]

    # -- the audit's hearing ---------------------------------------------------------------------------------------------

    def _jump(self) -> None:
        self.world.clock.jump(self.random.choice([-7_200_000, 7_200_000, -60_000, 60_000]))

    def _second_listens(self) -> None:
        self.second_heard += range(self._second_at, len(self.world.topic))
        self._second_at = len(self.world.topic)

    def _trim(self) -> None:
        """The first audit deletes of the audit topic what every audit has read."""
        mine, now_ms = self.world.heard, self.world.now_ms
        others = [Position("second", now_ms, {0: self._second_at})]
        self._trimmed_to = max(self._trimmed_to, other_audits.least({0: mine}, others, now_ms)[0])
        self._second_at = max(self._second_at, self._trimmed_to)

    # -- logs that become shorter ----------------------------------------------------------------------------------------

    def _shrink(self) -> None:
        """The offline log loses its tail, which is copied again or is not."""
        partition = self.random.choice(self.world.partitions)
        log = self.world.offline.logs[partition]
        border = self._border(log)
        if border is None or self._is_altered(partition, border):
            return
        self.has_changed = True
        self._copied_below[partition] = max(self._copied_below[partition], log.end)
        log.held = [one for one in log.held if one.offset < border]
        log.end = border
        log.is_silent |= self.random.random() < 0.3
        self.world.forget_all(OFFLINE)

    def _cut(self) -> None:
        """The live log loses its tail behind the last record that is logged, once all have copied what they wanted of it."""
        partition = self.random.choice(self.world.partitions)
        log = self.world.live[partition]
        border = self._border(log)
        if border is None or log.cut or any(why == "corrupt" for _, _, why in log.skipped):
            return
        if not self._can_be_known(partition, border):
            return
        self.has_changed = True
        log.cut = [one for one in log.held if one.offset >= border]
        log.held = [one for one in log.held if one.offset < border]
        log.end = border
        was_read = self.world.was_read
        self.world.lost_after_reading += [(partition, one) for one in log.cut if (partition, one.offset) in was_read]
        self.world.forget("live", partition, log.begins_at)

    def _is_altered(self, partition: int, border: int) -> bool:
        """Return whether the offline log holds from `border` on anything with another content than the mirror."""
        copied = {(one.offset, one.content) for one in self.world.mirror.logs[partition].held}
        held = self.world.offline.logs[partition].held
        return any(one.offset >= border and (one.offset, one.content) not in copied for one in held)

    def copies_again(self, tier: Tier, log: Log, offset: int) -> bool:
        """Return whether the tier is the offline log and copies again what it held before it lost its tail."""
        offline = self.world.offline
        return tier is offline and any(log is offline.logs[at] and offset < end for at, end in self._copied_below.items())

    def _can_be_known(self, partition: int, border: int) -> bool:
        """Return whether it will be known what the tiers that read live copied from `border` on, once live ends there.

        A report may be lost. The mirror's copy is known without it if the audit has read the record on live, and reads it in the
        offline log, now or once that has copied all.
        """
        world = self.world
        if "vanished_report" not in world.faults:
            return True
        copies_all = "shrink" not in self.faults and not world.faults & {"loss", "silence"}
        copies = world.mirror.logs[partition].held if copies_all else world.offline.logs[partition].held
        copied = {one.offset for one in copies if (partition, one.offset) in world.was_read}
        for tier, known in ((world.mirror, copied), (world.group, set[int]())):
            log = tier.logs[partition]
            if any(one.offset >= border and not log.has_told(one.offset) and one.offset not in known for one in log.held):
                return False
        return True

    def _border(self, log: Log) -> int | None:
        """Return where a batch begins, among the last that are there."""
        borders = [
            one.offset
            for at, one in enumerate(log.held)
            if one.offset >= log.begins_at and (not at or log.held[at - 1].crc != one.crc)
        ]
        return self.random.choice(borders[-4:]) if borders else None

    # -- others in the warehouse -----------------------------------------------------------------------------------------

    def _told_again(self, partition: int) -> None:
        self.has_changed = True
        self.world.warehouse.tell_again(partition)

    def _roll_back(self) -> None:
        """The rows of the last loads are gone."""
        partition = self.random.choice(self.world.partitions)
        log = self.world.warehouse.logs[partition]
        if log.held:
            border = self.random.choice(log.held).offset
            log.held = [one for one in log.held if one.offset < border]
            self._told_again(partition)

    def _add_rows(self) -> None:
        """A row is there again, or one that is of no record."""
        partition = self.random.choice(self.world.partitions)
        log = self.world.warehouse.logs[partition]
        if not log.held:
            return
        row = self.random.choice(log.held)
        if self.random.random() < 0.5:
            taken = {one.offset for one in self.world.live[partition].held}
            free = [at for at in range(log.end) if at not in taken and at not in {one.offset for one in log.held}]
            if not free:
                return
            (record,) = self.world.new_records(1)
            row = Entry(self.random.choice(free), record, 0, -1, row.window)
        log.held.append(row)
        self._told_again(partition)

    # -- an operator's word -------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        """A person accepts what differs at the warehouse, where the audit says what is true."""
        from .truth import truth_of

        for window in self.world.windows:
            verdict = self.world.judge(window, later_ms=100_000)
            mine = [] if verdict is None else [one for one in verdict.differences if one.tier == WAREHOUSE]
            if verdict is None or not verdict.kind.is_final or not mine or window in self.words:
                continue
            truth = truth_of(self.world, window)
            numbers = tuple(sum(getattr(one, name) for one in mine) for name in ("missing", "doubled", "altered"))
            if numbers != (truth.missing[WAREHOUSE], truth.doubled[WAREHOUSE], truth.altered[WAREHOUSE]):
                continue
            self.words[window] = truth.named[WAREHOUSE]
            missing, doubled, altered = numbers
            self.world.publish(KnownDifference(
                topic=TOPIC, window_start_ms=window, tier=WAREHOUSE, kind="lost", missing=missing, doubled=doubled,
                altered=altered, at_ms=0, by="anna", reason="known", digest=digest_of_tier(mine),
            ))  # fmt: skip

    def _exchange(self) -> None:
        """A row of a window that was accepted comes back, and another one of it is lost."""
        for window in self.words:
            for partition, log in self.world.warehouse.logs.items():
                there = {one.offset for one in (*log.held, *log.aside)}
                back = [
                    one._replace(crc=-1)
                    for one in self.world.offline.logs[partition].held
                    if one.window == window and one.offset not in there and one.offset < log.end
                ]
                counts = [one.offset for one in log.held]
                sound = [one for one in log.held if one.window == window and counts.count(one.offset) == 1]
                if back and sound and self.random.random() < 0.7:
                    log.held.remove(self.random.choice(sound))
                    row = self.random.choice(back)
                    log.held.append(row)
                    log.altered.discard(row.offset)  # The row that the load had altered is gone; this one is sound.
                    self._told_again(partition)

    def is_lost_at(self, tier: Tier) -> bool:
        """Return whether the sink that began midway loses the record at hand."""
        return tier is self.late and self.random.random() < 0.1

    # -- who begins midway -----------------------------------------------------------------------------------------------

    def _begin_late(self) -> None:
        """A sink begins somewhere in each log."""
        for partition, log in self.world.live.items():
            offsets = [one.offset for one in log.held if one.offset >= log.begins_at]
            self.late.begin(partition, self.random.choice([log.begins_at, log.end, *offsets, *offsets]))
