"""The manifests against Kubernetes' published schemas, and the compose file against the Compose specification's, as packages of
PyPI carry them. `make test-containers` makes the environment that HEADRACE_SCHEMAS names.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.containers.room import CONTAINERS, ROOT

PYTHON = os.environ.get("HEADRACE_SCHEMAS", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="wants kubernetes-validate and docker-compose: `make test-containers`")
MANIFESTS = sorted((ROOT / "deploy" / "kubernetes").rglob("*.yaml"))
KUBERNETES = """
import sys, yaml, kubernetes_validate
for path in sys.argv[1:]:
    for document in yaml.safe_load_all(open(path)):
        if document["kind"] == "Kustomization":
            continue
        for version in ("1.31", kubernetes_validate.latest_version()):
            kubernetes_validate.validate(document, version, strict=True)
            print(path, document["kind"], version)
"""
COMPOSE = """
import json, pathlib, sys, importlib.util, jsonschema, yaml
folder = pathlib.Path(importlib.util.find_spec("compose").origin).parent
schema = json.loads((folder / "config" / "compose_spec.json").read_text())
jsonschema.Draft7Validator(schema).validate(yaml.safe_load(open(sys.argv[1])))
"""


def asked(program: str, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([PYTHON, "-c", program, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)


def test_every_manifest_is_what_kubernetes_publishes() -> None:
    done = asked(KUBERNETES, *MANIFESTS)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 2 * 16


def test_a_manifest_with_an_unknown_word_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text((ROOT / "deploy/kubernetes/cluster/broker.yaml").read_text().replace("serviceName:", "servicename:"))
    assert asked(KUBERNETES, path).returncode != 0


def test_the_compose_file_is_what_the_specification_allows(tmp_path: Path) -> None:
    done = asked(COMPOSE, CONTAINERS / "compose.yaml")
    assert done.returncode == 0, done.stderr
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((CONTAINERS / "compose.yaml").read_text().replace("depends_on:", "depends:", 1))
    assert asked(COMPOSE, wrong).returncode != 0
