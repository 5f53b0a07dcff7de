"""Arrays in files, larger than memory: .npy and safetensors, opened without being read, and moved by plans."""

from anydml.stores.functions import plan
from anydml.stores.opening import open  # read as anydml.stores.open
from anydml.stores.plans import Plan
from anydml.stores.resharding import reshard
from anydml.stores.store import Checkpoint, Store
from anydml.stores.targets import Target, create

__all__ = ["Checkpoint", "Plan", "Store", "Target", "create", "open", "plan", "reshard"]
