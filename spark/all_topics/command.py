"""`python -m headrace.spark.all_topics.command`: what is new of all topics into the warehouse; `spark-submit` runs it too."""

import argparse
import sys
from collections.abc import Sequence

from ...errors import HeadraceError
from ...runtime import logs
from ...runtime.layout import Layout
from ..errors import FAULTS_EXIT_CODE
from ..load.arguments import add_arguments, settings_of
from ..load.offline_topics import loadable_topics
from ..load.settings import ALL_TOPICS
from .job import AllTopicsJob, words_of

log = logs.get_logger(__name__)


def main(words: Sequence[str] | None = None) -> int:
    """Load, name each topic that could not be loaded on stderr, and return FAULTS_EXIT_CODE if there is one."""
    layout = Layout.from_environment()
    parser = argparse.ArgumentParser(
        prog="headrace.spark.all_topics.command",
        description="load what is new of all topics into the warehouse, in one Spark application",
    )
    parser.add_argument("--topic", action="append", default=[], help="only this one (may be given more than once)")
    add_arguments(parser, layout)
    arguments = parser.parse_args(words)
    logs.configure("load")
    try:
        topics = arguments.topic or loadable_topics(bootstrap=arguments.bootstrap)
        outcome = AllTopicsJob(settings_of(arguments, layout, ALL_TOPICS)).run(topics)
    except HeadraceError as error:
        print(f"load: {error}", file=sys.stderr)  # noqa: T201
        return 1
    log.info(
        "all_topics_loaded",
        topics=outcome.topic_count,
        loads=len(outcome.loads),
        rows=sum(one.row_count for one in outcome.loads),
        faults=len(outcome.faults),
    )
    for topic, fault in sorted(outcome.faults.items()):
        print(f"load: topic {topic}: {words_of(fault)}", file=sys.stderr)  # noqa: T201
    return FAULTS_EXIT_CODE if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
