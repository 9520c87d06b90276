# The circuit breaker of a fan-out: stops before one mistake (a wrong password, a firmware that dislikes us) has been made ten thousand times.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations


class Breaker:
    """Told of each result; `reason` is None while the work may go on.

    `total`: nodes of the run. `max_fail_percentage`: opens when more than this share of them has failed (None: never). `max_refused_logins`: opens for a
    credential after so many refusals of it in a row, because BMCs lock accounts and one account serves many nodes (0: never).
    """

    def __init__(self, total, max_fail_percentage=None, max_refused_logins=0):
        self.total, self.limit, self.most_refused = total, max_fail_percentage, int(max_refused_logins or 0)
        self.failed = 0
        self.reason = None
        self.bad_credentials = {}  # credential -> why no more is sent with it
        self._refused = {}

    def told(self, failed, code=None, credential=None):
        """One more node is done; `credential`: a name for the credential that was used."""
        if code == "authentication_failed" and self.most_refused and credential is not None:
            self._refused[credential] = self._refused.get(credential, 0) + 1
            if self._refused[credential] == self.most_refused:
                self.bad_credentials[credential] = (
                    f"the credential {credential} was refused by {self.most_refused} BMCs one after the other"
                )
        elif not failed:
            self._refused.pop(credential, None)
        if failed:
            self.failed += 1
            self.check(self.total, "nodes")

    def check(self, total, words):
        """Open when more than the allowed share of `total` has failed."""
        if self.reason is None and self.limit is not None and self.failed * 100.0 > self.limit * total:
            self.reason = f"{self.failed} of {total} {words} failed, more than {self.limit:g} %"
