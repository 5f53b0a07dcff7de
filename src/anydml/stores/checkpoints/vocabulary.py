"""Padding rows of vocabularies, which exist so that ranks can share them evenly."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import Any

from anydml.errors import ModelError
from anydml.files.location import names, show
from anydml.moves.composer import Composer
from anydml.moves.value import Value
from anydml.stores.checkpoints.composed import ComposedTensors, slice_value
from anydml.text import count_noun

_VOCABULARY = re.compile(
    r"(?:.*\.)?(?:(?:word_embeddings|embed_tokens|tok_embeddings|wte|word_embeddings_for_head)\.weight"
    r"|(?:output_layer|lm_head|output)\.(?:weight|bias))",
    re.DOTALL,
)
"""Names of tensors with a row for each word."""

_OF_TEXT = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys of a config.json's objects about the model of text, which has the vocabulary."""


def without_padding(
    composer: Composer, tensors: ComposedTensors, words: int | None
) -> tuple[ComposedTensors, dict[int, int], list[str]]:
    """Return the tensors; tensors of a vocabulary are cut to a number of rows. None keeps all rows.

    Also return the new numbers of rows by the old ones, and remarks on tensors that may have to be cut, too.

    Raises:
        ModelError: there is no tensor of a vocabulary, or one has fewer rows.
    """
    if words is None:
        return tensors, {}, []
    name = composer.name
    if type(words) is not int or words < 1:
        raise ModelError(f"{name}: vocab_size must be a number of words, at least 1, not {show(words)}")
    cut_values, composed, new_rows = dict[int, Value](), ComposedTensors(tensors), dict[int, int]()
    vocabulary = [key for key, tensor in tensors.items() if tensor.shape and _VOCABULARY.fullmatch(key)]
    for vocabulary_key in vocabulary:
        tensor = tensors[vocabulary_key]
        if tensor.shape[0] < words:
            raise ModelError(
                f"{name}: vocab_size is {words}, but {show(vocabulary_key)} has {count_noun(tensor.shape[0], 'row')}: "
                "give at most that many"
            )
        if tensor.shape[0] > words:
            value = cut_values.get(id(tensor.value)) or slice_value(composer, tensor.value, 0, 0, words)
            cut_values[id(tensor.value)] = value
            composed[vocabulary_key] = tensor.with_value(value)
            new_rows[tensor.shape[0]] = words
    if not vocabulary:
        raise ModelError(f"{name}: vocab_size is {words}, but there is no tensor of a vocabulary: slice in a layout")
    uncut = [key for key in tensors.keys() - {*vocabulary} if new_rows.keys() & {*tensors[key].shape}]
    message = f"keeps {count_noun(len(uncut), 'tensor')} of as many rows or columns as the vocabulary has: "
    message += f"{names(sorted(uncut))}; slice them in a layout if they have one for each word"
    return composed, new_rows, [message] if uncut else []


def set_rows(config: Any, new_rows: Mapping[int, int]) -> list[str]:
    """Set ``vocab_size`` of a config.json's model of text to the number of rows of the cut vocabulary, in place.

    Return remarks on what is set, and on sizes that are kept: of other parts, such as one of audio, and those that are
    not the number of rows.

    Args:
        config: the content of the config.json.
        new_rows: the new number of rows of vocabularies that are cut, by the old one.
    """
    of_text, of_others, different = list[str](), list[str](), list[str]()
    # By a queue, because the parser accepts objects that are nested deeper than functions can be.
    parts = deque([("", config, True)] if new_rows else [])
    while parts:
        prefix, part, is_text = parts.popleft()
        rows = part.get("vocab_size") if isinstance(part, dict) else None
        if type(rows) is int and rows in new_rows:
            (of_text if is_text else of_others).append(f"{prefix}vocab_size")
            if is_text:
                part["vocab_size"] = new_rows[rows]
        elif type(rows) is int and is_text and rows not in new_rows.values():
            different.append(f"{prefix}vocab_size")
        for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
            if isinstance(inner, (dict, list)):
                parts.append((f"{prefix}{key}.", inner, is_text and key in _OF_TEXT))
    remarks, words = list[str](), ", ".join(map(str, sorted({*new_rows.values()})))
    if of_text:
        where = "" if of_text == ["vocab_size"] else f": {names(of_text)}"
        remarks.append(f"sets vocab_size to {words} in config.json{where}")
    if of_others:
        remarks.append(
            f"keeps {names(of_others)} of config.json, as many words as the vocabulary had, but of another part"
        )
    if different:
        old = " or ".join(map(str, sorted(new_rows)))
        remarks.append(
            f"keeps {names(different)} of config.json, which is neither the old number of rows, {old}, nor {words}"
        )
    return remarks
