"""Schemas of a model file's objects, following the DxDispatch guide and parser.

Field names are those of the file in snake case. Unknown fields are ignored, as in DxDispatch (`unknown` warns about
them). Values are not coerced: strings are not read as numbers, nor ``1.0`` as an integer.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from anydml.errors import ModelError
from anydml.files.location import Location, show
from anydml.tensor import UINT_MAX
from anydml.text import closest_name

UInt32 = Annotated[int, Field(ge=0, le=UINT_MAX)]
UInt64 = Annotated[int, Field(ge=0, le=2**64 - 1)]
Size = Annotated[int, Field(ge=0, le=2**63 - 1)]
Count = Annotated[int, Field(ge=1, le=UINT_MAX)]


class Fields(BaseModel):
    """Base class of the objects of a model file.

    Class attributes:
        ELSEWHERE: further known fields, parsed by another class or used by DxDispatch only.
    """

    ELSEWHERE: ClassVar[tuple[str, ...]] = ()
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, alias_generator=to_camel)


class FileFields(Fields):
    """The root object. Each part is parsed by its own class, so that errors have its JSON path."""

    ELSEWHERE: ClassVar[tuple[str, ...]] = ("$schema",)
    resources: dict[str, Any]
    dispatchables: dict[str, Any]
    commands: list[Any]


class ResourceFields(Fields):
    """The JSON fields of a resource that is a buffer.

    As in DxDispatch, initial values are written at the start of the buffer; `initialValuesOffsetInBytes` only counts
    towards the required size. DxDispatch resamples images; this package does not read them.
    """

    ELSEWHERE: ClassVar[tuple[str, ...]] = ("type", "resampleSize", "resampleMode")
    initial_values: Any
    initial_values_data_type: str = "UNKNOWN"
    initial_values_offset_in_bytes: UInt64 = 0
    size_in_bytes: UInt64 | None = None


class ConstantFields(Fields):
    """A value repeated `valueCount` times."""

    value_count: Count
    value: Any


class SequenceFields(Fields):
    """`valueCount` values, starting at `valueStart` and increasing by `valueDelta`."""

    value_count: Count
    value_start: Any
    value_delta: Any


class FileSourceFields(Fields):
    """The array of a .npy file, or the bytes of any other file."""

    source_path: str


class ListElementFields(Fields):
    """A value with its own data type, in a resource of type UNKNOWN. Its `name` (guide) is not used."""

    ELSEWHERE: ClassVar[tuple[str, ...]] = ("name",)

    type: str
    value: Any


class BindingFields(Fields):
    """A resource bound from an element offset on.

    `elementCount`, `format` and `shape` do not apply to DirectML operators, whose descs contain the sizes; `shape` sets
    the shape of an ONNX model's input or output.
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


def _list_flags(flags: Any) -> Any:
    return [flags] if isinstance(flags, str) else flags


class KindFields(Fields):
    """The common field of all dispatchables."""

    type: str = Field(validation_alias=AliasChoices("type", "Type"))


class DispatchableFields(Fields):
    """An operator. Its desc is in `desc`, in `Desc`, or inline among these fields, and is parsed by `descs`."""

    ELSEWHERE: ClassVar[tuple[str, ...]] = ("Type", "desc", "Desc")
    type: str = Field(validation_alias=AliasChoices("type", "Type"))
    dml_compile_type: Literal["DmlCompileOp", "DmlCompileGraph"] = "DmlCompileOp"
    execution_flags: Annotated[list[_ExecutionFlag], BeforeValidator(_list_flags)] = []
    bindings: dict[str, Any] = {}


class OnnxFields(Fields):
    """An ONNX model. The session options are accepted, but do not affect results."""

    ELSEWHERE: ClassVar[tuple[str, ...]] = ("type", "Type")
    source_path: str
    free_dimension_name_overrides: dict[str, UInt32] = {}
    free_dimension_denotation_overrides: dict[str, UInt32] = {}
    session_options_config_entries: dict[str, str] = {}
    graph_optimization_level: UInt32 = 99
    logging_level: UInt32 = 2


class CommandFields(Fields):
    """The common field of all commands."""

    type: str


class DispatchFields(Fields):
    """Run a dispatchable. `threadGroupCount` applies to HLSL dispatchables only."""

    dispatchable: str
    bindings: dict[str, Any]
    thread_group_count: Annotated[list[UInt32], Field(min_length=3, max_length=3)] | None = None


class PrintFields(Fields):
    """Print a resource."""

    resource: str
    verbose: bool = False


class WriteFileFields(Fields):
    """Write a resource to a file: as an array with the extension .npy, as raw bytes with any other."""

    resource: str
    target_path: str
    dimensions: list[UInt32] = []


F = TypeVar("F", bound=Fields)

_WORDS = {
    "missing": "is required, but missing",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be an array",
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "bool_type": "must be true or false",
}


def parse(fields_class: type[F], value: Any, location: Location) -> F:
    """Parse one object of the file.

    Args:
        fields_class: the class of the object.
        value: the JSON value.
        location: the JSON path of the object.

    Raises:
        ModelError: a field is missing or of the wrong type; the message names the first such field.
    """
    try:
        return fields_class.model_validate(value)
    except ValidationError as error:
        raise _explain(error, fields_class, value, location) from None


def _explain(error: ValidationError, fields_class: type[Fields], value: Any, location: Location) -> ModelError:
    errors = error.errors(include_url=False)
    lacks = {error["loc"] for error in errors if error["type"] == "missing"}
    if error.title == FileFields.__name__ and lacks == {(name,) for name in FileFields.model_fields}:
        return location.error(
            "has none of the fields resources, dispatchables and commands of DxDispatch's model files"
        )
    first = errors[0]
    if error.title == FileFields.__name__ and not first["loc"]:
        return location.error(f"a model must be a JSON object, not {show(value)}")
    for key in first["loc"]:
        # pydantic adds location parts that are not keys of the file, for example for a flag read as a list.
        is_present = key in value if isinstance(value, dict) else isinstance(value, list) and isinstance(key, int)
        if is_present:
            value = value[key]
        if is_present or first["type"] == "missing":
            location = location / key
    if first["type"] == "missing":
        name = str(first["loc"][-1])
        known_keys = {field.alias or key for key, field in fields_class.model_fields.items()}
        close_name = (
            closest_name(name, [key for key in value if key not in known_keys]) if isinstance(value, dict) else None
        )
        return location.error(
            "is required, but missing" + (f"; this object has {show(close_name)}: is that meant?" if close_name else "")
        )
    words = first["msg"].replace("Input should be", "must be").replace("List should have", "must have")
    words = words.partition(" after validation")[0].replace("greater than or equal to", "at least")
    words = _WORDS.get(first["type"], words)
    return location.error(f"{words}, not {show(value)}")
