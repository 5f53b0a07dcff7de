"""`convert` for ranks: each has what the styles of transformers' own plan leave of the parameters that it shares."""

import itertools

import pytest

from anydml import stores
from anydml.errors import ModelError

transformers = pytest.importorskip("transformers", minversion="5.0", reason="transformers is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from stores import tiny_models  # noqa: E402  # it takes both

pytestmark = pytest.mark.filterwarnings("ignore")

KINDS = ["MixtralForCausalLM", "Qwen3MoeForCausalLM", "LlamaForCausalLM"]


def saved(name, folder):
    """A tiny model, as it is published and as transformers loads it."""
    transformers.utils.logging.disable_progress_bar()
    kind = getattr(transformers, name)
    tiny_models.tiny_model(kind).save_pretrained(folder / "in")
    model = kind.from_pretrained(folder / "in")
    model.save_pretrained(folder / "whole", save_original_format=False)
    return model


def shared_by_transformers(model, rank, ranks):
    """What each parameter is on a rank, by the styles' own code in a group of processes that are not there."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from transformers.integrations.tensor_parallel import ALL_PARALLEL_STYLES, replace_layer_number_by_wildcard

    dist.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())
    try:
        mesh = dist.init_device_mesh("cpu", (ranks,))
        found = {}
        for name, parameter in model.named_parameters():
            kind = replace_layer_number_by_wildcard(name)
            style = model.tp_plan.get(kind, model.tp_plan.get(kind.rpartition(".")[0]))
            holder, own = torch.nn.Module(), name.rpartition(".")[2]
            holder.register_parameter(own, torch.nn.Parameter(parameter.detach().clone(), requires_grad=False))
            if style is not None and hasattr(ALL_PARALLEL_STYLES[style], "shard_param"):
                ALL_PARALLEL_STYLES[style].shard_param(holder, own, mesh)
            each = holder._parameters[own]
            found[name] = each.to_local() if hasattr(each, "to_local") else each.detach()
        return found
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("name", KINDS)
def test_ranks_have_what_transformers_shares(name, tmp_path):
    model = saved(name, tmp_path)
    stores.convert(tmp_path / "in", tmp_path / "out", ranks=2).run()
    for rank, file in enumerate(sorted((tmp_path / "out").glob("*.safetensors"))):
        found = stores.open(file)
        for key, each in shared_by_transformers(model, rank, 2).items():
            assert found[key].shape == tuple(each.shape), key
            assert found[key].read().tobytes() == each.contiguous().view(torch.uint8).numpy().tobytes(), key


@pytest.mark.parametrize("name", KINDS)
def test_mappings_and_placements_are_one_program(name, tmp_path):
    saved(name, tmp_path)
    for pp, ep, tp in itertools.product((1, 2), (1, 2, 4), (1, 2)):
        ranks, out = {"pp": pp, "ep": ep, "tp": tp}, tmp_path / f"{pp}-{ep}-{tp}"
        try:
            stores.convert(tmp_path / "in", out, ranks=ranks).run()
        except ModelError as error:
            said = str(error)
            assert any(text in said for text in ("divided evenly", "share evenly", "must be at least"))
            assert max(pp, ep) > 1
            continue
        assert stores.verify(out, tmp_path / "whole") is None
        for rank, file in enumerate(sorted(out.glob("*.safetensors"))):
            plan = stores.plan_load(tmp_path / "in", rank, ranks, to="transformers")
            loaded, wanted = plan.load(), stores.open(file)
            assert {*loaded} == {*wanted}
            for key, each in loaded.items():
                assert each.tobytes() == wanted[key].read().tobytes()
            asked = sum(int((own[:, 1] - own[:, 0]).sum()) for own in plan.ranges().values())
            assert asked == sum(each.nbytes for each in loaded.values())


SIZES = {
    "vocab_size": 48, "hidden_size": 24, "intermediate_size": 48, "moe_intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 12, "num_key_value_heads": 12, "head_dim": 4, "num_local_experts": 12, "num_experts": 12,
}  # fmt: skip
"""That 1 to 4 ranks can share."""


@pytest.mark.parametrize("name", KINDS)
def test_every_small_placement_goes_there_and_back(name, tmp_path):
    kind = getattr(transformers, name)
    known = kind.config_class().to_dict()
    model = tiny_models.filled(kind(kind.config_class(**{key: n for key, n in SIZES.items() if key in known})))
    model.save_pretrained(tmp_path / "in")
    stores.convert(tmp_path / "in", tmp_path / "whole").run()
    kind.from_pretrained(tmp_path / "in").save_pretrained(tmp_path / "theirs", save_original_format=False)
    assert stores.verify(tmp_path / "whole", tmp_path / "theirs") is None
    for pp, ep, tp in itertools.product((1, 2), (1, 2, 3, 4), (1, 2, 3, 4)):
        ranks, out = {"pp": pp, "ep": ep, "tp": tp}, tmp_path / f"{pp}-{ep}-{tp}"
        stores.convert(tmp_path / "in", out, ranks=ranks).run()
        assert len([*out.glob("*.safetensors")]) == pp * ep * tp
        assert stores.verify(out, tmp_path / "theirs") is None
        stores.convert(tmp_path / "in", out, ranks=ranks, dcp=True, overwrite=True).run()
        assert stores.verify(out, tmp_path / "theirs") is None


def test_a_model_without_a_plan_is_refused(tmp_path):
    saved("BertModel", tmp_path)
    with pytest.raises(ModelError, match="BertModel has no tensor-parallel plan in transformers"):
        stores.convert(tmp_path / "in", tmp_path / "out", ranks=2)
