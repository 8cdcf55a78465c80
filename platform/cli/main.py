"""The entry point: finds the command's file, parses the arguments, runs the command, prints an error as one clear line.

Each command's module holds `HELP`, `configure(parser)` and `run(arguments) -> int`. It is imported only when it is called.
"""

import argparse
import difflib
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from .. import __version__
from ..errors import HeadraceError
from .errors import UsageError

COMMANDS = {
    "up": "start the whole platform and return when everything is ready",
    "down": "stop it, in reverse order",
    "status": "list each process with address, pid, uptime, health",
    "start": "start one stopped process of the running platform",
    "stop": "stop one process of the running platform and keep it stopped",
    "restart": "restart one process of the running platform",
    "demo": "send real events through the pipeline and print the audited result",
    "broker": "run one broker alone",
    "zookeeper": "copy what ZooKeeper knows into a file, and back after a loss",
    "log": "check, show and repair logs on disk",
    "registry": "run the schema registry",
    "access": "what the brokers denied, failed logins, administrative changes",
    "acl": "list, add and remove the access rules of a cluster",
    "quota": "list, set and remove how much users and clients may use",
    "user": "add, list and remove users of a cluster",
    "security": "make certificates, users, rights and client files for every role",
    "cluster": "show the brokers, and the partitions that need attention",
    "topic": "list, create, describe, configure and delete topics",
    "group": "list and describe consumer groups, their lag, and move their offsets",
    "schema": "register, get and list schemas",
    "mirror": "run the mirror between two clusters",
    "agent": "ship journals and log files to the live cluster",
    "sink": "write topics out: to files, HTTP, PostgreSQL",
    "tail": "print the events of a topic as they come",
    "consumer": "run the real-time requests-per-minute consumer",
    "rates": "show the live count of requests per minute",
    "frontend": "run the sample frontend service",
    "replay": "replay a web server's access log as events",
    "load": "load a topic into the warehouse, count what was written, publish what is complete",
    "publish": "publish what is complete, or announce published hours again",
    "compact": "merge small files of the warehouse, forget old snapshots, delete what none names",
    "retention": "drop hours of the warehouse that are past their age",
    "query": "ask the warehouse in SQL",
    "journal": "show and check the journals that applications keep for the agent",
    "quarantine": "list what could not be used, and why",
    "audit": "run the audit service, print its report, run its drills",
    "console": "serve the platform's pages",
}


class Command(Protocol):
    """The interface of a command's module."""

    HELP: str

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


def _command(name: str) -> Command:
    module: Command = importlib.import_module(f".{name}", __package__)
    return module


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, what in COMMANDS.items()]
    usage = ["usage: headrace COMMAND [OPTIONS]", "       headrace --version", ""]
    return "\n".join([*usage, *lines, "", *_CLIENT_CONFIG_HELP, "", "example: headrace audit report --topic access_log"])


_CLIENT_CONFIG, _ZOOKEEPER_CONFIG = "--client-config", "--zookeeper-config"
_CLIENT_CONFIG_HELP = (
    f"every command: {_CLIENT_CONFIG} FILE  properties file with security.protocol, sasl.…, ssl.… for the clusters it "
    "connects to;",
    "                                      repeatable; also HEADRACE_CLIENT_CONFIG (docs/SECURITY_OF_CLIENTS.md)",
    f"               {_ZOOKEEPER_CONFIG} FILE  properties file with zookeeper.ssl.… and zookeeper.set.acl for ZooKeeper;",
    "                                      also HEADRACE_ZOOKEEPER_CONFIG (docs/RIGHTS.md)",
)


def _take_configs(words: Sequence[str]) -> list[str]:
    """Take the flags out of a command's words, check their files, and put them where sessions and child processes look.

    Only paths are on the command line and in the environment, no secret is.
    """
    left: list[str] = []
    files: dict[str, list[str]] = {_CLIENT_CONFIG: [], _ZOOKEEPER_CONFIG: []}
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if word == "--":
            left += [word, *rest]
        elif flag not in files:
            left.append(word)
        elif not (file := value if equals else next(rest, "")):
            raise UsageError(f"{flag} wants a FILE behind it")
        else:
            files[flag].append(str(Path(file).absolute()))
    # Imported only here: most commands run without them.
    if files[_CLIENT_CONFIG]:
        from ..client.security import chosen

        chosen.check([Path(file) for file in files[_CLIENT_CONFIG]])
        os.environ[chosen.VARIABLE] = os.pathsep.join(files[_CLIENT_CONFIG])
    if files[_ZOOKEEPER_CONFIG]:
        from ..coordination import security

        security.of_file(Path(files[_ZOOKEEPER_CONFIG][-1]))
        os.environ[security.VARIABLE] = files[_ZOOKEEPER_CONFIG][-1]
    return left


def version() -> str:
    """Return Headrace's version and its Python's, for the first line of a bug report.

    A checkout that is not installed has no package metadata, and another installed version would return its own.
    """
    text = f"headrace {__version__} (Python {'.'.join(map(str, sys.version_info[:3]))})"
    try:
        installed = importlib.metadata.version("headrace")
    except importlib.metadata.PackageNotFoundError:
        return text
    return text if installed == __version__ else f"{text}; the installed package headrace is {installed}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 it worked, 1 it failed, 2 wrong usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print(_overview())
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        print(version())
        return 0
    name, rest = words[0], words[1:]
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        guess = f" Did you mean {close[0]!r}?" if close else ""
        print(f"headrace: there is no command {name!r}.{guess} `headrace --help` lists them", file=sys.stderr)
        return 2
    command = _command(name)
    parser = argparse.ArgumentParser(
        prog=f"headrace {name}", description=command.HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.configure(parser)
    try:
        rest = _take_configs(rest)
        return command.run(parser.parse_args(rest))
    except UsageError as error:
        print(f"headrace {name}: {error}", file=sys.stderr)
        return 2
    except HeadraceError as error:
        print(f"headrace {name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
