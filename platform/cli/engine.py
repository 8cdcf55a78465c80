"""`--engine` and `--brokers`: what the two clusters of a platform are, for the commands that may start one."""

import argparse
import os

from ..runtime.layout import ENGINES, MOST_BROKERS, Layout


def add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        help="what the live and the offline cluster are: our broker, or Apache Kafka (jars from Maven, or KAFKA_HOME). "
        "Default: HEADRACE_ENGINE, else what the home was made with, else headrace",
    )
    parser.add_argument(
        "--brokers",
        type=int,
        choices=range(1, MOST_BROKERS + 1),
        help="how many brokers the live cluster has; with three, its topics have three replicas. "
        "Default: HEADRACE_BROKERS, else what the home was made with, else 1",
    )


def layout_of(arguments: argparse.Namespace) -> Layout:
    """Return the environment's layout with the engine and the number of brokers that were asked for."""
    if arguments.engine is not None:
        os.environ["HEADRACE_ENGINE"] = arguments.engine
    if arguments.brokers is not None:
        os.environ["HEADRACE_BROKERS"] = str(arguments.brokers)
    return Layout.from_environment()
