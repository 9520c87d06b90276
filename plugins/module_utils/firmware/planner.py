# Pure: what a node runs + what its platform's baseline wants -> ordered pushes with the fewest resets between them, each explained.
#
# A round is a set of images that are pushed one after the other and activated together by one reset. Which rounds: a search for the shortest way from
# the running versions to the wanted ones, where every image goes in only when what it requires already runs. Nothing here talks to anything.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import copy
import heapq
import itertools
import re
import threading
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cmp_to_key

from ..core.errors import InvalidInput
from ..core.plan import Change, Plan
from .baseline import ACTIVATIONS, Component
from .versions import Rule, UnreadableVersion

MOST_HOPS = 20
MOST_STATES = 20000
SUBSETS_UP_TO = 6
# Threads that ask for the same plan at once must not each make it.
_ONE_AT_A_TIME = threading.Lock()
# Why a component is not in the plan. True: somebody has to do something about it.
REASONS = {
    "already_there": False,
    "newer_runs": False,
    "not_present": True,
    "not_present_optional": False,
    "unknown_version": True,
    "no_path": True,
    "requirement_unmet": True,
    "no_order": True,
    "not_updateable": True,
    "in_band": False,
}
# What is said of an image that a run which died left in this state (registry.firmware.STEP_STATES).
ARRIVED = "the image arrived, it is not sent again"
UNDER_WAY = {
    "pushing": "it was being sent, and is sent again only where the BMC shows that it did not arrive",
    **dict.fromkeys(("writing", "staged", "activating", "awaiting_activation"), ARRIVED),
}
# Not worth a word where people look at what will be done.
AS_WANTED = ("already_there", "not_present_optional")


@dataclass
class Step:
    """One image onto one component. `round` and `number` count from 1; `why` is for people."""

    number: int
    round: int
    component: str
    inventory: list
    from_version: str
    to_version: str
    image: dict
    activation: str  # what this image needs; the round's activation may be a greater one that covers it
    why: str
    final: bool = True
    # how it is sent, as the baseline has it (HOW); in the form that JSON keeps
    method: str = "auto"
    targets: object = "none"
    force: bool = False
    apply_time: str = None
    oem: dict = None
    can_brick: bool = False
    limit_s: float = 1800.0
    path: str = "bmc"
    psid: list = field(default_factory=list)
    siblings: str = "none"
    rule: str = "dotted"
    extract: str = None

    def line(self):
        return f"push {self.component} {self.from_version} -> {self.to_version} ({self.image_name})"

    @property
    def image_name(self):
        return (self.image.get("path") or (self.image.get("url") or "").split("?")[0]).rsplit("/", 1)[-1]


HOW = tuple(
    item.name
    for item in fields(Component)
    if item.name in {own.name for own in fields(Step)} - {"inventory", "image", "activation", "rule"}
)


@dataclass
class Skipped:
    """One component that is not planned: `code` is one of REASONS."""

    component: str
    code: str
    text: str
    running: str = None
    wanted: str = None

    @property
    def problem(self):
        return REASONS[self.code]


