"""The tiers behind the live log: what they take over, lose, double and alter, and what they report to the audit topic of it."""

from typing import TYPE_CHECKING

from headrace.audit.model.messages import RangeReport, RangeWindow, Skipped, Stretch

from .records import TOPIC, Entry, Log

if TYPE_CHECKING:
    from .world import World


class Tier:
    """One tier, partition by partition."""

    def __init__(self, world: "World", name: str, before: dict[int, Log], *, has_batches: bool) -> None:
        self.world = world
        self.name = name
        self.before = before
        self.has_batches = has_batches
        self.logs = {partition: Log() for partition in before}
        self._noted = dict.fromkeys(before, 0)
        self._changed: set[int] = set()
        """Partitions where others have changed what is there, since the tier reported last."""
        self.begins: dict[int, int] = {}
        """Partition → the offset at which it began midway."""

    def step(self, *, to_end: bool = False) -> None:
        """Take over what has come in one partition, or in all."""
        partitions = list(self.logs) if to_end else [self.world.random.choice(list(self.logs))]
        for partition in partitions:
            log = self.logs[partition]
            if not log.is_silent and self.world.happens("silence", 0.02):
                log.is_silent = True
            if not log.is_silent:
                self._take(partition, to_end=to_end)

    def _take(self, partition: int, *, to_end: bool) -> None:
        world, log, before = self.world, self.logs[partition], self.before[partition]
        if self.before is world.live and log.end < before.begins_at:
            log.skipped.append((log.end, before.begins_at, "expired"))
            log.end = before.begins_at
        end = before.end
        batches = _batches(before.between(log.end, end))
        if not to_end and batches:
            batches = batches[: world.random.randint(1, len(batches))]
            end = max([batch[-1].offset + 1 for batch in batches])
        for batch in batches:
            self._copy(log, batch)
        log.end = max(log.end, end)

    def _copy(self, log: Log, batch: list[Entry]) -> None:
        world = self.world
        if not self.has_batches:
            batch = [one._replace(crc=-1) for one in batch]
        sound = {one.offset: one for one in batch}
        if world.happens("alter", 0.1) and not world.edges.copies_again(self, log, batch[0].offset):
            content = world.new_content()
            crc = world.new_crc() if self.has_batches else -1
            changed = batch if self.has_batches else batch[:1]
            if not self.has_batches:
                log.altered.add(batch[0].offset)
            batch = [one._replace(content=content, crc=crc) if one in changed else one for one in batch]
        for one in batch:
            if world.happens("loss", 0.1) or world.edges.is_lost_at(self):
                continue
            if world.happens("quarantine", 0.1) and self.name == "warehouse":
                log.aside.append(sound[one.offset])  # as it was read
                world.edges.put_aside(self, log, sound[one.offset])
                if world.happens("double", 0.1):
                    log.held.append(one)
                continue
            log.held.append(one)
            if self.name != "offline" and world.happens("double", 0.1):
                log.held.append(one)

    def tell(self, *, to_end: bool = False) -> None:
        """Tell of what was taken over, in ranges with any borders; after a restart again from the note before."""
        world = self.world
        for partition, log in self.logs.items():
            if not to_end and world.random.random() < 0.5:
                continue
            start = self._noted[partition]
            if world.happens("restart", 0.3):
                start = world.random.randint(self.begins.get(partition, 0), start)
            if start == log.end:
                continue
            border = world.random.randint(start, log.end)
            for low, high in ((start, border), (border, log.end)):
                self._say(partition, low, high)
            self._noted[partition] = log.end
            self._changed.discard(partition)

    def begin(self, partition: int, offset: int) -> None:
        """Begin somewhere in the log."""
        self.begins[partition] = self.logs[partition].end = self._noted[partition] = offset
        self._say(partition, offset, offset)

    def tell_again(self, partition: int) -> None:
        """Tell of all again with the next range: others have changed what is there."""
        self._noted[partition] = 0
        self._changed.add(partition)

    def announce(self) -> None:
        for partition in self.logs:
            self._say(partition, 0, 0)

    def _say(self, partition: int, start: int, end: int) -> None:
        log = self.logs[partition]
        windows = {
            window: RangeWindow(
                held=stretches(one for one in log.held if one.window == window and start <= one.offset < end),
                quarantined=stretches(one for one in log.aside if one.window == window and start <= one.offset < end),
                altered=stretches(
                    one for one in log.held if one.window == window and start <= one.offset < end and one.offset in log.altered
                ),
            )
            for window in {one.window for one in (*log.held, *log.aside) if start <= one.offset < end}
        }
        report = RangeReport(
            tier=self.name,
            instance="one",
            at_ms=0,
            topic=TOPIC,
            partition=partition,
            from_offset=start,
            to_offset=end,
            windows=windows,
            skipped=tuple(
                Skipped(max(low, start), min(high, end), reason)
                for low, high, reason in log.skipped
                if low < end and start < high
            ),
        )
        if start < end and self.world.happens("vanished_report", 0.05) and partition not in self._changed:
            return
        log.told.append((start, end))
        self.world.publish(report)


def stretches(entries: "object") -> tuple[Stretch, ...]:
    """Return the records as stretches: those that follow each other in one batch are one."""
    found: list[Stretch] = []
    for one in sorted(entries, key=lambda entry: entry.offset):  # type: ignore[call-overload]
        crc = None if one.crc == -1 else one.crc
        if found and found[-1].end == one.offset and found[-1].crc == crc:
            found[-1] = Stretch(found[-1].first, found[-1].count + 1, crc)
        else:
            found.append(Stretch(one.offset, 1, crc))
    return tuple(found)


def _batches(entries: list[Entry]) -> list[list[Entry]]:
    batches: list[list[Entry]] = []
    for one in entries:
        if (
            batches
            and (batches[-1][-1].offset + 1 == one.offset or batches[-1][-1].offset == one.offset)
            and batches[-1][-1].crc == one.crc
        ):
            batches[-1].append(one)
        else:
            batches.append([one])
    return batches
