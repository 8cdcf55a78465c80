"""`headrace broker run`: one broker, in the foreground, until SIGTERM."""

import argparse
import os
from pathlib import Path

from ..broker import settings as broker_settings
from ..broker.app import Broker
from ..runtime.layout import Layout
from ..runtime.lifecycle import StopSignal
from ..runtime.logs import configure as configure_logs

HELP = "Run one broker alone: the Kafka wire protocol over byte-addressed logs."


def configure(parser: argparse.ArgumentParser) -> None:
    layout = Layout.from_environment()
    what = parser.add_subparsers(dest="what", required=True, metavar="run")
    run = what.add_parser(
        "run",
        help="run in the foreground until SIGTERM",
        description=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="settings for --set (also HEADRACE_BROKER_<NAME> in the environment, dots as underscores):\n  "
        + "\n  ".join(broker_settings.known_names())
        + "\n\nexample: headrace broker run --port 9092 --data /var/lib/headrace --zookeeper 127.0.0.1:2181/live",
    )
    run.add_argument(
        "--port", type=int, default=layout.port(9092), help="port to listen on, 0 for any free one (default: %(default)s)"
    )
    run.add_argument("--data", type=Path, required=True, help="folder of the logs, this broker's only")
    run.add_argument("--zookeeper", default=layout.live_zookeeper, metavar="HOST:PORT[/CHROOT]", help="(default: %(default)s)")
    run.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    run.add_argument("--advertised-host", metavar="HOST", help="address told to clients (default: that of --host)")
    run.add_argument(
        "--id", type=int, default=1, dest="broker_id", help="this broker's number in its cluster (default: %(default)s)"
    )
    run.add_argument(
        "--set", action="append", default=[], dest="words", metavar="NAME=VALUE", help="a setting, by Kafka's name; repeatable"
    )
    run.add_argument("--status-file", type=Path, help="where to say 'ready', as JSON")


def run(arguments: argparse.Namespace) -> int:
    settings = broker_settings.from_words(
        data=arguments.data,
        zookeeper=arguments.zookeeper,
        host=arguments.host,
        advertised_host=arguments.advertised_host,
        port=arguments.port,
        broker_id=arguments.broker_id,
        status_file=arguments.status_file,
        words=arguments.words,
        environment=os.environ,
    )
    configure_logs(f"broker-{settings.broker_id}")
    stop = StopSignal().install()
    broker = Broker(settings)
    broker.start()
    try:
        broker.wait(stop)
    finally:
        broker.stop()
    return 0
