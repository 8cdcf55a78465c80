"""aiokafka, in its own environment: its logins (`aiokafka_logins.py`). Its positions and a change of leader have other files."""

from tests.clients.building import HERE, run
from tests.clients.positions.programs import python_with_aiokafka
from tests.clients.secured import SecuredBroker


def test_aiokafka_logs_in_with_each_mechanism_and_with_a_certificate(secured: SecuredBroker) -> None:
    said = run([python_with_aiokafka(), str(HERE / "aiokafka_logins.py")], folder=HERE, environment=secured.words)
    for way in ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER", "certificate"):
        assert f"wrote and read with {way}" in said, said
    for way in ("SCRAM-SHA-512", "PLAIN"):
        assert f"refused with {way}" in said, said
