"""Conversion mappings of the installed transformers, traced.

A mapping renames tensors, and has converters that merge or split them by operations on PyTorch tensors. The operations
are called with traced tensors, so that their moves become part of a program; operations that compute are refused.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.engines import open_engine
from anydml.errors import PATH_NOT_FOUND, FuseError, ModelError
from anydml.files.location import Location, show
from anydml.moves.value import Value
from anydml.stores.checkpoints.composed import ComposedTensor, ComposedTensors, together, without_unread_sources
from anydml.stores.checkpoints.missing_members import missing_members, refused_for
from anydml.tracing.trace import Trace
from anydml.tracing.traced_tensor import TracedTensor

Shape = tuple[int, ...]

MAX_CHECKED = 1 << 22
"""Maximum number of elements of the small tensors that a converter is checked with."""

CUT = 4
"""Size of a shortened axis of small tensors."""


class TorchTracedTensor(TracedTensor):
    """A traced tensor that passes `isinstance` checks for `torch.Tensor`, which transformers' operations make."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        import torch

        return torch.Tensor


class ConverterGroup(NamedTuple):
    """The tensors of one call of a converter.

    Attributes:
        converter: a `WeightConverter`; calls use copies of it.
        first: name of its first result.
        members: names of tensors by the pattern that each matches, in order.
    """

    converter: Any
    first: str
    members: dict[str, list[str]]


class CachedResult(NamedTuple):
    """The cached result of a converter for one combination of tensors, as an operation that replays the result.

    Attributes:
        results: the result of the other operations, once they have been called.
        tensors: the resulting tensors by id, over the numbers of sources.
    """

    results: list[Any]
    tensors: dict[int, ComposedTensor]

    def convert(self, tensors: Any, **_: Any) -> Any:
        """See `ConversionOps.convert`."""
        self.results[:] = self.results or [tensors]
        return self.results[0]


