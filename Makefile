# SPDX-License-Identifier: Apache-2.0
# A thin front: the build is Meson's, the work is done by scripts/.  MESON_ARGS=-Dovs_source=DIR builds against
# another Open vSwitch tree; ARGS are handed on, for example make check-ovs ARGS=--help.
B ?= build
BUILD = scripts/build $(B) $(MESON_ARGS)

.PHONY: all deps Demo check check-ovs check-vm bench install clean help

all: deps ; @$(BUILD)
deps: ; @scripts/deps

demo: ; @scripts/deps Demo && $(BUILD) && scripts/demo $(ARGS)
check: ; @scripts/deps Test && $(BUILD) && scripts/check $(B) $(ARGS)
check-ovs: ; @scripts/deps Test && $(BUILD) && tests/ovs/run $(ARGS)
check-vm: ; @scripts/deps Test Vm && $(BUILD) && tests/vm/run $(ARGS)
bench: ; @scripts/deps Bench && $(BUILD) && bench/run $(ARGS)

install: all ; @meson install -C $(B) --no-rebuild $(if $(DESTDIR),--destdir "$(DESTDIR)")
clean: ; @rm -rf $(B) $(B)-asan

help:
	@echo 'make            install the Debian packages that are missing, build $(B)/ovs-vswitchd-xdp'
	@echo 'make demo       see it forward between containers (root)'
	@echo 'make check      all quick tests (root)'
	@echo "make check-ovs  Open vSwitch's own test suites on the xdp datapath (root)"
	@echo 'make check-vm   the same on the stock Debian kernel in an emulated machine'
	@echo 'make bench      measure, beside the stock daemon (root)'
	@echo 'make install    install the daemon (DESTDIR=...)'
	@echo 'make clean      remove what was built here'
