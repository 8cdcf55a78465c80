"""What a run of a producer has to report and has not yet: batches with their ends, losses by name. Pure; the caller holds a lock.

Batches are forgotten once they are taken into a report; losses are kept, because reports give them as totals.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from ...client.producer.delivery import BatchNumbers
from ..model.messages import MAX_STRETCHES, MAX_WINDOWS, ProducerWindow, Renumbered, SentRanges, Stretch

_SEQUENCES = 1 << 31
"""A producer's sequence numbers begin again at 0 behind 2^31 - 1."""
_PIECE = 1_000
"""Stretches of one `SentRanges` at most."""
_PIECE_WEIGHT = 4
"""What a `SentRanges` takes in a message besides its stretches, in stretches."""

WindowKey = tuple[str, int]
"""Topic and window start (ms)."""


@dataclass(slots=True)
class _Sent:
    acknowledged: list[Stretch] = field(default_factory=list)
    uncertain: list[Stretch] = field(default_factory=list)
    renumbered: list[Renumbered] = field(default_factory=list)


class Unreported:
    """Batches and losses since the last `take`."""

    def __init__(self, most_stretches: int) -> None:
        """With more than `most_stretches` stretches, neighbours become one stretch without a CRC."""
        self._most_stretches = self._coalesce_at = most_stretches
        self._sent: dict[WindowKey, dict[tuple[int, int, int], _Sent]] = {}
        """By partition, producer id and epoch."""
        self._losses: dict[WindowKey, dict[str, int]] = {}
        """Totals of this run."""
        self._changed_losses: set[WindowKey] = set()
        self.stretch_count = 0
        self.coalesced_count = 0
        """Stretches that were joined to their neighbour because too many waited, since the beginning."""

    @property
    def has_any(self) -> bool:
        return bool(self._sent or self._changed_losses)

    @property
    def loss_window_count(self) -> int:
        return len(self._losses)

    def add_batch(
        self, key: WindowKey, partition: int, numbers: Sequence[BatchNumbers], count: int, *, is_acknowledged: bool
    ) -> None:
        """Add a batch that is acknowledged, or else perhaps stored. `numbers` as in `Delivery`, not empty. Hot: once a batch."""
        last = numbers[-1]
        sent = self._of(key, partition, last)
        into = sent.acknowledged if is_acknowledged else sent.uncertain
        before = _SEQUENCES - last.first_sequence
        if count <= before:
            into.append(Stretch(last.first_sequence, count, last.crc))
        else:
            into += (Stretch(last.first_sequence, before, last.crc), Stretch(0, count - before, last.crc))
        self.stretch_count += 1
        if len(numbers) > 1:
            for old, new in pairwise(numbers):
                self._of(key, partition, old).renumbered += _renumbered(old, new, count)
                self.stretch_count += 1
        if self.stretch_count > self._coalesce_at:
            self._coalesce()

    def add_loss(self, key: WindowKey, name: str, count: int) -> None:
        losses = self._losses.setdefault(key, {})
        losses[name] = losses.get(name, 0) + count
        self._changed_losses.add(key)

    def take(self) -> list[list[ProducerWindow]]:
        """Return what is to be reported, as the windows of one message after another (at least one), and forget the batches."""
        messages: list[list[ProducerWindow]] = []
        windows: dict[WindowKey, list[SentRanges]] = {}
        losses: dict[WindowKey, dict[str, int]] = {}
        weight = 0

        def end_message() -> None:
            nonlocal windows, losses, weight
            messages.append(
                [
                    ProducerWindow(topic=key[0], window_start_ms=key[1], sent=tuple(sent), losses=losses.get(key, {}))
                    for key, sent in windows.items()
                ]
            )
            windows, losses, weight = {}, {}, 0

        for key in sorted(self._sent.keys() | self._changed_losses):
            if len(windows) == MAX_WINDOWS:
                end_message()
            windows[key] = []
            if key in self._changed_losses:
                losses[key] = dict(self._losses[key])
            for piece, piece_weight in self._pieces(key):
                if weight + piece_weight > MAX_STRETCHES:
                    end_message()
                windows.setdefault(key, []).append(piece)
                weight += piece_weight
        end_message()
        self._sent, self._changed_losses, self.stretch_count = {}, set(), 0
        self._coalesce_at = self._most_stretches
        return messages

    def forget_losses(self) -> None:
        """Begin the totals from nothing: those so far are reported, and belong to an earlier run."""
        self._losses, self._changed_losses = {}, set()

    def _of(self, key: WindowKey, partition: int, numbers: BatchNumbers) -> _Sent:
        sent = self._sent.get(key)
        if sent is None:
            sent = self._sent[key] = {}
        name = (partition, numbers.producer_id, numbers.producer_epoch)
        found = sent.get(name)
        if found is None:
            found = sent[name] = _Sent()
        return found

    def _pieces(self, key: WindowKey) -> Iterator[tuple[SentRanges, int]]:
        for (partition, producer_id, producer_epoch), sent in self._sent.get(key, {}).items():
            ranges = partial(SentRanges, partition=partition, producer_id=producer_id, producer_epoch=producer_epoch)
            for at in range(0, len(sent.acknowledged), _PIECE):
                some = tuple(sent.acknowledged[at : at + _PIECE])
                yield ranges(acknowledged=some), _PIECE_WEIGHT + len(some)
            for at in range(0, len(sent.uncertain), _PIECE):
                some = tuple(sent.uncertain[at : at + _PIECE])
                yield ranges(uncertain=some), _PIECE_WEIGHT + len(some)
            for at in range(0, len(sent.renumbered), _PIECE):
                moved = tuple(sent.renumbered[at : at + _PIECE])
                yield ranges(renumbered=moved), _PIECE_WEIGHT + 2 * len(moved)

    def _coalesce(self) -> None:
        """Join neighbours. What is left grows with windows, partitions and ids, no more with batches."""
        count = 0
        for by_numbers in self._sent.values():
            for sent in by_numbers.values():
                sent.acknowledged, sent.uncertain = _joined(sent.acknowledged), _joined(sent.uncertain)
                count += len(sent.acknowledged) + len(sent.uncertain) + len(sent.renumbered)
        self.coalesced_count += self.stretch_count - count
        self.stretch_count = count
        # Not again at the next batch, where little could be joined.
        self._coalesce_at = max(self._most_stretches, 2 * count)


def _renumbered(old: BatchNumbers, new: BatchNumbers, count: int) -> list[Renumbered]:
    cuts = sorted(
        {0, count, *(at for at in (_SEQUENCES - old.first_sequence, _SEQUENCES - new.first_sequence) if 0 < at < count)}
    )
    return [
        Renumbered(
            Stretch((old.first_sequence + start) % _SEQUENCES, end - start, old.crc),
            new.producer_id,
            new.producer_epoch,
            (new.first_sequence + start) % _SEQUENCES,
        )
        for start, end in pairwise(cuts)
    ]


def _joined(stretches: list[Stretch]) -> list[Stretch]:
    joined: list[Stretch] = []
    for one in stretches:
        if joined and joined[-1].end == one.first:
            joined[-1] = Stretch(joined[-1].first, joined[-1].count + one.count, None)
        else:
            joined.append(one)
    return joined
