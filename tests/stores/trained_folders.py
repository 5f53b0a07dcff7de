"""Folders as training programs write them, made by PyTorch of whole tensors."""

import re
from argparse import Namespace
from collections import OrderedDict
from pathlib import Path

import torch


def _flat(tensors):
    return torch.cat([each.float().reshape(-1) for each in tensors])


def _filled(flat, count):
    """With numbers at its end that nobody may read, up to a multiple of a count."""
    return torch.cat([flat, torch.full((-len(flat) % count,), float("nan"), dtype=flat.dtype)])


def _shapes(tensors):
    return OrderedDict((name, each.shape) for name, each in tensors.items())


def write_zero(folder, tensors, ranks, stage, groups=1, frozen=(), buffers=(), shared=(), paddings=None, subgroup=None):
    """DeepSpeed's ZeRO.

    Args:
        folder: to be made.
        tensors: all weights, by name.
        ranks: that share them.
        stage: 1, 2 or 3.
        groups: number of groups of weights.
        frozen: names of those that are not trained.
        buffers: names of those that are not weights.
        shared: pairs of a further name, and that of its weight.
        paddings: elements behind each weight, by group.
        subgroup: in stage 3, elements from which a flat tensor ends.
    """
    folder = Path(folder)
    folder.mkdir(parents=True)
    trained = {name: each for name, each in tensors.items() if name not in {*frozen, *buffers, *dict(shared)}}
    names = [*trained]
    own = [{name: trained[name] for name in names[k::groups]} for k in range(groups)]
    still = {name: tensors[name] for name in frozen}

    def fragment(tensor, rank):
        return _filled(_flat([tensor]).to(tensor.dtype), ranks).chunk(ranks)[rank].clone()

    for rank in range(ranks if stage == 3 else 1):
        module = OrderedDict(
            (name, torch.empty(0) if stage == 3 else each.bfloat16()) for name, each in {**trained, **still}.items()
        )
        module |= {name: tensors[name] for name in buffers}
        module |= {name: module[other] for name, other in dict(shared).items()}
        said = {
            "module": module, "buffer_names": [*buffers], "param_shapes": [_shapes(each) for each in own],
            "frozen_param_shapes": _shapes(still), "shared_params": dict(shared), "ds_version": "0.19.8",
            "frozen_param_fragments": {
                name: fragment(each, rank) if stage == 3 else each for name, each in still.items()
            },
        }  # fmt: skip
        name = f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt" if stage == 3 else "mp_rank_00_model_states.pt"
        torch.save(said, folder / name)
    for rank in range(ranks):
        state = {"zero_stage": stage, "partition_count": [ranks] * groups if stage < 3 else ranks}
        if stage == 3:
            flat = [[]]
            for tensor in (each for group in own for each in group.values()):
                if subgroup and sum(map(len, flat[-1])) >= subgroup:
                    flat.append([])
                flat[-1].append(fragment(tensor.float(), rank))
            state["fp32_flat_groups"] = [torch.cat(each) for each in flat]
        else:
            parts = []
            for k, group in enumerate(own):
                gaps = paddings[k] if paddings else [0] * len(group)
                gapped = (
                    (each, torch.full((gap,), float("nan"))) for each, gap in zip(group.values(), gaps, strict=True)
                )
                flat = _flat([part for pair in gapped for part in pair])
                parts.append(_filled(flat, 2 * ranks).chunk(ranks)[rank].clone())
            state["single_partition_of_fp32_groups"] = parts
            state["base_optimizer_state"] = [{"exp_avg": torch.zeros(len(part))} for part in parts]
            if paddings:
                state["param_alignment_paddings"] = paddings
        begin = "bf16_" if stage == 1 else ""
        name = f"{begin}zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        torch.save({"optimizer_state_dict": state, "ds_config": {}}, folder / name)


def share(tensor, axis, rank, ranks, parts=1):
    """A rank's share along an axis, of each of the parts that follow each other there; all of it if axis is None."""
    if axis is None:
        return tensor.clone()
    return torch.cat([each.chunk(ranks, axis)[rank] for each in tensor.chunk(parts, axis)], axis)


META = {
    "layers.{}.attention.wq.weight": ("model.layers.{}.self_attn.q_proj.weight", 0),
    "layers.{}.attention.wk.weight": ("model.layers.{}.self_attn.k_proj.weight", 0),
    "layers.{}.attention.wv.weight": ("model.layers.{}.self_attn.v_proj.weight", 0),
    "layers.{}.attention.wo.weight": ("model.layers.{}.self_attn.o_proj.weight", 1),
    "layers.{}.feed_forward.w1.weight": ("model.layers.{}.mlp.gate_proj.weight", 0),
    "layers.{}.feed_forward.w2.weight": ("model.layers.{}.mlp.down_proj.weight", 1),
    "layers.{}.feed_forward.w3.weight": ("model.layers.{}.mlp.up_proj.weight", 0),
    "layers.{}.attention_norm.weight": ("model.layers.{}.input_layernorm.weight", None),
    "layers.{}.ffn_norm.weight": ("model.layers.{}.post_attention_layernorm.weight", None),
    "tok_embeddings.weight": ("model.embed_tokens.weight", 0),
    "norm.weight": ("model.norm.weight", None),
    "output.weight": ("lm_head.weight", 0),
}
"""Names of Meta's files of Llama, those of transformers, and the axes along which ranks share tensors."""


