# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import copy

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import (
    BaremetalError,
    InvalidInput,
    NotFound,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import baseline as subject

from .conftest import SHA, component, document

FILE = """
schema: 1
name: site-2026.1
images: pictures
platforms:
  hgx:
    match: {manufacturer: Supermicro, model: "SYS-8.*"}
    pause_s: 1
    components:
      bmc:
        inventory: ^BMC$
        wanted: "1.20"
        from: ">=1.10"
        image: {path: bmc-1.20.bin, sha256: @SHA@}
        activation: bmc_reset
        order: 10
        hops:
          - {from: "<1.10", via: "1.10", image: {url: "http://images/bmc-1.10.bin", sha256: @SHA@}}
      bios:
        wanted: U32 v2.10 (01/01/2024)
        rule: hpe
        image: {path: /abs/bios.bin, sha256: @SHA@}
        activation: host_reboot
        requires: {bmc: ">=1.10"}
        can_brick: true
""".replace("@SHA@", SHA)


def test_a_whole_file(tmp_path):
    path = tmp_path / "b.yml"
    path.write_text(FILE)
    found = subject.load(str(path))
    platform = found.platforms["hgx"]
    bmc, bios = platform.components["bmc"], platform.components["bios"]
    assert (found.name, platform.pause_s, bmc.order, bios.order) == ("site-2026.1", 1.0, 10, 100)
    assert bmc.image.path == str(tmp_path / "pictures" / "bmc-1.20.bin")
    assert bios.image.path == "/abs/bios.bin"
    assert bmc.hops[0].image.url == "http://images/bmc-1.10.bin"
    assert bmc.hops[0].activation == "bmc_reset"
    assert bios.requires["bmc"].holds("1.15")
    assert bios.can_brick and not bmc.can_brick
    assert bios.inventory == "^bios$"


def wrong(change, where, words):
    """A file with one thing changed is refused, and the error names the file and the place."""
    data = document(bmc=component(inventory="^BMC$"), bios=component(inventory="^BIOS$"))
    change(data, data["platforms"]["p"]["components"])
    with pytest.raises(InvalidInput) as caught:
        subject.parse(data, "site.yml")
    error = caught.value
    assert error.thing == f"site.yml: {where}"
    assert error.wanted is not None and error.seen is not None and error.next_step
    assert words in str(error)


def put(path, value):
    def change(_data, components):
        place = components
        *steps, last = path.split(".")
        for step in steps:
            place = place.setdefault(step, {})
        place[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "where", "words"),
    [
        (lambda d, c: d.update(schema=2), "schema", "cannot read this schema"),
        (lambda d, c: d.update(platform={}), "platform", "did you mean platforms?"),
        (lambda d, c: d.pop("name"), "name", "missing"),
        (lambda d, c: c["bmc"].pop("wanted"), "platforms.p.components.bmc.wanted", "missing"),
        (put("bmc.wanted", 1.10), "platforms.p.components.bmc.wanted", "put it in quotes"),
        (put("bmc.wanted", "rc"), "platforms.p.components.bmc.wanted", "rule dotted cannot read"),
        (put("bmc.activation", "reboot"), "platforms.p.components.bmc.activation", "ac_cycle"),
        (put("bmc.rule", "semver"), "platforms.p.components.bmc.rule", "dotted_hex"),
        (put("bmc.extract", "("), "platforms.p.components.bmc.extract", "regular expression"),
        (put("bmc.inventory", "["), "platforms.p.components.bmc.inventory", "regular expression"),
        (put("bmc.image.sha256", "abc"), "platforms.p.components.bmc.image.sha256", "sha256sum"),
        (put("bmc.image.url", "http://x/y"), "platforms.p.components.bmc.image", "either path or url"),
        (put("bmc.image", {"url": "ftp://x/y", "sha256": SHA}), "platforms.p.components.bmc.image.url", "http://"),
        (put("bmc.requires", {"cpld": ">1"}), "platforms.p.components.bmc.requires.cpld", "no such component"),
        (put("bmc.requires", {"bmc": ">1"}), "platforms.p.components.bmc.requires.bmc", "itself"),
        (put("bmc.requires", {"bios": ">1,"}), "platforms.p.components.bmc.requires.bios", "condition"),
        (put("bmc.requires", {"bios": ">2.0"}), "platforms.p.components.bmc.requires.bios", "contradicts itself"),
        (put("bmc.excludes", {"bios": ">=2.0"}), "platforms.p.components.bmc.excludes.bios", "contradicts itself"),
        (put("bmc.inventory", "^BIOS$"), "platforms.p.components.bios", "one owner"),
        (put("bmc.hops", {}), "platforms.p.components.bmc.hops", "a list"),
        (put("bmc.order", "first"), "platforms.p.components.bmc.order", "whole number"),
        (put("bmc.can_brick", "yes"), "platforms.p.components.bmc.can_brick", "true or false"),
        (put("bmc.path", "nic"), "platforms.p.components.bmc.psid", "another board"),
        (put("BMC2", {}), "platforms.p.components.BMC2", "lower case"),
        (
            put("bmc.hops", [{"from": "<2.0", "via": "1.0", "image": {"path": "x", "sha256": SHA}}]),
            "platforms.p.components.bmc.hops[0]",
            "starts the same hop",
        ),
    ],
)
def test_refused_with_file_and_place(change, where, words):
    wrong(change, where, words)


