# Out-of-band management: one client for a node's BMC, over Redfish or IPMI.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations


def connect(endpoint, deadline=None, before_write=None):
    """The client for an Endpoint; use it in a `with` block. `before_write` is called immediately before each request that changes something."""
    if endpoint.protocol == "ipmi":
        from .ipmi import IpmiClient as client
    else:
        from .redfish import RedfishClient as client
    return client(endpoint, deadline, before_write)
