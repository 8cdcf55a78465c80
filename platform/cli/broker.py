"""`headrace broker run`: one broker, in the foreground, until SIGTERM. `headrace broker config`: its settings in force.
`headrace broker drain`: takes one out of service (`broker_drain`)."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..broker.errors import SettingsRefused
from ..broker.settings import broker_settings as broker_settings
from ..broker.settings.broker_settings import BrokerSettings
from ..broker.settings.sources import Given
from ..errors import HeadraceError
from ..runtime.clock import SystemClock
from ..runtime.layout import Layout
from ..runtime.lifecycle import StopSignal, end_at_latest
from ..runtime.logs import configure as configure_logs
from ..runtime.logs import get_logger, log_thread_faults
from . import broker_processes
from .chosen_cluster import action, options

if TYPE_CHECKING:
    from .chosen_cluster import Actions

log = get_logger(__name__)

HELP = "Run one broker alone: the Kafka wire protocol over byte-addressed logs. docs/BROKER.md is its manual."

WRONG_SETTINGS, STOPPED_LATE = 2, 3
"""Exit codes, besides 0 for a clean stop and 1 for every other end."""


def configure(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="what", required=True, metavar="run|config|drain")
    run = what.add_parser(
        "run",
        help="run in the foreground until SIGTERM",
        description=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="settings for --set, for the file (name=value a line) and for the environment (HEADRACE_BROKER_<NAME>, dots as\n"
        "underscores); `headrace broker config` explains each:\n  "
        + "\n  ".join(broker_settings.known_names())
        + "\n\nexit codes: 0 stopped as asked, 1 could not start or continue, 2 wrong settings, 3 stopped, but not within\n"
        "shutdown.timeout.ms; killed by the signal when it comes twice\n\n"
        "several brokers, one for each core: --processes 2 --port 9092 runs the brokers 1 and 2 on the ports 9092 and 9093\n\n"
        "example: headrace broker run --port 9092 --data /var/lib/headrace --zookeeper 127.0.0.1:2181/live --http-port 9094",
    )
    config = what.add_parser(
        "config",
        help="print the settings in force, where each was set and what it means",
        description="Print the settings that `headrace broker run` with the same flags, environment and file would run with.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: headrace broker config --config /etc/headrace/broker.properties --changed",
    )
    for one in (run, config):
        _add_flags(one)
    run.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="run N brokers of one cluster; ids and ports count up, the folders are broker-ID below --data",
    )
    _add_drain(what)
    config.add_argument("--changed", action="store_true", help="only settings that were set")
    config.add_argument("--json", action="store_true", help="as JSON, with defaults and docs")


def _add_flags(parser: argparse.ArgumentParser) -> None:
    layout = Layout.from_environment()
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="settings, as in Kafka's server.properties; repeatable, a later file counts before an earlier one",
    )
    parser.add_argument("--port", type=int, help=f"port to listen on, 0 for any free one (default: {layout.port(9092)})")
    parser.add_argument("--data", type=Path, help="folder of the logs, this broker's only (setting log.dirs)")
    parser.add_argument("--zookeeper", metavar="HOST:PORT[/CHROOT]", help=f"(default: {layout.live_zookeeper})")
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--advertised-host", metavar="HOST", help="address that clients connect to (default: that of --host)")
    parser.add_argument("--id", type=int, dest="broker_id", help="this broker's number in its cluster (default: 1)")
    parser.add_argument(
        "--http-port", type=int, help="port of /metrics, /healthz and /readyz, 0 for any free one (default: they are not served)"
    )
    parser.add_argument(
        "--set", action="append", default=[], dest="words", metavar="NAME=VALUE", help="a setting, by Kafka's name; repeatable"
    )
    parser.add_argument("--status-file", type=Path, help="file in which the process writes its state as JSON")


def run(arguments: argparse.Namespace) -> int:
    if arguments.what == "drain":
        from . import broker_drain  # loads the client, which a broker that starts does without

        return broker_drain.run(arguments)
    try:
        settings = _settings(arguments)
        if arguments.what == "config":
            return _print_settings(settings, arguments)
        if arguments.processes is not None:
            configure_logs("brokers", settings.logging_level, settings.logging_format)
            given = broker_processes.given_words(arguments.config, arguments.words)
            return broker_processes.run(settings, arguments.processes, given, SystemClock())
    except SettingsRefused as refused:
        for fault in refused.faults:
            print(f"headrace broker: {fault}", file=sys.stderr)
        return WRONG_SETTINGS
    return _serve(settings)


def _add_drain(actions: "Actions") -> None:
    drain = action(
        actions,
        options(),
        "drain",
        "take a broker out of service: move its leaderships, then its replicas, to other brokers",
        "The moves continue in the cluster when this command is ended. The same command again continues and waits.\n"
        "A new replica goes to the broker with the fewest replicas; room on disks is not considered.\n\n"
        "exit codes: 0 the broker has no replica (--leaders-only: it leads nothing), 1 something could not be\n"
        "moved, or still moves",
        example="headrace broker drain 3 --bootstrap 127.0.0.1:9092",
    )
    drain.add_argument("broker_id", type=int, metavar="ID", help="the broker")
    drain.add_argument("--leaders-only", action="store_true", help="move leaderships only; replicas stay")
    drain.add_argument("--dry-run", action="store_true", help="show what would move and ask for nothing")
    drain.add_argument("--at-once", type=int, default=50, metavar="N", help="partitions under way at once (default: 50)")
    drain.add_argument("--wait-ms", type=int, default=3_600_000, help="wait so long at most (default: an hour)")


def _settings(arguments: argparse.Namespace) -> BrokerSettings:
    layout = Layout.from_environment()
    shifted = "PORT_SHIFT" if layout.port_shift else "default"
    files = []
    for path in arguments.config:
        try:
            files.append((path.read_text(), str(path)))
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsRefused([f"--config {path} cannot be read: {error}"]) from error
    return broker_settings.from_words(
        data=arguments.data,
        zookeeper=arguments.zookeeper,
        host=arguments.host,
        advertised_host=arguments.advertised_host,
        port=arguments.port,
        broker_id=arguments.broker_id,
        http_port=arguments.http_port,
        status_file=arguments.status_file,
        words=arguments.words,
        environment=os.environ,
        files=files,
        defaults={
            "listeners": Given(f"PLAINTEXT://{layout.address(9092)}", shifted),
            "zookeeper.connect": Given(layout.live_zookeeper, shifted),
        },
    )


def _serve(settings: BrokerSettings) -> int:
    # kio loads hypothesis if it is installed, for test strategies that are not used here: half a second of every start.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    from ..broker.app import BrokerProcess

    configure_logs(f"broker-{settings.broker_id}", settings.logging_level, settings.logging_format)
    log_thread_faults()
    broker = BrokerProcess(settings)

    def end_in_time() -> None:
        end_at_latest(settings.shutdown_timeout_ms, STOPPED_LATE, lambda: broker.doing)

    stop = StopSignal(second_ends=True, then=end_in_time).install()  # during a long start too
    try:
        broker.start()
        broker.wait(stop)
    except HeadraceError as error:
        log.error("broker_ends", why=str(error))
        raise
    except Exception as error:
        # A fault of ours is logged as one line like all others: log collectors cannot read a traceback.
        log.error("broker_ends", why=repr(error), exc_info=True)
        return 1
    finally:
        if not broker.is_stopped:
            log.info("broker_stopping", signal=stop.name, within_ms=settings.shutdown_timeout_ms)
        if not stop.is_set():
            end_in_time()
        broker.stop()
    return 0


def _print_settings(settings: BrokerSettings, arguments: argparse.Namespace) -> int:
    shown = [one for one in settings.effective if not arguments.changed or one.source != "default"]
    if arguments.json:
        rows = [{"name": s.name, "value": s.value, "source": s.source, "default": s.default, "doc": s.doc} for s in shown]
        print(json.dumps(rows, indent=2))
        return 0
    for one in shown:
        print(f"# {one.doc}\n# from: {one.source}\n{one.name}={one.value}\n")
    return 0
