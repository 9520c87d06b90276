# The secret store: a YAML file, readable by its owner only, `{<reference>: {username: ..., password: ...}}`.
#
# Secrets stay out of the registry; a node row only has a reference. Another store (Vault, ...) takes this one's place through the setting
# aicluster_secret_lookup: the name of a lookup plugin that returns the same dict for a reference.
#
# People write into this file too, so a write changes the lines of one entry and leaves comments, order and style of all others as they are.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import stat
import tempfile

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

try:
    import yaml
except ImportError:  # comes with ansible-core; ansible-test imports this file without it
    yaml = None


def _parse(text):
    """The data of the store. By libyaml where PyYAML has it: the other parser takes seconds for the entries of thousands of BMCs, in every task."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def login_of(entry, reference, needed=("username", "password"), where="the secret store"):
    """(user name, password) of one entry; InvalidInput where it has none.

    A key that is spelt otherwise must not become an empty password that is sent to a BMC, which locks the account after a few of them.
    """
    missing = [key for key in needed if not isinstance(entry.get(key), (str, int)) or isinstance(entry.get(key), bool)]
    if missing:
        kinds = [f"{key} is a {type(entry[key]).__name__}" for key in missing if entry.get(key) is not None]
        raise errors.InvalidInput(
            f"the entry has no {' and no '.join(missing)}; nothing was sent",
            thing=f"{reference} in {where}",
            wanted=f"the keys {' and '.join(needed)}, each a text in quotes",
            seen="; ".join([f"the keys {', '.join(sorted(map(str, entry))) or '(none)'}", *kinds]),
            next_step=f"correct the entry {reference}",
            code="no_account",
        )
    return str(entry.get("username") or ""), str(entry.get("password") or "")


def _dump(data):
    return yaml.safe_dump(data, default_flow_style=False, sort_keys=True, allow_unicode=True)


def _end(node):
    """Where the last character of a node is: a block collection's own mark stands after the comments that follow it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return node.end_mark.index


def edited(text, data, reference):
    """`text` with the entry of `reference` as `data` has it (or without it), everything else untouched.

    What cannot be edited line by line (the whole file in one pair of braces, an anchor that others use) is written anew, below its first comments.
    """
    new = {reference: data[reference]} if reference in data else {}
    block = _dump(new) if new else ""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    made = None
    if root is None:
        made = (text.rstrip("\n") + "\n" if text.strip() else "") + block
    elif not root.flow_style:
        found = [
            pair
            for pair in root.value
            if str(yaml.safe_load(pair[0].value) if not pair[0].style else pair[0].value) == reference
        ]
        if found:
            start, end = found[-1][0].start_mark.index, _end(found[-1][1])
            made = text[:start] + block.rstrip("\n") + (text[end:] if block else text[end:].partition("\n")[2])
        else:
            made = text.rstrip("\n") + "\n" + block
    try:
        if made is not None and {str(key): value for key, value in (yaml.safe_load(made) or {}).items()} == data:
            return made
    except (yaml.YAMLError, AttributeError):
        pass
    head = "".join(line for line in itertools.takewhile(lambda line: line.startswith("#"), text.splitlines(True)))
    return head + _dump(data)


