"""What the check of windows and copies is worth: a record that is taken out of the copy is missed by both witnesses."""

from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from headrace.local.drills.batch_damage import stored_batches
from headrace.local.drills.log_surgery import cut_out
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually

from .cluster import TOPIC
from .downstream import Downstream
from .history import faults_of_logged
from .logging_rounds import LOGGED


@dataclass
class OneBroker:
    """A live cluster of one broker."""

    broker: BrokerProcess
    partitions: int = 1

    @property
    def addresses(self) -> str:
        return self.broker.address


def test_a_record_that_the_copy_loses_is_found(tmp_path: Path, zookeeper_chroot: str) -> None:
    with BrokerProcess(tmp_path / "live", zookeeper_chroot) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        for made in admin.create_topics([NewTopic(TOPIC, 1, 1), NewTopic(LOGGED, 1, 1)]).values():
            made.result(30)
        with Downstream(tmp_path / "downstream", OneBroker(broker)) as downstream:
            for number in (1, 2):
                logging = downstream.log(number)
                eventually(lambda logging=logging: len(logging.taken) >= 50, what="events")  # type: ignore[misc]
                assert logging.end() == []
            eventually(lambda: not downstream.faults(), within_ms=60_000, what=f"two whole windows; {downstream.faults()}")
            assert downstream.final_faults(set()) == []

            assert downstream.broker.stop() == 0
            lost = stored_batches(downstream.broker.data, LOGGED)[7]
            cut_out(lost)
            downstream.broker.start(60_000)

            def found() -> bool:
                return any("INCOMPLETE" in fault for fault in downstream.faults())

            eventually(found, within_ms=60_000, what=f"the audit misses it; {downstream.faults()}")
            (fault,) = downstream.faults()
            assert fault.startswith("window of round 1: "), fault

            def gone() -> int:
                found = downstream.final_faults(set(), within_s=2)
                return len([one for one in found if one.startswith("offline: lost-write")])

            eventually(lambda: gone() == lost.record_count, within_ms=60_000, what="librdkafka misses the same records")


def test_what_a_copy_of_logged_values_has_wrong_is_found() -> None:
    rows = [(0, 70, "1.0"), (0, 140, "1.1")]
    assert faults_of_logged({"1.0", "1.1"}, rows) == []
    assert faults_of_logged({"1.0", "1.1", "1.2"}, rows) == ["lost-write: 1.2"]
    assert faults_of_logged({"1.0"}, rows) == ["never logged: 1.1"]
    assert faults_of_logged({"1.0", "1.1"}, [*rows, (0, 210, "1.1")]) == ["duplicate: 1.1, 2 times"]
