"""What the manuals say of installing: every package that is needed, and only commands that work."""

import re
import tomllib
import zipfile
from pathlib import Path

import pytest

from headrace.local.environment import NATIVE_PACKAGES
from tests.packages import BadPackage, check_native, documented

TOP = Path(__file__).parents[3]
EXTRAS = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PAGES = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").glob("*.md")), TOP / "native" / "README.md"]
CODE = [path for room in ("platform", "spark") for path in sorted((TOP / room).rglob("*.py"))]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_apt_line_installs_what_the_hot_paths_in_c_need(page: str) -> None:
    (line,) = [line for line in (TOP / page).read_text().splitlines() if line.startswith("    sudo apt install python3-venv ")]
    assert set(NATIVE_PACKAGES.split()) <= set(line.split())


def test_nobody_is_told_to_install_headrace_from_an_index_where_it_is_not() -> None:
    from_index = re.compile(r"pip install\s+[\"']?headrace(?!_native-)")
    assert [str(path) for path in [*PAGES, *CODE] if from_index.search(path.read_text())] == []


@pytest.mark.parametrize("page", ["OPERATIONS.md", "LOADING.md"])
def test_the_built_wheels_are_installed_with_extras_that_there_are(page: str) -> None:
    """`make packages` runs the two commands; this only reads them."""
    (named,) = re.findall(r"\[([a-z,]+)\]", documented(page))
    assert "fast" in named
    assert set(named.split(",")) <= set(EXTRAS)


@pytest.mark.parametrize(
    ("tags", "files", "fault"),
    [
        ("cp311-abi3-manylinux_2_17_x86_64", ["headrace_native.abi3.so"], None),
        ("cp311-abi3-linux_x86_64", ["headrace_native.abi3.so"], "not built for a manylinux"),
        ("cp312-cp312-manylinux_2_17_x86_64", ["headrace_native.abi3.so"], "not built for the stable ABI"),
        ("cp311-abi3-manylinux_2_17_x86_64", ["headrace_native.abi3.so", "headrace_native.libs/libz.so.1"], "libz"),
    ],
)
def test_a_wheel_of_the_hot_paths_is_for_every_python_and_distribution_or_is_refused(
    tags: str, files: list[str], fault: str | None, tmp_path: Path
) -> None:
    wheel = tmp_path / f"headrace_native-0.1.0-{tags}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in files:
            archive.writestr(name, b"")
    if fault is None:
        check_native(wheel)
    else:
        with pytest.raises(BadPackage, match=fault):
            check_native(wheel)
