# Alembic revisions of the registry; loaded by path, so they work from an installed collection.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
