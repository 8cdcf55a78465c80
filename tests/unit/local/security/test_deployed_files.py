"""The commented lines of `deploy/etc` that secure a unit: with them each unit reads files that `headrace security init` makes."""

from pathlib import Path

import pytest

from headrace.broker.settings.broker_settings import from_words
from headrace.local.security.files import init

ETC = Path(__file__).parents[4] / "deploy" / "etc"
INSTALLED = Path("/etc/headrace/security")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("deployed") / "security"
    init(made, installed=INSTALLED)
    return made


def secured_lines(file: str) -> list[str]:
    """Return the lines that are commented out."""
    lines = (ETC / file).read_text().partition("# Secured")[2].splitlines()[1:]
    return [line.removeprefix("# ") for line in lines if line.startswith("# ") and "=" in line]


@pytest.mark.parametrize("role", ["registry", "mirror", "audit", "console", "agent"])
def test_each_unit_is_pointed_to_files_of_its_own_role(folder: Path, role: str) -> None:
    lines = secured_lines("agent.toml" if role == "agent" else f"{role}.env")
    named = [Path(line.partition("=")[2].strip().strip('"')) for line in lines if str(INSTALLED) in line]
    assert named
    for path in named:
        assert path.relative_to(INSTALLED).parts[0] == role
        assert (folder / path.relative_to(INSTALLED)).exists(), path
    has_zookeeper_file = (folder / role / "zookeeper.properties").exists()
    assert any("HEADRACE_ZOOKEEPER_CONFIG" in line for line in lines) is has_zookeeper_file


def test_a_broker_with_these_lines_asks_everyone_who_they_are(folder: Path) -> None:
    plain = [line for line in (ETC / "broker.properties").read_text().splitlines() if not line.startswith(("#", "listeners"))]
    lines = [*plain, *secured_lines("broker.properties"), (folder / "broker" / "broker.properties").read_text()]
    settings = from_words(file=("\n".join(lines), "broker.properties"))
    (listener,) = settings.listeners
    assert (listener.has_tls, listener.has_login) == (True, True)
    assert settings.has_access_rules
    assert settings.zookeeper_security is not None
    assert settings.zookeeper_security.sets_rights
