# What all modules over the registry share in their documentation.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  registry:
    description:
      - URL of the registry, C(sqlite:////absolute/path.db) or C(postgresql+psycopg://user@host/database).
      - By default the variable C(aicluster_registry), the environment variable E(AICLUSTER_REGISTRY), or C(registry) in the section C([aicluster]) of
        C(ansible.cfg).
    type: str
requirements:
  - SQLAlchemy 2.0 or newer in the Python that runs Ansible
  - psycopg 3.1 or newer, for a registry on PostgreSQL
"""

    ATTRIBUTES = r"""
attributes:
  action:
    description: Runs as an action plugin in the controller. The connection to the host is never opened.
    support: full
  check_mode:
    description: Can run in check mode and say what would change, and writes nothing.
    support: full
  diff_mode:
    description: Returns what changes.
    support: full
"""

    READS = r"""
attributes:
  action:
    description: Runs as an action plugin in the controller. The connection to the host is never opened.
    support: full
  check_mode:
    description: Only reads, so check mode is the same.
    support: full
  diff_mode:
    description: Nothing changes, so there is no difference to show.
    support: N/A
"""
