# The breaker: opens above the share allowed, and for a credential that BMCs keep refusing.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.breaker import Breaker


def test_it_opens_above_the_share_and_not_at_it():
    breaker = Breaker(100, max_fail_percentage=2)
    for _unused in range(2):
        breaker.told(True)
    breaker.told(False)
    assert breaker.reason is None
    breaker.told(True)
    assert "3 of 100" in breaker.reason and "2 %" in breaker.reason


def test_without_a_limit_it_never_opens():
    breaker = Breaker(1)
    breaker.told(True)
    assert breaker.reason is None


def test_the_canaries_count_among_themselves():
    breaker = Breaker(1000, max_fail_percentage=5)
    breaker.told(True)
    breaker.check(10, "nodes tried first")
    assert "1 of 10" in breaker.reason


def test_a_credential_that_is_refused_in_a_row_is_not_used_any_more():
    breaker = Breaker(100, max_refused_logins=3)
    for _unused in range(2):
        breaker.told(True, "authentication_failed", "site")
    breaker.told(False, None, "site")
    for _unused in range(2):
        breaker.told(True, "authentication_failed", "site")
    breaker.told(True, "unreachable", "site")
    assert not breaker.bad_credentials, "a log-in that worked in between starts the count again"
    breaker.told(True, "authentication_failed", "site")
    assert list(breaker.bad_credentials) == ["site"] and breaker.reason is None
