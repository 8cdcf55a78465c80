"""`headrace registry run`: the schema registry as a process."""

import argparse

from ..runtime.layout import LOOPBACK, SCHEMAS_TOPIC, Layout
from ..runtime.lifecycle import StopSignal
from ..runtime.logs import configure as configure_logs
from .foreground import access_of, add_access, run_parser

HELP = "Run the schema registry: the Confluent REST API's core, its state in a topic of the live cluster."


def configure(parser: argparse.ArgumentParser) -> None:
    layout = Layout.from_environment()
    run = run_parser(
        parser,
        what=HELP,
        example="headrace registry run --port 8081 --bootstrap 127.0.0.1:9092",
    )
    run.add_argument("--port", type=int, default=layout.port(8081), help="port to listen on (default %(default)s)")
    run.add_argument(
        "--host", default=LOOPBACK, help="address to listen on (default %(default)s; another one wants --token-file or mTLS)"
    )
    add_access(run)
    run.add_argument("--bootstrap", default=layout.live_bootstrap, help="the live cluster (default %(default)s)")
    run.add_argument("--topic", default=SCHEMAS_TOPIC, help="where the schemas are kept (default %(default)s)")
    run.add_argument("--read-only", action="store_true", help="serve a topic that a mirror writes; writes are refused with 42205")
    run.add_argument(
        "--zookeeper",
        metavar="HOST:PORT[/CHROOT]",
        help="elect one of several registries of this topic there: it writes, the others forward (default: no election)",
    )
    run.add_argument(
        "--session-timeout-ms",
        type=int,
        default=4_000,
        metavar="MS",
        help="how long a dead leader's seat stays taken (default %(default)s)",
    )
    run.add_argument("--advertised-url", metavar="URL", help="where the other registries reach this one (default: host and port)")
    run.add_argument(
        "--request-timeout-ms",
        type=int,
        default=5_000,
        metavar="MS",
        help="timeout of one request to a broker; a write fails after about three (default %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    # Imported here, because `headrace registry --help` needs no web server.
    from ..schema_registry.service.process import RegistrySettings
    from ..schema_registry.service.process import run as serve

    configure_logs("registry")
    settings = RegistrySettings(
        bootstrap=arguments.bootstrap,
        port=arguments.port,
        host=arguments.host,
        access=access_of(arguments),
        topic=arguments.topic,
        is_read_only=arguments.read_only,
        zookeeper=arguments.zookeeper,
        session_ms=arguments.session_timeout_ms,
        advertised_url=arguments.advertised_url,
        status_file=arguments.status_file,
        request_timeout_ms=arguments.request_timeout_ms,
    )
    return serve(settings, StopSignal().install())
