"""Tiny models of all architectures of transformers that have a conversion mapping."""

import contextlib
import importlib
import inspect
import pkgutil
import re

import torch
import transformers
from transformers.conversion_mapping import get_checkpoint_conversion_mapping

MAX_ELEMENTS = 70_000_000
FACTORS = (16, 8, 4, 2, 1)
"""What widths are divided by; the first one counts that makes a model."""

FEW = {
    r"(num_.*layers|n_layers?|.*_layers|depth|num_blocks|num_hidden_groups|num_nextn_predict_layers)": 2,
    r"(.*num_(local_)?experts|n_routed_experts|moe_num_experts|num_moe_experts)": 4,
    r"(num_experts_per_tok|moe_k|moe_topk|moe_top_k|top_k_experts|num_selected_experts|experts_per_token)": 2,
    r"(n_group|topk_group|num_expert_groups?|num_expert_group)": 1,
    r"(first_k_dense_replace|moe_layer_start_index|num_dense_layers)": 1,
    r".*vocab_size.*": 160,
    r"(max_position_embeddings|n_positions|max_source_positions|max_target_positions)": 128,
}
WIDTHS = re.compile(
    r"(.*hidden_size|.*intermediate_size|d_model|.*ffn_dim|.*_embd|.*embed_dim|.*embedding_dim|dim|d_ff|n_inner|"
    r"num_.*heads|n_heads?|.*_dim_model|projection_dim|.*_hidden_dim|hidden_dim|mlp_dim|out_hidden_size)"
)
GIVEN = {
    "siglip_vision_model": {"num_attention_heads": 4},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1},
    "dots3_note_text": {"per_layer_config": {}},
    "dots3_note_vision_encoder": {"per_layer_config": {}},
    "emu3": {"vocabulary_map": {"<|extra_200|>": 5, "<image>": 6}},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "hunyuan_v1_moe": {"head_dim": 16},
    "hunyuan_vl": {"head_dim": 16},
    "hunyuan_vl_text": {"head_dim": 16},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"]},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 32},
    "granitemoehybrid": {"mamba_n_heads": 16, "mamba_d_head": 32},
    "qwen4_exp_text": {"token_budget": 64, "compress_ratio": 4},
}
"""What configurations need beside their defaults, by the type of the model."""

PREFERRED = ("ForConditionalGeneration", "ForCausalLM", "ForPreTraining", "ForMaskedLM", "For", "Model")


def classes():
    """All classes of models by their names."""
    found = {}
    for module in pkgutil.iter_modules(transformers.models.__path__):
        name = f"transformers.models.{module.name}"
        with contextlib.suppress(Exception):
            package = importlib.import_module(name)
            for each in pkgutil.iter_modules(package.__path__):
                if each.name.startswith("modeling_"):
                    made = importlib.import_module(f"{name}.{each.name}")
                    found |= {
                        key: value
                        for key, value in vars(made).items()
                        if inspect.isclass(value)
                        and issubclass(value, transformers.PreTrainedModel)
                        and value.__module__ == made.__name__
                    }
    return found


def mapped(found):
    """The names of architectures and types of models that have a mapping, each with the class that it is tried with."""
    types = {}
    for name, each in found.items():
        kind = getattr(each.config_class, "model_type", None)
        if kind and not name.endswith("PreTrainedModel"):
            types.setdefault(kind, []).append(name)
    asked = {}
    for name in found:
        if get_checkpoint_conversion_mapping(name) is not None:
            asked[name] = found[name]
    for kind, own in types.items():
        if get_checkpoint_conversion_mapping(kind) is not None:
            order = [next(k for k, end in enumerate((*PREFERRED, "")) if end in name) for name in own]
            asked[kind] = found[min(zip(order, map(len, own), own, strict=True))[2]]
    return asked


def tiny_model(kind):
    """A model with elements of its own; the error of the first try if there is none."""
    first = None
    for factor in FACTORS:
        for is_shallow in (True, False):
            try:
                config = kind.config_class()
                shrink(config, factor, is_shallow)
                config = kind.config_class.from_dict(config.to_dict())
                with torch.device("meta"):
                    count = sum(each.numel() for each in kind(config).state_dict().values())
                if count > MAX_ELEMENTS:
                    raise ValueError(f"{count} elements are too many")
                return filled(kind(config))
            except Exception as error:
                first = first or error
    raise first


def shrink(config, factor, is_shallow):
    """Make a configuration smaller, in place: its widths, and all that FEW names, or just the most expensive of it."""
    layers = next((getattr(config, n) for n in ("num_hidden_layers", "num_layers") if hasattr(config, n)), None)
    for name, value in list(vars(config).items()):
        if isinstance(value, transformers.PreTrainedConfig):
            shrink(value, factor, is_shallow)
        elif type(value) is int and value > 0:
            setattr(config, name, smaller(name, value, factor, is_shallow))
        elif not is_shallow:
            continue
        elif isinstance(value, list) and layers and len(value) == layers > 2:
            setattr(config, name, value[:2] if len(set(map(str, value[:2]))) > 1 else [value[0], value[-1]])
        elif name == "mlp_only_layers":
            setattr(config, name, [])
    for name, value in GIVEN.get(config.model_type, {}).items():
        setattr(config, name, value)


def smaller(name, value, factor, is_shallow):
    for pattern, most in FEW.items():
        if re.fullmatch(pattern, name) and (is_shallow or most > 2):
            return min(value, most)
    if name.endswith("_token_id") or name.endswith("_token_index"):
        return min(value, 150)
    if WIDTHS.fullmatch(name) and value % factor == 0:
        return value // factor
    return value


def filled(model):
    """The model with no two elements alike, as far as their dtype goes."""
    torch.manual_seed(7)
    seen = set()
    with torch.no_grad():
        for each in model.state_dict().values():
            if each.is_floating_point() and each.data_ptr() not in seen:
                each.copy_(torch.randn(each.shape))
            seen.add(each.data_ptr())
    return model.eval()
