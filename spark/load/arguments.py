"""The addresses and bounds of a load as words of a command line."""

import argparse
from pathlib import Path

from ...runtime.layout import Layout
from ..warehouse.settings import WarehouseSettings
from .settings import SPLITS, LoadSettings


def add_arguments(parser: argparse.ArgumentParser, layout: Layout) -> None:
    """Add the options that every load has. Addresses default to the layout's."""
    parser.add_argument("--master", help="Spark's master (default: local[2], or spark-submit's)")
    parser.add_argument("--bootstrap", default=layout.offline_bootstrap, help="the cluster to load from (default %(default)s)")
    parser.add_argument("--quarantine", default=layout.live_bootstrap, help="the cluster of the quarantine (default %(default)s)")
    parser.add_argument("--registry", default=layout.registry_url, help="the schema registry (default %(default)s)")
    parser.add_argument("--warehouse", type=Path, help="a local warehouse's folder (default: what the settings name)")
    parser.add_argument("--pieces", type=int, default=SPLITS, help="about how many tasks read (default %(default)s)")


def settings_of(arguments: argparse.Namespace, layout: Layout, topic: str) -> LoadSettings:
    """Return the settings that the options name."""
    return LoadSettings(
        topic=topic,
        bootstrap=arguments.bootstrap,
        quarantine_bootstrap=arguments.quarantine,
        registry_url=arguments.registry,
        warehouse=arguments.warehouse or WarehouseSettings.of(layout),
        home=layout.home,
        master=arguments.master,
        splits=arguments.pieces,
    )
