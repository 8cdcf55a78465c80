"""`headrace console run`: the platform's pages as a process."""

import argparse

from ..runtime.layout import LOOPBACK, Layout
from ..runtime.lifecycle import StopSignal
from ..runtime.logs import configure as configure_logs
from .foreground import access_of, add_access, run_parser

HELP = """Serve the console: what is wrong and what to do; topics, groups, schemas, mirror, warehouse, producers, processes.

It asks the addresses of this layout: HEADRACE_LIVE_BOOTSTRAP, HEADRACE_OFFLINE_BOOTSTRAP, HEADRACE_REGISTRY_URL and
HEADRACE_AUDIT_URL name others. On an address that is not the loopback it changes nothing."""


def configure(parser: argparse.ArgumentParser) -> None:
    layout = Layout.from_environment()
    run = run_parser(parser, what=HELP, example="headrace console run --port 8088")
    run.add_argument("--port", type=int, default=layout.port(8088), help="port to listen on (default %(default)s)")
    run.add_argument("--host", default=LOOPBACK, help="address (default %(default)s; another one wants --token-file or mTLS)")
    add_access(run)


def run(arguments: argparse.Namespace) -> int:
    # Imported here, because `headrace console --help` needs no web server.
    from ..console.app import ConsoleProcess
    from ..console.app import run as serve

    configure_logs("console")
    process = ConsoleProcess(
        host=arguments.host,
        port=arguments.port,
        layout=Layout.from_environment(),
        status_file=arguments.status_file,
        access=access_of(arguments),
    )
    serve(process, StopSignal().install())
    return 0
