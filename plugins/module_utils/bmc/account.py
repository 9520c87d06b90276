# Accounts of a BMC. A password cannot be read, so whether it is right is found out by logging in with it, once.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from dataclasses import replace

from ..core.deadline import Deadline
from ..core.errors import AuthenticationFailed, BaremetalError, InvalidInput, Refused
from ..core.plan import Change, Plan
from . import connect, guard, quirks, transform
from .endpoint import check_seconds
from .errors import AnswerLost, HttpError
from .result import Result, known_identity

# Seconds between the tries to log in with a password that was set just now; BMCs lock an account after three to five refusals.
LOGIN_PAUSES = (4.0, 12.0)


def can_log_in(endpoint, username, password, deadline=None, guarded=True):
    """True or False: do these credentials work? One authenticated read, one try only (BMCs lock accounts). "Must be changed" counts as working.

    What was refused twice just now is False without a try (see guard.py), unless `guarded` is off: for a password that was changed just now.
    """
    trial = replace(endpoint, username=username, password=password, guarded=guarded)
    with connect(trial, deadline) as client:
        try:
            if trial.protocol == "ipmi":
                client.login()
            else:
                client.get(
                    transform.link(client.root(), "Systems")
                    or transform.link(client.root(), "Managers")
                    or "/redfish/v1/Systems"
                )
        except AuthenticationFailed as error:
            return error.code == "password_change_required"
    return True


def account(
    endpoint,
    username,
    password=None,
    role=None,
    enabled=None,
    state="present",
    update_password="always",
    deadline_s=60.0,
    check=False,
    fence=None,
    password_right=None,
    unlock=False,
):
    """One account of the BMC: present with this password, role and switch, or absent; with `unlock` one that the BMC has locked is let in again.

    Whether the password is right is found out by logging in with it once, unless the caller knows (`password_right`); a failed log-in counts towards
    the BMC's lockout. With `update_password="on_create"` it is set at creation only.
    """
    check_seconds("timeout", deadline_s, endpoint.label)
    deadline = Deadline(deadline_s, f"account {username}", host=endpoint.label)
    if endpoint.protocol == "ipmi":
        return _ipmi_account(
            endpoint, username, password, role, enabled, state, update_password, deadline, check, fence, password_right
        )
    with connect(endpoint, deadline, fence) as client:
        client.hide(password)
        try:
            service = client.get(transform.link(client.root(), "AccountService") or "/redfish/v1/AccountService")
        except AuthenticationFailed as error:
            rest = {"role": role, "enabled": enabled, "update_password": update_password}
            return _forced_change(client, error, username, password, state, rest, deadline, check, fence)
        collection = transform.link(service, "Accounts")
        items = client.members(collection, "the accounts", expand=False, certain=state == "absent")
        item = next((entry for entry in items if transform.text(entry, "UserName") == username), None)
        have = transform.account_facts(item) if item else None
        before = {key: have[key] for key in ("username", "role", "enabled")} if have else {}
        if have and have["locked"]:
            before["locked"] = True
        right = _is_right(
            endpoint,
            username,
            password,
            have,
            enabled,
            state,
            update_password,
            password_right,
            deadline,
            client.warnings,
            unlock,
        )
        plan = plan_account(username, have, state, password, role, enabled, update_password, right, unlock)
        after = account_after(before, plan, username)
        result = Result(plan.changed, plan, before, after, client.warnings, client.source)
        _refuse_own(endpoint, username, plan, state, enabled)
        _refuse_what_the_bmc_would(client, service, plan, password)
        if plan.changed and not check:
            if state == "absent":
                _remove_account(client, have, item)
            elif have is None:
                _create_account(
                    client, collection, items, username, password, role or "Administrator", enabled is not False
                )
            else:
                body = {}
                names = {
                    "account.password": ("Password", password),
                    "account.role": ("RoleId", role),
                    "account.enabled": ("Enabled", enabled),
                    "account.locked": ("Locked", False),
                }
                for change in plan.changes:
                    key, value = names[change.thing]
                    body[key] = value
                patch_account(client, have["uri"], body)
            _verify_account(
                client,
                endpoint,
                collection,
                username,
                password if state == "present" else None,
                role,
                enabled,
                state,
                plan,
                deadline,
                unlock,
            )
        result.bmc = known_identity(client) if not check else {}
        return result


