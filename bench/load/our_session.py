"""Ours as a process: loads the topic into each warehouse whose folder it reads from stdin, all in one Spark session.

Answers each line with the number of rows. `python our_session.py TOPIC BOOTSTRAP REGISTRY`.
"""

import sys
import tempfile
from pathlib import Path

from headrace.spark.load.load_job import LoadJob
from headrace.spark.load.row_writer import RowWriter
from headrace.spark.load.settings import LoadSettings


class LastingWriter(RowWriter):
    """Keeps its session between loads."""

    def close(self) -> None:
        pass


def main() -> None:
    topic, bootstrap, registry_url = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr
    writer: LastingWriter | None = None
    for line in sys.stdin:
        settings = LoadSettings(
            topic=topic,
            bootstrap=bootstrap,
            quarantine_bootstrap=bootstrap,
            registry_url=registry_url,
            warehouse=Path(line.strip()),
            home=None,
        )
        writer = writer or LastingWriter(settings, scratch=Path(tempfile.mkdtemp()))
        job = LoadJob(settings)
        job._writer = writer
        print(job.run().row_count, file=answers, flush=True)


main()
