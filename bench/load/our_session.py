"""Ours as a process: loads the topic into each warehouse whose folder it reads from stdin, all in one Spark session.

Answers each line with the number of rows. `python our_session.py TOPIC BOOTSTRAP REGISTRY`.
"""

import sys
from pathlib import Path

from headrace.spark.load.load_job import LoadJob
from headrace.spark.load.row_writer import RowWriter
from headrace.spark.load.settings import LoadSettings


def main() -> None:
    topic, bootstrap, registry_url = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr
    setattr(RowWriter, "close", lambda self: None)  # noqa: B010 -- the next load goes on in the same session
    for line in sys.stdin:
        settings = LoadSettings(
            topic=topic,
            bootstrap=bootstrap,
            quarantine_bootstrap=bootstrap,
            registry_url=registry_url,
            warehouse=Path(line.strip()),
            home=None,
        )
        print(LoadJob(settings).run().row_count, file=answers, flush=True)


main()
