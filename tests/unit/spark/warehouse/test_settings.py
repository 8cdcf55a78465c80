"""Where a warehouse lives is said in one place; what cannot be is refused by name, and no secret is ever printed."""

import pickle
from pathlib import Path

import pytest

from headrace.runtime.layout import Layout
from headrace.spark.errors import WarehouseError
from headrace.spark.warehouse.object_path import ObjectPath, S3Settings
from headrace.spark.warehouse.settings import WarehouseSettings, sqlite_file

SECRET = "hidden-word"


def of(home: Path, **environment: str) -> WarehouseSettings:
    return WarehouseSettings.of(Layout(home=home), environment)


def test_without_a_setting_all_is_in_a_folder_of_the_home(tmp_path: Path) -> None:
    found = of(tmp_path)
    assert found == WarehouseSettings.of_folder(tmp_path / "warehouse")
    assert sqlite_file(found.catalog) == tmp_path / "warehouse" / "catalog.db"


@pytest.mark.parametrize("location", ["/data/w", "file:///data/w"])
def test_a_folder_may_be_a_path_or_a_uri(tmp_path: Path, location: str) -> None:
    found = of(tmp_path, HEADRACE_WAREHOUSE=location)
    assert (found.folder, sqlite_file(found.leases)) == (Path("/data/w"), Path("/data/w/catalog.db"))


def test_the_environment_names_bucket_endpoint_and_database(tmp_path: Path) -> None:
    found = of(
        tmp_path,
        HEADRACE_WAREHOUSE="s3://bucket/some/prefix/",
        HEADRACE_CATALOG_URI=f"postgresql://me:{SECRET}@host/db",
        AWS_ENDPOINT_URL_S3="http://s3:9000",
        AWS_REGION="eu-west-1",
    )
    assert isinstance(found.folder, ObjectPath)
    assert str(found.folder / "tables") == "s3://bucket/some/prefix/tables"
    assert found.folder.s3 == S3Settings(endpoint="http://s3:9000", region="eu-west-1")
    assert found.catalog == found.leases
    assert found.catalog.startswith(f"postgresql+psycopg://me:{SECRET}@host/db?connect_timeout=10&")
    assert SECRET not in repr(found)


def test_every_wait_for_postgresql_is_bounded_unless_the_uri_says_otherwise(tmp_path: Path) -> None:
    found = of(tmp_path, HEADRACE_CATALOG_URI="postgresql://host/db?connect_timeout=3&options=-c%20lock_timeout%3D1s").catalog
    assert found.startswith("postgresql+psycopg://host/db?connect_timeout=3&options=-c%20lock_timeout%3D1s&keepalives_idle=30&")
    assert found.count("options=") == 1


def test_a_file_names_the_same_under_icebergs_names_and_the_environment_goes_first(tmp_path: Path) -> None:
    (tmp_path / "warehouse.toml").write_text(
        'warehouse = "s3://bucket/p"\nuri = "https://catalog/"\nleases-uri = "postgresql://host/db"\ntoken = "t"\n'
        's3.endpoint = "http://a"\ns3.path-style-access = true\n'
    )
    found = of(tmp_path, AWS_ENDPOINT_URL="http://b")
    assert found.s3 == S3Settings(endpoint="http://b", path_style=True)
    assert (found.catalog, found.rest) == ("https://catalog/", {"token": "t"})
    assert found.s3.properties()["s3.force-virtual-addressing"] == "false"


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"HEADRACE_WAREHOUSE": "gs://bucket/p"}, "no warehouse can be in gs://"),
        ({"HEADRACE_WAREHOUSE": "s3:///p"}, "names no bucket"),
        ({"HEADRACE_CATALOG_URI": f"mysql://me:{SECRET}@host/db"}, "no catalog is known with mysql"),
        ({"HEADRACE_CATALOG_URI": "https://catalog"}, "HEADRACE_LEASES_URI"),
        ({"HEADRACE_WAREHOUSE_CONFIG": "/none/w.toml"}, "HEADRACE_WAREHOUSE_CONFIG names /none/w.toml"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, environment: dict[str, str], reason: str) -> None:
    with pytest.raises(WarehouseError, match=reason) as told:
        of(tmp_path, **environment)
    assert SECRET not in str(told.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('warehose = "/x"', "'warehose' is not a setting"),
        ('s3.access-key = "k"', "'s3.access-key' is not a setting"),
        ("s3.path-style-access = 1", "wants true or false"),
        ("uri = 7", "uri wants a text"),
        ("uri =", "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "warehouse.toml").write_text(text)
    with pytest.raises(WarehouseError, match=reason):
        of(tmp_path)


def test_what_goes_to_sparks_tasks_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    found = of(tmp_path, HEADRACE_WAREHOUSE="s3://b/p", HEADRACE_CATALOG_URI=f"postgresql://me:{SECRET}@host/db")
    assert SECRET.encode() not in pickle.dumps(found.folder)
