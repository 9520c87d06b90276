# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import email
import email.policy
import json

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import upload


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "fw.bin"
    path.write_bytes(bytes(range(256)) * 4096)  # 1 MiB
    return path


@pytest.mark.parametrize("size", [1, 1000, upload.BLOCK, 10 * upload.BLOCK, -1, None])
def test_body_is_what_it_says_and_small_in_memory(image, size):
    body = upload.Body(image, b"head", b"tail")
    found, largest = b"", 0
    if size == 1:
        image.write_bytes(b"abc")
        body = upload.Body(image, b"head", b"tail")
    while block := body.read(size):
        found += block
        largest = max(largest, len(block))
    assert found == b"head" + image.read_bytes() + b"tail" and len(body) == len(found)
    assert largest <= upload.BLOCK
    body.close()


@pytest.mark.parametrize("tail", [b"", b"tail"])
def test_before_last_is_called_once_before_the_last_byte_is_given_out(image, tail):
    given, calls = [], []
    body = upload.Body(image, b"head", tail, before_last=lambda: calls.append(sum(map(len, given))))
    for block in body:
        given.append(block)
    assert body.read() == b""
    assert len(calls) == 1 and calls[0] < len(body) == sum(map(len, given))
    assert calls[0] == sum(map(len, given[:-1]))
    body.close()


def test_a_body_is_not_whole_until_the_end(image):
    body = upload.Body(image)
    body.read(1000)
    assert not body.whole
    body.close()


def test_multipart_is_the_form_of_the_standard(image):
    content_type, body = upload.multipart(
        str(image), 'we"ird\r\nname.bin', {"Targets": ["/redfish/v1/x"]}, {"OemParameters": {"a": 1}}
    )
    text = b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + b"".join(body)
    body.close()
    message = email.message_from_bytes(text, policy=email.policy.HTTP)
    parts = list(message.iter_parts())
    assert [part.get_param("name", header="content-disposition") for part in parts] == [
        "UpdateParameters",
        "OemParameters",
        "UpdateFile",
    ]
    assert [part.get_content_type() for part in parts] == [
        "application/json",
        "application/json",
        "application/octet-stream",
    ]
    assert json.loads(parts[0].get_payload()) == {"Targets": ["/redfish/v1/x"]}
    assert parts[2].get_filename() == "weirdname.bin"
    assert parts[2].get_payload(decode=True) == image.read_bytes()
