# The updater on trees recorded from real hardware: what it finds there, and that no missing, null or wrong key is a traceback.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import random

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import update
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

from . import test_corpus
from .test_corpus import ARCHIVE, dice_spoiler, recorded

trees = test_corpus.trees  # a fixture

pytestmark = [
    pytest.mark.skipif(not ARCHIVE.exists(), reason="the corpus is not here (AICLUSTER_CORPUS)"),
    pytest.mark.slow,
]

# tree: ways to send an image, read off the tree's UpdateService; rows in its inventory at least
TREES = {
    "dell-idrac9-libredfish": ({"multipart", "push", "simple"}, 20),
    "hpe-ilo-libredfish": ({"simple"}, 10),
    "lenovo-xcc-libredfish": ({"multipart", "push", "simple"}, 10),
    "supermicro-libredfish": ({"multipart", "simple"}, 5),
    "nvidia-dgx-h100-viking-libredfish": ({"multipart", "simple"}, 20),
    "nvidia-gb200-libredfish": ({"multipart", "push"}, 20),
    "nvidia-gbswitch-libredfish": ({"multipart", "push"}, 5),
}


class OnTree(update.RedfishUpdater):
    def __init__(self, tree, spoil=None):
        self.recorded = recorded(tree, spoil)
        super().__init__(self.recorded.endpoint)

    def client(self, *_unused, **_unused2):
        return self.recorded


@pytest.mark.parametrize("name", TREES)
def test_what_a_real_bmc_offers(trees, name):
    if name not in trees:
        pytest.skip(f"{name} is not in this corpus")
    ways, rows = TREES[name]
    updater = OnTree(trees[name])
    assert set(updater.methods()) == ways
    inventory = updater.inventory()
    assert len(inventory) >= rows and all(row["id"] for row in inventory)
    assert sum(bool(row["version"]) for row in inventory) >= rows / 2
    updater.tasks()


@pytest.mark.parametrize("name", TREES)
def test_spoiled_resources_are_never_a_traceback(trees, name):
    if name not in trees:
        pytest.skip(f"{name} is not in this corpus")
    keep = ("UpdateService", "TaskService", "Managers", "Systems", "Chassis")
    tree = {
        path: body
        for path, body in trees[name].items()
        if path.count("/") < 4 or any(word.lower() in path.lower() for word in keep[:2])
    }
    complete = 0
    for seed in range(15):
        updater = OnTree(tree, dice_spoiler(random.Random(f"{name}/{seed}")))
        for call in (updater.inventory, updater.methods, updater.tasks, updater.health, updater.marks):
            try:
                call()
                complete += 1
            except errors.BaremetalError:
                pass
    assert complete, "no run got to the end: the spoiling says nothing"
