"""Arrays in files, larger than memory: .npy, safetensors and Zarr, opened without being read, and moved by plans."""

from anydml.stores.converting import convert
from anydml.stores.functions import plan
from anydml.stores.load_plan import LoadPlan
from anydml.stores.loading import plan_load
from anydml.stores.opening import open  # read as anydml.stores.open
from anydml.stores.plans import GridPlan, Plan
from anydml.stores.rechunking import rechunk
from anydml.stores.resharding import reshard
from anydml.stores.store import Checkpoint, Store
from anydml.stores.targets import Target, create
from anydml.stores.verifying import verify
from anydml.stores.zarr_format import ZarrStore
from anydml.stores.zarr_target import ZarrTarget

__all__ = [
    "Checkpoint",
    "GridPlan",
    "LoadPlan",
    "Plan",
    "Store",
    "Target",
    "ZarrStore",
    "ZarrTarget",
    "convert",
    "create",
    "open",
    "plan",
    "plan_load",
    "rechunk",
    "reshard",
    "verify",
]