@dataclass
class FirmwarePlan:
    """The whole plan of one node. `activations[i]` is the reset that ends round i + 1."""

    platform: str
    baseline: str
    digest: str
    steps: list = field(default_factory=list)
    activations: list = field(default_factory=list)
    skipped: list = field(default_factory=list)
    components: dict = field(default_factory=dict)  # name: {running, wanted}
    pause_s: float = 5.0
    settle_s: float = 30.0

    @property
    def changed(self):
        return bool(self.steps)

    @property
    def problems(self):
        return [item for item in self.skipped if item.problem]

    @property
    def resets(self):
        """How many resets the plan costs."""
        return _resets((activation, self.round(number)) for number, activation in enumerate(self.activations, 1))

    @property
    def consent_needed(self):
        """Components whose failed flash may need the hands of a person: they want consent bound to the serial."""
        return sorted({step.component for step in self.steps if step.can_brick})

    def round(self, number):
        return [step for step in self.steps if step.round == number]

    def lines(self):
        """The plan for people, one line a thing."""
        found = []
        for number, activation in enumerate(self.activations, 1):
            found += [
                f"{step.number}. {step.line()}: {step.why}{'; can brick, wants consent' if step.can_brick else ''}"
                for step in self.round(number)
            ]
            if activation != "immediate" and self.round(number):
                found.append(f"   then {activation} ({number} of {len(self.activations)})")
        found += [f"-  {item.component}: {item.text}" for item in self.skipped]
        return found

    def left(self, states, observed):
        """The FirmwarePlan of what is left of this one. `states`: {number of a step: its recorded state}; `observed`: the inventory as it is now."""
        steps, components = [], {name: dict(row) for name, row in self.components.items()}
        for step in self.steps:
            rule = Rule(step.rule, step.extract)
            versions = [row.get("version") for row in observed if str(row.get("id")) in set(step.inventory)]
            other = [version for version in versions if not rule.same(version, step.to_version)]
            if versions:
                components[step.component]["running"] = (other or versions)[0]
            if states.get(step.number) != "active" and (other or not versions):
                why = UNDER_WAY.get(states.get(step.number))
                steps.append(replace(step, why=f"{why}; {step.why}" if why else step.why))
        return replace(self, steps=steps, components=components)

    def diff(self):
        """Ansible's diff form: versions before and after, and the steps that lead there."""
        changes = self.core_plan().diff()
        quiet = {f"-  {item.component}: {item.text}" for item in self.skipped if item.code in AS_WANTED}
        steps = "".join(f"# {line}\n" for line in self.lines() if line not in quiet)
        return {"before": changes["before"], "after": changes["after"] + steps}

    def core_plan(self):
        planned = {step.component for step in self.steps}
        return Plan(
            Change(f"firmware.{name}", row["running"], row["wanted"])
            for name, row in self.components.items()
            if name in planned
        )

    def summary(self):
        if not self.steps:
            return "nothing to flash" + (
                f", {len(self.problems)} components could not be planned" if self.problems else ""
            )
        words = ", ".join(
            f"{name} {row['running']} -> {row['wanted']}"
            for name, row in self.components.items()
            if any(step.component == name for step in self.steps)
        )
        return f"{words}; {len(self.steps)} pushes, {self.resets} resets"

    def as_dict(self):
        return {
            **{key: getattr(self, key) for key in ("platform", "baseline", "digest", "pause_s", "settle_s")},
            "activations": list(self.activations),
            "components": {name: dict(row) for name, row in self.components.items()},
            "steps": [asdict(step) for step in self.steps],
            "skipped": [asdict(item) for item in self.skipped],
        }

    @classmethod
    def from_dict(cls, data):
        return cls(
            **{
                **data,
                "steps": [Step(**step) for step in data["steps"]],
                "skipped": [Skipped(**item) for item in data["skipped"]],
            }
        )


@dataclass(frozen=True)
class _Goal:
    """One component's way: the versions after each of its steps, and the images that lead there."""

    component: object
    rows: tuple
    running: str
    way: tuple  # (to_version, image, activation, reason)
    down: bool = False

    def rows_for(self, version):
        """The rows that an image with `version` is for: of eight GPUs, those that are behind it."""
        rule = self.component.rule
        if not rule.ordered:
            return [row for row in self.rows if not rule.same(row.get("version"), version)]
        orders = [(row, rule.compare(row.get("version"), version)) for row in self.rows]
        return [row for row, order in orders if (order > 0 if self.down else order < 0)]


