"""A peer of the agent: rsyslog from Debian, imfile to omkafka. It sends each line as it is: no parsing, no Avro."""

import shutil
from pathlib import Path

from ..harness.child import Child, free_port
from ..harness.proc_meters import cpu_s
from ..harness.unavailable import Unavailable


class Rsyslog:
    """One rsyslogd that follows one file."""

    def __init__(self, folder: Path, *, log: Path, bootstrap: str, topic: str) -> None:
        """Raises `Unavailable`."""
        program = shutil.which("rsyslogd")
        module = next(Path("/usr/lib").glob("*/rsyslog/omkafka.so"), None)
        if program is None or module is None:
            raise Unavailable("rsyslog with omkafka is missing (Debian: rsyslog rsyslog-kafka)")
        folder.mkdir(parents=True)
        settings = folder / "rsyslog.conf"
        settings.write_text(f"""
global(workDirectory="{folder}")
module(load="imfile")
module(load="omkafka")
template(name="line" type="string" string="%msg%")
main_queue(queue.type="LinkedList" queue.size="200000" queue.dequeueBatchSize="4096")
input(type="imfile" file="{log}" tag="log" readMode="0")
action(type="omkafka" broker=["{bootstrap}"] topic="{topic}" template="line" partitions.auto="on" resubmitOnFailure="on"
       confParam=["queue.buffering.max.messages=1000000", "linger.ms=50"])
""")
        command = [program, "-n", "-f", str(settings), "-i", str(folder / "pid")]
        self._child = Child(command, folder / "rsyslog.log", port=free_port())

    def start(self) -> None:
        self._child.launch()

    def cpu_s(self) -> float:
        """Return the processor time that it has used so far."""
        self._child.assert_alive()
        return cpu_s([self._child.pid])

    def stop(self) -> None:
        self._child.stop()
