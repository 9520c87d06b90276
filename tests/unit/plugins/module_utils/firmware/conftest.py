# Baselines for the tests of this room, made short.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import baseline as subject

SHA = "ab" * 32


def component(wanted="2.0", activation="host_reboot", **more):
    return {"wanted": wanted, "activation": activation, "image": {"path": "image.bin", "sha256": SHA}, **more}


def document(**components):
    return {"schema": 1, "name": "test", "platforms": {"p": {"match": {"model": "M"}, "components": components}}}


@pytest.fixture
def make():
    """(baseline, platform) of components given as keyword arguments."""

    def made(**components):
        found = subject.parse(document(**components))
        return found, found.platforms["p"]

    return made


def rows(**versions):
    return [{"id": name, "version": version} for name, version in versions.items()]
