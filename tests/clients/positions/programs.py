"""The readers: how each is built and started, and what it reads. Readers that are not installed are skipped by name."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.harness.cache import cache_folder
from headrace.wire.batch.compression import Codec
from tests.clients.building import HERE, java, maven, run

from .asked import Reader

ROOT = HERE.parents[1]
AIOKAFKA = "0.14.0"
EVERY_CODEC = frozenset(Codec)
Fixture = Callable[[str], object]
"""Returns a fixture by its name, and creates it only on request."""


class Program(NamedTuple):
    command: list[str]
    folder: Path


class Kind(NamedTuple):
    """A client. `built` returns its command line, without the bootstrap address."""

    built: Callable[[Fixture], Program]
    codecs: frozenset[Codec] = EVERY_CODEC


def _java(fixture: Fixture) -> Program:
    folder = Path(str(fixture("build_folder"))) / "java"
    maven(folder, "compile")
    words = ["-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{folder}/classes:{fixture('jars')}"]
    return Program([java(), *words, "headrace.Positions"], folder)


def _go(client: str) -> Callable[[Fixture], Program]:
    def built(fixture: Fixture) -> Program:
        program = Path(str(fixture("build_folder"))) / "positions"
        run(["go", "build", "-o", str(program), "./positions"], folder=HERE / "go")
        return Program([str(program), client], program.parent)

    return built


def _node(script: str) -> Callable[[Fixture], Program]:
    def built(fixture: Fixture) -> Program:
        return Program(["node", f"positions/{script}.mjs"], Path(str(fixture("node_folder"))))

    return built


def _python(module: str, python: Callable[[], str] = lambda: sys.executable) -> Callable[[Fixture], Program]:
    def built(_: Fixture) -> Program:
        return Program([python(), "-m", f"tests.clients.positions.readers.{module}"], ROOT)

    return built


def python_with_aiokafka() -> str:
    """Return a Python that has aiokafka: this one, or one in its own environment in the bench's cache."""
    if importlib.util.find_spec("aiokafka"):
        return sys.executable
    folder = cache_folder() / f"aiokafka-{AIOKAFKA}"
    program = folder / "bin" / "python"
    if not (folder / "complete").exists():
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(program), "-m", "pip", "install", "--quiet", f"aiokafka=={AIOKAFKA}", "cramjam"],
        ):
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            if done.returncode:
                pytest.fail(f"aiokafka {AIOKAFKA} could not be fetched: {done.stderr[-300:]}")
        (folder / "complete").touch()
    return str(program)


KINDS = {
    "java": Kind(_java),
    "franz-go": Kind(_go("franz-go")),
    "sarama": Kind(_go("sarama"), EVERY_CODEC - {Codec.ZSTD}),
    "kafkajs": Kind(_node("kafkajs"), frozenset({Codec.NONE, Codec.GZIP})),
    "platformatic": Kind(_node("platformatic"), EVERY_CODEC - {Codec.ZSTD, Codec.SNAPPY}),
    "confluent-kafka": Kind(_python("confluent")),
    "kafka-python": Kind(_python("kafka_python")),
    "aiokafka": Kind(_python("aiokafka_", python_with_aiokafka)),
    "kcat": Kind(_python("kcat")),
}
"""By name. The codecs are those of a client without further packages (Node has zstd since 22.15), except those that fail
against Apache Kafka too. Sarama 1.61 treats a batch with more records than bytes as truncated if little follows it in the
response (`getArrayLength`). @platformatic/kafka 1.35 cannot decompress snappy in the Java client's framing.
"""


def begun(name: str, bootstrap: str, fixture: Fixture, log: Path) -> Reader:
    program = KINDS[name].built(fixture)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return Reader(name, [*program.command, bootstrap], program.folder, environment, log)
