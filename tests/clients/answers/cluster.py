"""Sequences about the cluster: ApiVersions, DescribeCluster, DescribeLogDirs, access rules, and what is not served."""

import struct
from collections.abc import Iterator
from typing import Any

from headrace.wire.messages import control
from tests.clients.answers.plain import Table
from tests.clients.answers.sequence import Step, about
from tests.clients.answers.side import Side

API_VERSIONS, DESCRIBE_LOG_DIRS, DESCRIBE_CLUSTER = 18, 35, 60
DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
ANY_RULE = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
MINE = {"client_software_name": "same-answers", "client_software_version": "1"}


@about(API_VERSIONS)
def api_versions(side: Side, version: int, own: str) -> Iterator[Step]:
    def ask(message: dict[str, str], asked: int = version) -> Table:
        body = control.encode_request(API_VERSIONS, version, message)
        answer = side.ask_raw(API_VERSIONS, asked, body, lambda answer: _read(asked, answer))
        return {path: value for path, value in answer.items() if "api_keys" not in path}

    yield "as it should be", ask(MINE)
    if version == 3:
        for name, words in {
            "nameless": ("", "1"),
            "bad name": ("a b", "1"),
            "name that begins with a dash": ("-a", "1"),
            "bad version": ("a", "1/2"),
            "no version": ("a", ""),
        }.items():
            yield name, ask(dict(zip(MINE, words, strict=True)))
        for asked in (5, 99, 32767, -1):
            yield f"version {asked}", ask(MINE, asked)


def _read(version: int, body: memoryview) -> Any:
    if struct.unpack_from(">h", body)[0] == 35:
        return {"error_code": 35, "as": "version 0", "size": "some" if len(body) > 6 else len(body)}
    return control.decode_response(API_VERSIONS, version, body)


@about(DESCRIBE_CLUSTER)
def describe_cluster(side: Side, version: int, own: str) -> Iterator[Step]:
    def ask(**words: Any) -> Table:
        return side.ask(DESCRIBE_CLUSTER, version, {"include_cluster_authorized_operations": False} | words)

    yield "brokers", ask()
    yield "with operations", ask(include_cluster_authorized_operations=True)
    if version >= 1:
        for kind in (0, 2, 3, -1):
            yield f"kind {kind}", ask(endpoint_type=kind)


@about(DESCRIBE_LOG_DIRS)
def describe_log_dirs(side: Side, version: int, own: str) -> Iterator[Step]:
    topic = side.make(f"{own}-a", 2)
    side.fill(topic, 2)

    def ask(*topics: tuple[str, list[int]]) -> Table:
        wanted = [{"topic": name, "partitions": partitions} for name, partitions in topics]
        answer = side.ask(DESCRIBE_LOG_DIRS, version, {"topics": wanted})
        return {
            path.split("]", 1)[-1] if path.startswith("results[") else path: _room(path, value) for path, value in answer.items()
        }

    yield "one", ask((topic, [0]))
    yield "both", ask((topic, [0, 1]))
    yield "none of its partitions", ask((topic, []))
    yield "no topics", ask()
    yield "unknown topic", ask((f"{own}-nothing", [0]))
    yield "unknown partition", ask((topic, [7, -1]))
    yield "twice", ask((topic, [0, 0]), (topic, [0]))


def _room(path: str, value: Any) -> Any:
    if path.endswith("log_dir"):
        return "a folder"
    return value > 0 if path.endswith(("total_bytes", "usable_bytes")) else value


@about(API_VERSIONS)
def not_served(side: Side, version: int, own: str) -> Iterator[Step]:
    for name, key, asked in (
        ("unknown API", 9999, 0),
        ("API below 0", -1, 0),
        ("Metadata of the future", 3, 99),
        ("Produce of the future", 0, 99),
        ("Fetch of the future", 1, 99),
        ("CreateTopics of the future", 19, 99),
        ("Metadata below 0", 3, -1),
        ("LeaderAndIsr", 4, 0),
        ("ControlledShutdown", 7, 0),
    ):
        yield name, side.ask_raw(key, asked, b"\x00" * 20, lambda answer: {"size": len(answer)})


@about(DESCRIBE_ACLS)
def describe_acls(side: Side, version: int, own: str) -> Iterator[Step]:
    yield "all", side.ask(DESCRIBE_ACLS, version, ANY_RULE)


@about(CREATE_ACLS)
def create_acls(side: Side, version: int, own: str) -> Iterator[Step]:
    rule = {"resource_type": 2, "resource_name": own, "resource_pattern_type": 3, "principal": "User:a", "host": "*"}
    allowed = {**rule, "operation": 3, "permission_type": 3}
    yield "none", side.ask(CREATE_ACLS, version, {"creations": []})
    yield "two", side.ask(CREATE_ACLS, version, {"creations": [allowed, allowed]})


@about(DELETE_ACLS)
def delete_acls(side: Side, version: int, own: str) -> Iterator[Step]:
    yield "none", side.ask(DELETE_ACLS, version, {"filters": []})
    yield "two", side.ask(DELETE_ACLS, version, {"filters": [ANY_RULE, ANY_RULE]})
