# Settings: option before variable before environment before ansible.cfg.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
from ansible import constants

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import settings


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for _variable, environment, _key in settings.SETTINGS.values():
        monkeypatch.delenv(environment, raising=False)
    monkeypatch.setattr(constants, "CONFIG_FILE", None)


def test_the_order(monkeypatch, tmp_path):
    assert settings.find("registry") is None
    config = tmp_path / "ansible.cfg"
    config.write_text("[defaults]\nx = %y\n[aicluster]\nregistry = from-file\n")
    monkeypatch.setattr(constants, "CONFIG_FILE", str(config))
    assert settings.find("registry") == "from-file"
    monkeypatch.setenv("AICLUSTER_REGISTRY", "from-environment")
    assert settings.find("registry") == "from-environment"
    variables = {"aicluster_registry": "from-variable"}
    assert settings.find("registry", None, variables.get) == "from-variable"
    assert settings.find("registry", "from-option", variables.get) == "from-option"


def test_what_is_nowhere_says_where_it_may_be():
    with pytest.raises(errors.InvalidInput, match=r"aicluster_registry.*AICLUSTER_REGISTRY.*ansible\.cfg"):
        settings.require("registry")


def test_what_is_nowhere_says_what_to_do_about_this_one():
    with pytest.raises(
        errors.InvalidInput, match="the secret store is not set.*next: make a YAML file.*aicluster_secrets"
    ) as seen:
        settings.require("secrets")
    assert "sqlite" not in str(seen.value)


def test_the_actor_is_a_person_on_a_machine(monkeypatch):
    assert "@" in settings.actor()
    monkeypatch.setenv("AICLUSTER_ACTOR", "night-shift@noc")
    assert settings.actor() == "night-shift@noc"