def meta_tensors(tensors):
    """The tensors of a Llama of transformers under Meta's names, in the order of transformers."""
    found = {}
    for name, (other, _) in META.items():
        for layer in range(99) if "{}" in name else [0]:
            if (own := tensors.get(other.format(layer))) is not None:
                found[name.format(layer)] = own
    return found


def write_consolidated(folder, tensors, ranks, embeddings=0):
    """Meta's files of Llama.

    Args:
        folder: that is there.
        tensors: whole, by Meta's names.
        ranks: that share them.
        embeddings: the axis along which they share embeddings, 1 in Llama 1 and 2.
    """
    for rank in range(ranks):
        own = OrderedDict()
        for name, each in tensors.items():
            axis = META[re.sub(r"(?<=\.)\d+(?=\.)", "{}", name)][1]
            own[name] = share(each, embeddings if name == "tok_embeddings.weight" else axis, rank, ranks)
        torch.save(own, Path(folder) / f"consolidated.{rank:02}.pth")


MEGATRON = {
    r".*linear_qkv\.(weight|bias)|.*(word_embeddings|output_layer)\.weight": 0,
    r".*(linear_proj|linear_fc2)\.weight\d*": 1,
    r".*linear_fc1\.(weight|bias)\d*": "up",
    r".*": None,
}
"""Patterns of names of Megatron's core, and the axes along which ranks share tensors."""


def write_megatron(folder, tensors, tp=1, stages=1, chunks=1, experts=1, gated=True, args=(), last=()):
    """Megatron's folder of an iteration.

    Args:
        folder: to be made, such as ``run/iter_0000010``.
        tensors: whole, by the names of Megatron's core.
        tp: tensor-parallel ranks.
        stages: of pipeline parallelism.
        chunks: models of each stage, which take turns.
        experts: ranks that share experts.
        gated: whether ``linear_fc1`` has a gate and what it gates.
        args: further arguments of the program.
        last: names of tensors that the last stage has beside those of the first.
    """
    layers = 1 + max(int(found[1]) for name in tensors if (found := re.match(r"decoder\.layers\.(\d+)\.", name)))
    count = 1 + max((int(found[1]) for name in tensors if (found := re.match(r".*local_experts\.(\d+)\.", name))),
                    default=-1)  # fmt: skip
    each = layers // (stages * chunks)
    said = Namespace(
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=stages, expert_model_parallel_size=experts,
        num_layers=layers, swiglu=gated, padded_vocab_size=64, num_experts=count if count > 0 else None, **dict(args),
    )  # fmt: skip
    for rank in range(tp):
        for stage in range(stages):
            for expert in range(experts):
                path = Path(folder) / f"mp_rank_{rank:02}{f'_{stage:03}' if stages > 1 else ''}"
                path = path.with_name(path.name + (f"_{expert:03}" if experts > 1 else ""))
                path.mkdir(parents=True)
                content = {"args": said, "checkpoint_version": 3.0, "iteration": 10, "optimizer": {"step": 10}}
                for chunk in range(chunks):
                    part, own = chunk * stages + stage, OrderedDict()
                    for name, whole in tensors.items():
                        new, here = name, part == 0 if name.startswith("embedding") else part == stages * chunks - 1
                        if found := re.match(r"(decoder\.layers\.)(\d+)(.*)", name):
                            here, new = int(found[2]) // each == part, f"{found[1]}{int(found[2]) % each}{found[3]}"
                        if found := re.match(r"(.*local_experts\.)(\d+)(.*)", new):
                            here = here and int(found[2]) // (count // experts) == expert
                            new = f"{found[1]}{int(found[2]) % (count // experts)}{found[3]}"
                        if here or (name in last and part == stages * chunks - 1):
                            axis = next(axis for text, axis in MEGATRON.items() if re.fullmatch(text, name))
                            parts = 2 if axis == "up" and gated else 1
                            own[new] = share(whole, 0 if axis == "up" else axis, rank, tp, parts)
                    own["decoder.layers.0.mlp.linear_fc1._extra_state"] = torch.zeros(rank + 1, dtype=torch.uint8)
                    content["model" if chunks == 1 else f"model{chunk}"] = own
                torch.save(content, path / "model_optim_rng.pt")


def megatron_tensors(layers=4, experts=0, gated=True, bias=False, width=8, heads=4, hidden=12, words=32):
    """Random tensors of a model of Megatron's core."""
    up = hidden * (2 if gated else 1)
    shapes = {"embedding.word_embeddings.weight": (words, width)}
    for layer in range(layers):
        begin = f"decoder.layers.{layer}"
        shapes |= {
            f"{begin}.self_attention.linear_proj.weight": (width, width),
            f"{begin}.self_attention.linear_qkv.layer_norm_weight": (width,),
            f"{begin}.self_attention.linear_qkv.weight": (3 * width // heads * heads, width),
            f"{begin}.mlp.linear_fc1.layer_norm_weight": (width,),
        }
        shapes |= {f"{begin}.mlp.router.weight": (experts, width)} if experts else {}
        for mlp in [f"mlp.experts.local_experts.{k}" for k in range(experts)] or ["mlp"]:
            shapes |= {
                f"{begin}.{mlp}.linear_fc1.weight": (up, width),
                f"{begin}.{mlp}.linear_fc2.weight": (width, hidden),
            }
            shapes |= (
                {f"{begin}.{mlp}.linear_fc1.bias": (up,), f"{begin}.{mlp}.linear_fc2.bias": (width,)} if bias else {}
            )
    shapes |= {"decoder.final_layernorm.weight": (width,), "output_layer.weight": (words, width)}
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