class Architecture:
    """A transformers model without elements, made from a config.json.

    Args:
        folder: the folder with config.json.

    Raises:
        ModelError: transformers is not installed or cannot be imported, or does not know the model.
    """

    def __init__(self, folder: Path) -> None:
        location = Location(str(folder / "config.json"))
        try:
            import transformers
            from transformers import conversion_mapping, core_model_loading

            # Imported last, because this import takes seconds.
            self._torch = importlib.import_module("torch")
        except (ImportError, OSError) as error:
            # PyTorch raises OSError if a shared library is missing.
            raise ModelError(
                f"convert: transformers' mappings cannot be read ({error}): pip install 'transformers>=5' torch"
            ) from None
        if not (folder / "config.json").is_file():
            raise location.error(f"{PATH_NOT_FOUND}; it names the architecture whose tensors are to be converted")
        self._loading = core_model_loading
        self._mapping_of = conversion_mapping.get_model_conversion_mapping
        try:
            config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            class_names = [*(config.architectures or ())]
            model_class = getattr(transformers, class_names[0], None) if class_names else transformers.AutoModel
            if model_class is None:
                raise location.error(
                    f"has architecture {show(class_names[0])}, which transformers {transformers.__version__} "
                    "does not have"
                )
            if getattr(config, "quantization_config", None) is not None:
                raise location.error("has a quantization_config: its tensors are computed from others, and not moved")
            with self._torch.device("meta"):
                self.model = model_class(config) if class_names else model_class.from_config(config)
        except ModelError:
            raise
        except Exception as error:
            raise location.error(f"is not a model that transformers can make: {_line(error)}") from None
        self.name = type(self.model).__name__
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self.model.state_dict().items()}
        self._loaded: list[Any] = []
        self._is_renamed = False
        self._cached_results: dict[Any, CachedResult] = {}
        self._values: dict[Value, Value] = {}

    def trace(self) -> Trace:
        """Return a trace whose tensors converters accept."""
        return Trace("convert", TorchTracedTensor, self._torch.device("cpu"))

    def to_transformers(self, trace: Trace, tensors: ComposedTensors) -> tuple[ComposedTensors, list[str]]:
        """Return the tensors as `from_pretrained` loads them, and the names of tensors that the model does not have.

        Raises:
            ModelError: a converter computes, or its results do not fit the model.
        """
        transforms = self._mapping_of(self.model)
        renamings, converters = self._split_transforms(transforms)
        by_pattern = {pattern: converter for converter in converters for pattern in converter.source_patterns}
        rename, prefix = self._loading.rename_source_key, self.model.base_model_prefix
        composed: ComposedTensors = {}
        groups: dict[str, ConverterGroup] = {}
        unknown = []
        for name in sorted(tensors, key=self._loading.dot_natural_key):
            new, pattern = rename(name, renamings, converters, prefix, self.shapes)
            if new not in self.shapes and name in self.shapes:
                new, pattern = rename(name, [], [], prefix, self.shapes)
            if new not in self.shapes:
                unknown.append(name)
            elif pattern is not None:
                _group(groups, new, by_pattern[pattern], pattern, name)
            else:
                _add_tensor(composed, new, tensors[name])
        origins = dict[str, ConverterGroup]()
        for group in groups.values():
            for new, tensor in self._convert(trace, group, tensors).items():
                _add_tensor(composed, new, tensor)
                origins[new] = group
        for name, tensor in composed.items():
            if tensor.shape != self.shapes.get(name):
                if name in origins:
                    self._check_members(origins[name])
                expected_shape = [*self.shapes[name]] if name in self.shapes else "none"
                raise ModelError(
                    f"convert: the checkpoint gives {show(name)} of shape {[*tensor.shape]}, but {self.name} has "
                    f"{expected_shape}: config.json is of another model"
                )
        self._loaded = transforms
        self._is_renamed = not {*composed} <= {*tensors}
        return {name: composed[name] for name in self.shapes if name in composed}, unknown

    def to_original(self, trace: Trace, tensors: ComposedTensors) -> ComposedTensors:
        """Return the results of `to_transformers` as `save_pretrained` saves them.

        Raises:
            ModelError: a converter computes, or cannot be reversed.
        """
        loaded = self._loaded[: len(self._mapping_of(self.model, add_legacy=False))]
        # Only the original names show whether there is a prefix.
        prefix = self._loading.PrefixChange
        transforms = [
            transform
            for transform in loaded
            if not isinstance(transform, prefix) or (transform.was_used() and self._is_renamed)
        ]
        try:
            renamings, converters = self._split_transforms(
                [transform.reverse_transform() for transform in transforms[::-1]]
            )
        except Exception as error:
            raise ModelError(f"convert: the mapping of {self.name} cannot be reversed: {_line(error)}") from None
        by_pattern = {pattern: converter for converter in converters for pattern in converter.source_patterns}
        composed: ComposedTensors = {}
        groups: dict[str, ConverterGroup] = {}
        for name in sorted(tensors, key=self._loading.dot_natural_key):
            new, pattern = self._loading.apply_converters(name, converters)
            if pattern is not None:
                _group(groups, new, by_pattern[pattern], pattern, name)
            else:
                _add_tensor(composed, self._loading.apply_renamings(name, renamings), tensors[name])
        for group in groups.values():
            for new, tensor in self._convert(trace, group, tensors).items():
                _add_tensor(composed, self._loading.apply_renamings(new, renamings), tensor)
        return composed

    def missing(self, tensors: Iterable[str]) -> list[str]:
        """Return missing names of the model, which `from_pretrained` would initialize, in the model's order.

        Tied tensors are there if one of them is; what transformers makes without saying so is not missing.
        """
        present, groups = {*tensors}, dict[str, set[str]]()
        for name, source in getattr(self.model, "all_tied_weights_keys", {}).items():
            groups.setdefault(source, {source}).add(name)
        for names in groups.values():
            present |= names if names & present else set()
        ignored = [
            re.compile(pattern) for pattern in getattr(self.model, "_keys_to_ignore_on_load_missing", None) or ()
        ]
        return [
            name for name in self.shapes if name not in present and not any(pattern.search(name) for pattern in ignored)
        ]

    def _split_transforms(self, transforms: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return renamings and converters."""
        loading = self._loading
        return (
            [transform for transform in transforms if isinstance(transform, loading.WeightRenaming)],
            [transform for transform in transforms if isinstance(transform, loading.WeightConverter)],
        )

    def _convert(self, trace: Trace, group: ConverterGroup, tensors: ComposedTensors) -> ComposedTensors:
        """Return the results of a converter, which is traced and checked once per kind of tensors."""
        members = [tensors[name] for names in group.members.values() for name in names]
        sources = [store for member in members for store in member.sources]
        counts = tuple((pattern, len(names)) for pattern, names in group.members.items())
        kinds = tuple((id(member.value), member.dtype) for member in members)
        key = group.converter, self.shapes.get(group.first), counts, kinds
        if (cached := self._cached_results.get(key)) is None:
            cached = CachedResult([], {})
            values, _ = together(members)
            traced = (trace.new_array(value, member.dtype) for value, member in zip(values, members, strict=True))
            arguments = {pattern: [*islice(traced, len(names))] for pattern, names in group.members.items()}
            for array in self._trace(group, arguments, cached).values():
                composed = without_unread_sources(array.value, array.element, range(len(sources)))
                # Layers of one kind share values, so that later steps compose them once.
                cached.tensors[id(array)] = composed.with_value(self._values.setdefault(composed.value, composed.value))
            self._check(
                group, {pattern: [tensors[name].shape for name in names] for pattern, names in group.members.items()}
            )
            self._cached_results[key] = cached
        results = {name: cached.tensors[id(array)] for name, array in self._call_converter(group, {}, cached).items()}
        return {
            name: ComposedTensor(tensor.value, tensor.dtype, tuple(sources[k] for k in tensor.sources))
            for name, tensor in results.items()
        }

    def _check(self, group: ConverterGroup, shapes: Mapping[str, Sequence[Shape]]) -> None:
        """Compare the traced converter with the converter itself on small tensors of distinct elements.

        Raises:
            ModelError: the results differ, or the converter accepts no small tensors.
        """
        for axes in CUTS:
            small = [[(pattern, _cut(shape, axes)) for shape in shapes_of] for pattern, shapes_of in shapes.items()]
            flat = [item for items in small for item in items]
            ends = np.cumsum([math.prod(shape) for _, shape in flat], dtype=np.int64)
            if ends[-1] > MAX_CHECKED:
                continue
            elements = np.split(np.arange(ends[-1], dtype=np.float32), ends[:-1])
            arrays = [array.reshape(shape) for array, (_, shape) in zip(elements, flat, strict=True)]
            real, traced = dict[str, list[Any]](), dict[str, list[Any]]()
            trace = self.trace()
            for array, (pattern, shape) in zip(arrays, flat, strict=True):
                value = trace.composer.input(pattern, shape, array.strides, array.itemsize)
                traced.setdefault(pattern, []).append(trace.new_array(value, array.dtype))
                real.setdefault(pattern, []).append(self._torch.from_numpy(array))
            try:
                expected = {name: tensor.numpy() for name, tensor in self._call_converter(group, real).items()}
            except Exception:  # the converter does not accept these shapes
                continue
            traced_results = self._trace(group, traced)
            if {name: tensor.shape for name, tensor in traced_results.items()} == {
                n: tensor.shape for n, tensor in expected.items()
            }:
                results = [np.empty(tensor.shape, tensor.element) for tensor in traced_results.values()]
                for name, traced_tensor in traced_results.items():
                    trace.composer.output(name, traced_tensor.value)
                open_engine("numpy").compile(trace.composer.program()).bind([*arrays, *results])()
                if all(map(np.array_equal, results, (expected[name] for name in traced_results))):
                    return
            raise ModelError(
                f"convert: {_describe_group(group)} differs when traced, on small tensors: please report this model"
            )
        raise ModelError(f"convert: {_describe_group(group)} cannot be checked: it takes no small tensors")

    def _trace(
        self, group: ConverterGroup, members: Mapping[str, Sequence[Any]], cached: CachedResult | None = None
    ) -> dict[str, Any]:
        """Return the results of a converter for traced tensors.

        Raises:
            ModelError: the converter computes, or fails.
        """
        try:
            results = self._call_converter(group, members, cached)
        except FuseError as error:
            self._check_members(group)
            raise ModelError(
                f"convert: {_describe_group(group)} does more than move elements: {_line(error)}"
            ) from None
        except Exception as error:
            self._check_members(group)
            raise ModelError(f"convert: {_describe_group(group)} fails: {_line(error)}") from None
        for tensor in results.values():
            if not isinstance(tensor, TracedTensor):
                raise ModelError(f"convert: {_describe_group(group)} makes elements that are in no tensor")
        return results

    def _check_members(self, group: ConverterGroup) -> None:
        """Look for missing tensors of a converter that has failed, or whose results do not fit the model.

        Raises:
            ModelError: some of its tensors are missing.
        """
        missing = missing_members(group.members, next(iter(self.shapes.get(group.first, ())), 0))
        if missing:
            raise refused_for(group.first, missing)

    def _call_converter(
        self, group: ConverterGroup, members: Mapping[str, Sequence[Any]], cached: CachedResult | None = None
    ) -> dict[str, Any]:
        """Return the results of a converter for PyTorch tensors, real or traced, or its cached results."""
        converter = deepcopy(group.converter)
        if cached is not None:
            converter.operations = [*(() if cached.results else converter.operations), cached]
        dtypes = {tensor.dtype for of_pattern in members.values() for tensor in of_pattern}
        with suppress(AttributeError):
            # Casts to the dtype of the parameter do nothing, because tensors keep their dtypes.
            parameter = self.model.get_parameter(group.first)
            if len(dtypes) == 1 and (dtype := dtypes.pop()).is_floating_point:
                parameter.data = parameter.data.to(dtype)
        for pattern, part_names in members.items():
            for part_tensor in part_names:
                converter.add_tensor(group.first, group.first, pattern, part_tensor)
        results = converter.convert(group.first, model=self.model, config=self.model.config)
        return {name: result[0] if isinstance(result, list) else result for name, result in results.items()}


def _cut(shape: Shape, axes: Sequence[int]) -> Shape:
    """Return a shape with some axes shortened, if it has several axes."""
    sizes = [*shape]
    for axis in axes if len(shape) > 1 else ():
        sizes[axis] = min(sizes[axis], CUT)
    return tuple(sizes)


CUTS: Sequence[Sequence[int]] = ((-1,), (0, -1), (0,), ())
"""Sets of axes to shorten for small tensors; operations that know a size accept only some of them."""


def _group(groups: dict[str, ConverterGroup], first: str, converter: Any, pattern: str, name: str) -> None:
    groups.setdefault(first, ConverterGroup(converter, first, {})).members.setdefault(pattern, []).append(name)


def _add_tensor(tensors: ComposedTensors, name: str, tensor: ComposedTensor) -> None:
    if name in tensors:
        raise ModelError(f"convert: two tensors would have the name {show(name)}")
    tensors[name] = tensor


def _describe_group(group: ConverterGroup) -> str:
    """Return the description of a converter for errors."""
    operations = ", ".join(type(operation).__name__ for operation in group.converter.operations)
    return f"the converter of {show(group.first)} ({operations})"


def _line(error: BaseException) -> str:
    """Return the first line of an error of another library."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]
