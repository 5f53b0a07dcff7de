"""The objects of a model file, field by field, as the DxDispatch guide and its parser have them.

Names are the file's own, in snake case. Fields that DxDispatch does not know are ignored, as it does (`unknown` tells
of them); values are strict: a number is never read from a string, an integer never from ``1.0``.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from anydml.errors import ModelError
from anydml.files.json_path import JsonPath, show
from anydml.tensor import UINT_MAX

UInt32 = Annotated[int, Field(ge=0, le=UINT_MAX)]
UInt64 = Annotated[int, Field(ge=0, le=2**64 - 1)]
Size = Annotated[int, Field(ge=0, le=2**63 - 1)]
Count = Annotated[int, Field(ge=1, le=UINT_MAX)]


class Fields(BaseModel):
    """Base of the file's objects.

    Class attributes:
        ELSEWHERE: more fields of the object: read in another place, or by DxDispatch alone.
    """

    ELSEWHERE: ClassVar[tuple[str, ...]] = ()
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, alias_generator=to_camel)


class FileFields(Fields):
    """The root. Each part is read by its own class, so that errors carry its own path."""

    ELSEWHERE: ClassVar[tuple[str, ...]] = ("$schema",)
    resources: dict[str, Any]
    dispatchables: dict[str, Any]
    commands: list[Any]


class ResourceFields(Fields):
    """A buffer.

    DxDispatch writes initial values at the start whatever `initialValuesOffsetInBytes` says, and so do we; the offset
    only has to fit. DxDispatch resamples images.
    """

    ELSEWHERE: ClassVar[tuple[str, ...]] = ("type", "resampleSize", "resampleMode")
    initial_values: Any
    initial_values_data_type: str = "UNKNOWN"
    initial_values_offset_in_bytes: UInt64 = 0
    size_in_bytes: UInt64 | None = None


class ConstantFields(Fields):
    """One value, `valueCount` times."""

    value_count: Count
    value: Any


class SequenceFields(Fields):
    """`valueCount` values from `valueStart`, each `valueDelta` after the one before."""

    value_count: Count
    value_start: Any
    value_delta: Any


class FileSourceFields(Fields):
    """The contents of a .npy file, or the bytes of any other."""

    source_path: str


class ListElementFields(Fields):
    """One value of its own type, in a resource of type UNKNOWN. The guide gives it a name, which nobody reads."""

    ELSEWHERE: ClassVar[tuple[str, ...]] = ("name",)

    type: str
    value: Any


class BindingFields(Fields):
    """What is bound: a resource from an element on.

    `elementCount`, `format` and `shape` say nothing to a DirectML operator, whose tensors know their sizes; `shape` is
    that of an ONNX model's input or output.
    """

    ELSEWHERE: ClassVar[tuple[str, ...]] = ("counterOffsetBytes",)
    name: str
    element_count: UInt64 = 0
    element_size_in_bytes: UInt64 = 0
    element_offset: UInt64 = 0
    format: str | None = None
    counter: str | None = None
    shape: list[Size] = []


_ExecutionFlag = Literal[
    "NONE",
    "ALLOW_HALF_PRECISION_COMPUTATION",
    "DISABLE_META_COMMANDS",
    "DESCRIPTORS_VOLATILE",
    "DML_EXECUTION_FLAG_NONE",
    "DML_EXECUTION_FLAG_ALLOW_HALF_PRECISION_COMPUTATION",
    "DML_EXECUTION_FLAG_DISABLE_META_COMMANDS",
    "DML_EXECUTION_FLAG_DESCRIPTORS_VOLATILE",
]


def _listed(flags: Any) -> Any:
    return [flags] if isinstance(flags, str) else flags


class KindFields(Fields):
    """What every dispatchable has."""

    type: str = Field(validation_alias=AliasChoices("type", "Type"))


class DispatchableFields(Fields):
    """An operator. Its desc stands in `desc`, in `Desc`, or between these fields; it is read by its own class."""

    ELSEWHERE: ClassVar[tuple[str, ...]] = ("Type", "desc", "Desc")
    type: str = Field(validation_alias=AliasChoices("type", "Type"))
    dml_compile_type: Literal["DmlCompileOp", "DmlCompileGraph"] = "DmlCompileOp"
    execution_flags: Annotated[list[_ExecutionFlag], BeforeValidator(_listed)] = []
    bindings: dict[str, Any] = {}


class OnnxFields(Fields):
    """An ONNX model. Its session's options say nothing about what moves."""

    ELSEWHERE: ClassVar[tuple[str, ...]] = ("type", "Type")
    source_path: str
    free_dimension_name_overrides: dict[str, UInt32] = {}
    free_dimension_denotation_overrides: dict[str, UInt32] = {}
    session_options_config_entries: dict[str, str] = {}
    graph_optimization_level: UInt32 = 99
    logging_level: UInt32 = 2


class CommandFields(Fields):
    """What every command has."""

    type: str


class DispatchFields(Fields):
    """Run a dispatchable. `threadGroupCount` speaks to HLSL only."""

    dispatchable: str
    bindings: dict[str, Any]
    thread_group_count: Annotated[list[UInt32], Field(min_length=3, max_length=3)] | None = None


class PrintFields(Fields):
    """Print a resource."""

    resource: str
    verbose: bool = False


class WriteFileFields(Fields):
    """Write a resource to a .npy file, or its bytes to any other."""

    resource: str
    target_path: str
    dimensions: list[UInt32] = []


F = TypeVar("F", bound=Fields)

_WORDS = {
    "missing": "is required",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be an array",
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "bool_type": "must be true or false",
}


def parse(kind: type[F], value: Any, place: JsonPath) -> F:
    """Read one object of the file.

    Args:
        kind: the class of the object.
        value: what stands in the file.
        place: where it stands.

    Raises:
        ModelError: a field is missing or is not of its type; the path of the first such field, and what it is.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise _explain(error, value, place) from None


def _explain(error: ValidationError, value: Any, place: JsonPath) -> ModelError:
    first = error.errors(include_url=False)[0]
    for key in first["loc"]:
        # A single flag is read as a list of one; only keys of the file make a path.
        known = key in value if isinstance(value, dict) else isinstance(value, list) and isinstance(key, int)
        if known:
            value = value[key]
        if known or first["type"] == "missing":
            place = place / key
    if first["type"] == "missing":
        return place.error("is required")
    words = first["msg"].replace("Input should be", "must be").replace("List should have", "must have")
    words = _WORDS.get(first["type"], words)
    return place.error(f"{words}, but it is {show(value)}")
