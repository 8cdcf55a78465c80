"""The measures, one file each. `ALL` is their order in a run: measures that use the same servers follow one another."""

from ..harness.measure import Measure
from .agent import Agent
from .bare import Bare
from .ceiling import Ceiling
from .consume import Consume
from .durable import Durable
from .far_mirror import FarMirror
from .footprint import Footprint
from .growth import Growth
from .latency import Latency
from .load import Load
from .mirror import Mirror
from .mirror_verify import MirrorVerify
from .produce import Produce
from .python_view import PythonView
from .restart import Restart
from .sdk import Sdk

ALL: tuple[Measure, ...] = (
    Produce(),
    Consume(),
    PythonView(),
    Sdk(),
    Agent(),
    Mirror(),
    MirrorVerify(),
    FarMirror(),
    Load(),
    Ceiling(),
    Latency(),
    Bare(),
    Durable(),
    Footprint(),
    Restart(),
    Growth(),
)
