"""The parser shared by all commands that are one process of the platform: `headrace NAME run …`, in the foreground, until
SIGTERM.
"""

import argparse
from pathlib import Path

from ..runtime.http_access import HttpAccess
from ..runtime.layout import LOOPBACK
from ..runtime.monitoring.status_pages import PagesAddress
from ..schema_registry.client.cache_folder import DEFAULT, Folder


def run_parser(parser: argparse.ArgumentParser, *, what: str, example: str) -> argparse.ArgumentParser:
    """Return the parser of the sub-command `run`, with `--status-file`. The caller adds the command's own options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="run")
    run = actions.add_parser(
        "run",
        help="run in the foreground until SIGTERM",
        description=what,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"example: {example}",
    )
    run.add_argument("--status-file", type=Path, help="file in which the process writes its state as JSON")
    return run


def add_schema_cache(parser: argparse.ArgumentParser) -> None:
    """Add the flag that says where a reader keeps schemas."""
    parser.add_argument(
        "--schema-cache",
        type=Path,
        metavar="FOLDER",
        help="keeps schemas for when the registry is away (default: see 'When it is away' in docs/REGISTRY.md)",
    )


def schema_cache_of(arguments: argparse.Namespace) -> Folder:
    """Return what the flag of `add_schema_cache` says: the default place without it."""
    folder: Path | None = arguments.schema_cache
    return DEFAULT if folder is None else folder


def add_access(parser: argparse.ArgumentParser) -> None:
    """Add the flags of an HTTP service that say who may use it."""
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="its first line is wanted as bearer token by every page but /healthz, /readyz",
    )
    parser.add_argument(
        "--logins",
        action="store_true",
        help="clients log in as users of the cluster (HTTP basic, or a bearer token) and may do what its access rules allow",
    )
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="serve HTTPS with this certificate (PEM)")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="the certificate's key (PEM)")
    parser.add_argument("--tls-client-ca", type=Path, metavar="FILE", help="want a certificate that these CAs signed (PEM, mTLS)")


def access_of(arguments: argparse.Namespace) -> HttpAccess:
    """Return what the flags of `add_access` say."""
    return HttpAccess(
        token_file=arguments.token_file,
        certificate=arguments.tls_cert,
        key=arguments.tls_key,
        client_authorities=arguments.tls_client_ca,
        logins=arguments.logins,
    )


def add_pages(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a process that serves no HTTP but its metrics and health."""
    parser.add_argument(
        "--metrics-port", type=int, metavar="PORT", help="serve /metrics, /healthz, /readyz and /status (default: not served)"
    )
    parser.add_argument(
        "--metrics-host",
        default=LOOPBACK,
        metavar="ADDRESS",
        help="there (default: %(default)s; another address wants --metrics-token-file)",
    )
    parser.add_argument(
        "--metrics-token-file", type=Path, metavar="FILE", help="its first line is wanted as bearer token by /metrics and /status"
    )


def pages_of(arguments: argparse.Namespace) -> PagesAddress:
    """Return what the flags of `add_pages` say."""
    return PagesAddress(port=arguments.metrics_port, host=arguments.metrics_host, token_file=arguments.metrics_token_file)
