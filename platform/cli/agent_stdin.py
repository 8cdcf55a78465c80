"""`headrace agent stdin`: lines of standard input into the journals of this host's agent."""

import argparse
import json
import sys
import uuid
from pathlib import Path

from ..agent.errors import SettingsRefused
from ..agent.parsers.from_settings import PARSER_WORDS, PARSERS, parser_from
from ..agent.section_reader import SectionReader
from ..agent.settings import AgentSettings
from ..agent.standard_input import StandardInput, read_from
from ..runtime.clock import SystemClock
from ..runtime.lifecycle import StopSignal
from ..runtime.logs import configure as configure_logs
from ..sdk.journal import JournalSettings
from ..wire.topic_name import fault_of
from .errors import UsageError

HELP = """Journal each line of standard input; the agent of these settings ships the journal, now or when it runs again.

Exit code 0: every line is journaled, or in quarantine. A full journal is waited for, and the program before the pipe waits too.

example: tail -F app.log | headrace agent stdin /etc/headrace/agent.toml --topic app_log
example: producer | headrace agent stdin agent.toml --topic clicks --parser json --set 'fields={"page": "string", "n": "int"}'"""

_SETTINGS = sorted({word for words in PARSER_WORDS.values() for word in words})


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", required=True)
    parser.add_argument("--parser", choices=PARSERS, default="raw", help="(default: %(default)s: each line is an event)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"a setting of the parser as in [[tail]], its value JSON or a text: {', '.join(_SETTINGS)}",
    )
    parser.add_argument("--application", help="names the events' producer in the audit (default: the topic)")
    parser.add_argument("--durable", action="store_true", help="each line is on the disk before the next is read")
    parser.add_argument("--quota-bytes", type=int, default=256 << 20, help="size of the journal (default: %(default)s)")


def run(arguments: argparse.Namespace, settings: AgentSettings) -> int:
    if settings.journals is None:
        raise UsageError(f"{arguments.settings} has no [journals]: the agent ships the journals below its root")
    if (fault := fault_of(arguments.topic)) is not None:
        raise UsageError(fault)
    words: dict[str, object] = {"topic": arguments.topic}
    for one in arguments.set:
        name, equals, value = one.partition("=")
        if not equals or name not in PARSER_WORDS[arguments.parser]:
            known = ", ".join(PARSER_WORDS[arguments.parser]) or "none"
            raise UsageError(f"--set {one}: settings of the parser {arguments.parser!r} are: {known}")
        try:
            words[name] = json.loads(value)
        except ValueError:
            words[name] = value
    reader = SectionReader(words, "--set")
    parser = parser_from(arguments.parser, reader, arguments.topic)
    if reader.faults or parser is None:
        raise SettingsRefused("--set", reader.faults)
    configure_logs("agent-stdin", "WARNING", "text")
    application = arguments.application or arguments.topic
    segment_bytes = max(4096, min(8 << 20, arguments.quota_bytes // 2 // 4096 * 4096))
    one_input = StandardInput(
        arguments.topic,
        parser,
        JournalSettings(
            root=Path(settings.journals.root),
            segment_bytes=segment_bytes,
            quota_bytes=arguments.quota_bytes,
            when_full="block",
            is_durable=arguments.durable,
        ),
        application=application,
        instance=f"{settings.host}/{application}/stdin-{uuid.uuid4().hex[:12]}",
        host=settings.host,
        clock=SystemClock(),
    )
    stop = StopSignal(second_ends=True).install()
    result = one_input.run(read_from(sys.stdin.fileno(), stop.is_set), stop.is_set)
    print(
        f"{arguments.topic}: {result.journaled} lines journaled, {result.quarantined} in quarantine, {result.lost} lost",
        file=sys.stderr,
    )
    return 1 if result.lost else 0
