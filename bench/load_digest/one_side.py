"""One side of the pairs, as a process: loads the topic into each warehouse whose folder it reads from stdin, one a line.

It keeps its JVM, so that a measured load is a load and no start. Answers each line with one of JSON. Run by path: then
`headrace` is what PYTHONPATH names.
"""

import json
import sys
from pathlib import Path

from headrace.spark.load.load_job import LoadJob
from headrace.spark.load.settings import LoadSettings
from headrace.spark.warehouse.warehouse import Warehouse


def main() -> None:
    topic, bootstrap, registry_url = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        folder = Path(line.strip())
        settings = LoadSettings(
            topic=topic,
            bootstrap=bootstrap,
            quarantine_bootstrap=bootstrap,
            registry_url=registry_url,
            warehouse=folder,
            home=None,
        )
        done = LoadJob(settings).run()
        (run,) = Warehouse(folder).existing_table(topic).runs()
        print(json.dumps({"rows": done.row_count, "partitions_with_digests": len(run.record.digests)}), file=answers, flush=True)


main()
