"""The sentence of DirectML's pages that decides each operator, word for word but for marks and line breaks.

The pages are those of MicrosoftDocs/sdk-api and MicrosoftDocs/windows-ai-docs, ns-directml-dml_…_operator_desc.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NEGATIVE = (
    "Starting with DML_FEATURE_LEVEL_3_0, this operator supports negative index values when using a signed integral "
    "type with this tensor."
)
"""Operators with indices."""

PLACES = "OutputTensorX = (InputTensorX + InputPixelOffset) * Scale + OutputPixelOffset"
BLOCKS = (
    "The operator outputs a copy of the input tensor where values from the height and width dimensions are moved to "
    "the depth dimension."
)
SPACE = (
    "The operator outputs a copy of the input tensor where values from the depth dimension are moved in spatial blocks "
    "to the height and width dimensions."
)
PADS = "inflates the input tensor with zeroes (or some other value) on the edges"
MAPS = "output[batch, ...] = input[batch, indices[batch, ...], ...]"

SENTENCES: Mapping[str, str] = {
    "split": "splits the input tensor into multiple output tensors, along the specified axis",
    "join": "Concatenates an array of input tensors along a specified axis.",
    "slice": (
        "This operator copies elements from the input tensor in each dimension N starting from the Offset[N], and "
        "advancing Strides[N] elements on the input tensor until Sizes[N] elements are copied to the output tensor."
    ),
    "slice1": (
        "OutputTensor[OutputCoordinates] = InputTensor[CopyStart + InputWindowStrides * OutputCoordinates]"
    ),
    "gather": (
        "gathers the entries in the axis dimension of the data (by default, the outermost one is axis == 0) indexed by "
        "indices, and concatenates them in an output tensor of rank q + (r - 1)"
    ),
    "tile": "Each value is the number of tiled copies to make of that dimension.",
    "padding": PADS,
    "padding1": PADS,
    "gather_elements": (
        "Gathers elements from the input tensor along the given axis using the indices tensor to remap into the input."
    ),
    "gather_nd": "using the indices tensor to remap indices to entire subblocks of the input",
    "gather_nd1": MAPS,
    "scatter": (
        "copies the whole input tensor to the output, then overwrites selected indices with corresponding values from "
        "the updates tensor"
    ),
    "scatter_nd": "output[indices[...]] = updates[...]",
    "slice_grad": "The sliced elements are propagated to the output, and all other elements are set to 0.",
    "space_to_depth": BLOCKS,
    "space_to_depth1": BLOCKS,
    "depth_to_space": SPACE,
    "depth_to_space1": SPACE,
    "diagonal_matrix": (
        "OutputTensor[coordinate] = if (coordinate.y + Offset == coordinate.x) then Value else 0"
    ),
    "diagonal_matrix1": (
        "useValue = (DiagonalFillEnd >= DiagonalFillBegin) ^ (topX >= DiagonalFillBegin) ^ (topX < DiagonalFillEnd)"
    ),
    "fill_value_constant": "Fills a tensor with the given constant Value.",
    "fill_value_sequence": "OutputTensor[coordinate] = Value Value += Delta",
    "element_wise_identity": (
        "Computes the identity for each element of InputTensor, placing the result into the corresponding element of "
        "OutputTensor."
    ),
    "element_wise_if": (
        "Non-zero elements of ConditionTensor select from ATensor, while zero-valued elements select from BTensor."
    ),
    "nonzero_coordinates": (
        "This operator produces an MxN matrix of values, where each row M contains an N-dimensional coordinate of a "
        "non-zero value from the input."
    ),
    "reverse_subsequences": (
        "Only the elements within the length of the subsequence are reversed; the remaining elements along that axis "
        "are copied to the output unchanged."
    ),
    "one_hot": (
        "for all sequences in a chosen axis, all but one element in that sequence is set to OffValue, and the "
        "remaining single element is set to OnValue"
    ),
    "upsample_2d": "Each dimension value of the output tensor is output_dimension = floor(input_dimension * scale).",
    "resample": (
        "chooses the input element nearest to the corresponding pixel center for each output element"
    ),
    "resample1": PLACES,
    "resample2": PLACES,
    "resample3": PLACES,
    "unfold": (
        "The operation flattens each sliding WindowSize'd block within the InputTensor into a column of an "
        "OutputTensor."
    ),
}  # fmt: skip
"""Sentences by the operator's name in lower case."""

QUESTIONS: Sequence[Mapping[str, Any]] = json.loads(
    Path(__file__).parent.with_name("ambiguities.json").read_text(encoding="utf-8")
)
"""Open questions of the documents: for `operators`, the `question`, what the text `says`, and what is done `here`."""


def sentence(name: str, indices: Sequence[Any]) -> str:
    """Return the sentence that decides a desc.

    Args:
        name: the operator's name in small letters.
        indices: the contents of its tensors of indices.
    """
    return NEGATIVE if any((index < 0).any() for index in indices if index.size) else SENTENCES[name]


def questions(name: str) -> list[dict[str, str]]:
    """Return the questions that the document of an operator leaves open."""
    return [
        {key: question[key] for key in ("question", "says", "here")}
        for question in QUESTIONS
        if name in question["operators"]
    ]


def document(name: str) -> str:
    """Return the document of an operator, by name."""
    return f"DirectML's DML_{name.upper()}_OPERATOR_DESC"