def _forced_change(client, error, username, password, state, rest, deadline, check, fence):
    """The BMC lets this account do nothing but change its own password: that is done first, the rest with the new one. Other refusals are raised."""
    endpoint, uri = client.endpoint, str(error.thing)
    ours = username == endpoint.username and state == "present" and password is not None
    if error.code != "password_change_required" or not ours or not uri.startswith("/"):
        raise error
    if password == endpoint.password:
        raise InvalidInput(
            "the BMC wants another password for this account, not the one that it has",
            host=endpoint.label,
            thing=f"account {username}",
            wanted="a new password",
            seen="the present one",
            next_step="give another password",
        )
    plan = Plan([Change("account.password", "another", "the wanted one")], secret=("account.password",))
    result = Result(True, plan, {"username": username}, {"username": username}, client.warnings, client.source)
    if check:
        client.warnings.append(
            "the BMC wants a new password before it shows the account; its role and switch could not be compared"
        )
        return result
    patch_account(client, uri, {"Password": password}, etag=False)
    client.close()
    renewed = endpoint.with_account(username, password)
    guard.forget(renewed)
    _await_login(endpoint, username, password, deadline)
    done = account(
        renewed,
        username,
        password,
        state=state,
        deadline_s=max(1.0, deadline.remaining()),
        fence=fence,
        password_right=True,
        **rest,
    )
    done.plan = Plan([*plan.changes, *done.plan.changes], secret=("account.password",))
    done.changed, done.warnings = True, [*result.warnings, *done.warnings]
    return done


def _is_right(
    endpoint, username, password, have, enabled, state, update_password, known, deadline, warnings, unlock=False
):
    """Is the wanted password the present one? True, False, or None where that is not to be known or cannot be found out."""
    if known is not None or state != "present" or not have or password is None or update_password != "always":
        return known
    if not have["enabled"]:
        if enabled:
            return False  # set it again before the account can log in: nobody can say what it is now
        warnings.append(
            f"the account {username} is disabled, so its password cannot be checked by logging in; it was left as it is"
        )
        return None
    if have.get("locked"):
        if unlock:
            return False  # as above: it is set again with the unlocking
        warnings.append(
            f"the BMC has locked the account {username}, so its password cannot be checked by logging in; it was left as it is (unlock: true lets it in)"
        )
        return None
    return can_log_in(endpoint, username, password, deadline)


def _refuse_own(endpoint, username, plan, state, enabled):
    if plan.changed and username == endpoint.username and (state == "absent" or enabled is False):
        raise Refused(
            "is the account that this task logs in with: removing or disabling it would lock everybody out",
            host=endpoint.label,
            thing=f"account {username}",
            wanted="another account to log in with",
            seen=endpoint.username,
            next_step="log in with another account for this",
        )


def _refuse_what_the_bmc_would(client, service, plan, password):
    """What the BMC says of its own rules, asked before anything is sent, so that check mode fails where the real run would."""
    wanted = {change.thing: change.after for change in plan.changes}
    role = wanted.get("account.role")
    if role is not None and transform.link(service, "Roles"):
        page = client.optional(transform.link(service, "Roles"), "the roles") or {}
        names = [
            transform.text(item, "RoleId")
            or transform.text(item, "Id")
            or transform.text(item, "@odata.id").rstrip("/").rsplit("/", 1)[-1]
            for item in transform.members_of(page)
            if isinstance(item, dict)
        ]
        if names and role not in names:
            raise InvalidInput(
                "the BMC has no such role",
                host=client.endpoint.label,
                thing="role",
                wanted=" or ".join(names),
                seen=role,
                next_step="use one of those; case counts",
            )
    if "account.password" in wanted and password is not None:
        least, most = transform.number(service, "MinPasswordLength"), transform.number(service, "MaxPasswordLength")
        if (least and len(password) < least) or (most and len(password) > most):
            raise InvalidInput(
                "the BMC takes no password of this length",
                host=client.endpoint.label,
                thing="password",
                wanted=f"{least or 1:g} characters at least" + (f", {most:g} at most" if most else ""),
                seen=f"{len(password)} characters",
                next_step="give another one; 16 characters suit nearly every BMC, 20 is the limit of IPMI",
            )