class SecretStore:
    """Reads and writes one file; refuses to touch a file that others can read or change."""

    def __init__(self, path):
        self.path = os.path.abspath(os.path.expanduser(str(path)))

    def _check(self, status):
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o077:
            raise errors.Refused(
                "the secret store can be read by others",
                thing=self.path,
                wanted="mode 0600",
                seen=f"mode {mode:04o}",
                next_step=f"chmod 600 {self.path}",
                code="secret_store_mode",
            )
        if status.st_uid not in (os.geteuid(), 0):
            raise errors.Refused(
                "the secret store belongs to another user",
                thing=self.path,
                wanted=f"owner uid {os.geteuid()}",
                seen=f"owner uid {status.st_uid}",
                next_step=f"chown {os.geteuid()} {self.path}, or run as its owner",
                code="secret_store_owner",
            )

    def check(self):
        """Raise unless the store can be read as a whole: to be asked before work that would take a lost store for missing entries."""
        self._read()

    def _read(self, missing_ok=False):
        return self._load(missing_ok)[0]

    def _load(self, missing_ok=False):
        """({reference: entry}, text of the file)."""
        try:
            with open(self.path, encoding="utf-8") as handle:
                self._check(os.fstat(handle.fileno()))
                text = handle.read()
                data = _parse(text)
        except FileNotFoundError:
            if missing_ok:
                return {}, ""
            raise errors.NotFound(
                "the secret store does not exist",
                thing=self.path,
                wanted="a YAML file, mode 0600, {reference: {username: ..., password: ...}}",
                seen="no such file",
                next_step="make it (mode 0600), or correct aicluster_secrets",
                code="secret_store_missing",
            ) from None
        except OSError as error:
            raise errors.Refused(
                "the secret store cannot be read",
                thing=self.path,
                wanted="a file that this user can read",
                seen=error.strerror,
                next_step="correct its owner and mode, or aicluster_secrets",
                code="secret_store_unreadable",
            ) from error
        except UnicodeDecodeError as error:
            raise errors.InvalidInput(
                "the secret store is no text",
                thing=self.path,
                wanted="YAML in UTF-8",
                seen=f"another byte at position {error.start}",
                next_step="correct aicluster_secrets, or write the file anew",
            ) from None
        except yaml.YAMLError as error:
            # The parser's message quotes the file, so only the place is shown.
            mark = getattr(error, "problem_mark", None)
            raise errors.InvalidInput(
                "the secret store is not valid YAML",
                thing=self.path,
                wanted="{reference: {username: ..., password: ...}}",
                seen=f"an error at line {mark.line + 1}" if mark else "an error",
                next_step=f"correct the line in {self.path}",
            ) from None
        if data is None:
            return {}, text
        wrong = None
        if not isinstance(data, dict):
            wrong = f"a {type(data).__name__} at the top"
        elif not all(isinstance(value, dict) for value in data.values()):
            # A top-level word is a reference, never a secret; its value may be one and is only named by its kind.
            key, value = next((key, value) for key, value in data.items() if not isinstance(value, dict))
            wrong = f"{key} is a {type(value).__name__}"
        if wrong:
            raise errors.InvalidInput(
                "the secret store has another shape",
                thing=self.path,
                wanted="{reference: {username: ..., password: ...}}",
                seen=wrong,
                next_step=f"correct the entry in {self.path}",
            )
        return {str(key): value for key, value in data.items()}, text

    def get(self, reference):
        """The dict of one reference; NotFound names the reference, never what else is in the file."""
        found = self.get_many([reference])[reference]
        if isinstance(found, errors.BaremetalError):
            raise found
        return found

    def get_many(self, references):
        """{reference: its dict, or the NotFound that get would raise}; the file is read once."""
        data, found = self._read(), {}
        for reference in references:
            if str(reference) in data:
                found[reference] = dict(data[str(reference)])
            else:
                found[reference] = self._unknown(reference)
        return found

    def _unknown(self, reference):
        return errors.NotFound(
            "the secret store has no such reference",
            thing=self.path,
            wanted=str(reference),
            next_step=f"add `{reference}: {{username: ..., password: ...}}` to it",
            code="secret_not_found",
        )

    def has(self, reference):
        """Is there such a reference? A store that is missing or cannot be read is an error, not a no."""
        return str(reference) in self._read()

    def put(self, reference, values):
        """Set one reference, atomically and durably; concurrent writers wait for each other. Returns True when it changed."""
        with self._lock():
            data, text = self._load(missing_ok=True)
            if data.get(str(reference)) == dict(values):
                return False
            self._write(data, text, str(reference), dict(values))
            return True

    def add(self, reference, values):
        """Set one reference only where there is none yet; returns what is stored now. Of two that add at once, both get the first one's."""
        with self._lock():
            data, text = self._load(missing_ok=True)
            if str(reference) not in data:
                self._write(data, text, str(reference), dict(values))
            return dict(data[str(reference)])

    def remove(self, reference):
        """Forget one reference. Returns True when it was there."""
        with self._lock():
            data, text = self._load(missing_ok=True)
            if str(reference) not in data:
                return False
            self._write(data, text, str(reference), None)
            return True

    @contextlib.contextmanager
    def _lock(self):
        with self._writing():
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            # A lock beside the file: the file itself is replaced by each write, so a lock on it would be on a dead inode.
            handle = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self, data, text, reference, values):
        """Set one entry (None: take it out) in `data` and in the file whose text was `text`."""
        if values is None:
            data.pop(reference)
        else:
            data[reference] = values
        with self._writing():
            self._replace(edited(text, data, reference))

    @contextlib.contextmanager
    def _writing(self):
        try:
            yield
        except OSError as error:
            raise errors.Refused(
                "the secret store cannot be written",
                thing=self.path,
                wanted="a directory that this user can write to, on a disk with room",
                seen=error.strerror,
                next_step="correct owner and mode of the directory, or aicluster_secrets; nothing was changed in the store",
                code="secret_store_unwritable",
            ) from error

    def _replace(self, text):
        target = os.path.realpath(self.path)  # a link stays a link: what it points to is replaced
        directory = os.path.dirname(target)
        handle, temporary = tempfile.mkstemp(dir=directory, prefix=".secrets-")  # mkstemp makes it 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        directory_handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(directory_handle)
        finally:
            os.close(directory_handle)
