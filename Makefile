# SPDX-License-Identifier: Apache-2.0
# A thin front: the build is Meson's, the work is done by scripts/.  MESON_ARGS=-Dovs_source=DIR builds against
# another Open vSwitch tree; ARGS are handed on, for example make check-ovs ARGS=--help.
B ?= build
BUILD = scripts/build $(B) $(MESON_ARGS)

.PHONY: all deps demo check check-ovs check-vm bench bench-compare install clean help

all: deps ; @$(BUILD)
deps: ; @scripts/deps

demo: ; @scripts/deps Demo && $(BUILD) && scripts/demo $(ARGS)
check: ; @scripts/deps Test && $(BUILD) && scripts/check $(B) $(ARGS)
check-ovs: ; @scripts/deps Test && $(BUILD) && tests/ovs/run $(ARGS)
check-vm: ; @scripts/deps Test Vm && $(BUILD) && tests/vm/run $(ARGS)
bench: ; @scripts/deps Bench $(if $(QUICK)$(CASES)$(PEERS),,Vm) && $(BUILD) && bench/run --build $(B) $(ARGS)

# make bench-compare OLD.json NEW.json: files among the goals are this target's arguments.
COMPARED = $(filter %.json,$(MAKECMDGOALS))
bench-compare: ; @bench/compare $(COMPARED)
ifneq ($(COMPARED),)
.PHONY: $(COMPARED)
$(COMPARED): ; @:
endif

install: all ; @meson install -C $(B) --no-rebuild $(if $(DESTDIR),--destdir "$(DESTDIR)")
clean: ; @rm -rf $(B) $(B)-asan

help:
	@echo 'make            install the Debian packages that are missing, build $(B)/ovs-vswitchd-xdp'
	@echo 'make demo       see it forward between containers (root)'
	@echo 'make check      all quick tests (root)'
	@echo "make check-ovs  Open vSwitch's own test suites on the xdp datapath (root); ARGS=--no-offload: on its engine alone, --hook=xdp: every port on XDP"
	@echo 'make check-vm   the same on the stock Debian kernel in an emulated machine'
	@echo 'make bench      measure, beside what could be used instead, and draw it (root); QUICK=1, CASES=, ROUNDS='
	@echo 'make bench-compare A.json B.json   what changed beyond noise'
	@echo 'make install    install the daemon (DESTDIR=...)'
	@echo 'make clean      remove what was built here'