def plan(baseline, platform, observed, downgrade=False, only=None):
    """The FirmwarePlan of one node.

    `observed`: rows of its inventory, [{id, version, updateable (True/False/None), path}], `path` as in the baseline ("bmc" where missing).
    `downgrade`: newer versions than wanted are replaced too. `only`: names of components to look at.
    """
    unknown = sorted(set(only or ()) - set(platform.components))
    if unknown:
        raise InvalidInput(
            "there is no such component on this platform",
            thing="components",
            wanted=", ".join(platform.components),
            seen=", ".join(unknown),
            next_step="correct components (in the role and the playbook: firmware_baseline_components)",
        )
    found = FirmwarePlan(
        platform.name, baseline.name, baseline.digest, pause_s=platform.pause_s, settle_s=platform.settle_s
    )
    goals, versions, owners = {}, {}, {}
    for component in platform.components.values():
        rows = rows_of(component, observed)
        _one_owner(baseline, platform, component, rows, owners)
        running = running_version(component, rows)
        versions[component.name] = running
        if only is not None and component.name not in only:
            continue
        found.components[component.name] = {"running": running, "wanted": component.wanted}
        goal = _goal(component, rows, running, downgrade)
        if isinstance(goal, Skipped):
            found.skipped.append(goal)
        elif goal.way:
            goals[component.name] = goal
    _drop_unmet(platform, goals, versions, found)
    rounds = _rounds(platform, goals, versions, found)
    _write(found, goals, rounds)
    order = list(platform.components)
    found.skipped.sort(key=lambda item: order.index(item.component))
    return found


def plan_once(baseline, platform, observed, downgrade=False, only=None):
    """`plan`, made once for all nodes that are alike: kept in the baseline, which lives as long as one rollout. What is given out may be changed."""
    rows = tuple((row.get("id"), row.get("version"), row.get("updateable"), row.get("path")) for row in observed)
    key = (platform.name, rows, bool(downgrade), None if only is None else tuple(only))
    with _ONE_AT_A_TIME:
        if key not in baseline.plans:
            baseline.plans[key] = plan(baseline, platform, observed, downgrade, only)
        return copy.deepcopy(baseline.plans[key])


def rows_of(component, observed):
    """The inventory rows that are this component, by the pattern of the baseline."""
    pattern = re.compile(component.inventory)
    return tuple(
        row
        for row in observed
        if (row.get("path") or "bmc") == component.path and pattern.search(str(row.get("id") or ""))
    )


def _one_owner(baseline, platform, component, rows, owners):
    """Two patterns that differ can still mean the same device; then each would flash its own version over the other's, for ever."""
    for row in rows:
        place = (component.path, str(row["id"]))
        other = owners.setdefault(place, component)
        if other is not component:
            raise InvalidInput(
                "two components of the baseline want the same device",
                thing=f"{', '.join(baseline.files) or 'baseline'}: platforms.{platform.name}.components.{component.name}.inventory",
                wanted="one owner of each row of the inventory",
                seen=f"{row['id']} is matched by {other.name} ({other.inventory}) and by {component.name} ({component.inventory})",
                next_step="make one of the patterns narrower (^...$), or remove one of the components",
                code="baseline_two_owners",
            )


def running_version(component, rows):
    """The version that counts: of several rows (eight GPUs) the lowest; None where one of them cannot be read."""
    versions = [row.get("version") for row in rows]
    if not versions:
        return None
    try:
        if not component.rule.ordered:
            other = [version for version in versions if not component.rule.same(version, component.wanted)]
            return other[0] if other else versions[0]
        for version in versions:
            component.rule.read(version)
        return min(versions, key=cmp_to_key(component.rule.compare))
    except UnreadableVersion:
        return next((version for version in versions if not _readable(component, version)), versions[0])


def _readable(component, version):
    try:
        component.rule.read(version)
        return True
    except UnreadableVersion:
        return False


def _goal(component, rows, running, downgrade):
    """A _Goal, or the Skipped that says why there is none."""

    def no(code, text):
        return Skipped(component.name, code, text, running, component.wanted)

    if not rows:
        code = "not_present_optional" if component.optional else "not_present"
        return no(code, f"the inventory has nothing that matches {component.inventory}")
    try:
        for row in rows:
            component.rule.read(row.get("version"))
        if all(component.rule.same(row.get("version"), component.wanted) for row in rows):
            return no("already_there", f"runs {component.wanted} already")
        direction = component.rule.compare(running, component.wanted)
        way = _way(component, running)
    except UnreadableVersion as error:
        wanted = f", wanted: {error.wanted}" if error.wanted else ""
        return no("unknown_version", f"{error.message} (seen: {error.seen or running}{wanted}); it is left alone")
    if direction > 0 and component.rule.ordered and not downgrade:
        return no(
            "newer_runs", f"runs {running}, newer than {component.wanted}; downgrades are done only when asked for"
        )
    if way is None:
        return no(
            "no_path",
            f"no way leads from {running} to {component.wanted}: the baseline allows it from {component.reach}",
        )
    if any(row.get("updateable") is False for row in rows):
        return no("not_updateable", "the BMC says that it cannot be updated (Updateable false)")
    return _Goal(component, rows, running, way, direction > 0 and component.rule.ordered)


