"""The images are built, and the compose file's two datacenters run from them: each service's health check passes, events go from
an application and from a journal to the offline cluster, without a login or the token no client is served, and SIGTERM ends each.

Root, buildah, mmdebstrap and twenty minutes: `make test-containers`.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.room import CONTAINERS, Images, Room
from tests.support.processes import eventually

pytestmark = [pytest.mark.needs("containers"), pytest.mark.whole]

KEPT = Path(os.environ.get("HEADRACE_CONTAINERS", "") or Path(tempfile.gettempdir()) / "headrace-containers")
"""Images are kept here for the next run."""
STARTS = (
    *("live-zookeeper", "offline-zookeeper", "live-security", "offline-security"),
    *("live-broker-1", "live-broker-2", "offline-broker-1"),
    *("registry", "audit", "mirror", "agent", "console", "haproxy"),
)
APPLICATION = """
import sys
from pathlib import Path
from headrace.sdk import EventLogger, event_schema
known = {"bootstrap": "haproxy:9090", "registry_url": "https://haproxy:8082"}
if sys.argv[1] == "journal":
    known = {"journal": Path(sys.argv[2])}
with EventLogger("clicks", event_schema("Click", [{"name": "number", "type": "int"}]), application="shop", **known) as logger:
    for number in range(50):
        assert logger.log({"number": number})
"""
READER = """
from pathlib import Path
import confluent_kafka
known = {"bootstrap.servers": "offline-broker-1:9092", "group.id": "none"}
known |= {"security.protocol": "SASL_SSL", "ssl.ca.location": "/run/security/ca.pem", "sasl.mechanism": "SCRAM-SHA-512"}
known |= {"sasl.username": "operator", "sasl.password": Path("/run/security/operator/password").read_text().strip()}
consumer = confluent_kafka.Consumer({**known, "auto.offset.reset": "earliest", "enable.auto.commit": False})
consumer.subscribe(["clicks"])
print(sum(1 for one in consumer.consume(1000, timeout=8) if one.error() is None))
consumer.close()
"""
CURL = ("curl", "--silent", "--cacert", "/run/security/ca.pem")
ANSWERED = (*CURL, "--output", "/dev/null", "--write-out", "%{http_code}")
ENDS = ("live-security", "offline-security")
APPLICATIONS = {
    "HEADRACE_CLIENT_CONFIG": "/run/security/application/client.properties",
    "HEADRACE_REGISTRY_LOGIN_FILE": "/run/security/application/login",
    "HEADRACE_REGISTRY_CA_FILE": "/run/security/ca.pem",
}


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    KEPT.mkdir(parents=True, exist_ok=True)
    images = Images(KEPT)
    folder = Path(tempfile.mkdtemp(prefix="headrace-room-"))
    folder.chmod(0o755)
    made = Room(folder, images)
    try:
        for target in sorted({service["image"].removeprefix("headrace-") for service in made.services.values()}):
            images.build(target)
        made.lay_networks()
        yield made
    finally:
        made.close()
        images.close()
        shutil.rmtree(folder, ignore_errors=True)


def test_the_images_run_as_nobody_special_and_are_small(room: Room) -> None:
    for service in room.services.values():
        config = room.images.config(service["image"])
        assert config["User"] == "10001:10001"
        if "healthcheck" in service:
            check = json.dumps(service["healthcheck"]["test"][1:])
            assert check in (CONTAINERS / "Dockerfile").read_text(), "the same in the image"
        programs = room.images.root(service["image"]) / "usr/bin"
        assert not (programs / "gcc").exists(), "the build's tools stay behind"


def test_the_two_datacenters_run_and_events_reach_the_offline_one(room: Room) -> None:
    assert set(STARTS) == set(room.services)
    for name in STARTS:
        for other, how in (room.services[name].get("depends_on") or {}).items():
            assert how == {"condition": "service_completed_successfully" if other in ENDS else "service_healthy"}
            assert other in ENDS or room.is_healthy(other)
        room.start(name)
        if name in ENDS:
            assert room.processes[name].wait(180_000) == 0, room.processes[name].output()[-3000:]
        else:
            eventually(lambda name=name: room.is_healthy(name), within_ms=180_000, every_ms=500, what=f"{name} healthy")
    assert room.client(*ANSWERED, "https://registry:8081/subjects").stdout == "401"
    login = (room.security / "console" / "login").read_text().strip()
    (room.folder / "curl-login").write_text(f'user = "{login}"\n')
    (room.folder / "curl-token").write_text(f'header = "Authorization: Bearer {room.token.read_text().strip()}"\n')
    for port, name in (
        (9094, "live-broker-1"),
        (9095, "mirror"),
        (9097, "agent"),
        (8081, "registry"),
        (8090, "audit"),
        (8088, "console"),
    ):
        has_login = name in ("registry", "audit", "console")
        url = f"{'https' if has_login else 'http'}://{name}:{port}/metrics"
        assert room.client(*ANSWERED, url).stdout == "401"
        told = room.client(*CURL, "--config", str(room.folder / ("curl-login" if has_login else "curl-token")), url).stdout
        assert f"headrace_{name.removeprefix('live-').removesuffix('-1')}_ready 1" in told
    sent = room.client(sys.executable, "-c", APPLICATION, "direct", variables=APPLICATIONS)
    assert sent.returncode == 0, sent.stderr
    journals = room.folder / "volumes" / "agent" / "journals"
    nobody = ("setpriv", "--reuid=10001", "--regid=10001", "--clear-groups", sys.executable, "-c")
    journaled = room.client(*nobody, APPLICATION, "journal", str(journals))
    assert journaled.returncode == 0, journaled.stderr

    def arrived() -> str:
        return room.client(sys.executable, "-c", READER).stdout.strip()

    eventually(lambda: arrived() == "100", within_ms=120_000, what="both loggers' events offline")
    codes = {name: room.stop(name) for name in reversed(STARTS) if name not in ENDS}
    # Java ends with 143 where it is told to end, HAProxy's master with what its worker ended with.
    assert {name: code for name, code in codes.items() if code not in (0, 143)} == {}
