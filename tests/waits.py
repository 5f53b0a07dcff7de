"""Other systems' functions to wait with, made from Linux's futex, so that what is theirs can be run here."""

import ctypes
import errno

from anydml.engines.cpu.waiting import BY_VALUE_ADDRESS, Waiting, find_waiting

WAIT, WAKE = 128, 129

LIBC = ctypes.CDLL(None, use_errno=True)
FOUR = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * 4)

calls = {"wait": 0, "one": 0, "all": 0}
"""How often each was called."""

_kept = []


def _futex(address, operation, value):
    number = find_waiting("linux").futex
    word = ctypes.c_void_p(address)
    return LIBC.syscall(ctypes.c_long(number), word, ctypes.c_int(operation), ctypes.c_uint32(value), None, None, 0)


def imitation(style):
    """Functions of this style, which live as long as the process: threads may sleep in them to its end."""

    def wait(address, value, size, last):
        calls["wait"] += 1
        if style == BY_VALUE_ADDRESS:
            assert (size, last) == (4, 0xFFFFFFFF)
            value = ctypes.c_uint32.from_address(value).value
        else:
            assert (size, last) == (4, 0)
        if _futex(address, WAIT, value) and ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
            raise OSError(ctypes.get_errno(), "futex")
        return 1

    def wake(name, count):
        def waking(address, *_):
            calls[name] += 1
            _futex(address, WAKE, count)
            return 0

        return waking

    functions = [FOUR(wait), FOUR(wake("one", 1)), FOUR(wake("all", 1 << 30))]
    _kept.append(functions)
    return Waiting(style, *[ctypes.cast(each, ctypes.c_void_p).value for each in functions])
