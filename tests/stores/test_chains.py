"""Random checkpoints, resharded from format to format: NumPy, safetensors and PyTorch read what was there at first."""

import random

import numpy as np
import pytest

from anydml import stores

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed.checkpoint as dcp  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

RANKS = ({}, {"tp": 2}, {"tp": 8}, {"fsdp": 2}, {"fsdp": 3}, {"tp": 4, "fsdp": 2})
MEMORY = ("100kB", "2MB", "20MB", "256MB")


def drawn(rng):
    """Tensors with the names of Llama, in any order."""
    width, hidden = rng.choice((64, 72, 256)), rng.choice((96, 512))
    shapes = {"model.embed_tokens.weight": (256, width)}
    for layer in range(rng.randint(1, 4)):
        name = f"model.layers.{layer}"
        shapes |= {f"{name}.self_attn.{each}_proj.weight": (width, width) for each in "qo"}
        shapes |= {f"{name}.mlp.up_proj.weight": (hidden, width), f"{name}.mlp.down_proj.weight": (width, hidden)}
        shapes[f"{name}.input_layernorm.weight"] = (width + rng.choice((0, 1, 3)),)
    dtype = rng.choice((torch.float32, torch.float16))
    return {name: torch.randn(shapes[name]).to(dtype) for name in rng.sample([*shapes], len(shapes))}


def options_of(rng, suffix):
    if suffix == "dcp":
        return {"ranks": rng.choice(RANKS) or None, "dcp": True}
    return {"ranks": rng.choice(RANKS[1:])} if suffix == "ranks" else {}


def read(path, tensors):
    """The tensors of a file or folder; None if ranks share them."""
    if path.suffix == ".dcp":
        found = {name: torch.zeros_like(each) for name, each in tensors.items()}
        dcp.load(found, checkpoint_id=path, no_dist=True)
        return found
    if path.suffix == ".npz":
        return {name: torch.from_numpy(each) for name, each in np.load(path).items()}
    return load_file(path) if path.suffix == ".safetensors" else None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(8))
def test_chains_of_formats(tmp_path, seed):
    torch.manual_seed(seed)
    rng = random.Random(seed)
    tensors, source, chain = drawn(rng), tmp_path / "0.pt", []
    torch.save(tensors, source)
    for number in range(1, 6):
        suffix = rng.choice(("dcp", "dcp", "ranks", "npz", "gguf", "safetensors"))
        target, options, memory = tmp_path / f"{number}.{suffix}", options_of(rng, suffix), rng.choice(MEMORY)
        chain.append((suffix, options, memory))
        stores.reshard(source, target, extras=False, memory=memory, **options).run()
        if (found := read(target, tensors)) is not None:
            assert {*found} == {*tensors}, chain
            for name, each in tensors.items():
                assert found[name].dtype == each.dtype, (chain, name)
                assert torch.equal(found[name], each), (chain, name)
        source = target
    assert stores.verify(source, tmp_path / "0.pt") is None, chain
