# BMC simulator of the embedded lab: Redfish and IPMI in front of virtual servers, or of a pure state machine.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations
