#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Configuration of a boot server, rendered.
from __future__ import annotations

DOCUMENTATION = r"""
module: boot_server_config
short_description: Render the configuration of a boot server
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Renders the configuration of dnsmasq, of nginx and of the boot service, and builds the boot service as one file.
  - Runs in the controller and writes nothing but that file into the user's cache. The role P(aicluster.baremetal.boot_server#role) puts all of it in place.
options:
  interface:
    description: Interface on the provisioning network.
    type: str
    required: true
  address:
    description: Address of the boot server on the provisioning network.
    type: str
    required: true
  network:
    description: The provisioning network.
    type: str
    required: true
  directory:
    description: Directory for configuration and state on the boot server.
    type: path
    required: true
  run_directory:
    description: Directory for process id files.
    type: path
    required: true
  log_directory:
    description: Directory for logs.
    type: path
    required: true
  image_directory:
    description: The image store.
    type: path
    required: true
  api_port:
    description: TCP port of the boot service.
    type: int
    default: 8000
  image_port:
    description: TCP port of the image server.
    type: int
    default: 8080
  kernel_arguments:
    description: Further kernel arguments of the deploy ramdisk.
    type: str
    default: ""
  lease_time:
    description: DHCP lease time in the notation of dnsmasq.
    type: str
    default: 10m
  session_ttl:
    description: Seconds for which the session of a ramdisk is good.
    type: int
    default: 7200
  user:
    description: User of dnsmasq and of the boot service.
    type: str
    default: root
  image_user:
    description: User of the workers of nginx.
    type: str
    default: root
  registry:
    description: Not used here, every plugin over the registry takes it.
    type: str
"""

EXAMPLES = r"""
- name: Render the configuration
  aicluster.baremetal.boot_server_config:
    interface: prov
    address: 10.77.1.1
    network: 10.77.1.0/24
    directory: /var/lib/aicluster/boot
    run_directory: /run/aicluster/boot
    log_directory: /var/log/aicluster
    image_directory: /var/cache/aicluster/images
  register: rendered
"""

RETURN = r"""
dnsmasq:
  description: Configuration of dnsmasq.
  returned: success
  type: str
nginx:
  description: Configuration of nginx.
  returned: success
  type: str
settings:
  description: Settings of the boot service, without its secrets (the URL of the registry and the key that signs sessions).
  returned: success
  type: dict
bundle:
  description: Path of the built boot service on the controller.
  returned: success
  type: str
"""