def _way(component, running):
    """((version, image, activation, reason), ...) from `running` to the wanted version, or None."""
    now, way, seen = running, [], {running}
    while len(way) < MOST_HOPS:
        hop = next((hop for hop in component.hops if hop.condition.holds(now) and hop.via not in seen), None)
        if hop is None:
            if component.reach is not None and not component.reach.holds(now):
                return None
            way.append((component.wanted, component.image, component.activation, "the baseline wants it"))
            return tuple(way)
        way.append(
            (hop.via, hop.image, hop.activation, f"on the way to {component.wanted}: {hop.condition} go over {hop.via}")
        )
        if component.rule.same(hop.via, component.wanted):
            return tuple(way)
        now = hop.via
        seen.add(now)
    return None


def _holds(condition, version):
    try:
        return condition.holds(version)
    except UnreadableVersion:
        return False


def _drop_unmet(platform, goals, versions, found):
    """Take out every component that requires what never comes; repeated, because one that falls may be what another waits for."""
    again = True
    while again:
        again = False
        for name, goal in list(goals.items()):
            for other, condition in goal.component.requires.items():
                to_come = [step[0] for step in goals[other].way] if other in goals else []
                if any(_holds(condition, version) for version in (versions.get(other), *to_come)):
                    continue
                reason = next(
                    (item.text for item in found.skipped if item.component == other), "it is not in this plan"
                )
                found.skipped.append(
                    Skipped(
                        name,
                        "requirement_unmet",
                        f"requires {other} {condition}, which runs {versions.get(other)} and does not get there ({reason})",
                        goal.running,
                        goal.component.wanted,
                    )
                )
                del goals[name]
                again = True
                break


# ---- the search ---------------------------------------------------------------------------------------------------------------------------
def _rounds(platform, goals, versions, found):
    """[(activation, (component, ...)), ...]: the cheapest sequence; components that cannot be brought in are taken out and named."""
    while goals:
        best, path = _search(goals, versions, subsets=False)
        if path is None:
            best, path = _search(goals, versions, subsets=True)
        elif _resets(path) > _at_least(goals):
            # To hold an image back can save a reset: of two that need an AC cycle, each drives one that carries a step of somebody else's hops.
            path = _search(goals, versions, subsets=True, below=_resets(path))[1] or path
        if path is not None:
            return path
        names = list(goals)
        stuck = [name for index, name in enumerate(names) if best[index] < len(goals[name].way)] or names
        for name in stuck:
            goal = goals.pop(name)
            found.skipped.append(
                Skipped(
                    name,
                    "no_order",
                    "no order of steps keeps to what the components require and exclude: "
                    + "; ".join(_conditions(goal.component)),
                    goal.running,
                    goal.component.wanted,
                )
            )
        _drop_unmet(platform, goals, versions, found)
    return []


def _conditions(component):
    return [f"requires {other} {condition}" for other, condition in component.requires.items()] + [
        f"excludes {other} {condition}" for other, condition in component.excludes.items()
    ] or ["no conditions of its own"]


def _resets(rounds):
    """How many resets rounds cost, (activation, what is in it) each: one of which nothing is left to do needs none."""
    return sum(activation != "immediate" and bool(there) for activation, there in rounds)


