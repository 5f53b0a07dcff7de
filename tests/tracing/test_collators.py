"""Collators, data sets and transforms, written as training code writes them, give what they give without fuse."""

import collections
import copy
import random
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import anydml as dml

torch = pytest.importorskip("torch")
default_collate = pytest.importorskip("torch.utils.data").default_collate

DRAW = random.Random(0)
CASES = {}
"""A function and what makes its arguments, by a name."""


def integer(low, high):
    return DRAW.randint(low, high)


def array(*shape, dtype=np.int64):
    return np.array([DRAW.randrange(100) for _ in range(np.prod(shape, dtype=int))]).reshape(shape).astype(dtype)


def tensor(*shape, dtype=torch.int64):
    return torch.from_numpy(array(*shape)).to(dtype)


class Tokenizer:
    pad_token_id = 0
    padding_side = "right"

    def _pad(self, encoded, max_length):
        diff = max_length - len(encoded["input_ids"])
        ids = encoded["input_ids"]
        if self.padding_side == "right":
            encoded["attention_mask"] = torch.nn.functional.pad(encoded["attention_mask"], (0, diff))
            encoded["input_ids"] = torch.nn.functional.pad(ids, (0, diff), value=self.pad_token_id)
        return encoded

    def pad(self, features, pad_to_multiple_of=None):
        ml = max(len(f["input_ids"]) for f in features)
        if pad_to_multiple_of is not None and ml % pad_to_multiple_of != 0:
            ml = ((ml // pad_to_multiple_of) + 1) * pad_to_multiple_of
        out = {}
        for f in features:
            for k, v in self._pad(dict(f), ml).items():
                out.setdefault(k, []).append(v)
        return {k: torch.stack(v) for k, v in out.items()}


@dataclass
class DataCollatorWithPadding:
    tokenizer: Any
    pad_to_multiple_of: int = None

    def __call__(self, features):
        batch = self.tokenizer.pad(features, pad_to_multiple_of=self.pad_to_multiple_of)
        if "label" in batch:
            batch["labels"] = batch["label"]
            del batch["label"]
        return batch


def hf():
    n = integer(1, 5)
    r = []
    for _ in range(n):
        size = integer(1, 9)
        r.append({"input_ids": tensor(size), "attention_mask": torch.ones(size, dtype=torch.int64)})
    return (r,)


CASES["hf_padding"] = (DataCollatorWithPadding(Tokenizer()), hf)
CASES["hf_padding_multiple"] = (DataCollatorWithPadding(Tokenizer(), 8), hf)


def torch_default_data_collator(features):
    import torch

    first = features[0]
    batch = {}
    if "label" in first and first["label"] is not None:
        label = first["label"].item() if isinstance(first["label"], torch.Tensor) else first["label"]
        dtype = torch.long if isinstance(label, int) else torch.float
        batch["labels"] = torch.tensor([f["label"] for f in features], dtype=dtype)
    for k, v in first.items():
        if k not in ("label", "label_ids") and v is not None and not isinstance(v, str):
            if isinstance(v, torch.Tensor):
                batch[k] = torch.stack([f[k] for f in features])
            elif isinstance(v, np.ndarray):
                batch[k] = torch.from_numpy(np.stack([f[k] for f in features]))
            else:
                batch[k] = torch.tensor([f[k] for f in features])
    return batch


def d2():
    n = integer(1, 4)
    size = integer(1, 6)
    return ([{"label": integer(0, 5), "x": tensor(size), "y": tensor(2, size, dtype=torch.float32)} for _ in range(n)],)


CASES["hf_default"] = (torch_default_data_collator, d2)


def _torch_collate_batch(examples, tokenizer, pad_to_multiple_of=None):
    import torch

    if isinstance(examples[0], (list, tuple, np.ndarray)):
        examples = [torch.tensor(e, dtype=torch.long) for e in examples]
    length_of_first = examples[0].size(0)
    if all(x.size(0) == length_of_first for x in examples) and (
        pad_to_multiple_of is None or length_of_first % pad_to_multiple_of == 0
    ):
        return torch.stack(examples, dim=0)
    max_length = max(x.size(0) for x in examples)
    if pad_to_multiple_of is not None and (max_length % pad_to_multiple_of != 0):
        max_length = ((max_length // pad_to_multiple_of) + 1) * pad_to_multiple_of
    result = examples[0].new_full([len(examples), max_length], tokenizer.pad_token_id)
    for i, example in enumerate(examples):
        if tokenizer.padding_side == "right":
            result[i, : example.shape[0]] = example
        else:
            result[i, -example.shape[0] :] = example
    return result


TK = Tokenizer()
CASES["hf_torch_collate"] = (
    lambda ex: _torch_collate_batch(ex, TK, 4),
    lambda: ([tensor(integer(1, 9)) for _ in range(integer(1, 5))],),
)


class Seq2Seq:
    label_pad_token_id = -100

    def __call__(self, features):
        labels = [f["labels"] for f in features]
        m = max(len(size) for size in labels)
        for f in features:
            remainder = np.full(m - len(f["labels"]), self.label_pad_token_id, dtype=np.int64)
            f["labels"] = np.concatenate([f["labels"], remainder])
        return {"labels": np.stack([f["labels"] for f in features])}


CASES["hf_seq2seq"] = (Seq2Seq(), lambda: ([{"labels": array(integer(1, 7))} for _ in range(integer(1, 5))],))


class Flattening:
    def __init__(self):
        self.sep = -100

    def __call__(self, features):
        ret = {"input_ids": [], "labels": [], "position_ids": []}
        for f in features:
            ret["input_ids"].append(f["input_ids"])
            ret["labels"].append(torch.cat([f["input_ids"].new_full((1,), self.sep), f["input_ids"][1:]]))
            ret["position_ids"].append(torch.arange(len(f["input_ids"])))
        return {k: torch.cat(v)[None] for k, v in ret.items()}


CASES["hf_flattening"] = (Flattening(), lambda: ([{"input_ids": tensor(integer(1, 7))} for _ in range(integer(1, 5))],))


class ImageList:
    @staticmethod
    def from_tensors(tensors, size_divisibility=0, pad_value=0.0):
        sizes = [(im.shape[-2], im.shape[-1]) for im in tensors]
        max_size = [max(s[k] for s in sizes) for k in range(2)]
        if size_divisibility > 1:
            st = size_divisibility
            max_size = [(m + (st - 1)) // st * st for m in max_size]
        batch_shape = [len(tensors), *list(tensors[0].shape[:-2]), *list(max_size)]
        batched = tensors[0].new_full(batch_shape, pad_value)
        for i, img in enumerate(tensors):
            batched[i, ..., : img.shape[-2], : img.shape[-1]].copy_(img)
        return batched.contiguous(), sizes


CASES["d2_imagelist"] = (
    lambda ts: ImageList.from_tensors(ts, 4),
    lambda: ([tensor(3, integer(1, 9), integer(1, 9), dtype=torch.float32) for _ in range(integer(1, 4))],),
)


class NestedTensor:
    def __init__(self, t, m):
        self.tensors, self.mask = t, m

    def decompose(self):
        return self.tensors, self.mask


def _max_by_axis(size):
    maxes = list(size[0])
    for sub in size[1:]:
        for i, item in enumerate(sub):
            maxes[i] = max(maxes[i], item)
    return maxes


def nested_tensor_from_tensor_list(tl):
    max_size = _max_by_axis([list(img.shape) for img in tl])
    b, c, h, w = [len(tl), *max_size]
    tensor = torch.zeros((b, c, h, w), dtype=tl[0].dtype, device=tl[0].device)
    mask = torch.ones((b, h, w), dtype=torch.bool, device=tl[0].device)
    for img, pad_img, m in zip(tl, tensor, mask, strict=False):
        pad_img[: img.shape[0], : img.shape[1], : img.shape[2]].copy_(img)
        m[: img.shape[1], : img.shape[2]] = False
    return NestedTensor(tensor, mask)


CASES["detr"] = (
    lambda tl: nested_tensor_from_tensor_list(tl).decompose(),
    lambda: ([tensor(3, integer(1, 6), integer(1, 6), dtype=torch.float32) for _ in range(integer(1, 3))],),
)

CASES["tv_detection"] = (
    lambda batch: tuple(zip(*batch, strict=False)),
    lambda: ([(tensor(3, integer(1, 5), 4), {"boxes": tensor(integer(0, 3), 4)}) for _ in range(integer(1, 4))],),
)


class SpatialPad:
    def __init__(self, size, mode="constant"):
        self.size, self.mode = size, mode

    def _width(self, shape):
        return [(0, 0)] + [((s - d) // 2, (s - d) - (s - d) // 2) for d, s in zip(shape[1:], self.size, strict=False)]

    def __call__(self, img):
        return np.pad(img, self._width(img.shape), mode=self.mode)


class PadListCollate:
    def __call__(self, batch):
        out = {}
        for key in batch[0]:
            items = [b[key] for b in batch]
            if isinstance(items[0], np.ndarray):
                ms = [max(i.shape[d] for i in items) for d in range(1, items[0].ndim)]
                padder = SpatialPad(ms)
                items = [padder(i) for i in items]
                out[key] = np.stack(items)
            else:
                out[key] = items
        return out


CASES["monai_pad"] = (
    PadListCollate(),
    lambda: (
        [{"image": array(1, integer(1, 5), integer(1, 5), integer(1, 3)), "id": k} for k in range(integer(1, 3))],
    ),
)


class CenterCrop:
    def __init__(self, roi):
        self.roi = roi

    @staticmethod
    def compute_slices(shape, roi):
        c = [s // 2 for s in shape]
        st = [max(ci - r // 2, 0) for ci, r in zip(c, roi, strict=False)]
        return tuple(slice(s, min(s + r, n)) for s, r, n in zip(st, roi, shape, strict=False))

    def __call__(self, img):
        return img[(slice(None), *self.compute_slices(img.shape[1:], self.roi))]


CASES["monai_center"] = (CenterCrop((3, 3)), lambda: (array(2, integer(3, 9), integer(3, 9)),))


class Flip:
    def __init__(self, axis):
        self.axis = axis

    def __call__(self, x):
        return np.flip(x, self.axis)


class Rotate90:
    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return np.rot90(x, self.k, (1, 2))


def contiguous(x):
    return np.ascontiguousarray(x)


class Compose:
    def __init__(self, ts):
        self.transforms = ts

    def __call__(self, x):
        for t in self.transforms:
            x = t(x)
        return x


CASES["monai_compose"] = (
    Compose([CenterCrop((3, 3)), Flip(2), Rotate90(1), contiguous]),
    lambda: (array(2, integer(3, 9), integer(3, 9)),),
)


class AudioCollate:
    labels = "abc"

    def pad_sequence(self, batch):
        batch = [item.t() for item in batch]
        batch = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=0.0)
        return batch.permute(0, 2, 1)

    def label_to_index(self, w):
        return torch.tensor(self.labels.index(w))

    def __call__(self, batch):
        tensors, targets = [], []
        for waveform, _, label, *_ in batch:
            tensors += [waveform]
            targets += [self.label_to_index(label)]
        return self.pad_sequence(tensors), torch.stack(targets)


CASES["torchaudio"] = (
    AudioCollate(),
    lambda: ([(tensor(1, integer(1, 8), dtype=torch.float32), 16000, "b") for _ in range(integer(1, 4))],),
)


class TextMelCollate:
    def __init__(self, n=1):
        self.n = n

    def __call__(self, batch):
        order = sorted(range(len(batch)), key=lambda k: len(batch[k][0]), reverse=True)
        max_in = len(batch[order[0]][0])
        text = torch.zeros((len(batch), max_in), dtype=torch.int64)
        for i, k in enumerate(order):
            t = batch[k][0]
            text[i, : t.size(0)] = t
        nm = batch[0][1].size(0)
        mt = max([x[1].size(1) for x in batch])
        if mt % self.n != 0:
            mt += self.n - mt % self.n
        mel = torch.zeros((len(batch), nm, mt))
        gate = torch.zeros((len(batch), mt))
        for i, k in enumerate(order):
            m = batch[k][1]
            mel[i, :, : m.size(1)] = m
            gate[i, m.size(1) - 1 :] = 1
        return text, mel, gate


CASES["tacotron"] = (
    TextMelCollate(2),
    lambda: ([(tensor(integer(1, 6)), tensor(3, integer(1, 7), dtype=torch.float32)) for _ in range(integer(1, 4))],),
)


def fast_collate2(batch):
    targets = torch.tensor([b[1] for b in batch], dtype=torch.int64)
    tensor = torch.zeros((len(batch), *batch[0][0].shape), dtype=torch.uint8)
    for i in range(len(batch)):
        tensor[i].copy_(batch[i][0])
    return tensor, targets


CASES["timm_fast"] = (
    fast_collate2,
    lambda: ([(x, integer(0, 9)) for x in [tensor(3, 5, 4, dtype=torch.uint8)] * integer(1, 4)],),
)


class RandomErasing:
    mode = "const"

    def _erase(self, img, top, left, h, w):
        img[:, top : top + h, left : left + w] = 0.0

    def __call__(self, img, box):
        img = img.clone() if isinstance(img, torch.Tensor) else img.copy()
        self._erase(img, *box)
        return img


CASES["erasing"] = (
    RandomErasing(),
    lambda: (tensor(3, 6, 6, dtype=torch.float32), (integer(0, 3), integer(0, 3), integer(1, 3), integer(1, 3))),
)
CASES["erasing_np"] = (
    RandomErasing(),
    lambda: (array(3, 6, 6, dtype=np.float32), (integer(0, 3), integer(0, 3), integer(1, 3), integer(1, 3))),
)


def get_batch(data, ix, block_size):
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    return x, y


CASES["nanogpt"] = (get_batch, lambda: (tensor(40), [integer(0, 20) for _ in range(integer(1, 4))], integer(1, 9)))


class GPTDataset:
    def __init__(self, b):
        self.block_size = b

    def get_block_size(self):
        return self.block_size

    def item(self, data, i):
        chunk = data[i : i + self.get_block_size() + 1]
        return chunk[:-1], chunk[1:]

    def __call__(self, data, ids):
        return [torch.stack(c) for c in zip(*[self.item(data, i) for i in ids], strict=False)]


CASES["nanogpt_ds"] = (GPTDataset(5), lambda: (tensor(40), [integer(0, 20) for _ in range(integer(1, 4))]))


class SequenceCollator:
    def __init__(self, max_len):
        self.max_len = max_len

    def _left_pad(self, s):
        s = s[-self.max_len :]
        out = np.zeros(self.max_len, dtype=s.dtype)
        out[self.max_len - len(s) :] = s
        return out

    def __call__(self, batch):
        return {
            "history": np.stack([self._left_pad(b["history"]) for b in batch]),
            "target": np.concatenate([b["target"] for b in batch]),
            "length": [min(len(b["history"]), self.max_len) for b in batch],
        }


CASES["recsys"] = (
    SequenceCollator(5),
    lambda: ([{"history": array(integer(1, 9)), "target": array(1)} for _ in range(integer(1, 4))],),
)


def bag_collate(batch):
    values = torch.cat(list(batch))
    lengths = torch.tensor([len(b) for b in batch])
    offsets = [0]
    for b in batch[:-1]:
        offsets.append(offsets[-1] + len(b))
    return values, lengths, torch.tensor(offsets)


CASES["bag"] = (bag_collate, lambda: ([tensor(integer(0, 5)) for _ in range(integer(1, 4))],))


class Windows:
    def __init__(self, lb, h):
        self.lookback, self.horizon = lb, h

    def __getitem__(self, args):
        series, i = args
        return series[i : i + self.lookback], series[i + self.lookback : i + self.lookback + self.horizon]

    def batch(self, series, idx):
        xs, ys = zip(*(self[series, i] for i in idx), strict=False)
        return np.stack(xs), np.stack(ys)


CASES["windows"] = (
    Windows(4, 2).batch,
    lambda: (array(integer(20, 30), 2, dtype=np.float32), [integer(0, 10) for _ in range(integer(1, 4))]),
)

CASES["sliding"] = (
    lambda x, step: np.lib.stride_tricks.sliding_window_view(x, 4, 0)[::step].swapaxes(1, 2),
    lambda: (array(integer(5, 12), 3), integer(1, 3)),
)


class GraphBatch:
    def __init__(self):
        self.keys = ("x", "edge_attr")

    @property
    def fields(self):
        return self.keys

    def __call__(self, graphs):
        out = {k: torch.cat([g[k] for g in graphs], 0) for k in self.fields}
        out["batch"] = torch.cat([torch.full((g["x"].size(0),), i, dtype=torch.long) for i, g in enumerate(graphs)])
        out["ptr"] = [0]
        for g in graphs:
            out["ptr"].append(out["ptr"][-1] + g["x"].size(0))
        return out


CASES["pyg"] = (
    GraphBatch(),
    lambda: (
        [
            {"x": tensor(integer(1, 4), 3, dtype=torch.float32), "edge_attr": tensor(integer(0, 5), 2)}
            for _ in range(integer(1, 3))
        ],
    ),
)


def dense_adj(graphs):
    n = max(g["adj"].shape[0] for g in graphs)
    out = np.zeros((len(graphs), n, n), np.float32)
    mask = np.zeros((len(graphs), n), bool)
    for k, g in enumerate(graphs):
        m = g["adj"].shape[0]
        out[k, :m, :m] = g["adj"]
        mask[k, :m] = True
    return out, mask


CASES["dense_adj"] = (
    dense_adj,
    lambda: ([{"adj": array(m, m, dtype=np.float32)} for m in [integer(1, 5) for _ in range(integer(1, 3))]],),
)

Batch = collections.namedtuple("Batch", "x y")


class Col:
    def __call__(self, batch):
        b = default_collate(batch)
        return Batch(*b)


CASES["namedtuple"] = (Col(), lambda: ([(tensor(3), tensor(2, 2)) for _ in range(integer(1, 4))],))


class Replay:
    def __init__(self):
        self.gamma = 0.9

    def pad(self, x, n, v=0):
        return torch.cat([x, torch.full((n - len(x), *x.shape[1:]), v, dtype=x.dtype)])

    @classmethod
    def create(cls):
        return cls()

    def __call__(self, trajs):
        n = max(map(len, (t["obs"] for t in trajs)))
        return {k: torch.stack([self.pad(t[k], n) for t in trajs], 1) for k in trajs[0]}


CASES["replay"] = (
    Replay.create(),
    lambda: (
        [
            {"obs": tensor(size, 3, dtype=torch.float32), "act": tensor(size)}
            for size in [integer(1, 6) for _ in range(integer(1, 4))]
        ],
    ),
)


class ClipSampler:
    def __init__(self, frames, stride):
        self.frames, self.stride = frames, stride

    def indices(self, n, start):
        return [min(start + k * self.stride, n - 1) for k in range(self.frames)]

    def __call__(self, video, start):
        return video[self.indices(video.shape[0], start)].permute(3, 0, 1, 2)


CASES["video"] = (ClipSampler(4, 2), lambda: (tensor(integer(5, 12), 3, 3, 3, dtype=torch.uint8), integer(0, 4)))


def mosaic(imgs, size):
    out = np.full((2 * size, 2 * size, 3), 114, dtype=np.uint8)
    for k, im in enumerate(imgs):
        h, w = min(im.shape[0], size), min(im.shape[1], size)
        y, x = (k // 2) * size, (k % 2) * size
        out[y : y + h, x : x + w] = im[:h, :w]
    return out


CASES["mosaic"] = (mosaic, lambda: ([array(integer(1, 9), integer(1, 9), 3, dtype=np.uint8) for _ in range(4)], 6))


class BaseC:
    pad_value = 0

    def collate_field(self, values):
        n = max(v.shape[0] for v in values)
        out = np.full((len(values), n), self.pad_value, dtype=values[0].dtype)
        for i, v in enumerate(values):
            out[i, : v.shape[0]] = v
        return out


class ChildC(BaseC):
    pad_value = -1

    def collate_field(self, values):
        return super().collate_field(values)[:, ::-1]

    def __call__(self, batch):
        return {k: self.collate_field([b[k] for b in batch]) for k in batch[0]}


CASES["super_child"] = (
    ChildC(),
    lambda: ([{"a": array(integer(1, 5)), "b": array(integer(1, 5))} for _ in range(integer(1, 3))],),
)


def pack(batch, maxlen):
    buf = torch.zeros((maxlen,), dtype=torch.int64)
    seg = torch.zeros((maxlen,), dtype=torch.int64)
    pos = 0
    for k, x in enumerate(batch):
        size = min(len(x), maxlen - pos)
        buf[pos : pos + size] = x[:size]
        seg[pos : pos + size] = k + 1
        pos += size
    return buf, seg


CASES["packing"] = (pack, lambda: ([tensor(integer(1, 5)) for _ in range(integer(1, 4))], 9))


class ReplayT:
    def __init__(self):
        self.p = 1

    def apply(self, img, **params):
        return img[params["y"] : params["y"] + 3, params["x"] : params["x"] + 3]

    def apply_to_mask(self, m, **params):
        return self.apply(m, **params)

    @property
    def targets(self):
        return {"image": self.apply, "mask": self.apply_to_mask}

    def __call__(self, params, **kw):
        return {k: self.targets[k](v, **params) for k, v in kw.items()}


tt = ReplayT()
CASES["albumentations"] = (
    lambda image, mask, y, x: tt({"y": y, "x": x}, image=image, mask=mask),
    lambda: (array(8, 8, 3, dtype=np.uint8), array(8, 8, dtype=np.uint8), integer(0, 5), integer(0, 5)),
)


def deep(batch):
    b = copy.deepcopy(batch)
    b[0]["x"][0] = 5
    return b


CASES["deepcopy"] = (deep, lambda: ([{"x": array(integer(2, 5))} for _ in range(integer(1, 3))],))


def leaves(result):
    """Return the types, dtypes, shapes and bytes in a result."""
    if isinstance(result, (torch.Tensor, np.ndarray, np.generic)):
        found = np.asarray(result)
        return [type(result), str(found.dtype), found.shape, found.tobytes()]
    if isinstance(result, dict):
        return [type(result), *(leaf for key, item in result.items() for leaf in [key, *leaves(item)])]
    if isinstance(result, (list, tuple)):
        return [type(result), *(leaf for item in result for leaf in leaves(item))]
    return [repr(result)]


@pytest.mark.filterwarnings("ignore:.*runs without a trace")
@pytest.mark.parametrize("name", CASES)
def test_training_code(name):
    function, make = CASES[name]
    DRAW.seed(zlib.crc32(name.encode()))
    fused = dml.fuse(function)
    for _ in range(10):
        arguments = make()
        expected = function(*copy.deepcopy(arguments))
        assert leaves(fused(*arguments)) == leaves(expected)
    assert fused.counts.traces <= 6
