# Fan-out: one operation over many BMCs in one process, with bounded threads, pacing, a circuit breaker and progress.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
