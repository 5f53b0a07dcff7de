"""The models of `benchmarks.slim`: small configurations with random weights, exported from PyTorch."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

Made = tuple[Any, tuple[Any, ...]]
"""A module, and what it is called with."""


def _transformer(kind: str, config: str, inputs: Callable[[Any], tuple[Any, ...]], **sizes: Any) -> Callable[[], Made]:
    def make() -> Made:
        import torch
        import transformers

        class First(torch.nn.Module):
            """The first result alone, whatever else there is."""

            def __init__(self, model: Any) -> None:
                super().__init__()
                self.model = model

            def forward(self, *given: Any) -> Any:
                found = self.model(*given, return_dict=False)
                return found[0]

        made = getattr(transformers, config)(**sizes)
        if hasattr(made, "use_cache"):
            made.use_cache = False
        model = getattr(transformers, kind)(made)
        return First(model), inputs(torch)

    return make


def _tokens(count: int, vocabulary: int = 512) -> Callable[[Any], tuple[Any, ...]]:
    return lambda torch: (torch.randint(0, vocabulary, (1, count)),)


def _image(size: int, channels: int = 3) -> Callable[[Any], tuple[Any, ...]]:
    return lambda torch: (torch.randn(1, channels, size, size),)


def _own(kind: str, *shapes: tuple[int, ...]) -> Callable[[], Made]:
    def make() -> Made:
        import torch

        from benchmarks import slim_modules

        return getattr(slim_modules, kind)(), tuple(torch.randn(*shape) for shape in shapes)

    return make


_BERT = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "vocab_size": 512,
}
_LLAMA = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 512,
}
_VIT = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "image_size": 64,
    "patch_size": 8,
}
_WHISPER = {
    "d_model": 128,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
    "vocab_size": 512,
    "num_mel_bins": 80,
    "max_source_positions": 200,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}

MODELS: dict[str, Callable[[], Made]] = {
    "GPT-2": _transformer(
        "GPT2LMHeadModel", "GPT2Config", _tokens(64), n_embd=128, n_layer=2, n_head=4, vocab_size=512
    ),
    "Llama": _transformer("LlamaForCausalLM", "LlamaConfig", _tokens(64), **_LLAMA),
    "Qwen2": _transformer("Qwen2ForCausalLM", "Qwen2Config", _tokens(64), **_LLAMA),
    "Phi": _transformer("PhiForCausalLM", "PhiConfig", _tokens(64), **{**_LLAMA, "num_key_value_heads": 4}),
    "BERT": _transformer("BertModel", "BertConfig", _tokens(64), **_BERT),
    "DistilBERT": _transformer(
        "DistilBertModel",
        "DistilBertConfig",
        _tokens(64),
        dim=128,
        n_layers=2,
        n_heads=4,
        hidden_dim=256,
        vocab_size=512,
    ),
    "T5 encoder": _transformer(
        "T5EncoderModel",
        "T5Config",
        _tokens(64),
        d_model=128,
        d_kv=32,
        d_ff=256,
        num_layers=2,
        num_heads=4,
        vocab_size=512,
    ),
    "Whisper encoder": _transformer(
        "WhisperForAudioClassification", "WhisperConfig", lambda torch: (torch.randn(1, 80, 400),), **_WHISPER
    ),
    "ViT": _transformer("ViTModel", "ViTConfig", _image(64), **_VIT),
    "DeiT": _transformer("DeiTModel", "DeiTConfig", _image(64), **_VIT),
    "Swin": _transformer(
        "SwinModel",
        "SwinConfig",
        _image(112),
        image_size=112,
        embed_dim=48,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=7,
    ),
    "SegFormer": _transformer("SegformerModel", "SegformerConfig", _image(64), hidden_sizes=[16, 32, 64, 96]),
    "ConvNeXt": _transformer(
        "ConvNextModel", "ConvNextConfig", _image(64), hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 2, 1]
    ),
    "YOLOS": _transformer(
        "YolosForObjectDetection",
        "YolosConfig",
        _image(64),
        **{**_VIT, "image_size": [64, 64], "num_detection_tokens": 20},
    ),
    "Qwen3": _transformer("Qwen3ForCausalLM", "Qwen3Config", _tokens(64), **_LLAMA, head_dim=64),
    "BLIP vision": _transformer("BlipVisionModel", "BlipVisionConfig", _image(64), **_VIT),
    "Swin V2": _transformer(
        "Swinv2Model",
        "Swinv2Config",
        _image(64),
        image_size=64,
        patch_size=4,
        embed_dim=32,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
    ),
    "MobileViT": _transformer(
        "MobileViTModel",
        "MobileViTConfig",
        _image(64),
        image_size=64,
        hidden_sizes=[32, 48, 64],
        neck_hidden_sizes=[8, 16, 24, 32, 48, 64, 128],
    ),
    "ShuffleNet": _own("ShuffleNet", (1, 24, 28, 28)),
    "U-Net": _own("UNet", (1, 3, 64, 64)),
    "pixel shuffle": _own("PixelShuffle", (1, 3, 48, 48)),
    "detection head": _own("DetectionHead", (1, 32, 32, 32), (1, 64, 16, 16), (1, 128, 8, 8)),
    "YOLO head": _own("YoloHead", (1, 3, 64, 64)),
    "MLP-Mixer": _own("Mixer", (1, 3, 64, 64)),
}


UNSEEN: dict[str, Callable[[], Made]] = {
    "RoBERTa": _transformer("RobertaModel", "RobertaConfig", _tokens(64), **_BERT),
    "ALBERT": _transformer("AlbertModel", "AlbertConfig", _tokens(64), **_BERT, embedding_size=64),
    "ELECTRA": _transformer("ElectraModel", "ElectraConfig", _tokens(64), **_BERT, embedding_size=64),
    "OPT": _transformer(
        "OPTForCausalLM",
        "OPTConfig",
        _tokens(64),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=256,
        vocab_size=512,
        word_embed_proj_dim=128,
    ),
    "Gemma": _transformer("GemmaForCausalLM", "GemmaConfig", _tokens(64), **_LLAMA, head_dim=64),
    "Mistral": _transformer("MistralForCausalLM", "MistralConfig", _tokens(64), **_LLAMA),
    "Granite": _transformer("GraniteForCausalLM", "GraniteConfig", _tokens(64), **_LLAMA),
    "GPT-NeoX": _transformer("GPTNeoXForCausalLM", "GPTNeoXConfig", _tokens(64), **_BERT),
    "BLOOM": _transformer(
        "BloomForCausalLM", "BloomConfig", _tokens(64), hidden_size=128, n_layer=2, n_head=4, vocab_size=512
    ),
    "Falcon": _transformer(
        "FalconForCausalLM",
        "FalconConfig",
        _tokens(64),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=512,
    ),
    "CLIP vision": _transformer("CLIPVisionModel", "CLIPVisionConfig", _image(64), **_VIT),
    "CLIP text": _transformer(
        "CLIPTextModel", "CLIPTextConfig", _tokens(64), **_BERT, projection_dim=64, eos_token_id=2
    ),
    "SigLIP vision": _transformer("SiglipVisionModel", "SiglipVisionConfig", _image(64), **_VIT),
    "DINOv2": _transformer(
        "Dinov2Model",
        "Dinov2Config",
        _image(64),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=64,
        patch_size=8,
    ),
    "BEiT": _transformer("BeitModel", "BeitConfig", _image(64), **_VIT),
    "DPT": _transformer("DPTModel", "DPTConfig", _image(64), **_VIT, backbone_out_indices=[0, 1, 1, 1]),
    "Wav2Vec2": _transformer(
        "Wav2Vec2Model",
        "Wav2Vec2Config",
        lambda torch: (torch.randn(1, 8000),),
        **{**_BERT, "vocab_size": 32},
        conv_dim=[32] * 7,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    ),
    "AST": _transformer(
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
    "VideoMAE": _transformer(
        "VideoMAEModel",
        "VideoMAEConfig",
        lambda torch: (torch.randn(1, 4, 3, 32, 32),),
        **{**_VIT, "image_size": 32},
        num_frames=4,
    ),
    "PVT": _transformer(
        "PvtModel",
        "PvtConfig",
        _image(64),
        image_size=64,
        hidden_sizes=[32, 64, 96, 128],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 3, 4],
        sequence_reduction_ratios=[8, 4, 2, 1],
    ),
    "PoolFormer": _transformer(
        "PoolFormerModel", "PoolFormerConfig", _image(64), hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 1, 1]
    ),
    "LeViT": _transformer(
        "LevitModel",
        "LevitConfig",
        _image(64),
        image_size=64,
        hidden_sizes=[64, 96, 128],
        depths=[1, 1, 1],
        num_attention_heads=[2, 3, 4],
        key_dim=[16, 16, 16],
    ),
    "ResNet": _transformer(
        "ResNetModel", "ResNetConfig", _image(64), embedding_size=16, hidden_sizes=[32, 64], depths=[1, 1]
    ),
    "ConvNeXt V2": _transformer(
        "ConvNextV2Model", "ConvNextV2Config", _image(64), hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 2, 1]
    ),
}
"""Models that no threshold was chosen by."""


def export(name: str, path: Path) -> None:
    """Write a model's file."""
    import torch

    torch.manual_seed(0)
    module, inputs = {**MODELS, **UNSEEN}[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), inputs, str(path), opset_version=18, external_data=False, verbose=False)


if __name__ == "__main__":
    export(sys.argv[1], Path(sys.argv[2]))
