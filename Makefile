# The two commands of the README, and what they stand on. Options: LAB=name NODES=1..8
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
SHELL := /bin/bash
export LAB NODES PYTHON

.DEFAULT_GOAL := help
.PHONY: help venv demo demo-down clean clean-cache

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: ## the virtual environment .venv with everything of requirements.txt
	@.ci/venv

demo: ## two powered-off, blank virtual servers to one ready Slurm node and one quarantined node, with a report (root)
	@.ci/demo

demo-down: ## remove the demo's lab: processes, namespaces, mounts, files (root)
	@.ci/demo-down

clean: ## remove what was made inside this checkout (.venv, .cache, .demo)
	rm -rf .venv .cache .demo tests/output

clean-cache: ## remove the cache of images (root)
	rm -rf /var/cache/aicluster

# ---- checks of the project itself ----
.PHONY: test acceptance

test: ## all checks: lint, package, unit, integration, sanity, other ansible-core lines, molecule, one full deployment
	@tests/run $(SUITES)

acceptance: ## the acceptance points of TOPIC=main_job, each also sabotaged (root, long)
	@.ci/packages lab test && { .ci/packages acceptance || echo "acceptance: without a browser, what needs one says could_not_test"; }
	@.ci/venv && .venv/bin/python tests/acceptance/run --topic $(or $(TOPIC),main_job) $(if $(POINTS),--points $(POINTS))
