"""Options of other tools for checkpoints, and what is written here instead.

They are those of PyTorch's consolidation and format_utils, transformers, mergekit, accelerate, llama.cpp, DeepSpeed's
zero_to_fp32, Megatron, vLLM and Hugging Face's hub.
"""

from __future__ import annotations

from collections.abc import Mapping

_GROUPS: tuple[tuple[str, str], ...] = (
    (
        "IN and OUT are written without options: anydml reshard IN OUT",
        "--input --input-dir --input-path --output-dir --output-path --outfile --out --local-dir --load "
        "--save --checkpoint-dir --checkpoint-path --model --model-path --src --dst --save-path --load-dir "
        "--save-dir --target-dir --staging-dir --ckpt-dir --output-fname --megatron-path --hf-path "
        "--checkpoint --out-path --input-folder --output-folder --source --destination --target --from "
        "--export-dir --source-ckpt --torch-checkpoint-path",
    ),
    (
        "write --shard-size 5GB",
        "--max-shard-size --out-shard-size --split-max-size --max-file-size --split-tensors-size --max-size "
        "--split-size --chunk-size --shard",
    ),
    (
        "write --shards N",
        "--num-shards --num-files --shard-count --n-shards --fqn-to-index-mapping --num-splits --sharded",
    ),
    (
        "files are divided by size: write --shard-size 5GB or --shards N",
        "--split-max-tensors",
    ),
    (
        "it is always so: leave it out",
        "--safe-serialization --lazy-unpickle --low-cpu-memory --low-cpu-mem-usage --copy-tokenizer "
        "--no-tensor-first-split --lazy --sync --fsync --use-safetensors --clone-tensors --safetensors "
        "--consolidate --unshard --merge-shards --copy --safetensors-only --merge-tp --single-file "
        "--dist-ckpt-format --use-checkpoint-args --recursive --keep",
    ),
    (
        "pickles are not written: load OUT, and torch.save it",
        "--unsafe-serialization --no-safe-serialization --to-torch --dcp-to-torch --save-torch "
        "--no-safetensors --pickle --bin --pt",
    ),
    (
        "write --dcp",
        "--torch-to-dcp --to-dcp",
    ),
    (
        "the name of OUT decides: a folder, or a name with .safetensors at its end",
        "--dcp-to-hf --to-safetensors --to-hf",
    ),
    (
        "the name of OUT decides: a folder, .safetensors, .gguf or .npz; --dcp writes a distributed checkpoint",
        "--format --output-format --out-type --save-format --target-format --type",
    ),
    (
        "write --dtype bf16",
        "--outtype --torch-dtype --out-dtype --dtype-out --precision --cast --model-dtype --bf16 --bfloat16 "
        "--target-dtype --cast-to --to-dtype --lora-merge-dtype --output-dtype --data-type",
    ),
    (
        "write --dtype fp16",
        "--fp16 --half --f16 --float16",
    ),
    (
        "write --dtype fp32",
        "--fp32 --f32 --float32",
    ),
    (
        "quantization is left to other tools, such as llama.cpp's llama-quantize",
        "--quantize --quantization --quant --q8-0 --load-in-4bit --load-in-8bit --quant-type --bits --group-size",
    ),
    (
        "write --only model",
        "--include --keys --filter --tensors --model-only --weights-only --only-model --no-optimizer "
        "--include-regex --pattern --file-pattern --tensor --names",
    ),
    (
        "write --drop optimizer",
        "--exclude --ignore --skip --exclude-optimizer --drop-optimizer --exclude-keys --skip-optimizer "
        "--ignore-optimizer --no-optim --no-load-optim --exclude-regex --remove --no-mtp --no-layer",
    ),
    (
        "write --drop NAME for each of them",
        "--exclude-frozen-parameters",
    ),
    (
        "write --vocab-size N",
        "--true-vocab-size --padded-vocab-size --make-vocab-size-divisible-by",
    ),
    (
        "write --strip model",
        "--prefix --strip-prefix --remove-prefix --key-prefix --base-model-prefix",
    ),
    (
        "write --rename '*=model.*'",
        "--add-prefix",
    ),
    (
        "write the rules in a file, and name it by --layout",
        "--rules --rules-file --rule --recipe --spec",
    ),
    (
        "write --rename OLD=NEW, or rules in --layout",
        "--key-mapping --rename-map --map --mapping --name-map --rename-keys",
    ),
    (
        "write --extras-from FOLDER, from which config.json, the tokenizer and so on are copied",
        "--config --config-path --config-dir --tokenizer --tokenizer-path --base-model --hf-model "
        "--model-name-or-path --hf-config --hf-model-path --tokenizer-model --vocab-file --hf-tokenizer "
        "--config-name --chat-template-file",
    ),
    (
        "write --no-extras",
        "--no-copy --no-tokenizer --no-config --no-copy-tokenizer",
    ),
    (
        "write --memory 256MB",
        "--max-memory --memory-limit --ram --buffer-size",
    ),
    (
        "the number of processors decides: leave it out, or limit them by taskset",
        "--num-threads --num-workers --workers --threads --jobs --num-processes --max-workers --nproc "
        "--thread-count --async-write --multi-gpu --parallel --write-threads --nthread --num-threads-per-rank "
        "--num-gpus --max-queue-size --num-extract-workers --num-merge-workers --no-multi-gpu "
        "--no-async-write",
    ),
    (
        "files are moved by the processor, within --memory: leave it out",
        "--cuda --device --gpu --device-map --read-to-gpu --use-gpu --gpu-rich --use-temp-file --no-lazy "
        "--cpu --no-cuda --cpu-offload --offload --use-cpu-initialization --no-lazy-unpickle "
        "--no-low-cpu-memory --no-read-to-gpu --keep-temp-folder --in-memory",
    ),
    (
        "no code of a checkpoint is ever run: leave it out",
        "--trust-remote-code --allow-crimes --allow-pickle --unsafe --no-allow-crimes --no-trust-remote-code",
    ),
    (
        "write --overwrite",
        "--force --force-download --yes --overwrite-existing --exist-ok --clobber --delete",
    ),
    (
        "repeat the same command, which resumes",
        "--resume --resume-download --continue --no-force-download",
    ),
    (
        "OUT is never IN: write another OUT",
        "--in-place --inplace",
    ),
    (
        "IN stays as it is: anydml verify IN OUT, then remove it",
        "--remove-checkpoint-dir --delete-original --move",
    ),
    (
        "write --tp N",
        "--tensor-parallel-size --tensor-model-parallel-size --target-tensor-parallel-size --tp-size "
        "--tensor-parallel --mp-size --model-parallel-size --world-size --nproc-per-node --mp",
    ),
    (
        "write --pp N",
        "--pipeline-parallel --pipeline-parallel-size --pipeline-model-parallel-size "
        "--target-pipeline-parallel-size --pp-size",
    ),
    (
        "write --ep N",
        "--expert-parallel --expert-parallel-size --expert-model-parallel-size --target-expert-parallel-size --ep-size",
    ),
    (
        "write --fsdp N",
        "--fsdp-size --dp-size --data-parallel-shard-degree --num-ranks",
    ),
    (
        "all ranks are written by one command: leave it out",
        "--rank --no-dist --process-group --tp-rank --pp-rank",
    ),
    (
        "write IN as hf://owner/name, or hf://owner/name@REVISION; HF_TOKEN and HF_ENDPOINT are the hub's",
        "--revision --repo-id --token --endpoint --hub --remote --subfolder --repo --branch --commit "
        "--hf-model-id --model-id --from-id",
    ),
    (
        "IN is read where it is, and OUT is not sent to the hub: let hf upload do it",
        "--repo-type --cache-dir --push-to-hub --etag-timeout --upload --hf-upload-path --private "
        "--transformers-cache --local-dir-use-symlinks --to-id --commit-message --commit-description "
        "--create-pr --no-create-pr --no-private",
    ),
    (
        "it is not written here: use llama.cpp's or mergekit's own tool on OUT",
        "--vocab-only --model-name --mmproj --bigendian --big-endian --metadata-override --write-model-card "
        "--merge --split --no-tensor-in-metadata --print-supported-models --mistral-format --source-metadata "
        "--disable-mistral-community-chat-template --sentence-transformers-dense-modules --metadata "
        "--remove-metadata --general-name --general-description --chat-template --chat-template-config "
        "--special-token --special-token-by-id --pre-tokenizer --fp8-as-q8 --mtp --target-model-dir "
        "--no-write-model-card --inject-missing-state",
    ),
    (
        "what IN is, is read from it: leave it out",
        "--model-type --loader --saver --ckpt-format --arch --architecture --tag --debug --backend "
        "--src-format --load-format --zero-stage --model-size --llama-version --checkpoint-type "
        "--tokenizer-type --no-checking --debug-mode --input-format --input-dtype --position-embedding-type "
        "--saver-transformer-impl --loader-transformer-impl --no-strict --not-strict --zero --lazy-debug "
        "--convert-checkpoint-parts",
    ),
    (
        "write anydml manifest OUT sums.json, and anydml verify sums.json COPY",
        "--checksum --sha256 --hash --md5 --check",
    ),
    (
        "anydml verify compares bit for bit: leave it out",
        "--rtol --atol --tolerance --strict --exact --bitwise",
    ),
    (
        "write anydml stores IN",
        "--list --ls --show --info --print --no-tensors --markdown --data-offset --data-alignment --json-array",
    ),
    (
        "write --dry-run",
        "--plan --simulate --no-act --what-if --no-dry-run",
    ),
    (
        "write anydml verify IN OUT afterwards",
        "--verify --test --validate",
    ),
    (
        "name the folder of that step as IN, such as run/iter_0000010",
        "--step --iteration --epoch --ckpt-step --latest --global-step",
    ),
    (
        "weights are not computed here: merge them by peft or mergekit, and name the result as IN",
        "--lora --adapter --merge-lora --merge-and-unload --lora-merge-cache --random-seed --weight "
        "--max-rank --embed-lora --no-embed-lora --approximation-method --sv-epsilon --full-random --seed",
    ),
    (
        "write it as a rule of a --layout",
        "--transpose --permute --flatten --unflatten --concat --fuse --merge-qkv --split-qkv --stack "
        "--unstack --tie-word-embedding --fuse-gate-up-exps",
    ),
    (
        "config.json tells it: write --extras-from FOLDER, or heads in [[axes]] of a --layout",
        "--num-heads --num-attention-heads --num-key-value-heads --num-layers --num-experts",
    ),
    (
        "permissions are those of IN: leave it out",
        "--preserve --chmod --mode",
    ),
    (
        "an index is written where there are several files: leave it out",
        "--index --no-index",
    ),
    (
        "progress is shown unless --quiet is given",
        "--progress --no-progress --silent --disable-tqdm --progressbar --no-color --log-level --no-quiet",
    ),
    (
        "tensors are not compressed: leave it out",
        "--compress --compression",
    ),
    (
        "name the files of a variant such as fp16, or their index, as IN",
        "--variant",
    ),
    (
        "whole files and folders are what is written without an option; for ranks write --tp N",
        "--ranks --world --one-file --whole",
    ),
    (
        "ranks that only share data have the same tensors: leave it out, or write --fsdp N",
        "--dp --cp --sp --data-parallel-size --context-parallel-size --sequence-parallel --hsdp",
    ),
    (
        "experts are whole in each of their ranks, and stages have consecutive layers: leave it out",
        "--etp --expert-tensor-parallel-size --vpp --virtual-pipeline-model-parallel-size "
        "--num-layers-per-virtual-pipeline-stage",
    ),
    (
        "anydml convert IN OUT --to vllm changes layouts",
        "--to",
    ),
    (
        "the name of OUT decides: let it end in .gguf",
        "--gguf",
    ),
)
"""Advice, and the options of other tools that it stands in for."""

ANSWERS: Mapping[str, str] = {option: answer for answer, options in _GROUPS for option in options.split()}
"""The advice for an option of another tool, by its name."""


RESHARD_ONLY_OPTIONS = ("--only", "--drop", "--strip", "--rename", "--layout", "--dtype", "--vocab-size")
"""Options of reshard that change tensors, and which not all commands have."""


def advice_for(option: str) -> str | None:
    """Return what to write instead of an option of another tool or command; None if it is unknown."""
    name = option.partition("=")[0].replace("_", "-").lower()
    if name in RESHARD_ONLY_OPTIONS:
        return f"write anydml reshard IN BETWEEN {name} … first, and name BETWEEN as IN"
    return ANSWERS.get(name)
