"""Apache Kafka's Java client in versions of several years: one test that compiles with all of them (in java_versions/)."""

import subprocess
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess

POM = Path(__file__).parent / "java_versions" / "pom.xml"


@pytest.mark.parametrize("version", ["0.11.0.3", "1.0.2", "2.0.1", "2.8.2", "3.9.1", "4.1.0"])
def test_java_client_of_each_age(broker: BrokerProcess, build_folder: Path, version: str) -> None:
    command = ["mvn", "-q", "-B", "-f", str(POM), "test", f"-Dkafka.version={version}"]
    command += [f"-Dbuild.folder={build_folder / version}", "-DtrimStackTrace=true"]
    command += [f"-DargLine=-Dbootstrap={broker.address} -Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