def plan_account(username, have, state, password, role, enabled, update_password, password_right, unlock=False):
    """Pure: the Plan for one account. `have` is transform.account_facts or None; `password_right` None where it was not asked."""
    if state == "absent":
        return Plan([Change("account", username if have else None, None)])
    if have is None:
        if password is None:
            raise InvalidInput(
                "a new account needs a password",
                thing=f"account {username}",
                seen="no such account and no password",
                next_step="give password or credential",
            )
        return Plan(
            [
                Change("account", None, username),
                Change("account.role", None, role or "Administrator"),
                Change("account.enabled", None, enabled is not False),
                Change("account.password", "another", "the wanted one"),
            ],
            secret=("account.password",),
        )
    changes = []
    if role is not None:
        changes.append(Change("account.role", have["role"], role))
    if enabled is not None:
        changes.append(Change("account.enabled", have["enabled"], enabled))
    if unlock and have.get("locked"):
        changes.append(Change("account.locked", True, False))
    if password is not None and update_password == "always" and password_right is False:
        changes.append(Change("account.password", "another", "the wanted one"))
    return Plan(changes, secret=("account.password",))


def account_after(before, plan, username):
    after = dict(before)
    for change in plan.changes:
        if change.thing == "account":
            if change.after is None:
                return {}
            after["username"] = username
        elif change.thing in ("account.role", "account.enabled", "account.locked"):
            after[change.thing.split(".")[1]] = change.after
    return after


def patch_account(client, uri, body, etag=True):
    """Change an account. What became of a password whose answer was lost is for the caller to find out by logging in."""
    try:
        client.patch(uri, body, etag)
    except AnswerLost:
        client.warnings.append("the answer to a change of the account was lost; it was checked by logging in")
    except AuthenticationFailed as error:
        # PATCH may be repeated, and after the first one has changed our own password the second is refused: the log-in below decides.
        if "Password" not in body:
            raise
        client.warnings.append(
            f"the account was refused after its password was sent ({error.seen}); it was checked by logging in"
        )


def _create_account(client, collection, items, username, password, role, enabled):
    body = {"UserName": username, "Password": password, "RoleId": role, "Enabled": enabled}
    try:
        client.post(collection, body)
        return
    except HttpError as error:
        if error.status not in (400, 405, 501):
            raise
        # Some BMCs have fixed slots: a free one is an account without a name.
        reserved = quirks.of_system(client.system())["reserved_slots"]
        free = [
            item
            for item in items
            if not transform.text(item, "UserName") and transform.text(item, "Id") not in reserved
        ]
        if not free:
            raise
        client.patch(transform.text(free[0], "@odata.id"), body)


def _remove_account(client, have, item):
    try:
        client.delete(have["uri"])
    except HttpError as error:
        if error.status not in (405, 501):
            raise
        client.patch(have["uri"], {"UserName": "", "Enabled": False})


def _verify_account(
    client, endpoint, collection, username, password, role, enabled, state, plan, deadline, unlock=False
):
    """Read back, and log in. A BMC that accepts a new password and goes on with the old one is found here."""
    if (
        username == endpoint.username
        and password is not None
        and any(change.thing == "account.password" for change in plan.changes)
    ):
        client.close()
        endpoint = endpoint.with_account(username, password)
    guard.forget(endpoint.with_account(username, password or ""))
    if enabled is not False and password is not None and any(c.thing == "account.password" for c in plan.changes):
        _await_login(endpoint, username, password, deadline)
    with connect(endpoint, deadline) as fresh:
        fresh.hide(password)
        items = fresh.members(collection, "the accounts", expand=False, certain=state == "absent")
    found = next(
        (transform.account_facts(entry) for entry in items if transform.text(entry, "UserName") == username), None
    )
    rest = (
        plan_account(username, found, state, password, role, enabled, "on_create", None, unlock)
        if found or state == "absent"
        else None
    )
    if rest is None or rest.changed:
        raise _not_shown(endpoint, username, plan, found, "look at the account on the BMC itself")


def _not_shown(endpoint, username, plan, found, next_step):
    """The error of a write that the BMC took and that the account, read again, does not have."""
    return Refused(
        "the BMC accepted the change of the account but does not show it",
        host=endpoint.label,
        thing=f"account {username}",
        wanted=plan.summary(),
        seen="no such account" if found is None else f"role {found['role']}, enabled {found['enabled']}",
        next_step=next_step,
        code="accepted_not_moved",
    )


