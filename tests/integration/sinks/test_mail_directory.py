"""The mail-directory example, run as its README says: over each transport, the attachments' bytes are equal in the end."""

import email
import email.policy
import random
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from tests.support.agent import AgentProcess
from tests.support.live_side import LiveSide
from tests.support.processes import eventually

EXAMPLE = Path(__file__).parents[3] / "examples" / "mail_directory"
ATTACHMENT_BYTES = 2 << 20


def run(program: str, live: LiveSide, *words: str) -> str:
    command = [sys.executable, str(EXAMPLE / program), *words, "--bootstrap", live.bootstrap, "--registry", live.registry_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_mails(outbox: Path) -> dict[str, bytes]:
    """Drop the example's mails; return their bytes."""
    words = [sys.executable, str(EXAMPLE / "mails.py"), str(outbox)]
    subprocess.run(words, check=True, timeout=60, stdout=subprocess.DEVNULL)
    return {path.name: path.read_bytes() for path in outbox.glob("*.eml")}


@pytest.fixture
def agent(tmp_path: Path, live: LiveSide) -> Iterator[Callable[..., AgentProcess]]:
    made: list[AgentProcess] = []

    def make(**words: str) -> AgentProcess:
        made.append(AgentProcess(tmp_path / "agent", live, **words))  # type: ignore[arg-type]
        return made[-1].start()

    yield make
    for one in made:
        one.process.kill()


@pytest.mark.parametrize("transport", ["direct", "journal", "directory"])
def test_what_is_dropped_here_is_dropped_there(
    tmp_path: Path, live: LiveSide, agent: Callable[..., AgentProcess], transport: str
) -> None:
    topic, outbox, inbox = f"mails-{uuid.uuid4().hex[:8]}", tmp_path / "outbox", tmp_path / "inbox"
    mails = make_mails(outbox)
    if transport == "direct":
        assert run("producer.py", live, str(outbox), "--once", "--topic", topic).count("sent ") == 3
    elif transport == "journal":
        one = agent()
        run("producer.py", live, str(outbox), "--once", "--topic", topic, "--journal", str(one.journals))
    else:
        cluster = Cluster(live.bootstrap)
        create_topic(cluster, topic, partitions=1, config={"max.message.bytes": "4194304"})
        cluster.close()
        settings = (EXAMPLE / "agent.toml").read_text()
        section = settings[settings.index("[[directory]]") :].replace("/tmp/outbox", str(outbox)).replace("dropped_mails", topic)
        agent(tail=section)
    run("consumer.py", live, str(inbox), "--topic", topic, "--most", "3")
    assert {path.name: path.read_bytes() for path in inbox.iterdir()} == mails
    with (inbox / "mail-2.eml").open("rb") as file:
        mail = email.message_from_binary_file(file, policy=email.policy.default)
    (attachment,) = mail.iter_attachments()  # type: ignore[attr-defined]
    assert attachment.get_content() == random.Random(2).randbytes(ATTACHMENT_BYTES)
    eventually(lambda: {path.name for path in (outbox / "sent").iterdir()} == set(mails), what="moved to sent")
