"""`--engine`: what the two clusters of a platform are, for the commands that may start one."""

import argparse
import os
from dataclasses import replace

from ..runtime.layout import ENGINES, Layout


def add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        help="what the live and the offline cluster are: our broker, or Apache Kafka (jars from Maven, or KAFKA_HOME). "
        "Default: HEADRACE_ENGINE, else what the home was made with, else headrace",
    )


def layout_of(arguments: argparse.Namespace) -> Layout:
    """Return the environment's layout with the engine that was asked for."""
    layout = Layout.from_environment()
    if arguments.engine is None:
        return layout
    os.environ["HEADRACE_ENGINE"] = arguments.engine
    return replace(layout, engine=arguments.engine)
