"""What is done again and again for each log costs as much as logs have changed, however many there are."""

from pathlib import Path
from unittest import mock

import pytest

from headrace.broker.event_loop.loop import Loop
from headrace.broker.event_loop.worker import Worker
from headrace.broker.log import PartitionLog
from headrace.broker.partitions.checkpoints import Checkpoints
from headrace.broker.partitions.maintenance import Maintenance
from headrace.broker.partitions.partition import PartitionTable
from tests.support.serving_broker import NOW_MS, ServingBroker
from tests.support.small_logs import batch


@pytest.mark.parametrize("count", [10, 20])
def test_passes_look_only_at_logs_that_have_changed(tmp_path: Path, count: int) -> None:
    serving = ServingBroker(tmp_path, topics={"t": count})
    table = serving.table
    loop = Loop()
    checkpoints = Checkpoints(loop, Worker("sidecars", loop.post))
    maintenance = Maintenance(loop, mock.Mock(), mock.Mock(), serving.settings, lambda: NOW_MS)
    with mock.patch.object(Worker, "start"):
        checkpoints.start(table)
        maintenance.start(table)
    for _ in range(3):
        passes(checkpoints, maintenance)
    touched = list(table)[3]
    touched.log.append(batch(b"one"), NOW_MS)
    touched.appended(1, 100)
    with (
        mock.patch.object(PartitionLog, "unindexed_bytes", new_callable=mock.PropertyMock, return_value=7) as weighed,
        mock.patch.object(PartitionLog, "note_job", return_value=None) as noted,
    ):
        for _ in range(3):
            passes(checkpoints, maintenance)
    assert (weighed.call_count, noted.call_count) == (1, 1)
    assert checkpoints._total_bytes == 7
    table.remove_topic("t")
    passes(checkpoints, maintenance)
    assert (checkpoints._total_bytes, checkpoints._unindexed, checkpoints._changed, maintenance._changed) == (0, {}, {}, {})
    loop.close()
    serving.loop.close()


def passes(checkpoints: Checkpoints, maintenance: Maintenance) -> None:
    checkpoints._begin_pass()
    maintenance._rolled_pass()


def test_a_follower_gets_what_came_and_what_was_appended_to(tmp_path: Path) -> None:
    serving = ServingBroker(tmp_path, topics={"t": 2})
    followed: set[object] = PartitionTable.follow(serving.table)  # type: ignore[assignment]  # a wider set
    assert len(followed) == 2
    followed.clear()
    serving.table.tell_followers()
    assert len(followed) == 2, "they came"
    followed.clear()
    serving.partition("t", 1).appended(1, 1)
    serving.table.tell_followers()
    assert list(followed) == [serving.partition("t", 1)]
    serving.loop.close()
