"""Conversion of a model's tensors to a layout of transformers, in another process.

Importing transformers and PyTorch takes two seconds and 400 MiB; that process ends before anything is moved, and its
result is cached. A process that has imported transformers converts by itself, with the models and mappings that are
registered in it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from anydml.errors import AnydmlError, ModelError
from anydml.files.location import Location, names, show
from anydml.processes import start_python
from anydml.stores.checkpoints import experts, mapping_cache
from anydml.stores.checkpoints.composed import ComposedTensor, ComposedTensors, without_unread_sources
from anydml.stores.checkpoints.mapping_results import Answer, answer_of, text_of
from anydml.stores.checkpoints.parallel_axes import Axes
from anydml.stores.checkpoints.presets import PRESETS, arrange, axes_of, preset_of
from anydml.stores.checkpoints.transformers_mapping import Architecture
from anydml.text import count_noun

START = """
import gc, os, pickle, signal, sys, threading
gc.disable()
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.path[:], question = pickle.load(sys.stdin.buffer)
threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(1)), daemon=True).start()
from anydml.stores.checkpoints.model_layouts import main
main(question)
"""
"""The code of the process, which has the same import path, and ends when its standard input ends."""


def cached_layout(folder: Path, to: str, is_shared: bool, tensors: ComposedTensors) -> Answer:
    """Return the result of `converted_layout`, cached, or from another process unless this one imported transformers.

    Raises:
        ModelError: as `converted_layout`, or the process cannot be started, or was ended.
    """
    if "transformers" in sys.modules:
        return converted_layout(folder, to, is_shared, tensors)
    name = mapping_cache.name_of(folder, pickle.dumps((to, is_shared, tensors)))
    if name is not None and (answer := mapping_cache.read_cached(name)) is not None:
        return answer
    unsent = memoryview(pickle.dumps((sys.path, pickle.dumps((folder, to, is_shared, tensors)))))
    pipe = subprocess.PIPE
    child = start_python(START, "to read transformers' mappings", bufsize=0, stdin=pipe, stdout=pipe)
    with child:
        assert child.stdin is not None, "it is a pipe"
        assert child.stdout is not None, "it is a pipe"
        with suppress(OSError):  # the process has ended
            while unsent:
                unsent = unsent[child.stdin.write(unsent) :]
        output, ended = child.stdout.read(), child.wait()
    if ended:
        raise ModelError(f"convert: the process that reads transformers' mappings ended with {ended}")
    answer = pickle.loads(output)
    if isinstance(answer, AnydmlError):
        raise answer
    # Meanwhile, transformers or config.json may have been replaced.
    if name is not None and name == mapping_cache.name_of(folder, pickle.dumps((to, is_shared, tensors))):
        mapping_cache.write_cached(name, answer)
    return answer_of(answer)


def main(question: bytes) -> None:
    """Convert as standard input asks; write the result as JSON, or an error, to the standard output."""
    answer: Any
    with os.fdopen(os.dup(1), "wb") as out:
        # Libraries may print to the standard output.
        os.dup2(2, 1)
        try:
            answer = text_of(converted_layout(*pickle.loads(question)))
        except AnydmlError as error:
            answer = error
        pickle.dump(answer, out)
    # Without PyTorch's exit handlers, which take a while.
    os._exit(0)


def converted_layout(folder: Path, to: str, is_shared: bool, tensors: ComposedTensors) -> Answer:
    """Convert the tensors of a model to another layout.

    Args:
        folder: the folder with config.json.
        to: a layout, as in `anydml.stores.convert`.
        is_shared: whether the axes of ranks are needed.
        tensors: the tensors of the checkpoint, over numbered sources.

    Raises:
        ModelError: as in `anydml.stores.convert`.
    """
    architecture = Architecture(folder)
    trace = architecture.trace()
    preset, remarks = preset_of(to, architecture.model) if to in PRESETS else None, list[str]()
    if flat := next((name for name in tensors if name.rpartition(".")[2].lstrip("_") == "flat_param"), None):
        raise (Location(str(folder)) / flat).error(
            "is a flat parameter of FSDP, without the names and shapes of the tensors in it: save with "
            "StateDictType.SHARDED_STATE_DICT or FULL_STATE_DICT, or cut it by a layout for anydml reshard"
        )
    composed, unknown = architecture.to_transformers(trace, tensors)
    if each_of_them := {name: tensors[name] for name in unknown}:
        fused_tensors = experts.fuse_experts(trace.composer, each_of_them, architecture.model)
        composed |= {name: fused_tensors[name] for name in fused_tensors if name in architecture.shapes}
        unknown = [name for name in unknown if name in fused_tensors]
    if not composed:
        raise Location(str(folder)).error(
            f"has none of the tensors of {architecture.name}, but {names(tensors)}: the published layout, that of "
            "transformers, and one tensor per expert are read"
        )
    unknown_text = f"{count_noun(len(unknown), 'tensor')} that {architecture.name} does not have: {names(unknown)}"
    if missing := architecture.missing(composed):
        count = count_noun(len(missing), "tensor")
        message = f"is without {count} of {architecture.name}, which from_pretrained would fill with random numbers"
        read = "the published layout, that of transformers, and one tensor per expert are read"
        clause = f"; it has {unknown_text}; {read}" if unknown else ""
        raise Location(str(folder)).error(f"{message}: {names(missing)}{clause}")
    if unknown:
        remarks.append(f"keeps {unknown_text}")
    if to == "original":
        composed = architecture.to_original(trace, composed)
    if to in ("per-expert", "megatron"):
        composed = experts.per_expert(trace.composer, composed, architecture.model)
    if preset is not None:
        composed = arrange(trace.composer, composed, to, preset, architecture.model)
    for name in unknown:
        if name in composed:
            raise ModelError(f"convert: two tensors would have the name {show(name)}")
        composed[name] = tensors[name]
    if {*composed} == {*tensors} and all(_is_same(tensor, tensors[name]) for name, tensor in composed.items()):
        remarks.append(f"changes no tensor: the model is in the layout {to} already")
    axes = axes_of(architecture.model) if is_shared and to == "transformers" else preset.axes if preset else Axes()
    return Answer(composed, trace.composer, remarks, axes)


def _is_same(converted: ComposedTensor, original: ComposedTensor) -> bool:
    """Whether a tensor has the elements of another one, even if that was merged with others and split again."""
    expected = (
        converted
        if converted.value is original.value
        else without_unread_sources(converted.value, converted.dtype, converted.sources)
    )
    return expected.sources == original.sources and expected.value == original.value
