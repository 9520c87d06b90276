# The boot service: answers each node's boot question and talks with the deploy ramdisk. A Flask application over the registry.
#
# Trust: the provisioning network is where the nodes' firmware boots from, without any secret of its own. A MAC or an address there can be
# forged by whoever is on that network. What this service holds against: everything from outside the provisioning networks, replays, guesses,
# old attempts, and a boot that nobody asked for. A grant is consumed by one boot; the session made from it is signed and bound to that boot.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import logging

from ..core.errors import BaremetalError, InvalidInput, NotFound, Refused
from . import ipxe, seed, session, spec, timeline
from .addresses import is_inside, normal_mac, same_address

_log = logging.getLogger("aicluster.boot")
ACTOR = "boot-service"
_DETAIL_LIMIT = 500
_HTTP = {
    "session_missing": 401,
    "session_forged": 403,
    "session_expired": 403,
    "session_foreign": 403,
    "superseded": 409,
}


def _superseded(grant, reason):
    return Refused(
        reason,
        host=grant["node"],
        thing="boot session",
        wanted="a session of the current attempt",
        seen=f"attempt {grant['attempt']}, grant {grant['id']}",
        code="superseded",
    )


def create_app(registry, settings):
    """The WSGI application. `registry`: the registry object; `settings`: netboot.settings.Settings."""
    import flask

    app = flask.Flask("aicluster-boot")
    app.config["MAX_CONTENT_LENGTH"] = 64 << 10

    def text(body, status=200, kind="text/plain"):
        response = flask.Response(body, status=status, content_type=f"{kind}; charset=utf-8")
        response.headers["Cache-Control"] = "no-store"
        return response

    def current_grant():
        """(grant, reason why it is no longer current or None) of the session that this request carries; raises Refused without a good session."""
        address = flask.request.remote_addr
        header = flask.request.headers.get("X-Boot-Session")
        grant_id, _mac = session.read(settings.session_key, header, settings.session_ttl_s, address)
        grant = registry.grant(grant_id)
        if not grant["current"]:
            return grant, f"attempt {grant['attempt']} has ended or was replaced"
        newest = max(row["id"] for row in registry.grants(grant["serial"]))
        if newest != grant_id:
            # The controller asked for another boot of this attempt, so this one must not write any more.
            return grant, f"grant {newest} replaced this boot's grant {grant_id}"
        return grant, None

    def must_be_current():
        grant, old = current_grant()
        if old:
            raise _superseded(grant, old)
        return grant

    @app.errorhandler(Refused)
    def refused(error):
        _log.warning(
            "refused %s %s from %s: %s (%s)",
            flask.request.method,
            flask.request.path,
            flask.request.remote_addr,
            error,
            error.code,
        )
        return text(f"{error}\n", _HTTP.get(error.code, 403))

    @app.errorhandler(InvalidInput)
    def invalid(error):
        _log.warning("bad request %s from %s: %s", flask.request.path, flask.request.remote_addr, error)
        return text(f"{error}\n", 400)

    @app.errorhandler(NotFound)
    def not_found(error):
        return text(f"{error}\n", 404)

    @app.errorhandler(BaremetalError)
    def broken(error):
        # Firmware that gets an error goes on to its next boot option, the disk; the ramdisk asks again.
        _log.error("%s from %s: %s", flask.request.path, flask.request.remote_addr, error)
        return text("the registry cannot be used now\n", 503)

    @app.before_request
    def from_the_provisioning_network():
        if flask.request.path == "/healthz":
            return None
        if not is_inside(flask.request.remote_addr, settings.provision_networks):
            _log.warning(
                "refused %s: %s is outside the provisioning networks", flask.request.path, flask.request.remote_addr
            )
            return text("outside the provisioning networks\n", 403)
        return None

    @app.get("/healthz")
    def healthz():
        return text("ok\n")

    @app.get("/boot.ipxe")
    def boot_question():
        mac = normal_mac(flask.request.args.get("mac"))
        token = flask.request.args.get("grant") or None
        address = flask.request.remote_addr
        pending = registry.pending_grant(mac)
        if pending is None and token is None:
            return text(ipxe.local_disk(_why_no_grant(mac)))
        try:
            if pending is not None:
                _right_address(pending, address)
            grant = registry.consume_grant(token, mac, ACTOR, grant=pending and pending["id"])
        except Refused as error:
            _log.warning("boot question of %s from %s refused: %s (%s)", mac, address, error, error.code)
            return text(ipxe.local_disk(f"grant refused ({error.code})"))
        key = session.issue(settings.session_key, grant["id"], mac, address)
        name = grant["spec"]["image"]["name"]
        registry.boot_event(
            grant["node"], grant["attempt"], "loader", f"grant {grant['id']} consumed by {address}", ACTOR
        )
        _log.info("%s: deploy script for attempt %s sent to %s", grant["node"], grant["attempt"], address)
        return text(
            ipxe.deploy(
                grant["node"],
                grant["attempt"],
                f"{settings.image_url}/{name}",
                settings.api_url,
                key,
                mac,
                settings.kernel_arguments,
            )
        )

    def _right_address(grant, address):
        """The reservation gave the node its address: the same MAC from another address is not that node's boot."""
        node = registry.node(grant["serial"])
        wanted = node.get("provision_ip")
        if wanted and not same_address(wanted, address):
            registry.audit(
                ACTOR,
                grant["node"],
                "boot_refused",
                {"code": "grant_foreign", "mac": grant["mac"], "address": address, "wanted": wanted},
            )
            raise Refused(
                "the boot question came from another address than the one reserved for the node",
                host=grant["node"],
                thing=f"boot grant {grant['id']}",
                wanted=wanted,
                seen=address,
                code="grant_foreign",
            )

    def _why_no_grant(mac):
        """Nothing pending is the normal case. A node that asks again in the middle of a deployment is a replay, and the registry writes it down."""
        for node in registry.nodes(state="deploying", only=("provision_mac",), provision_mac=mac):
            grants = registry.grants(node["serial"])
            if not grants:
                return "no grant was issued yet"
            try:
                registry.consume_grant(None, mac, ACTOR, grant=grants[-1]["id"])
            except Refused as error:
                _log.warning("%s: boot question refused: %s (%s)", node["name"], error, error.code)
                return f"grant refused ({error.code})"
        return "no deployment is pending"

    @app.post("/v1/events")
    def event():
        grant, old = current_grant()
        step = flask.request.form.get("step", "")
        detail = flask.request.form.get("detail", "")[:_DETAIL_LIMIT]
        if step not in timeline.RAMDISK_STEPS:
            raise InvalidInput(
                "is no step that a ramdisk reports",
                thing=f"step {step[:40]!r}",
                wanted=", ".join(timeline.RAMDISK_STEPS),
            )
        host_key = flask.request.form.get("host_key")
        if host_key:
            host_key = seed.check_public_key(host_key)
        if old:
            registry.boot_event(grant["serial"], grant["attempt"], "late", {"step": step, "detail": detail}, "ramdisk")
            raise _superseded(grant, old)
        if host_key:
            registry.pin_host_key(grant["serial"], host_key, ACTOR)
        registry.boot_event(grant["serial"], grant["attempt"], step, detail, "ramdisk")
        _log.info("%s: %s %s", grant["node"], step, detail)
        return text("ok\n")

    @app.get("/v1/spec")
    def what_to_do():
        grant = must_be_current()
        digest = seed.sha256(seed.archive(grant["spec"]["seed"]))
        answer = spec.for_ramdisk(grant["spec"], settings.image_url, settings.api_url, digest)
        if flask.request.args.get("format") == "sh":
            return text(spec.as_shell(answer))
        return text(json.dumps(answer, indent=1) + "\n", kind="application/json")

    @app.get("/v1/seed")
    def seed_archive():
        grant = must_be_current()
        return flask.Response(
            seed.archive(grant["spec"]["seed"]), content_type="application/gzip", headers={"Cache-Control": "no-store"}
        )

    @app.post("/v1/write-permit")
    def write_permit():
        grant = must_be_current()
        registry.audit(
            ACTOR,
            grant["node"],
            "write_permit",
            {"attempt": grant["attempt"], "grant": grant["id"], "image": grant["spec"]["image"]["name"]},
        )
        _log.info("%s: may write, attempt %s", grant["node"], grant["attempt"])
        return text("write\n")

    return app
