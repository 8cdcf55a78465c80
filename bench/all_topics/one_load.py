"""One load of all topics, as a process; prints what it did, and its own memory at its first and its last commit, as JSON."""

import json
import sys
from pathlib import Path
from typing import Any

from headrace.spark.all_topics.job import AllTopicsJob
from headrace.spark.load.settings import ALL_TOPICS, LoadSettings
from headrace.spark.load.topic_load import TopicLoad


def _rss_mib() -> int:
    words = Path("/proc/self/status").read_text().split()
    return int(words[words.index("VmRSS:") + 1]) >> 10


def main() -> None:
    topics, warehouse, bootstrap, registry_url = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr
    seen: list[int] = []
    commit = TopicLoad.commit

    def observe(load: TopicLoad, *words: Any) -> Any:
        found = commit(load, *words)
        seen.append(_rss_mib())
        return found

    observed: Any = observe
    TopicLoad.commit = observed  # type: ignore[method-assign]
    settings = LoadSettings(
        topic=ALL_TOPICS,
        bootstrap=bootstrap,
        quarantine_bootstrap=bootstrap,
        registry_url=registry_url,
        warehouse=Path(warehouse),
        home=None,
    )
    done = AllTopicsJob(settings).run(Path(topics).read_text().split())
    if done.faults:
        raise SystemExit(f"{done.faults}")
    rows = sum(one.row_count for one in done.loads)
    at = {"first": seen[0], "a tenth": seen[len(seen) // 10], "half": seen[len(seen) // 2], "last": seen[-1]} if seen else {}
    print(json.dumps({"loads": len(done.loads), "rows": rows, "rss_mib_at_commit": at}), file=answers, flush=True)


main()
