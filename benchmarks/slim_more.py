"""More models for `benchmarks.slim`: some that were looked at when rules were chosen, and some that were not."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from benchmarks.slim_models import BERT, LLAMA, MODELS, VIT, Made, image, tokens, transformer

_SPEECH = {
    **BERT,
    "vocab_size": 32,
    "conv_dim": [32] * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}

MORE: dict[str, Callable[[], Made]] = {
    "RoBERTa": transformer("RobertaModel", "RobertaConfig", tokens(64), **BERT),
    "ALBERT": transformer("AlbertModel", "AlbertConfig", tokens(64), **BERT, embedding_size=64),
    "ELECTRA": transformer("ElectraModel", "ElectraConfig", tokens(64), **BERT, embedding_size=64),
    "OPT": transformer(
        "OPTForCausalLM",
        "OPTConfig",
        tokens(64),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=256,
        vocab_size=512,
        word_embed_proj_dim=128,
    ),
    "Gemma": transformer("GemmaForCausalLM", "GemmaConfig", tokens(64), **LLAMA, head_dim=64),
    "Mistral": transformer("MistralForCausalLM", "MistralConfig", tokens(64), **LLAMA),
    "Granite": transformer("GraniteForCausalLM", "GraniteConfig", tokens(64), **LLAMA),
    "GPT-NeoX": transformer("GPTNeoXForCausalLM", "GPTNeoXConfig", tokens(64), **BERT),
    "BLOOM": transformer(
        "BloomForCausalLM", "BloomConfig", tokens(64), hidden_size=128, n_layer=2, n_head=4, vocab_size=512
    ),
    "Falcon": transformer(
        "FalconForCausalLM",
        "FalconConfig",
        tokens(64),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=512,
    ),
    "CLIP vision": transformer("CLIPVisionModel", "CLIPVisionConfig", image(64), **VIT),
    "CLIP text": transformer("CLIPTextModel", "CLIPTextConfig", tokens(64), **BERT, projection_dim=64, eos_token_id=2),
    "SigLIP vision": transformer("SiglipVisionModel", "SiglipVisionConfig", image(64), **VIT),
    "DINOv2": transformer(
        "Dinov2Model",
        "Dinov2Config",
        image(64),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=64,
        patch_size=8,
    ),
    "BEiT": transformer("BeitModel", "BeitConfig", image(64), **VIT),
    "DPT": transformer("DPTModel", "DPTConfig", image(64), **VIT, backbone_out_indices=[0, 1, 1, 1]),
    "Wav2Vec2": transformer("Wav2Vec2Model", "Wav2Vec2Config", lambda torch: (torch.randn(1, 8000),), **_SPEECH),
    "AST": transformer(
        "ASTModel",
        "ASTConfig",
        lambda torch: (torch.randn(1, 128, 32),),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_length=128,
        num_mel_bins=32,
        frequency_stride=8,
        time_stride=8,
    ),
    "VideoMAE": transformer(
        "VideoMAEModel",
        "VideoMAEConfig",
        lambda torch: (torch.randn(1, 4, 3, 32, 32),),
        **{**VIT, "image_size": 32},
        num_frames=4,
    ),
    "PVT": transformer(
        "PvtModel",
        "PvtConfig",
        image(64),
        image_size=64,
        hidden_sizes=[32, 64, 96, 128],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 3, 4],
        sequence_reduction_ratios=[8, 4, 2, 1],
    ),
    "PoolFormer": transformer(
        "PoolFormerModel", "PoolFormerConfig", image(64), hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 1, 1]
    ),
    "LeViT": transformer(
        "LevitModel",
        "LevitConfig",
        image(64),
        image_size=64,
        hidden_sizes=[64, 96, 128],
        depths=[1, 1, 1],
        num_attention_heads=[2, 3, 4],
        key_dim=[16, 16, 16],
    ),
    "ResNet": transformer(
        "ResNetModel", "ResNetConfig", image(64), embedding_size=16, hidden_sizes=[32, 64], depths=[1, 1]
    ),
    "ConvNeXt V2": transformer(
        "ConvNextV2Model", "ConvNextV2Config", image(64), hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 2, 1]
    ),
}
"""Models that were looked at when it was decided which products get two axes."""


UNSEEN: dict[str, Callable[[], Made]] = {
    "XLM-RoBERTa": transformer("XLMRobertaModel", "XLMRobertaConfig", tokens(64), **BERT),
    "MPNet": transformer("MPNetModel", "MPNetConfig", tokens(64), **BERT),
    "GPT-Neo": transformer(
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        tokens(64),
        hidden_size=128,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        vocab_size=512,
    ),
    "OLMo": transformer("OlmoForCausalLM", "OlmoConfig", tokens(64), **LLAMA),
    "StableLM": transformer("StableLmForCausalLM", "StableLmConfig", tokens(64), **LLAMA),
    "StarCoder2": transformer("Starcoder2ForCausalLM", "Starcoder2Config", tokens(64), **LLAMA),
    "ViT-MSN": transformer("ViTMSNModel", "ViTMSNConfig", image(64), **VIT),
    "I-JEPA": transformer("IJepaModel", "IJepaConfig", image(64), **VIT),
    "Data2Vec vision": transformer("Data2VecVisionModel", "Data2VecVisionConfig", image(64), **VIT),
    "Hubert": transformer("HubertModel", "HubertConfig", lambda torch: (torch.randn(1, 8000),), **_SPEECH),
    "FocalNet": transformer(
        "FocalNetModel", "FocalNetConfig", image(64), image_size=64, embed_dim=32, depths=[1, 1], hidden_sizes=[32, 64]
    ),
    "RegNet": transformer("RegNetModel", "RegNetConfig", image(64), hidden_sizes=[16, 32], depths=[1, 1]),
}
"""Models that were measured only when all rules were there."""


def export(name: str, path: Path) -> None:
    """Write a model's file."""
    import torch

    torch.manual_seed(0)
    module, inputs = {**MODELS, **MORE, **UNSEEN}[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), inputs, str(path), opset_version=18, external_data=False, verbose=False)


if __name__ == "__main__":
    export(sys.argv[1], Path(sys.argv[2]))
