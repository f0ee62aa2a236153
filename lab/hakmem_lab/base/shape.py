"""The shape of what is read from files: dataclasses and models that pydantic checks. What is wrong
with a file is said in one line: where it stands, what is accepted there, what it is instead."""

from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from hakmem_lab.base.errors import LabError
from hakmem_lab.base.reading import Place, locate

KNOWN = ConfigDict(extra="forbid")
OPEN = ConfigDict(extra="allow")

# Strict: nothing is turned into what is wanted. "7" is no number, 1.5 no count, and 1 no flag.
Count = Annotated[int, Field(strict=True, ge=0)]
Number = Annotated[int, Field(strict=True, ge=1)]  # counted from 1
Signed = Annotated[float, Field(strict=True)]
Amount = Annotated[float, Field(strict=True, ge=0)]
Positive = Annotated[float, Field(strict=True, gt=0)]
Flag = Annotated[bool, Field(strict=True)]
Name = Annotated[str, Field(min_length=1)]

LONGEST = 120  # characters of a value that are shown
# By pydantic's names of what can be wrong.
WANTED = {
    "string_type": "a string",
    "string_too_short": "a string that is not empty",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "too_short": "a list that is not empty",
    "dict_type": "a table",
    "dataclass_type": "a table",
    "model_type": "a table",
    "greater_than_equal": "{ge:g} or more",
    "greater_than": "a number above {gt:g}",
}
Shaped = TypeVar("Shaped")


class Entry(BaseModel):
    """A table of a file that people write: what has a default may be left out."""

    model_config = KNOWN


class Record:
    """Of a dataclass that the lab writes to a file: every field is there, also those with a
    default. OPTIONAL names those that older files lack."""

    __pydantic_config__: ClassVar[ConfigDict] = KNOWN
    OPTIONAL: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def refuse_what_lacks_a_field(cls, content: Any) -> Any:
        if isinstance(content, dict) and is_dataclass(cls):
            for of in fields(cls):
                defaulted = of.default is not MISSING or of.default_factory is not MISSING
                if defaulted and of.name not in content and of.name not in cls.OPTIONAL:
                    raise PydanticCustomError("lacks", "{name} is missing", {"name": of.name})
        return content


class ShapedAs:
    """In Annotated: in a file it has the shape of another type."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(self.shape)


def show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def first_fault(error: ValidationError) -> tuple[Place, str]:
    """Where it is, and what is wrong there."""
    fault = error.errors(include_url=False)[0]
    place: Place = tuple(fault["loc"])
    kind, message = fault["type"], fault["msg"]
    if kind in ("missing", "missing_argument"):
        return place[:-1], f"{place[-1]} is missing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return place[:-1], f"unknown: {place[-1]}"
    if kind == "lacks":
        return place, message
    if kind == "literal_error":
        return place, f"{show(fault['input'])}; accepted: {fault['ctx']['expected']}"
    for start in ("Value error, ", "Input should be "):
        message = message.removeprefix(start)
    wanted = WANTED.get(kind, message)
    wanted = wanted.format(**fault.get("ctx", {}))
    return place, f"wanted is {wanted}, not {show(fault['input'])}"


def check(
    adapter: TypeAdapter[Shaped], content: Any, where: Path | str, above: Sequence[Any] = ()
) -> Shaped:
    """The content as what it is to be; a LabError says what is wrong. `above`: its place."""
    try:
        return adapter.validate_python(content)
    except ValidationError as error:
        place, problem = first_fault(error)
        raise LabError(f"{where}: {locate((*above, *place))}: {problem}") from None
