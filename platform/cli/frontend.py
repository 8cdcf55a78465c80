"""`headrace frontend run`: the sample service, in the foreground, until SIGTERM."""

import argparse
from pathlib import Path

from ..apps.frontend import FrontendSettings, serve
from ..runtime.layout import LOOPBACK, Layout
from ..runtime.lifecycle import StopSignal
from ..runtime.logs import configure as configure_logs
from ..sdk import ACCESS_LOG_TOPIC
from .foreground import run_parser

HELP = "Run the sample frontend: a small real HTTP service; the SDK logs each request as an event."


def configure(parser: argparse.ArgumentParser) -> None:
    layout = Layout.from_environment()
    run = run_parser(parser, what=HELP, example="headrace frontend run --port 8000 --topic access_log")
    run.add_argument("--port", type=int, default=layout.port(8000), help="port to listen on (default: %(default)s)")
    run.add_argument("--host", default=LOOPBACK, help="address to listen on (default: %(default)s)")
    run.add_argument("--topic", default=ACCESS_LOG_TOPIC, help="topic of the events (default: %(default)s)")
    run.add_argument(
        "--bootstrap", default=layout.live_bootstrap, metavar="HOST:PORT", help="the live cluster (default: %(default)s)"
    )
    run.add_argument("--registry", default=layout.registry_url, metavar="URL", help="the schema registry (default: %(default)s)")
    run.add_argument(
        "--schema-cache",
        type=Path,
        default=layout.run / "schemas-frontend",
        help="folder that keeps schema ids for times without a registry (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    configure_logs("frontend")
    settings = FrontendSettings(
        host=arguments.host,
        port=arguments.port,
        topic=arguments.topic,
        bootstrap=arguments.bootstrap,
        registry_url=arguments.registry,
        schema_cache=arguments.schema_cache,
        status_file=arguments.status_file,
    )
    serve(settings, StopSignal().install())
    return 0
