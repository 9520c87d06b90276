# Renders the page model (model.build) as one self-contained HTML file: no script, nothing loaded from elsewhere.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib

try:
    import jinja2
except ImportError as error:  # the controller always has it: Ansible needs it
    jinja2 = None
    JINJA2_ERROR = error
else:
    JINJA2_ERROR = None

from ..core.errors import Unsupported


def render(model):
    """HTML text. Everything from the registry is escaped; the same model gives the same bytes."""
    if jinja2 is None:
        raise Unsupported(
            "the report needs the Python package Jinja2", next_step=f"install it where Ansible runs ({JINJA2_ERROR})"
        )
    template = pathlib.Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(template).render(**model)
