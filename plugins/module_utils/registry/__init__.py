# The registry: nodes, states, attempts, holds, leases, evidence, boot grants and the audit chain, on SQLite or PostgreSQL.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from .api import Registry, open_registry
from .attempts import Begin
from .tables import SCHEMA_VERSION

__all__ = ["SCHEMA_VERSION", "Begin", "Registry", "open_registry"]
