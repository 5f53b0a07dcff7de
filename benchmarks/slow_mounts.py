"""Requests of commands over checkpoints on slow mounts: ``python -m benchmarks.slow_mounts``.

2 ms are added to each request that reads, as on a mount of a network. Nothing else is slower: figures without it are
those of this machine's disk. Layers are a small model's, whose parts in files are short.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

from anydml import stores
from anydml.stores.running import files
from benchmarks.measure import machine


class Requests:
    """Counts requests that read, and makes each take longer; `writes` are those of a plan."""

    def __init__(self, delay: float) -> None:
        self.count, self.writes, self.delay = 0, 0, delay
        read, request = files.PlainFile._read, files.request

        def slow_read(file: files.PlainFile, view: memoryview, at: int) -> int:
            self._add()
            return read(file, view, at)

        def slow_request(*arguments: Any) -> int:
            if arguments[-1]:
                self._add()
            return request(*arguments)

        setattr(files.PlainFile, "_read", slow_read)  # noqa: B010  # methods are not assigned to
        files.request = slow_request

    def _add(self) -> None:
        self.count += 1
        time.sleep(self.delay)


def write_model(folder: Path, width: int, hidden: int, layers: int) -> None:
    """A model of layers like Llama's, in four files."""
    rng, words = np.random.default_rng(0), 32000
    pool = rng.integers(0, 1 << 16, 2 * words * width, np.uint16)
    shapes = {"model.embed_tokens.weight": (words, width), "lm_head.weight": (words, width)}
    for layer in range(layers):
        name = f"model.layers.{layer}"
        shapes |= {f"{name}.self_attn.{each}_proj.weight": (width, width) for each in "qkvo"}
        shapes |= {f"{name}.mlp.{each}_proj.weight": (hidden, width) for each in ("gate", "up")}
        shapes |= {f"{name}.mlp.down_proj.weight": (width, hidden), f"{name}.input_layernorm.weight": (width,)}
    folder.mkdir()
    index: dict[str, str] = {}
    for number in range(4):
        file = f"model-{number + 1:05}-of-00004.safetensors"
        own = [*shapes][number::4]
        made = {}
        for name in own:
            size = int(np.prod(shapes[name]))
            at = int(rng.integers(0, pool.size - size + 1))
            made[name] = pool[at : at + size].view(ml_dtypes.bfloat16).reshape(shapes[name])
        save_file(made, folder / file, {"format": "pt"})
        index |= dict.fromkeys(own, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    heads = {"hidden_size": width, "num_attention_heads": 16, "num_key_value_heads": 16}
    (folder / "config.json").write_text(json.dumps(heads))


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--milliseconds", type=float, default=2, help="that each request takes longer")
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--hidden", type=int, default=5632)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--folder", help="where the files lie (default: the system's folder for temporary files)")
    arguments = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in machine("safetensors").items()))
    requests = Requests(0)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as made:
        folder = Path(made)
        write_model(folder / "whole", arguments.width, arguments.hidden, arguments.layers)
        size = sum(each.stat().st_size for each in (folder / "whole").glob("*.safetensors")) / 2**30
        for name, options in {
            "tp 4": {"ranks": 4}, "fsdp 8": {"ranks": {"fsdp": 8}}, "dcp 8": {"ranks": {"fsdp": 8}, "dcp": True},
        }.items():  # fmt: skip
            stores.reshard(folder / "whole", folder / name, **options).run()

        def to(source: str, **options: Any) -> Callable[[], object]:
            def run() -> None:
                plan = stores.reshard(folder / source, folder / "out", **options)
                plan.run()
                requests.writes = plan.totals.writes

            return run

        fsdp = {"fsdp": 8}
        tasks: dict[str, Callable[[], object]] = {
            "whole to whole": to("whole"), "whole to float32": to("whole", dtype="fp32"),
            "whole to 4 ranks": to("whole", ranks=4), "whole to 8 of FSDP": to("whole", ranks=fsdp),
            "4 ranks to whole": to("tp 4"), "8 of FSDP to whole": to("fsdp 8"), "pieces to whole": to("dcp 8"),
            "4 ranks to float32": to("tp 4", dtype="fp32"), "8 of FSDP to float32": to("fsdp 8", dtype="fp32"),
            "8 of FSDP to 4 ranks": to("fsdp 8", ranks=4), "pieces to 4 ranks, pieces": to("dcp 8", ranks=4, dcp=True),
            "4 ranks to 8 of FSDP": to("tp 4", ranks=fsdp), "4 ranks to pieces of 8": to("tp 4", ranks=fsdp, dcp=True),
            "8 of FSDP to 4 by 2": to("fsdp 8", ranks={"tp": 4, "fsdp": 2}),
            "verify": lambda: stores.verify(folder / "whole", folder / "fsdp 8"),
            "manifest": lambda: stores.manifest(folder / "whole"),
        }  # fmt: skip
        for name, run in tasks.items():
            seconds = []
            for delay in (0, arguments.milliseconds / 1000):
                requests.count, requests.writes, requests.delay = 0, 0, delay
                start = time.perf_counter()
                run()
                seconds.append(time.perf_counter() - start)
                shutil.rmtree(folder / "out", ignore_errors=True)
            # What is verified is read twice.
            told = f"{requests.count / (size * (1 + (name == 'verify'))):5.0f} requests per GiB read"
            told += f", {requests.writes / size:4.0f} written"
            print(f"{name:26} {told}  {seconds[0]:6.2f} s  {seconds[1]:6.2f} s with the delay", flush=True)


if __name__ == "__main__":
    main()
