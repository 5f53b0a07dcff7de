from libc.stdint cimport int64_t

cdef extern from *:
    """
    #define anydml_adds(a, b, sum) __builtin_add_overflow(a, b, sum)
    #define anydml_subtracts(a, b, rest) __builtin_sub_overflow(a, b, rest)
    #define anydml_multiplies(a, b, product) __builtin_mul_overflow(a, b, product)
    """
    bint adds "anydml_adds"(int64_t a, int64_t b, int64_t *sum) noexcept nogil
    bint subtracts "anydml_subtracts"(int64_t a, int64_t b, int64_t *rest) noexcept nogil
    bint multiplies "anydml_multiplies"(int64_t a, int64_t b, int64_t *product) noexcept nogil

cdef enum:  # kinds of instructions, as in `anydml.tracing.tape`
    CONSTANT, ADD, SUBTRACT, MULTIPLY, FLOOR, LARGER, SMALLER, PROVIDED, AT_LEAST, AT_MOST, DIFFERS

cdef struct Instruction:
    int64_t kind
    int64_t to
    int64_t a
    int64_t b

cdef class Tape:
    cdef Instruction *instructions
    cdef int64_t *constants
    cdef bytearray instruction_bytes
    cdef int64_t argument_count, first, count, registers
    cdef bint begin(self, int64_t *registers) noexcept nogil
    cdef bint run(self, int64_t *registers, int64_t first, int64_t last) noexcept nogil
