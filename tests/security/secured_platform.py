"""A whole platform whose two clusters are Apache Kafka behind TLS: the live one with SCRAM-SHA-512, the offline one with client
certificates. Every secret in it is made to be found again where it does not belong.

Nothing of ours uses the CLEAR listeners: the nodes speak to themselves there, and tests administer them.
"""

import base64
import json
import os
import re
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from bench.peers import kafka, maven
from headrace.local.airflow import processes
from headrace.local.supervisor import process_table
from tests.support.certificates import Authority
from tests.support.kafka import FLAGS
from tests.support.platform import Platform, free_shift
from tests.support.processes import free_port

USER = "platform"
SCRAM_PASSWORD = "planted-scram-password-5f0c1e"
SECOND_PASSWORD = "planted-second-password-9b77aa"
KEY_PASSWORD = "planted-key-password-c3d2e4"
LIVE, OFFLINE = "kafka_live", "kafka_offline"
"""The Airflow Connections."""
_LOGGED = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.network.Selector=info"
"""Where Kafka tells each login that it refuses."""
_TIMES = ("-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS")


class Node:
    """The settings of one node, formatted in its folder; the platform's supervisor runs it."""

    def __init__(self, folder: Path, port: int, secured: Mapping[str, str], protocol: str) -> None:
        folder.mkdir(parents=True)
        self.clear_port = free_port()
        self._controller_port = free_port()
        self._properties = folder / "server.properties"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": f"SECURED://127.0.0.1:{port},CLEAR://127.0.0.1:{self.clear_port},"
            f"CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"SECURED://127.0.0.1:{port},CLEAR://127.0.0.1:{self.clear_port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLEAR",
            "listener.security.protocol.map": f"SECURED:{protocol},CLEAR:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(folder / "data"),
            "num.partitions": "3",
            "log.retention.ms": "-1",
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            "connection.failed.authentication.delay.ms": "50",
            **secured,
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def format(self, *scram: str) -> None:
        identity = "H" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        words = ["format", "-t", identity, "-c", str(self._properties), *scram]
        done = subprocess.run(self._java("kafka.tools.StorageTool", *words), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr

    def command(self) -> list[str]:
        return self._java("kafka.Kafka", str(self._properties))

    def _java(self, main: str, *words: str) -> list[str]:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return [maven.java(), *FLAGS, quiet, _LOGGED, *_TIMES, "-cp", f"{kafka.jars()}/*", main, *words]


class SecuredPlatform(Platform):
    """`up` starts it as a user would: `headrace up`, with the client configurations in the environment."""

    def __init__(self, home: Path, outside: Path, *, has_airflow: bool = True) -> None:
        """`outside`: a folder for what belongs to the user: client configurations, keys, the clusters' own settings."""
        super().__init__(home, free_shift(26_000 if has_airflow else 22_000), engine="kafka")
        self._has_airflow = has_airflow
        self.password = SCRAM_PASSWORD
        """The one in the client configuration of the live cluster."""
        outside.mkdir(parents=True)
        self.outside = outside
        self.authority = Authority(outside / "certificates")
        self.stranger = Authority(outside / "stranger", "stranger-ca")
        self._certificate, self._key = self.authority.issue("client", password=KEY_PASSWORD)
        certificate, key = self.authority.issue("broker", hosts=("127.0.0.1",))
        store = outside / "broker-store.pem"
        store.write_bytes(key.read_bytes() + certificate.read_bytes())
        tls = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.file),
        }
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        scram = {
            "listener.name.secured.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.secured.scram-sha-512.sasl.jaas.config": login,
        }
        wanted = {"listener.name.secured.ssl.client.auth": "required"}
        self.live = Node(outside / "live", self.layout.port(9092), tls | scram, "SASL_SSL")
        self.offline = Node(outside / "offline", self.layout.port(9192), tls | wanted, "SSL")
        self.live_file, self.offline_file = outside / "live.properties", outside / "offline.properties"
        self.event_logs = outside / "spark-events"
        self.environment |= {
            "HEADRACE_CLIENT_CONFIG": f"{self.live_file}:{self.offline_file}",
            "HEADRACE_PROCESS_TABLE": str(outside / "processes.toml"),
            "SPARK_CONF_DIR": str(self._spark_defaults()),
        }

    def up(self) -> Self:
        self.live.format("--add-scram", f'SCRAM-SHA-512=[name="{USER}",iterations=4096,password="{SCRAM_PASSWORD}"]')
        self.offline.format()
        self.write_live(SCRAM_PASSWORD)
        self.write_offline()
        self._write_table()
        if self._has_airflow:
            self._add_connections()
        self.headrace("up")
        return self

    def write_live(self, password: str) -> None:
        self.password = password
        _write(self.live_file, self.live_words(password))

    def write_offline(self) -> None:
        _write(self.offline_file, self.offline_words())

    def live_words(self, password: str = SCRAM_PASSWORD) -> dict[str, str]:
        return {
            "bootstrap.servers": self.layout.live_bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority.file),
        }

    def offline_words(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.layout.offline_bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority.file),
            "ssl.certificate.location": str(self._certificate),
            "ssl.key.location": str(self._key),
            "ssl.key.password": KEY_PASSWORD,
        }

    def replace_certificate(self, authority: Authority, *, is_expired: bool = False) -> None:
        """Rotate the client's certificate and key, in the files that are there."""
        fresh = authority.issue(f"rotated-{uuid.uuid4().hex[:6]}", is_expired=is_expired, password=KEY_PASSWORD)
        for new, old in zip(fresh, (self._certificate, self._key), strict=True):
            os.replace(new, old)

    def replace_password(self, password: str) -> None:
        """Give the user another password, at the live cluster itself."""
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.live.clear_port}"})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        upsertion = UserScramCredentialUpsertion(USER, info, password.encode())
        for done in admin.alter_user_scram_credentials([upsertion]).values():
            done.result(30)

    def secrets(self) -> dict[str, bytes]:
        """Return what must be found nowhere: in words, and lines of the private keys."""
        found = {"password": SCRAM_PASSWORD, "second password": SECOND_PASSWORD, "key's password": KEY_PASSWORD}
        found |= {f"{name} in base64": base64.b64encode(text.encode()).decode() for name, text in list(found.items())}
        for path in filter(Path.exists, (self._key, self._inline_key)):
            found[f"{path.name}: its key"] = path.read_text().splitlines()[2]
        return {name: text.encode() for name, text in found.items()}

    def _write_table(self) -> None:
        entries = (process_table.DEPLOY / "processes.toml").read_text().split("[[process]]")[1:]
        commands = {"broker-live": self.live.command(), "broker-offline": self.offline.command()}
        kept: list[str] = []
        for entry in entries:
            words = tomllib.loads(entry)
            name = words["name"]
            if name.startswith("airflow-") and not self._has_airflow:
                continue
            if name in commands and words["engine"] == "kafka":
                entry = re.sub(r"(?m)^command = .*$", lambda _, name=name: f"command = {json.dumps(commands[name])}", entry)
            if name.startswith("airflow-"):
                # Tasks have the Connections and no file.
                entry += f'environment = {{ HEADRACE_CLIENT_CONFIG = "", HEADRACE_KAFKA_CONN_ID = "{LIVE},{OFFLINE}" }}\n'
            kept.append(f"[[process]]{entry}")
        Path(self.environment["HEADRACE_PROCESS_TABLE"]).write_text("".join(kept))

    @property
    def _inline_key(self) -> Path:
        return self.authority.folder / "inline.key"

    def _add_connections(self) -> None:
        """Add the Connections to Airflow's database, where they are encrypted; of the offline one the key is in its text."""
        certificate, key = self.authority.issue("inline")
        live = self.live_words()
        words = {
            LIVE: {
                "conn_type": "kafka",
                "login": live.pop("sasl.username"),
                "password": live.pop("sasl.password"),
                "extra": live,
            },
            OFFLINE: {
                "conn_type": "kafka",
                "extra": {
                    "bootstrap.servers": self.layout.offline_bootstrap,
                    "security.protocol": "SSL",
                    "ssl.ca.pem": self.authority.file.read_text(),
                    "ssl.certificate.pem": certificate.read_text(),
                    "ssl.key.pem": key.read_text(),
                },
            },
        }
        path = self.outside / "connections.json"
        path.write_text(json.dumps(words))
        processes.prepare(self.layout)
        environment = {**self.environment, **processes.environment(self.layout)}
        command = [sys.executable, "-m", "airflow", "connections", "import", str(path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stdout + done.stderr

    def _spark_defaults(self) -> Path:
        """Return a folder of settings as a site has them: every load keeps its event log."""
        folder = self.outside / "spark-conf"
        folder.mkdir()
        self.event_logs.mkdir()
        (folder / "spark-defaults.conf").write_text(
            f"spark.eventLog.enabled true\nspark.eventLog.dir {self.event_logs.as_uri()}\nspark.eventLog.compress false\n"
        )
        return folder


def _write(path: Path, words: Mapping[str, str]) -> None:
    scratch = path.with_suffix(".new")
    scratch.touch(mode=0o600)
    scratch.write_text("".join(f"{name}={value}\n" for name, value in words.items()))
    os.replace(scratch, path)
