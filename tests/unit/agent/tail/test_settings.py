"""`[[tail]]` sections: what they may say, and every fault at once with what to do."""

import json
import tomllib
from pathlib import Path

import pytest

from headrace.agent.parsers.json_lines import JsonLinesParser
from headrace.agent.tail.make import tail_group
from headrace.agent.tail.settings import TailSettings, sections_from
from headrace.runtime.clock import ManualClock
from headrace.sdk.event_schema import event_schema


def read(text: str) -> tuple[list[TailSettings], list[str]]:
    faults: list[str] = []
    return sections_from(tomllib.loads(text)["tail"], faults), faults


def test_a_section_needs_paths_topic_and_parser() -> None:
    (section,), faults = read('[[tail]]\npaths = ["/var/log/a.log"]\ntopic = "access_log"\nparser = "access_log"\n')
    assert not faults
    assert (section.name, section.application, section.start, section.copytruncate) == (
        "access_log",
        "access_log",
        "beginning",
        False,
    )
    group = tail_group(section, host="web-1", agent_name="main", clock=ManualClock())
    assert (group.name, group.topics, group.run.instance) == (
        "tail:access_log",
        ("access_log",),
        "web-1/access_log/main-access_log",
    )


def test_a_section_may_say_much(tmp_path: Path) -> None:
    (tmp_path / "sale.avsc").write_text(json.dumps(event_schema("Sale", [{"name": "item", "type": "string"}])))
    sections, faults = read(f"""
        [[tail]]
        name = "shop"
        paths = ["/srv/*/app.log", "/srv/**/more-*.log"]
        exclude = ["*.tmp"]
        topic = "web-shop.steps"
        application = "shop"
        parser = "regex"
        pattern = '(?P<at>\\S+) (?P<took>\\S+)'
        fields = {{ took = "double" }}
        time = "at"
        time_format = "iso8601"
        time_zone = "Europe/Berlin"
        start = "end"
        copytruncate = true
        most_line_bytes = 1000
        lateness_ms = 0
        multiline = {{ start = "^\\\\S", most_lines = 9 }}
        [[tail]]
        name = "sales"
        paths = ["/srv/sales.json"]
        topic = "sales"
        parser = "json"
        schema = "{tmp_path}/sale.avsc"
        unknown_fields = "drop"
        invalid_utf8 = "replace"
    """)
    assert not faults
    assert [section.name for section in sections] == ["shop", "sales"]
    assert sections[0].parser.schema["name"] == "WebShopSteps"
    assert sections[0].multiline is not None
    assert sections[0].multiline.most_lines == 9
    assert isinstance(sections[1].parser, JsonLinesParser)
    assert sections[1].parser.parse(b'{"item": "\xff", "more": 1}').event == {"item": "\ufffd"}


def test_every_fault_of_every_section_is_named_at_once() -> None:
    sections, faults = read("""
        [[tail]]
        paths = ["log/a.log"]
        topic = "a topic"
        parser = "xml"
        start = "middle"
        copytruncate = "yes"
        most_files = 0
        colour = "red"
        [[tail]]
        name = "b"
        topic = "b"
        parser = "json"
        pattern = "x"
        time_format = "soon"
        multiline = { start = "(", lines = 3 }
        [[tail]]
        name = "c"
        paths = "/c"
        topic = "c"
        parser = "regex"
        fields = { a = "date" }
    """)
    assert not sections
    for part in (
        "[[tail]] 1: paths: 'log/a.log' is not absolute",
        "[[tail]] 1: topic: topic name 'a topic' may only have letters",
        "[[tail]] 1: parser: 'xml': give one of access_log, json, regex, raw",
        "[[tail]] 1: start: 'middle': give one of beginning, end",
        "[[tail]] 1: copytruncate: 'yes': give true or false",
        "[[tail]] 1: most_files: 0: give a whole number from 1 on",
        "[[tail]] 1: colour: there is no such setting",
        "[[tail]] 'b': paths: it is missing",
        "[[tail]] 'b': pattern: there is no such setting with this parser, only with 'regex'",
        "[[tail]] 'b': time_format: 'soon' is no time format",
        "[[tail]] 'b': multiline: lines: there is no such setting",
        "[[tail]] 'b': multiline: start: ",
        "[[tail]] 'b': schema: give the file of an Avro schema, or fields",
        "[[tail]] 'c': paths: '/c' is not a list of texts",
        "[[tail]] 'c': pattern: it is missing",
        "[[tail]] 'c': fields: a = 'date': give one of string, int",
    ):
        assert any(fault.startswith(part) for fault in faults), (part, faults)


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ('parser = "regex"\npattern = "(?P<a>.)"\ntime = "b"', "the pattern has no group b"),
        ('parser = "json"\nschema = "/no/such.avsc"', "No such file"),
        ('parser = "json"\nfields = { "a-b" = "int" }', "can be no field of an Avro schema"),
        ('parser = "raw"\nname = "a/b"', "leave out / and #"),
        ('parser = "raw"\napplication = "a/b"', "leave out the /"),
        ('parser = "raw"\ntime = "at"', "only with 'json'"),
    ],
)
def test_faults_of_parsers_are_found_at_the_start(more: str, fault: str) -> None:
    sections, faults = read(f'[[tail]]\npaths = ["/a"]\ntopic = "t"\n{more}\n')
    assert not sections
    assert fault in faults[0]


def test_two_sections_of_one_name_are_refused() -> None:
    one = '[[tail]]\npaths = ["/a"]\ntopic = "t"\nparser = "raw"\n'
    _, faults = read(one + one)
    assert faults == ["[[tail]] 't': two sections have this name: give each its own, with name = …"]
