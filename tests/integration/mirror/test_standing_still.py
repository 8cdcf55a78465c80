"""A mirror that makes no progress while its source grows reports this with the reason, and becomes ready again without help."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.local.supervisor import probes
from headrace.local.supervisor.process_table import Probe
from tests.integration.mirror.pair import Pair
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually

STALL_MS = 1_500


@pytest.fixture
def hasty(zookeeper_chroot: str, tmp_path: Path) -> Iterator[Pair]:
    """A mirror that soon reports that it makes no progress."""
    with Pair(tmp_path, zookeeper_chroot) as pair:
        pair.mirror.command += ["--stall-after-ms", str(STALL_MS)]
        yield pair


def send(pair: Pair, topic: str, count: int) -> None:
    producer = pair.producer()
    for number in range(count):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(20) == 0


def looked(pair: Pair) -> str:
    """Return what `headrace status` shows of the mirror; empty if it is well."""
    return probes.look(Probe(status_file=pair._status), pair.mirror.pid) or ""


def test_a_mirror_whose_destination_hangs_says_since_when_and_goes_on_by_itself(hasty: Pair) -> None:
    hasty.start_mirror()
    send(hasty, "clicks", 50)
    hasty.await_level("clicks")
    eventually(lambda: hasty.status()["destination"]["lag_bytes"] == 0, what="level in the status, too")
    os.kill(hasty.offline.pid, signal.SIGSTOP)
    try:
        send(hasty, "clicks", 50)
        eventually(lambda: hasty.status()["state"] == "stalled", within_ms=40_000, what="the standstill told")
        told = hasty.status()
        assert told["destination"]["lag_bytes"] > 0
        assert told["destination"]["bootstrap"] == hasty.offline.address
        assert told["at_ms"] - told["destination"]["no_progress_since_ms"] >= STALL_MS
        assert looked(hasty).startswith("has made no progress since 20")
        assert "clicks-" in looked(hasty)
        assert hasty.mirror.is_running()
    finally:
        os.kill(hasty.offline.pid, signal.SIGCONT)
    hasty.await_level("clicks")
    eventually(lambda: hasty.status()["state"] == "ready", what="ready by itself")
    assert hasty.status()["destination"]["no_progress_since_ms"] is None
    assert looked(hasty) == ""
    output = hasty.mirror.output()
    assert "mirror_stands_still" in output
    assert "mirror_moves_again" in output


def test_a_mirror_whose_destination_is_gone_names_it_also_for_a_topic_that_was_not_begun(hasty: Pair) -> None:
    hasty.start_mirror()
    hasty.offline.kill()
    send(hasty, "orders", 20)
    eventually(lambda: "orders-" in str(hasty.status().get("reason")), within_ms=40_000, what="the new topic told")
    told = hasty.status()
    assert told["state"] == "stalled"
    assert hasty.offline.address in told["destination"]["last_error"]
    hasty.offline.restart()
    hasty.await_level("orders")
    eventually(lambda: hasty.status()["state"] == "ready", what="ready by itself")


def test_a_mirror_whose_reports_do_not_arrive_says_so_though_it_copies(
    zookeeper_chroot: str, tmp_path: Path, hasty: Pair
) -> None:
    """Names a lack of the issue's section 5: it was `ready`, and the audit silently heard nothing."""
    third = BrokerProcess(tmp_path / "third", f"{zookeeper_chroot}/third")
    hasty.mirror.command += ["--audit-bootstrap", third.address]
    with third:
        hasty.start_mirror()
        send(hasty, "clicks", 50)
        hasty.await_level("clicks")
    send(hasty, "clicks", 50)
    hasty.await_level("clicks")
    eventually(lambda: "do not reach the audit since 20" in looked(hasty), within_ms=60_000, what="the reports that fail told")
    assert third.address in looked(hasty)
    with third:
        eventually(lambda: looked(hasty) == "", within_ms=60_000, what="ready by itself")


def test_a_mirror_that_hangs_is_told_by_its_silence(hasty: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    hasty.start_mirror()
    monkeypatch.setattr(probes, "BEATS", 3)
    hasty.freeze_mirror()
    try:
        eventually(lambda: "it hangs" in looked(hasty), what="the silence told")
    finally:
        hasty.thaw_mirror()
    eventually(lambda: looked(hasty) == "", what="ready by itself")
