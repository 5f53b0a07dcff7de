"""JAX's arrays: devices, 64-bit types, and what is refused."""

import jax
import numpy as np
import pytest

import anydml as dml

jnp = jax.numpy


def test_results_stay_on_their_device():
    x = jnp.arange(6.0)
    there = jax.device_put(x, jax.devices("cpu")[1])
    for array in (x, there):
        coordinates = dml.nonzero_coordinates(array)
        parts = [*dml.split(array, 2), dml.join([array, array]), *dml.concat_training([array, array])]
        for part in [*parts, coordinates, dml.gather(array, [1]), dml.gather_nd(array, coordinates)]:
            assert part.devices() == array.devices()
            assert part.committed == array.committed
    with pytest.raises(
        dml.BindingError, match=r"join: arrays\[1\] is a JAX array on cpu:1, but arrays\[0\] is .* cpu:0"
    ):
        dml.join([x, there])
    with pytest.raises(
        dml.BindingError, match="gather: indices is a JAX array on cpu:1, but x is a JAX array on cpu:0"
    ):
        dml.gather(x, jax.device_put(jnp.arange(2), jax.devices("cpu")[1]))


def test_sharded_arrays_are_refused():
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("rows",))
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    with pytest.raises(dml.BindingError, match="x is a JAX array on cpu:0, cpu:1: pass one shard"):
        dml.split(jax.device_put(jnp.arange(4), spread), 2)


def test_results_work_in_jax():
    x = jnp.arange(12.0).reshape(3, 4)
    first, rest = dml.split(x, [1, 3], 1)
    np.testing.assert_array_equal(jax.jit(lambda a, b: a + b.sum(1, keepdims=True))(first, rest), [[6], [22], [38]])
    np.testing.assert_array_equal(jax.jit(lambda a: a * 2, donate_argnums=0)(dml.join([x])), x * 2)
    np.testing.assert_array_equal(x, np.arange(12.0).reshape(3, 4))


def test_64_bits_stay_64_bits():
    with jax.enable_x64(True):
        x = jnp.arange(4) + 2**40
        assert dml.split(x, 2)[1].tolist() == [2**40 + 2, 2**40 + 3]
    assert not jax.config.jax_enable_x64
    part = dml.split(x, 2)[1]
    assert part.dtype == np.int64
    assert np.asarray(part).tolist() == [2**40 + 2, 2**40 + 3]


def test_packed_types_survive():
    x = jnp.array([-8, 7, 1, 0], jnp.int4)
    part = dml.slice1(x, [0], [4], [-1])
    assert part.dtype == jnp.int4
    assert part.tolist() == [0, 1, 7, -8]


@pytest.mark.parametrize(
    "call, message",
    [
        (
            jax.jit(lambda y: dml.split(y, 2)),
            "x is a JAX array that is traced: call it outside of jax.jit",
        ),
        (lambda x: jax.vmap(lambda y: dml.join([y]))(x[None]), r"arrays\[0\] is a JAX array that is traced"),
        (lambda x: jax.jit(lambda i: dml.gather(x, i))(jnp.array([0])), "indices is a JAX array that is traced"),
        (jax.jit(lambda y: dml.join([np.ones(4), y])), r"arrays\[1\] is a JAX array that is traced"),
        (lambda x: dml.split(jax.random.split(jax.random.key(0), 2), 2), "key.*: pass jax.random.key_data of it"),
        (lambda x: dml.join([x], out=x), "out is a JAX array that is immutable: omit out, and use the result"),
    ],
)
def test_arrays_without_memory_to_read_or_write(call, message):
    with pytest.raises(dml.BindingError, match=message):
        call(jnp.arange(4.0))
