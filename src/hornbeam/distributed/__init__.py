"""Training on several workers, with the model of one: who talks to whom, and an engine that adds up over workers."""

from hornbeam.distributed.collective import Collective, Traffic
from hornbeam.distributed.dataset import Part, PartDataset
from hornbeam.distributed.threads import run_workers
from hornbeam.distributed.training import train

__all__ = ["Collective", "Part", "PartDataset", "Traffic", "run_workers", "train"]
