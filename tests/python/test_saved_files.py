# SPDX-License-Identifier: Apache-2.0
"""Files of save() and load(): read as strictly as the format says, and memory that tensors share is
in them once."""

import io
import json
import random

import pytest

import gramme

ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
TWO = {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}


def file_of(header, data):
    text = (
        header
        if isinstance(header, bytes)
        else (header if isinstance(header, str) else json.dumps(header)).encode()
    )
    return io.BytesIO(len(text).to_bytes(8, "little") + text + data)


DAMAGED = {
    "two tensors over one place": ({"a": ONE, "b": ONE}, 4, "'a' and 'b' overlap: bytes 0 to 4"),
    "a tensor inside of another": (
        {"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}, "b": TWO},
        16,
        "overlap",
    ),
    "a hole between two": (
        {"a": ONE, "b": {**ONE, "data_offsets": [8, 12]}},
        12,
        "bytes 4 to 8, before the tensor 'b', belong to no tensor",
    ),
    "a hole before the first": ({"b": TWO}, 8, "bytes 0 to 4"),
    "bytes behind the last": ({"a": ONE}, 5, "1 bytes behind the last tensor"),
    "bytes and no tensor": ({}, 3, "3 bytes behind"),
    "a name twice": ('{"a":%s,"a":%s}' % (json.dumps(ONE), json.dumps(TWO)), 8, "'a' occurs twice"),
    "a field twice": (
        '{"a":{"dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4]}}',
        4,
        "'dtype' occurs twice",
    ),
    "metadata twice": (
        '{"__metadata__":{},"__metadata__":{},"a":%s}' % json.dumps(ONE),
        4,
        "occurs twice",
    ),
    "a key of the metadata twice": ('{"__metadata__":{"x":"1","x":"2"}}', 0, "'x' occurs twice"),
    "metadata that is a number": ({"__metadata__": {"x": 1}}, 0, "__metadata__"),
    "metadata that is a list": ({"__metadata__": []}, 0, "__metadata__"),
    "a space before the header": (" {}", 0, "begin"),
    "a header that is a list": ("[]", 0, "begin"),
    "a header of UTF-16": ("{}".encode("utf-16-le"), 0, "header"),
    "a header that is not UTF-8": (b'{"\xff":1}', 0, "header"),
    "a number that JSON has not": ('{"a":NaN}', 0, "NaN"),
    "past the end": ({"a": {**ONE, "data_offsets": [0, 8], "shape": [2]}}, 4, "does not lie"),
    "backwards": ({"a": {**ONE, "data_offsets": [4, 0]}}, 4, "does not lie"),
    "a negative size": ({"a": {**ONE, "shape": [-1]}}, 4, "list of sizes"),
    "a shape that does not fit": ({"a": {**ONE, "shape": [2]}}, 4, "does not lie"),
    "a size that is true": ({"a": {**ONE, "shape": [True]}}, 4, "list of sizes"),
    "a dtype that is none": ({"a": {**ONE, "dtype": "F33"}}, 4, "dtype"),
    "an entry that is a number": ({"a": 1}, 0, "entry"),
    "two headers": (b"{}{}", 0, "header"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_that_two_readers_could_read_differently_is_refused(name):
    header, count, text = DAMAGED[name]
    with pytest.raises(ValueError, match=text):
        gramme.load(file_of(header, bytes(count)))


def test_a_strict_file_is_read_in_any_order_of_its_entries():
    empty = {"dtype": "F32", "shape": [0, 3], "data_offsets": [4, 4]}
    back = gramme.load(
        file_of(
            '{"b":%s,"e":%s,"a":%s,"__metadata__":{"x":"y"}}   '
            % tuple(map(json.dumps, (TWO, empty, ONE))),
            bytes(8),
        )
    )
    assert list(back) == ["b", "e", "a"] and back["e"].shape == (0, 3)
    assert gramme.load(file_of({}, b"")) == {}


@pytest.mark.parametrize(
    "start",
    [
        b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
        # the number with which old files of torch begin
        b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00.",
    ],
)
def test_a_pickle_is_named_and_not_read(start):
    with pytest.raises(
        ValueError, match=r"is a pickle, as torch.save wrote .* convert it to safetensors"
    ):
        gramme.load(io.BytesIO(start + bytes(100)))


def test_metadata_that_is_not_text_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(TypeError, match="'epoch' is 3"):
        gramme.save({"a": gramme.ones(1)}, tmp_path / "x", metadata={"epoch": 3})
    assert not list(tmp_path.iterdir())


# -- Memory that tensors share


def trip(obj):
    file = io.BytesIO()
    gramme.save(obj, file)
    size = len(file.getvalue())
    file.seek(0)
    return gramme.load(file), size


def cube():
    return gramme.arange(24.0).reshape(2, 3, 4)


VIEWS = {
    "a transpose and a slice": lambda x: [x, x.transpose(0, 2), x[1:]],
    "slices that overlap, without the whole": lambda x: [x[0, :2], x[0, 1:]],
    "every second column and the rest": lambda x: [x[..., ::2], x[..., 1::2]],
    "a column first": lambda x: [x[:, :, 2], x],
    "an element": lambda x: [x, x[1, 2, 3]],
    "one row many times": lambda x: [x[0, 0], x[0, 0].expand(5, 4)],
    "bytes": lambda x: [x, x.view(gramme.uint8)],
    "bytes of a slice": lambda x: [x[1:].view(gramme.int16), x[:, 1:]],
    "wider elements of a slice that begins in the middle": lambda x: [
        x.view(-1)[1:7],
        x.view(-1)[2:6].view(gramme.float64),
    ],
    "wider elements behind narrower ones": lambda x: [
        x.view(-1)[1:5],
        x.view(-1)[4:8].view(gramme.float64),
    ],
    "a detached one": lambda x: [x, x.detach(), x.detach()[0]],
    "nothing of it": lambda x: [x, x[:0], x[2:2]],
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory_again_and_are_in_the_file_once(name):
    x = cube()
    views = VIEWS[name](x)
    apart = trip([x])[1]
    back, size = trip(views)
    assert size <= apart + 150 * len(views)
    for a, b in zip(views, back):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        assert (
            a.contiguous().view(gramme.uint8).tolist() == b.contiguous().view(gramme.uint8).tolist()
            if a.dim()
            else a.item() == b.item()
        )
    full = [(a, b) for a, b in zip(views, back) if a.numel()]
    first = min(full, key=lambda pair: pair[0].data_ptr())
    for a, b in full:
        assert a.data_ptr() - first[0].data_ptr() == b.data_ptr() - first[1].data_ptr()


def test_a_slice_of_a_large_tensor_takes_its_own_bytes_alone():
    x = gramme.zeros(100_000)
    back, size = trip([x[10:20], x[50_000:50_010]])
    assert size < 600 and [b.numel() for b in back] == [10, 10]
    back, size = trip([gramme.zeros(300, 300)[:, 7]])
    assert size < 1600 and back[0].shape == (300,)


def test_writing_to_one_of_them_is_seen_by_the_others_and_gradients_are_apart():
    weight = gramme.nn.Parameter(gramme.arange(6.0).reshape(2, 3))
    state = {
        "weight": weight,
        "tied": weight.detach().t(),
        "row": weight.detach()[1].requires_grad_(),
    }
    back, _ = trip([state, (weight, weight.data[0])])
    (made, (same, row)) = back
    assert (
        same is made["weight"]
        and type(same) is gramme.nn.Parameter
        and made["row"].requires_grad
        and not made["tied"].requires_grad
    )
    assert made["weight"].is_leaf and made["row"].is_leaf
    with gramme.no_grad():
        made["tied"][2, 1] = 50.0
        row[0] = -1.0
    assert same.tolist() == [[-1.0, 1.0, 2.0], [3.0, 4.0, 50.0]] and made["row"].tolist() == [
        3.0,
        4.0,
        50.0,
    ]
    made["row"].sum().backward()
    assert made["row"].grad.tolist() == [1.0] * 3 and same.grad is None


def test_a_plain_file_has_elements_of_its_own_for_each_name(tmp_path):
    x = cube()
    gramme.save({"x": x, "t": x.transpose(0, 1), "same": x}, tmp_path / "x.safetensors")
    data = (tmp_path / "x.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert set(header) == {"x", "t", "same"} and all(
        e["data_offsets"][1] - e["data_offsets"][0] == 96 for e in header.values()
    )
    back = gramme.load(tmp_path / "x.safetensors")
    assert (
        back["t"].tolist() == x.transpose(0, 1).tolist()
        and back["same"].data_ptr() != back["x"].data_ptr()
    )


def test_a_geometry_that_lies_is_an_error():
    file = io.BytesIO()
    x = cube()
    gramme.save([x, x[1:]], file)
    data = file.getvalue()
    text = data[8 : 8 + int.from_bytes(data[:8], "little")]
    good = r"[\"float32\",[1,3,4],[12,4,1],12]".encode()
    assert good in text
    for geometry in (
        '["float32",[1,3,4],[12,4,1],13]',
        '["float32",[1,3,4],[12,4,1],-1]',
        '["float32",[1,3,4],[12,-4,1],12]',
        '["float32",[-1,3,4],[12,4,1],12]',
        f'["float32",[1,3,4],[12,{2**62},1],12]',
        f'["float32",[3,{2**63}],[0,0],0]',
        '["float32",[1,3],[12,4,1],12]',
        '["float64",[1,3,4],[12,4,1],12]',
        '["no",[1,3,4],[12,4,1],12]',
        '["float32",[1,3,4],12]',
        "[]",
        "3",
    ):
        header = text.replace(good, geometry.replace('"', '\\"').encode())
        with pytest.raises(ValueError):
            gramme.load(file_of(header, data[8 + len(text) :]))


def test_random_views_come_back():
    draw = random.Random(7)
    for _ in range(60):
        x = gramme.arange(
            24, dtype=draw.choice([gramme.float32, gramme.int16, gramme.float64])
        ).reshape(2, 3, 4)
        views = []
        for _ in range(draw.randint(1, 5)):
            v = draw.choice([x] + views)
            for _ in range(draw.randint(0, 3)):
                d = draw.randrange(v.dim()) if v.dim() else None
                if d is None:
                    break
                first = draw.randrange(v.shape[d]) if v.shape[d] else 0
                v = draw.choice(
                    [
                        lambda: v.transpose(d, 0),
                        lambda: v.narrow(d, first, min(1, v.shape[d])),
                        lambda: v.narrow(d, 0, v.shape[d]),
                        lambda: v.unsqueeze(d),
                        lambda: v.select(d, first) if v.shape[d] else v,
                    ]
                )()
            views.append(v)
        back, size = trip(views)
        assert [v.tolist() for v in views] == [b.tolist() for b in back]
        for i in range(len(views)):
            for j in range(i):
                if (
                    views[i].numel()
                    and views[j].numel()
                    and views[i].data_ptr() == views[j].data_ptr()
                ):
                    assert back[i].data_ptr() == back[j].data_ptr()
