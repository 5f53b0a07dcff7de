"""Models of transformers: what resharding made of their checkpoints loads, and computes what it did."""

import shutil

import pytest

from anydml import stores
from anydml.stores import reshard

transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

HEADS = 8
COMMON = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 64,
}


def llama(kv_heads):
    config = transformers.LlamaConfig(**COMMON, num_key_value_heads=kv_heads)
    return transformers.LlamaForCausalLM(config)


def mixtral(kv_heads):
    config = transformers.MixtralConfig(
        **COMMON, num_key_value_heads=kv_heads, num_local_experts=4, num_experts_per_tok=2
    )
    return transformers.MixtralForCausalLM(config)


def saved(make, kv_heads, folder, dtype):
    """A model with weights of its own, in several files."""
    torch.manual_seed(kv_heads)
    model = make(kv_heads).to(dtype).eval()
    model.save_pretrained(folder, max_shard_size="100KB")
    assert len([*folder.glob("*.safetensors")]) > 1
    return model


def heads(folder, kv_heads):
    """A layout that says how many heads there are, so that none is cut and few are replicated."""
    path = folder / "heads.toml"
    counts = {"q": HEADS, "k": kv_heads, "v": kv_heads}
    path.write_text(
        "".join(f'[[axes]]\nmatch = "*.{n}_proj.weight"\naxis = 0\nheads = {count}\n' for n, count in counts.items())
    )
    return path


def logits(model):
    with torch.inference_mode():
        return model(torch.arange(24).reshape(2, 12) * 7 % 96).logits


def loaded(folder, source, dtype):
    """What transformers makes of a checkpoint with the configuration of another; every weight must be used."""
    for name in ("config.json", "generation_config.json"):
        if folder != source:
            shutil.copy(source / name, folder)
    model, said = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    assert not any(said.get(key) for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("tp", "kv_heads"), [(1, 2), (2, 2), (4, 2), (8, 1), (4, 8)])
@pytest.mark.parametrize("make", [llama, mixtral])
def test_ranks_and_back_compute_the_same(make, tp, kv_heads, dtype, tmp_path):
    dtype = getattr(torch, dtype)
    saved(make, kv_heads, tmp_path / "in", dtype)
    reshard([tmp_path / "in"], tmp_path / "ranks", heads(tmp_path, kv_heads), ranks=tp).run()
    reshard([tmp_path / "ranks"], tmp_path / "back", shard_size="90KB").run()
    before, after = (loaded(tmp_path / name, tmp_path / "in", dtype) for name in ("in", "back"))
    assert torch.equal(logits(after), logits(before))


@pytest.mark.parametrize(("tp", "kv_heads"), [(2, 2), (4, 2), (8, 2)])
def test_ranks_have_what_pytorch_slices(tp, kv_heads, tmp_path):
    model = saved(llama, kv_heads, tmp_path / "in", torch.bfloat16)
    reshard([tmp_path / "in"], tmp_path / "ranks", heads(tmp_path, kv_heads), ranks=tp).run()
    weights = model.state_dict()
    for rank, path in enumerate(sorted((tmp_path / "ranks").glob("*.safetensors"))):
        found = stores.open(path)
        assert {*found} == {*weights}
        for name, whole in weights.items():
            parts, at = tp, rank
            if "norm" in name:
                parts, at = 1, 0
            elif ".k_proj" in name or ".v_proj" in name:
                parts = min(tp, kv_heads)
                at = rank * parts // tp
            axis = 1 if ".o_proj" in name or ".down_proj" in name else 0
            wanted = whole.chunk(parts, axis)[at]
            assert found[name].shape == tuple(wanted.shape), name
            assert found[name].read().tobytes() == wanted.contiguous().view(torch.uint8).numpy().tobytes(), name


def test_fused_weights_and_back_compute_the_same(tmp_path):
    model = saved(llama, 2, tmp_path / "in", torch.float32)
    group, size = HEADS // 2, COMMON["hidden_size"] // HEADS
    layer = "model.layers.{n}.self_attn"
    names, all_of_them = [f"{layer}.{part}_proj.weight" for part in "qkv"], f"{layer}.qkv_proj.weight"
    fuse = "".join(f'[[rules]]\nmatch = "{name}"\nunflatten = 0\nsizes = [2, -1]\n' for name in names)
    fuse += f'[[rules]]\njoin = {names}\nto = "{all_of_them}"\naxis = 1\n'
    fuse += f'[[rules]]\nmatch = "{all_of_them}"\nflatten = [0, 1]\n'
    apart = f'[[rules]]\nmatch = "{all_of_them}"\nunflatten = 0\nsizes = [2, -1]\n'
    apart += f'[[rules]]\nmatch = "{all_of_them}"\nsplit = {names}\naxis = 1\nsizes = {[group * size, size, size]}\n'
    apart += "".join(f'[[rules]]\nmatch = "{name}"\nflatten = [0, 1]\n' for name in names)
    for name, text in (("fuse", fuse), ("apart", apart)):
        (tmp_path / f"{name}.toml").write_text(text.replace("'", '"'))
    reshard([tmp_path / "in"], tmp_path / "fused", tmp_path / "fuse.toml").run()
    fused = stores.open(tmp_path / "fused")
    weights = model.state_dict()
    q, k, v = (weights[f"model.layers.0.self_attn.{part}_proj.weight"] for part in "qkv")
    wanted = torch.cat([torch.cat([q.chunk(2)[g], k.chunk(2)[g], v.chunk(2)[g]]) for g in range(2)])
    assert fused["model.layers.0.self_attn.qkv_proj.weight"].read().tobytes() == wanted.numpy().tobytes()
    reshard([tmp_path / "fused"], tmp_path / "back", tmp_path / "apart.toml", shard_size="90KB").run()
    assert torch.equal(logits(loaded(tmp_path / "back", tmp_path / "in", torch.float32)), logits(model))
