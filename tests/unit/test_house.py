"""The house stands as drawn: every room is importable under its name, and the standard `platform` is not shadowed."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = [*sorted(room.name for room in (ROOT / "platform").iterdir() if (room / "__init__.py").exists()), "spark"]


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_importable_under_headrace(room: str) -> None:
    module = importlib.import_module(f"headrace.{room}")
    folder = ROOT / ("spark" if room == "spark" else f"platform/{room}")
    assert module.__file__ is not None
    assert Path(module.__file__).resolve().parent == folder


def test_import_platform_from_the_root_is_the_standard_library_s() -> None:
    code = "import platform; print(platform.python_implementation())"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.strip() in ("CPython", "PyPy")
    assert not (ROOT / "platform" / "__init__.py").exists()