def _await_login(endpoint, username, password, deadline):
    """Log in with the new password. Some BMCs take seconds to distribute it; few and slow tries, because failed ones lock accounts."""
    for pause in (*LOGIN_PAUSES, None):
        if can_log_in(endpoint, username, password, deadline, guarded=False):
            return
        if pause is None or pause >= deadline.remaining():
            break
        deadline._sleep(pause)
    raise Refused(
        "the BMC accepted the password and refuses log-ins with it",
        host=endpoint.label,
        thing=f"account {username}",
        wanted="a log-in with the new password",
        seen="refused",
        next_step="the old password may still count; some BMCs want other characters, at most 16 or 20 of them, or an account type for Redfish",
        code="accepted_not_moved",
    )


# ---- over IPMI ----------------------------------------------------------------------------------------------------------------------------
# IPMI 2.0, table 6-1: privilege levels. ReadOnly is IPMI's "user", which may look and not change.
IPMI_ROLES = {"Administrator": 4, "Operator": 3, "ReadOnly": 2}


def _ipmi_account(
    endpoint, username, password, role, enabled, state, update_password, deadline, check, fence, password_right=None
):
    if role is not None and role not in IPMI_ROLES:
        raise InvalidInput(
            "IPMI has no such role",
            host=endpoint.label,
            thing="role",
            wanted=" or ".join(IPMI_ROLES),
            seen=role,
            next_step="use one of those, or use Redfish for this account",
        )
    endpoint.with_account(username, password or "")  # refuses what IPMI cannot hold, before anything is sent
    warnings = []
    with connect(endpoint, deadline, fence) as client:
        client.hide(password)
        have = _ipmi_facts(client.read_user(username))
        before = {key: have[key] for key in ("username", "role", "enabled")} if have else {}
        right = _is_right(
            endpoint, username, password, have, enabled, state, update_password, password_right, deadline, warnings
        )
        plan = plan_account(username, have, state, password, role, enabled, update_password, right)
        _refuse_own(endpoint, username, plan, state, enabled)
        after = account_after(before, plan, username)
        result = Result(plan.changed, plan, before, after, warnings, "ipmi")
        if not plan.changed or check:
            return result
        wanted = {change.thing: change.after for change in plan.changes}
        uid = have["uid"] if have else client.free_user()
        if state == "absent":
            client.remove_user(uid)
        else:
            try:
                client.write_user(
                    uid,
                    username if have is None else None,
                    password if "account.password" in wanted else None,
                    IPMI_ROLES[wanted["account.role"]] if "account.role" in wanted else None,
                    wanted.get("account.enabled"),
                )
            except Refused as error:
                if have is None:
                    _clear_slot(client, uid, error)
                raise
    changed_password = "account.password" in wanted and enabled is not False
    if changed_password and not can_log_in(endpoint, username, password, deadline, guarded=False):
        raise Refused(
            "the BMC accepted the password but does not take it",
            host=endpoint.label,
            thing=f"account {username}",
            wanted="a log-in with the new password",
            seen="refused",
            next_step="some BMCs want other characters, or at most 16 bytes; set it by Redfish or on the BMC itself",
            code="accepted_not_moved",
        )
    ours = endpoint.with_account(username, password) if changed_password and username == endpoint.username else endpoint
    with connect(ours, deadline) as fresh:
        found = _ipmi_facts(fresh.read_user(username))
    rest = plan_account(username, found, state, None, role, enabled, "on_create", None) if found else None
    if (state == "absent") != (found is None) or (rest is not None and rest.changed):
        raise _not_shown(endpoint, username, plan, found, "use Redfish for accounts of this BMC")
    return result


def _clear_slot(client, uid, refusal):
    """A user whose making was refused half-way would stand there with a name and without what was wanted of it."""
    try:
        client.remove_user(uid)
    except BaremetalError as error:
        refusal.seen = f"{refusal.seen}; what was made of user {uid} could not be removed ({error.seen})"


def _ipmi_facts(user):
    """{username, role, enabled, uid} from the client's {name, uid, privilege, enabled}; None where there is no such user."""
    if user is None:
        return None
    role = next((name for name, level in IPMI_ROLES.items() if level == user["privilege"]), None)
    return {"username": user["name"], "role": role, "enabled": user["enabled"], "uid": user["uid"]}