def _at_least(goals):
    """A number of resets that no plan can do with less: each component takes one step in a round, and what no other reset includes needs its own."""
    ways = [[step[2] for step in goal.way if step[2] != "immediate"] for goal in goals.values()]
    there = {activation for way in ways for activation in way}
    own = [kind for kind in there if not any(kind in ACTIVATIONS[other]["covers"] for other in there if other != kind)]
    longest = max(map(len, ways))
    needed = sum(max(way.count(kind) for way in ways) for kind in own)
    return max(longest, needed)


def _search(goals, versions, subsets, below=None):
    """(the state that got farthest, the path to the goal or None). A state is how many steps of each component are active.

    `below`: only a path with fewer resets than these."""
    names = list(goals)
    goal = tuple(len(goals[name].way) for name in names)
    start = (0,) * len(names)

    def running(state):
        now = dict(versions)
        for name, done in zip(names, state):
            if done:
                now[name] = goals[name].way[done - 1][0]
        return now

    def allowed(component, now):
        return all(_holds(condition, now.get(other)) for other, condition in component.requires.items()) and not any(
            _holds(condition, now.get(other)) for other, condition in component.excludes.items()
        )

    def lawful(state):
        """No component that was touched stands beside something that it does not bear."""
        now = running(state)
        return all(not done or allowed(goals[name].component, now) for name, done in zip(names, state))

    queue, serial = [((0, 0, 0), 0, start, ())], itertools.count(1)
    seen, best = set(), start
    while queue and len(seen) < MOST_STATES:
        cost, _tie, state, path = heapq.heappop(queue)
        if state == goal:
            return state, path
        if state in seen:
            continue
        seen.add(state)
        if sum(state) > sum(best):
            best = state
        now = running(state)
        ready = [
            index
            for index, name in enumerate(names)
            if state[index] < goal[index] and allowed(goals[name].component, now)
        ]
        for activation, row in ACTIVATIONS.items():
            kinds = (activation, *row["covers"])
            # images that activate themselves ride along with no round but their own
            group = [index for index in ready if goals[names[index]].way[state[index]][2] in kinds]
            drivers = {index for index in group if goals[names[index]].way[state[index]][2] == activation}
            for chosen in _choices(group, subsets):
                if not drivers & chosen:
                    continue  # no AC cycle for what a restart of the BMC does too
                following = tuple(done + (index in chosen) for index, done in enumerate(state))
                if following in seen or not lawful(following):
                    continue
                price = (
                    cost[0] + (activation != "immediate"),
                    cost[1] + row["cost"],
                    cost[2] + 1,
                )
                if below is not None and price[0] >= below:
                    continue
                move = (activation, tuple(names[index] for index in sorted(chosen)))
                heapq.heappush(queue, (price, next(serial), following, (*path, move)))
    return best, None


def _choices(group, subsets):
    """The sets of images of one round that are looked at: all together first."""
    yield frozenset(group)
    if subsets and len(group) <= SUBSETS_UP_TO:
        for size in range(len(group) - 1, 0, -1):
            yield from (frozenset(some) for some in itertools.combinations(group, size))


def _write(found, goals, rounds):
    done = dict.fromkeys(goals, 0)
    for number, (activation, names) in enumerate(rounds, 1):
        found.activations.append(activation)
        for name in sorted(names, key=lambda name: (goals[name].component.order, name)):
            goal, component = goals[name], goals[name].component
            how = {key: getattr(component, key) for key in HOW}
            how.update(rule=component.rule.name, extract=component.rule.extract)
            version, image, own, reason = goal.way[done[name]]
            before = goal.way[done[name] - 1][0] if done[name] else goal.running
            done[name] += 1
            why = reason
            if own != activation:
                why += f"; needs {own}, which {activation} includes"
            found.steps.append(
                Step(
                    number=len(found.steps) + 1,
                    round=number,
                    component=name,
                    inventory=[str(row["id"]) for row in goal.rows_for(version)],
                    from_version=before,
                    to_version=version,
                    image=image.as_dict(),
                    activation=own,
                    why=why,
                    final=done[name] == len(goal.way),
                    **{key: list(value) if isinstance(value, tuple) else value for key, value in how.items()},
                )
            )
