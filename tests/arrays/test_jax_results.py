"""Calls on JAX's arrays as calls on NumPy's: results are what `jax.device_put` would make of them."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import anydml as dml  # noqa: E402

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def said(array):
    known = type(array), array.aval, array.weak_type, array.sharding, array.committed, array.devices()
    return *known, np.asarray(array).tolist()


def placed(array, is_committed):
    return jax.device_put(array, jax.devices("cpu")[0] if is_committed else None)


@pytest.mark.parametrize("is_committed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool", "uint16", "float16", "complex64"])
def test_results_are_as_device_put_makes_them(dtype, is_committed):
    array = X.astype(jnp.dtype(dtype))
    x = placed(array, is_committed)
    indices = placed(np.array([2, 0]), is_committed)
    assert said(dml.copy(x)) == said(x)
    assert said(dml.gather(x, indices)) == said(placed(array[[2, 0]], is_committed))
    assert said(dml.join([x, x], 1)) == said(placed(np.concatenate([array, array], 1), is_committed))
    for one, other in zip(dml.split(x, 2), np.split(array, 2), strict=True):
        assert said(one) == said(placed(other, is_committed))
    fused = dml.fuse(lambda given, n: {"turned": given["x"].T, "rest": (given["x"][n:], n)})
    results = fused({"x": x}, 1)
    assert said(results["turned"]) == said(placed(array.T, is_committed))
    assert said(results["rest"][0]) == said(placed(array[1:], is_committed))
    assert results["rest"][1] == 1
    assert said(dml.fuse(lambda x, y: np.concatenate([y, x]))(x, y=x)) == said(
        placed(np.concatenate([array] * 2), is_committed)
    )


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.complex128])
def test_wide_dtypes_stay_wide(dtype):
    with jax.enable_x64(True):
        x = jax.device_put(X.astype(dtype))
        meant = said(x)
    for call in (dml.copy, dml.fuse(lambda x: x[:])):
        result = call(x)
        assert result.dtype == dtype
        assert not jax.config.jax_enable_x64
        assert said(result) == meant


def test_results_have_memory_of_their_own():
    x = jnp.asarray(X)
    whole = dml.copy(x)
    assert whole.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    x.delete()
    assert np.array_equal(whole, X)
    for _ in range(50):
        # Memory that went back would be the next result's.
        dml.copy(jnp.zeros((4, 6)))
    assert np.array_equal(whole, X)


def test_what_a_guard_or_a_default_device_asks_is_done():
    x = jnp.asarray(X)
    dml.copy(x)
    with jax.transfer_guard("disallow"):
        assert np.array_equal(dml.copy(x), X)
    with jax.transfer_guard("disallow_explicit"):
        guarded = [None, None]
        for k, call in enumerate((lambda: jax.device_put(X), lambda: dml.copy(x))):
            try:
                guarded[k] = said(call())
            except Exception as error:
                guarded[k] = type(error), str(error)[:40]
    assert guarded[0] == guarded[1]
    with jax.default_device(jax.devices("cpu")[0]):
        assert said(dml.copy(x)) == said(jax.device_put(X))


def test_what_is_no_plain_array_is_refused_as_before():
    x = jnp.asarray(X)
    gone = jnp.asarray(X) + 1
    gone.delete()
    for call in (lambda: dml.copy(gone), lambda: dml.join([x, gone]), lambda: dml.fuse(lambda y: y[::-1])(gone)):
        with pytest.raises(dml.BindingError, match="is a JAX array that was deleted or donated: pass a copy"):
            call()
    with pytest.raises(dml.BindingError, match="traced"):
        jax.jit(dml.copy)(x)
    with pytest.raises(dml.BindingError, match="key"):
        dml.copy(jax.random.key(0))
    with pytest.raises(dml.BindingError, match="immutable"):
        dml.copy(x, out=jnp.zeros((4, 6)))
    for call in (lambda: dml.join([x, X]), lambda: dml.fuse(lambda x, y: np.concatenate([x, y]))(x, X)):
        with pytest.raises(dml.BindingError, match="NumPy"):
            call()
    assert np.array_equal(dml.gather(x, [1, 0]), X[[1, 0]])
    with pytest.raises(dml.DescError, match="axis"):
        dml.split(x, 2, 7)


def test_constants_of_a_traced_function_are_moved():
    x = jnp.asarray(X)
    dml.copy(x)
    assert np.array_equal(jax.jit(lambda y: y + dml.copy(x))(x), 2 * X)
    assert np.array_equal(jax.grad(lambda y: (y * dml.copy(x)).sum())(x), X)
