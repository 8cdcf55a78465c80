"""Kafka's own answers: `StandardAuthorizer` of Apache Kafka's jars from Maven Central, in one Java process."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.peers import maven
from tests.support.access_worlds import World

HERE = Path(__file__).parent
VERSION = "4.1.0"
TOOLS = (
    maven.Artifact("org.apache.kafka", "kafka-tools", VERSION),
    maven.Artifact("org.slf4j", "slf4j-nop", "1.7.36"),
)
JARS = (
    maven.Artifact("org.apache.kafka", "kafka-metadata", VERSION),
    maven.Artifact("org.apache.kafka", "kafka-clients", VERSION),
    maven.Artifact("org.slf4j", "slf4j-nop", "1.7.36"),
)


class Oracle:
    """Compiles the program and answers. Raises `Unavailable` where there is no JDK or no Maven."""

    def __init__(self, folder: Path) -> None:
        java = maven.java()
        jars = maven.jars(f"kafka-metadata-{VERSION}", JARS, what="Kafka's authorizer")
        path = f"{jars}/*:{folder}"
        compiler = str(Path(java).with_name("javac")) if "/" in java else "javac"
        subprocess.run([compiler, "-cp", path, "-d", str(folder), str(HERE / "oracle" / "Oracle.java")], check=True, timeout=120)
        self._command = [java, "-Xmx256M", "-XX:+UseSerialGC", "-cp", path, "Oracle"]

    def answers(self, worlds: Sequence[World]) -> list[str]:
        """Return Kafka's answers for each world, in the form of `World.answers`."""
        asked = "\n".join(line for world in worlds for line in world.asked()) + "\n"
        done = subprocess.run(self._command, input=asked, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr[-3_000:]
        return done.stdout.splitlines()

    def differences(self, worlds: Sequence[World]) -> Iterator[str]:
        """Return what differs, as text with the seed that plays it again."""
        answers = self.answers(worlds)
        assert len(answers) == len(worlds), (len(answers), len(worlds))
        for world, kafka in zip(worlds, answers, strict=True):
            ours = world.answers()
            if ours != kafka:
                yield f"seed {world.seed}: ours {ours}, Kafka's {kafka}; {world}"
