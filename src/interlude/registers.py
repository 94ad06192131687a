"""Vectors of numbers in a processor's registers, for compiled loops; imports numba, as `loops` does.

Numba makes vectors of plain loops by itself, but not of those that are only a few vectors long, and it keeps
sums of products in memory. So here are words to say what is meant, made of those of LLVM.
"""

import operator
from collections.abc import Callable
from itertools import product
from typing import Any

from llvmlite.binding import get_host_cpu_features
from llvmlite.ir import Constant, FloatType, FunctionType, IntType, Undefined, Value, VectorType, VoidType
from llvmlite.ir import IRBuilder as Builder
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, register_model

WIDE = bool(get_host_cpu_features().get("avx512f"))
LANES = 16 if WIDE else 8  # numbers in a vector

# A block of a product of matrices is as large as there are registers for its sums.
ROWS = 8 if WIDE else 4
COLUMNS = 2 * LANES
_block = list(product(range(ROWS), range(0, COLUMNS, LANES)))

Vector = Any  # of LANES numbers in single precision; vectors can be added, subtracted and multiplied

_vector = VectorType(FloatType(), LANES)
_lane = IntType(32)
_bytes = IntType(8).as_pointer()


class _Type(types.Type):
    def __init__(self) -> None:
        super().__init__(f"Vector({LANES})")


@register_model(_Type)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _vector)


vector = _Type()


class _Arithmetic(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        return signature(vector, vector, vector) if args == (vector, vector) else None


def _define(operation: Any, instruction: Callable[..., Value]) -> None:
    """Let an operator of Python mean an instruction, for vectors."""

    def build(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        return instruction(builder, *args)

    infer_global(operation)(_Arithmetic)
    lower_builtin(operation, vector, vector)(build)


_define(operator.add, Builder.fadd)
_define(operator.sub, Builder.fsub)
_define(operator.mul, Builder.fmul)


def word(function: Callable[..., Any]) -> Any:
    """What is called in compiled loops with all arguments but the first, and says what it becomes there."""
    return intrinsic(function)


@word
def load(_: Any, array: Any, place: Any) -> Any:
    """The numbers of an array from a place, a tuple of indices, on."""

    def build(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        return builder.load(_pointer(context, builder, sig, args), align=4)

    return vector(array, place), build


@word
def store(_: Any, array: Any, place: Any, values: Any) -> Any:
    """Put numbers into an array from a place on."""

    def build(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        builder.store(args[2], _pointer(context, builder, sig, args), align=4)
        return context.get_dummy_value()

    return types.void(array, place, values), build


@word
def everywhere(_: Any, number: Any) -> Any:
    """A vector of one number."""

    def build(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        return _everywhere(builder, *args)

    return vector(types.float32), build


@word
def fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    """`a * b + c`, rounded once."""

    def build(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        return builder.call(_fma(builder), args)

    return vector(a, b, c), build


@word
def fetch(_: Any, array: Any, place: Any) -> Any:
    """Let the numbers at a place be on their way to the cache; beyond an array there is no harm in it."""

    def build(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        pointer = builder.bitcast(_pointer(context, builder, sig, args), _bytes)
        to_read, closest, of_data = (Constant(_lane, number) for number in (0, 3, 1))
        builder.call(_prefetch(builder), [pointer, to_read, closest, of_data])
        return context.get_dummy_value()

    return types.void(array, place), build


@word
def multiply(_: Any, a: Any, row: Any, b: Any, column: Any, begin: Any, end: Any, c: Any) -> Any:
    """ROWS rows of `a` (M, K) from `row` on times COLUMNS columns of `b` (K, N) from `column` on, into `c`.

    The terms of a result, from one of K to another, are added one after the other, each rounded once with its
    sum. Rows of `b` and `c` lie in one piece.
    """
    return _types(a, b, c), _multiply


@word
def multiply_and_add(_: Any, a: Any, row: Any, b: Any, column: Any, begin: Any, end: Any, c: Any) -> Any:
    """Likewise, and what stands in the place of the results is added to them in the end."""
    return _types(a, b, c), _multiply_and_add


def _types(a: Any, b: Any, c: Any) -> Any:
    place = types.intp
    return types.void(a, place, b, place, place, place, c)


def _multiply(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
    for place, total in _sums(context, builder, sig, args):
        builder.store(total, place, align=4)
    return context.get_dummy_value()


def _multiply_and_add(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
    for place, total in _sums(context, builder, sig, args):
        builder.store(builder.fadd(builder.load(place, align=4), total), place, align=4)
    return context.get_dummy_value()


def _sums(context: Any, builder: Builder, sig: Any, args: Any) -> list[tuple[Value, Value]]:
    """The vectors of a block of a product, and where they belong."""
    a, b, c = (context.make_array(sig.args[i])(context, builder, args[i]) for i in (0, 2, 6))
    _, row, _, column, begin, end, _ = args
    sums = {at: cgutils.alloca_once(builder, _vector) for at in _block}
    for total in sums.values():
        builder.store(Constant(_vector, None), total)
    with cgutils.for_range(builder, end, begin) as loop:
        for (r, lane), total in sums.items():
            factor = builder.load(_number(builder, a, (row, r), (loop.index, 0)))
            values = builder.load(_numbers(builder, b, (loop.index, 0), (column, lane)), align=4)
            terms = [_everywhere(builder, factor), values, builder.load(total)]
            builder.store(builder.call(_fma(builder), terms), total)
    return [
        (_numbers(builder, c, (row, r), (column, lane)), builder.load(total))
        for (r, lane), total in sums.items()
    ]


Place = tuple[Value, int]  # an index, and how much further


def _number(builder: Builder, matrix: Any, row: Place, column: Place) -> Value:
    """Where a number of a matrix is."""
    steps = cgutils.unpack_tuple(builder, matrix.strides)
    indices = (builder.add(index, Constant(index.type, more)) for index, more in (row, column))
    offset = builder.add(*map(builder.mul, indices, steps))
    return cgutils.pointer_add(builder, matrix.data, offset)


def _numbers(builder: Builder, matrix: Any, row: Place, column: Place) -> Value:
    """Where a vector of a matrix is."""
    return _as_vector(builder, _number(builder, matrix, row, column))


def _pointer(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
    """Where a vector of an array is."""
    array = context.make_array(sig.args[0])(context, builder, args[0])
    indices = zip(cgutils.unpack_tuple(builder, args[1]), sig.args[1], strict=True)
    place = [context.cast(builder, index, kind, types.intp) for index, kind in indices]
    return _as_vector(builder, cgutils.get_item_pointer(context, builder, sig.args[0], array, place))


def _as_vector(builder: Builder, pointer: Value) -> Value:
    return builder.bitcast(pointer, _vector.as_pointer())


def _fma(builder: Builder) -> Value:
    """LLVM's own function."""
    kind = FunctionType(_vector, [_vector] * 3)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32")


def _prefetch(builder: Builder) -> Value:
    kind = FunctionType(VoidType(), [_bytes, _lane, _lane, _lane])
    return builder.module.declare_intrinsic("llvm.prefetch", [_bytes], kind)


def _everywhere(builder: Builder, number: Value) -> Value:
    alone = builder.insert_element(Constant(_vector, Undefined), number, Constant(_lane, 0))
    first = Constant(VectorType(_lane, LANES), [0] * LANES)
    return builder.shuffle_vector(alone, Constant(_vector, Undefined), first)
