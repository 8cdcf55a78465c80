"""What a logger's threads need is imported before they start. Found by tests/chaos_sdk: a process forked while one of them was
importing a message's class, and the child could never import it.
"""

import subprocess
import sys

PROGRAM = """
import os, sys, time
from headrace.sdk import EventLogger, event_schema
from tests.support.processes import free_port
port = free_port()
logger = EventLogger("clicks", event_schema("Click", []), bootstrap=f"127.0.0.1:{port}", registry_url=f"http://127.0.0.1:{port}",
    application="a", start_timeout_ms=0)
from headrace.client.connection.control_plane import _OF_A_PRODUCER
from headrace.wire.messages.message_types import message_type
before = message_type.cache_info().misses
for api_key, version in _OF_A_PRODUCER:
    message_type("request", api_key, version), message_type("response", api_key, version)
assert message_type.cache_info().misses == before, "imported by now"
assert "encodings.idna" in sys.modules
os._exit(0)
"""


def test_a_logger_imports_its_messages_before_its_threads_need_them() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