@pytest.mark.parametrize(
    ("old", "new", "line", "place"),
    [
        ('wanted: "1.20"', "wanted: 1.20", 12, "platforms.hgx.components.bmc.wanted"),
        ("can_brick: true", "can_brik: true", 25, "platforms.hgx.components.bios.can_brik"),
        ('via: "1.10", image', "via: 1.10, image", 18, "platforms.hgx.components.bmc.hops[0].via"),
        ('via: "1.10", ', "", 18, "platforms.hgx.components.bmc.hops[0].via"),
        ("        activation: host_reboot\n", "", 19, "platforms.hgx.components.bios.activation"),
        ("requires: {bmc", "requires: {bmx", 24, "platforms.hgx.components.bios.requires.bmx"),
    ],
)
def test_the_line_is_named(tmp_path, old, new, line, place):
    path = tmp_path / "b.yml"
    assert old in FILE
    path.write_text(FILE.replace(old, new))
    with pytest.raises(InvalidInput) as caught:
        subject.load(str(path))
    assert caught.value.thing == f"{path}: line {line}: {place}"


def test_circle_in_requires():
    data = document(
        a=component(requires={"b": ">=2"}), b=component(requires={"c": ">=2"}), c=component(requires={"a": ">=2"})
    )
    with pytest.raises(InvalidInput, match="a -> b -> c -> a"):
        subject.parse(data)


def test_the_same_key_twice_is_two_owners(tmp_path):
    path = tmp_path / "b.yml"
    path.write_text(FILE + FILE[FILE.index("      bios:") :])
    with pytest.raises(InvalidInput, match=r"a key is given twice.*bios, first in line 19"):
        subject.load(str(path))


def test_two_files_two_owners(tmp_path):
    (tmp_path / "a.yml").write_text(FILE)
    (tmp_path / "b.yml").write_text(
        FILE.replace("      bmc:", "      bmc_again:")
        .replace("requires: {bmc", "requires: {bmc_again")
        .replace("      bios:", "      bios_again:")
    )
    with pytest.raises(InvalidInput) as caught:
        subject.load(str(tmp_path))
    assert caught.value.code == "baseline_two_owners"
    assert "a.yml" in str(caught.value) and "b.yml" in str(caught.value)


def test_two_files_one_platform(tmp_path):
    head = FILE[: FILE.index("      bmc:")]
    (tmp_path / "a.yml").write_text(
        head
        + "      nic: {wanted: '1', activation: host_reboot, image: {path: n, sha256: @SHA@}}\n".replace("@SHA@", SHA)
    )
    (tmp_path / "b.yml").write_text(FILE)
    (tmp_path / "notes.txt").write_text("not a baseline")
    found = subject.load(str(tmp_path))
    assert sorted(found.platforms["hgx"].components) == ["bios", "bmc", "nic"]
    assert len(found.files) == 2


@pytest.mark.parametrize("text", ["a: [", "just text", "", "- 1", "schema: 1\nname: x\nplatforms: 5"])
def test_not_a_baseline(tmp_path, text):
    path = tmp_path / "b.yml"
    path.write_text(text)
    with pytest.raises(BaremetalError) as caught:
        subject.load(str(path))
    error = caught.value
    assert str(path) in str(error) and error.wanted is not None and error.seen is not None and error.next_step


def test_broken_yaml_names_the_line(tmp_path):
    path = tmp_path / "b.yml"
    path.write_text(FILE.replace("order: 10", "order: [10"))
    with pytest.raises(InvalidInput, match=r"b\.yml: line 17: .*not YAML.*wanted: .*seen: .*next: "):
        subject.load(str(path))


def test_missing_file(tmp_path):
    with pytest.raises(NotFound, match="no such baseline file"):
        subject.load(str(tmp_path / "none.yml"))
    with pytest.raises(NotFound, match="no baseline file"):
        subject.load(str(tmp_path))


def test_platform_for():
    data = document(a=component())
    data["platforms"]["q"] = {"match": {"manufacturer": "ACME"}, "components": {"a": component()}}
    found = subject.parse(data)
    assert found.platform_for({"model": "SuperM"}).name == "p"
    assert found.platform_for({"model": "M", "manufacturer": "Acme", "platform": "q"}).name == "q"
    with pytest.raises(NotFound, match="model X"):
        found.platform_for({"model": "X"})
    with pytest.raises(InvalidInput, match="several"):
        found.platform_for({"model": "M", "manufacturer": "ACME"})


def test_a_platform_without_patterns_is_only_taken_by_name():
    data = document(a=component())
    del data["platforms"]["p"]["match"]
    found = subject.parse(data)
    assert found.platform_for({"platform": "p"}).name == "p"
    with pytest.raises(NotFound):
        found.platform_for({"model": "M"})


def test_digest_changes_with_the_content():
    one = document(a=component())
    two = copy.deepcopy(one)
    assert subject.parse(one).digest == subject.parse(two).digest
    two["platforms"]["p"]["components"]["a"]["force"] = True
    assert subject.parse(one).digest != subject.parse(two).digest
