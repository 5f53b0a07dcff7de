"""The models of `benchmarks.slim`: small configurations with random weights, exported from PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Made = tuple[Any, tuple[Any, ...]]
"""A module, and what it is called with."""


def transformer(kind: str, config: str, inputs: Callable[[Any], tuple[Any, ...]], **sizes: Any) -> Callable[[], Made]:
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


def tokens(count: int, vocabulary: int = 512) -> Callable[[Any], tuple[Any, ...]]:
    return lambda torch: (torch.randint(0, vocabulary, (1, count)),)


def image(size: int, channels: int = 3) -> Callable[[Any], tuple[Any, ...]]:
    return lambda torch: (torch.randn(1, channels, size, size),)


def _own(kind: str, *shapes: tuple[int, ...]) -> Callable[[], Made]:
    def make() -> Made:
        import torch

        from benchmarks import slim_modules

        return getattr(slim_modules, kind)(), tuple(torch.randn(*shape) for shape in shapes)

    return make


BERT = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "vocab_size": 512,
}
LLAMA = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 512,
}
VIT = {
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
    "GPT-2": transformer("GPT2LMHeadModel", "GPT2Config", tokens(64), n_embd=128, n_layer=2, n_head=4, vocab_size=512),
    "Llama": transformer("LlamaForCausalLM", "LlamaConfig", tokens(64), **LLAMA),
    "Qwen2": transformer("Qwen2ForCausalLM", "Qwen2Config", tokens(64), **LLAMA),
    "Phi": transformer("PhiForCausalLM", "PhiConfig", tokens(64), **{**LLAMA, "num_key_value_heads": 4}),
    "BERT": transformer("BertModel", "BertConfig", tokens(64), **BERT),
    "DistilBERT": transformer(
        "DistilBertModel",
        "DistilBertConfig",
        tokens(64),
        dim=128,
        n_layers=2,
        n_heads=4,
        hidden_dim=256,
        vocab_size=512,
    ),
    "T5 encoder": transformer(
        "T5EncoderModel",
        "T5Config",
        tokens(64),
        d_model=128,
        d_kv=32,
        d_ff=256,
        num_layers=2,
        num_heads=4,
        vocab_size=512,
    ),
    "Whisper encoder": transformer(
        "WhisperForAudioClassification", "WhisperConfig", lambda torch: (torch.randn(1, 80, 400),), **_WHISPER
    ),
    "ViT": transformer("ViTModel", "ViTConfig", image(64), **VIT),
    "DeiT": transformer("DeiTModel", "DeiTConfig", image(64), **VIT),
    "Swin": transformer(
        "SwinModel",
        "SwinConfig",
        image(112),
        image_size=112,
        embed_dim=48,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=7,
    ),
    "SegFormer": transformer(
        "SegformerModel",
        "SegformerConfig",
        image(64),
        hidden_sizes=[16, 32, 64, 96],
        num_attention_heads=[1, 2, 4, 8],
    ),
    "ConvNeXt": transformer(
        "ConvNextModel", "ConvNextConfig", image(64), hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 2, 1]
    ),
    "YOLOS": transformer(
        "YolosForObjectDetection",
        "YolosConfig",
        image(64),
        **{**VIT, "image_size": [64, 64], "num_detection_tokens": 20},
    ),
    "Qwen3": transformer("Qwen3ForCausalLM", "Qwen3Config", tokens(64), **LLAMA, head_dim=64),
    "BLIP vision": transformer("BlipVisionModel", "BlipVisionConfig", image(64), **VIT),
    "Swin V2": transformer(
        "Swinv2Model",
        "Swinv2Config",
        image(64),
        image_size=64,
        patch_size=4,
        embed_dim=32,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
    ),
    "MobileViT": transformer(
        "MobileViTModel",
        "MobileViTConfig",
        image(64),
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
