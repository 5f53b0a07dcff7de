"""Arrays in files, larger than memory: opened without being read, and moved by plans.

Everything here is an instance of one model:

- A *source* is a named array in chunks of a grid, each of which lies in a file: many chunks, as in Zarr, or a single
  one, as in .npy, safetensors, GGUF, .npz and torch.save files. A *target* is the same for an array that does not
  exist yet. `formats` has one module per format.
- A *program* moves elements of sources to elements of targets, all of which are addressed in bytes, in row-major order.
  `fuse`, a desc, the rules of a layout, the mappings of transformers and the placement of ranks (`checkpoints`) are
  ways to write one.
- A plan cuts a program into *blocks*, each of which fits in a budget of memory. A block is a box of a target, or of a
  source whose parts go to several targets: it reads boxes of sources, moves their elements, and writes what no other
  block writes. `planning` decides the blocks. Between plain files they are intervals of bytes or rectangles of rows
  and columns, and every thread has its own (`FileBlocking`); of arrays in chunks they are boxes of whole chunks, as
  large as fits, and all threads share one (`GridBlocking`).
- A *runner* reads, moves and writes blocks in threads, or on a cluster. Targets are staged under hidden names; a
  *journal* lists the finished blocks, so that an interrupted run resumes, and all targets get their names at the end.
  `running` has these.
"""

from anydml.stores.converting import convert
from anydml.stores.differences import Comparison, Difference
from anydml.stores.formats.opening import open  # read as anydml.stores.open
from anydml.stores.formats.store import Checkpoint, Store
from anydml.stores.formats.target import Target, create
from anydml.stores.formats.zarr_array import ZarrStore
from anydml.stores.formats.zarr_target import ZarrTarget
from anydml.stores.functions import plan
from anydml.stores.load_plan import LoadPlan
from anydml.stores.loading import plan_load
from anydml.stores.manifests import manifest
from anydml.stores.plans import Plan
from anydml.stores.rechunking import rechunk
from anydml.stores.resharding import reshard
from anydml.stores.task_plans import finish_tasks, plan_tasks, run_task
from anydml.stores.verifying import compare, verify

__all__ = [
    "Checkpoint",
    "Comparison",
    "Difference",
    "LoadPlan",
    "Plan",
    "Store",
    "Target",
    "ZarrStore",
    "ZarrTarget",
    "compare",
    "convert",
    "create",
    "finish_tasks",
    "manifest",
    "open",
    "plan",
    "plan_load",
    "plan_tasks",
    "rechunk",
    "reshard",
    "run_task",
    "verify",
]
