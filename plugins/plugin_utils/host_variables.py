# Reading the variables of thousands of hosts in one task at a bearable price.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib

from ansible.vars import manager


def inventory(hostvars):
    """Ansible's inventory behind `hostvars`, or None where this ansible-core keeps it elsewhere."""
    return getattr(hostvars, "_inventory", None)


def own(hostvars, host):
    """What the inventory itself says of a host, without templates, group variables and files of variables: a dict that costs nothing to get."""
    there = inventory(hostvars)
    found = there.get_host(host) if there is not None else None
    return getattr(found, "vars", None) or {}


def outside_limit(hostvars, hosts):
    """Those of `hosts` that this run is limited away from (-l)."""
    there = inventory(hostvars)
    if there is None or not getattr(there, "_subset", None):
        return []
    inside = {host.name for host in there.get_hosts("all")}
    return [host for host in hosts if host not in inside]


@contextlib.contextmanager
def cheap():
    """Inside, a host without facts costs nothing for cleaning them.

    For the variables of each host ansible-core cleans its facts, and for that lists the directories of all connection plugins, also where there are no
    facts: 0.6 ms of CPU time for each host, more than everything else that it does for them. In a worker, which is forked for one task, it is safe to
    put another function there for a while.
    """
    clean = getattr(manager, "clean_facts", None)
    if clean is None:  # an ansible-core that does it in another way
        yield
        return
    manager.clean_facts = lambda facts: clean(facts) if facts else {}
    try:
        yield
    finally:
        manager.clean_facts = clean
