# The packages of an operating-system tree, read from dpkg's status file. Pure.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations


def installed_packages(status_text):
    """{name: version} of the packages that dpkg's status text calls installed, sorted by name.

    Format: deb822 paragraphs (Debian policy manual, chapter 5); `Status` is "want flag status" (dpkg-query(1)).
    """
    packages = {}
    for paragraph in status_text.split("\n\n"):
        fields = {}
        for line in paragraph.splitlines():
            name, colon, value = line.partition(":")
            if colon and not line[:1].isspace():
                fields[name.lower()] = value.strip()
        if fields.get("status", "").split()[-1:] == ["installed"] and "package" in fields:
            packages[fields["package"]] = fields.get("version", "")
    return dict(sorted(packages.items()))


def kernel_package(packages, release):
    """(name, version) of the package that brought the kernel `release`, or (None, None) where the image has no kernel."""
    name = f"linux-image-{release}"
    for candidate in (name, f"{name}-unsigned"):
        if candidate in packages:
            return candidate, packages[candidate]
    return None, None
